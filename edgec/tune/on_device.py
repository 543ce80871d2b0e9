"""Tuning where the network will run: variants of its products, timed in the network itself on its device.

A round builds the whole network with another variant of every product; the runner tells how long each kernel took.
There are as many rounds as a product has variants at most, and every product is timed between its own neighbors. Rounds
take turns, as a device is not equally quick at all times, until a turn finds nothing quicker. In the end the network as
it would be built now runs in turns with the one that the model makes; if that is quicker after all, the variants that
seemed quicker are forgotten.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from edgec.bench.remote import Arrays, Remote, connect
from edgec.build import build
from edgec.errors import UsageError
from edgec.execute.samples import random_inputs
from edgec.options import Settings
from edgec.progress import Progress, silent
from edgec.schedule.program import Kernel
from edgec.schedule.variants import Product, Variants, entry, measurements
from edgec.tune.database import Measured, Profiles, Target
from edgec.tune.known import target
from edgec.tune.local import Tuned, describe

if TYPE_CHECKING:
    from typing_extensions import Unpack


#: How often a network runs in a turn, of which the quickest run counts.
RUNS = 3
#: Turns at least, of which the quickest counts; and at most, where each finds something that much quicker.
TURNS, MOST_TURNS, SETTLED = 4, 12, 0.03


def tune_on_device(
    model: Any,
    seconds: float = 60.0,
    *,
    link: str = "device",
    start: str = "import",
    timeout: float = 600.0,
    progress: Progress = silent,
    **settings: Unpack[Settings],
) -> Tuned:
    """Time a network's products on its device for about ``seconds``, into the profile database.

    Raises LinkError when the device cannot be reached, UsageError for a network on two devices.
    """
    begun = time.monotonic()
    first = build(model, compile=False, start=start, variants={}, progress=progress, **settings)
    options, variants = first.options, first.stages.context.variants
    assert isinstance(variants, Variants)
    if first.program.parts:
        hint = "tune it with --place cpu and with --place gpu"
        raise UsageError("kernels of a network on two devices are not told apart", hint=hint)
    database, on = Profiles(), target(options)
    known = database.known(on)
    asked = {key: product.variants(options.numeric) for key, product in variants.seen.items()}
    new = {key: [variant for variant in names if entry(key, variant) not in known] for key, names in asked.items()}
    unknown = sum(map(len, new.values()))
    arrays = random_inputs(first.stages.graph, 0)
    with ExitStack() as links:

        def there(frozen: Mapping[str, str]) -> tuple[Sequence[Kernel], Remote]:
            built = build(model, compile=False, start=start, variants=frozen, progress=progress, **settings)
            device = connect(built, link, None, timeout, progress, profile=True)
            return built.program.kernels, links.enter_context(device)

        def is_late() -> bool:
            return time.monotonic() - begun > seconds

        rounds: list[tuple[dict[str, str], Sequence[Kernel], Remote]] = []
        count = max(map(len, new.values()), default=0)
        for k in range(count):
            if k and is_late():
                break
            progress("tune", f"round {k + 1} of {count} on {link}", k / count)
            frozen = {key: names[k] for key, names in new.items() if k < len(names)}
            rounds.append((frozen, *there(frozen)))
        found: dict[str, Measured] = {}
        for turn in itertools.count():
            progress("tune", f"turn {turn + 1} of {len(rounds)} rounds", turn / MOST_TURNS)
            before = {name: m.seconds for name, m in found.items()}
            for frozen, kernels, device in rounds:
                device.run([arrays], RUNS)
                for kernel, taken in zip(kernels, device.kernels):
                    for m in _measured(kernel, taken / 1e9, frozen, variants.seen, on):
                        found[m.block] = min(m, found.get(m.block, m), key=lambda m: m.seconds)
            settled = all(m.seconds > before.get(name, 0.0) * (1 - SETTLED) for name, m in found.items())
            if turn + 1 >= (TURNS if settled else MOST_TURNS) or (turn and is_late()):
                break
        done = Tuned(len(found), sum(map(len, asked.values())) - unknown, unknown - len(found), 0.0)
        chosen = Variants(measurements({**known, **{name: m.seconds for name, m in found.items()}}))
        best = {key: chosen.choose(key, product.usual, options.numeric) for key, product in variants.seen.items()}
        changed = [key for key, product in variants.seen.items() if best[key] != product.usual]
        if changed and found:
            progress("tune", "the network as a whole")
            usual, tuned = _in_turns([there({})[1], there(best)[1]], arrays)
            done = replace(done, untuned_ms=usual, tuned_ms=tuned)
            if tuned > usual:
                others = [
                    entry(key, variant)
                    for key in changed
                    for variant in asked[key]
                    if variant != variants.seen[key].usual
                ]
                database.forget(others, on)
                found = {name: m for name, m in found.items() if name not in others}
        database.put(found.values())
    return replace(done, seconds=time.monotonic() - begun)


def _in_turns(networks: Sequence[Remote], arrays: Arrays) -> list[float]:
    """Milliseconds of the quickest run of each."""
    best = [float("inf")] * len(networks)
    for _ in range(MOST_TURNS):
        best = [min(b, float(n.run([arrays], RUNS)[0].nanoseconds.min()) / 1e6) for b, n in zip(best, networks)]
    return best


def _measured(
    kernel: Kernel, seconds: float, frozen: Mapping[str, str], products: Mapping[str, Product], on: Target
) -> Iterator[Measured]:
    """The products of a network that a kernel is, where it took the variant that was asked for."""
    main = kernel.main
    for key, product in products.items():
        is_it = main.block is not None and main.block.output is product.block.output
        if is_it and key in frozen and main.schedule.variant == frozen[key]:
            yield Measured(entry(key, frozen[key]), on, seconds, f"{frozen[key]}: {describe(product.block)}")

"""Tuning where the network will run: ways to schedule its products, timed in the network itself on its device.

A round builds the whole network with another way for every product; the runner tells how long each kernel took. So
there are as many rounds as the product with the most ways has ways, and every product is timed between the neighbors
that it has.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from edgec.check.inputs import random_inputs
from edgec.device.profiles import Measured, Profiles
from edgec.errors import UsageError
from edgec.pipeline import Progress, silent
from edgec.schedule.chain import main_of
from edgec.schedule.ways import Ways, entry, name_of
from edgec.tuning import Tuned, describe, target

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from edgec.options import Settings

#: How often a network runs in a round; the quickest run counts.
RUNS = 3


def tune_there(
    model: Any,
    budget: float = 60.0,
    *,
    link: str = "device",
    start: str = "import",
    timeout: float = 600.0,
    progress: Progress = silent,
    **settings: Unpack[Settings],
) -> Tuned:
    """Time a network's products on its device for about ``budget`` seconds, into the profile database.

    Raises LinkError when the device cannot be reached, UsageError for a network on two devices.
    """
    from edgec import api

    begun = time.monotonic()
    first = api.build(model, compile=False, start=start, ways={}, progress=progress, **settings)
    options, ways = first.options, first.run.context.ways
    assert isinstance(ways, Ways)
    if first.program.parts:
        hint = "tune it with --place cpu and with --place gpu"
        raise UsageError("kernels of a network on two devices are not told apart", hint=hint)
    database, on = Profiles(), target(options)
    known = database.known(on)
    asked = {key: product.ways(options.numeric) for key, product in ways.seen.items()}
    new = {key: [way for way in names if entry(key, way) not in known] for key, names in asked.items()}
    arrays = random_inputs(first.run.graph, 0)
    done = 0
    rounds = max(map(len, new.values()), default=0)
    for k in range(rounds):
        if k and time.monotonic() - begun > budget:
            break
        progress("tune", f"round {k + 1} of {rounds} on {link}", k / rounds)
        frozen = {key: names[k] for key, names in new.items() if k < len(names)}
        built = api.build(model, compile=False, start=start, ways=frozen, progress=progress, **settings)
        with api.there(built, link, None, timeout, progress, profile=True) as device:
            device.run([arrays], RUNS)
            nanoseconds = device.kernels
        found = {}
        for kernel, taken in zip(built.program.kernels, nanoseconds):
            main = main_of(kernel)
            for key, product in ways.seen.items():
                if main.block is not None and main.block.output is product.block.output and key in frozen:
                    what = f"{frozen[key]}: {describe(product.block)}"
                    if name_of(main.params) == frozen[key]:
                        found[entry(key, frozen[key])] = Measured(entry(key, frozen[key]), on, taken / 1e9, what)
        database.put(found.values())
        done += len(found)
    total = sum(map(len, asked.values()))
    before = total - sum(map(len, new.values()))
    return Tuned(done, before, total - before - done, time.monotonic() - begun)

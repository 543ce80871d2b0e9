"""Quality of the order in which `edgec tune` tries variants: rank correlation, gap to exhaustive, networks.

    python -m benchmarks.tuner times --times FILE [--sample 40] [--most 100] [--seconds S]
    python -m benchmarks.tuner networks --networks FILE [--folder DIR] [--only PATTERN] [--tune 60]
    python -m benchmarks.tuner page --times FILE --networks FILE --write docs/results/tuner.md

`times` measures every variant (or ``--most``) of 30 products and convolutions that are left out, and a sample of those
of 24 others, each twice in turns; what is in FILE already is not measured again, so that a run can be divided.
`networks` times networks with the variants of the model and with those that were found in so many seconds. `page` fits
the ranking to the others, and from the stored times alone tells what it makes of those left out, so it gives the same
for the same files.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import edgec
from benchmarks.fusion.tuning import database
from benchmarks.measure import Ours, on_cores, take_turns
from benchmarks.networks import catalog
from benchmarks.tuner_page import page
from benchmarks.tuner_products import HELD_OUT, LEARNED, name_of, network_of
from edgec.device.compilers import compiler_for
from edgec.device.toolchain import Compiler
from edgec.errors import EdgecError
from edgec.execute.samples import random_inputs
from edgec.fuse.cost_model import work
from edgec.options import Options, resolve
from edgec.schedule.variants import Product
from edgec.tune.features import features
from edgec.tune.local import single_variant
from edgec.tune.single_kernel import loaded_programs, seconds_of

#: Kernels that are compiled together, and turns of each of the two times of a kernel.
BATCH, TURNS = 12, 4


def stored(path: Path, empty: Any) -> Any:
    return json.loads(path.read_text()) if path.is_file() else empty


def product_of(shape: Any, options: Options) -> tuple[str, Product]:
    """The product of a network of one operator, with its key."""
    context = edgec.build(network_of(shape), compile=False, variants={}, device=options.device).stages.context
    seen = context.variants.seen if context.variants is not None else {}
    return max(seen.items(), key=lambda item: work(item[1].block))


def timed(product: Product, variants: Sequence[str], options: Options, compiler: Compiler) -> list[list[float] | None]:
    """Two times of each variant in seconds, of turns that alternate; None for one that cannot be had."""
    programs = [single_variant(product, variant, options) for variant in variants]
    with tempfile.TemporaryDirectory(prefix="edgec-tuner-") as folder:
        calls = loaded_programs(programs, options.device, compiler, Path(folder))
        best = [[float("inf")] * 2 for _ in calls]
        for turn in range(2 * TURNS):
            for of, call in zip(best, calls):
                if call is not None:
                    of[turn % 2] = min(of[turn % 2], seconds_of(call))
    return [None if call is None else of for of, call in zip(best, calls)]


def times(o: argparse.Namespace) -> None:
    """Measure products into the file of times."""
    options, begun = resolve({"device": o.device}), time.monotonic()
    compiler = compiler_for(options.device, options.compiler)
    assert isinstance(compiler, Compiler)
    found: dict[str, Any] = stored(o.times, {})
    # In turns, so that a run that was divided has some of both.
    shapes = [s for pair in zip(LEARNED, HELD_OUT) for s in pair] + [*HELD_OUT[len(LEARNED) :]]
    for shape in shapes:
        name, is_left_out = name_of(shape), shape in HELD_OUT
        if name in found or time.monotonic() - begun > o.seconds:
            continue
        try:
            key, product = product_of(shape, options)
        except (EdgecError, ValueError) as error:
            print(f"{name}: no product ({error})", flush=True)
            continue
        space = {c.variant: features(c, product.device) for c in product.candidates(options.numeric)}
        if product.usual not in space:
            print(f"{name}: {product.usual} is a schedule without candidates", flush=True)
            continue
        names, most = list(space), o.most if is_left_out else o.sample
        if most and len(names) > most:
            chosen = np.random.default_rng(0).choice(len(names), most - 1, replace=False)
            names = list(dict.fromkeys([product.usual, *(names[k] for k in sorted(chosen))]))
        started, measured = time.monotonic(), dict[str, list[float] | None]()
        for k in range(0, len(names), BATCH):
            batch = names[k : k + BATCH]
            measured |= zip(batch, timed(product, batch, options, compiler))
        found[name] = {
            "key": key, "held_out": is_left_out, "usual": product.usual, "space": len(space),
            "variants": [
                {"variant": v, "features": space[v], "seconds": seconds}
                for v, seconds in measured.items() if seconds is not None
            ],
        }  # fmt: skip
        o.times.write_text(json.dumps(found))
        print(f"{name}: {len(names)} of {len(space)} variants in {time.monotonic() - started:.0f} s", flush=True)


def networks(o: argparse.Namespace) -> None:
    """Time networks before and after tuning, into the file of networks."""
    found: dict[str, Any] = stored(o.networks, {})
    listed, _ = catalog.find(o.folder, o.only, download=False, trained=catalog.TRAINED + catalog.QUANTIZED)
    begun = time.monotonic()
    for network in listed:
        if network.name in found or time.monotonic() - begun > o.seconds:
            continue
        given = dict(np.load(network.inputs)) if network.inputs is not None else {}
        settings: dict[str, Any] = {
            "shapes": {**network.shapes, **{n: a.shape for n, a in given.items()}}, "device": o.device,
        }  # fmt: skip
        threads = (1, 2) if (os.cpu_count() or 1) > 1 else (1,)
        try:
            with tempfile.TemporaryDirectory() as folder, database(Path(folder, "profiles.sqlite")):
                before = edgec.build(network.path, Path(folder, "before"), threads=max(threads), **settings)
                done = edgec.tune(network.path, o.tune, **settings)
                after = edgec.build(network.path, Path(folder, "after"), threads=max(threads), **settings)
                again = edgec.build(
                    network.path, Path(folder, "again"), threads=max(threads), compile=False,
                    lock=Path(folder, "after"), **settings,
                )  # fmt: skip
                arrays, ms = given or random_inputs(before.stages.graph, 0), {}
                for count in threads:
                    with on_cores(count):
                        nets = [Ours(b.folder, count) for b in (before, after)]
                        calls = [n.bind(arrays, n.results()) for n in nets]
                        ms[str(count)] = [t.median_ms for t in take_turns((calls[0], calls[1]), o.time)]
                is_same = dict(after.stages["emit"].files) == dict(again.stages["emit"].files)
        except (EdgecError, OSError) as error:
            print(f"{network.name}: {error}", flush=True)
            continue
        changed = sum(v != p for v, p in _changes(before, after))
        found[network.name] = {
            "ms": ms, "measured": done.measured, "skipped": done.skipped, "seconds": done.seconds, "limit": o.tune,
            "changed": changed, "lock_repeats": is_same,
        }  # fmt: skip
        o.networks.write_text(json.dumps(found))
        print(network.name, found[network.name], flush=True)


def _changes(before: Any, after: Any) -> list[tuple[Any, Any]]:
    """Variants of each product before and after."""
    seen = before.stages.context.variants.seen if before.stages.context.variants is not None else {}
    usual = {key: p.usual for key, p in seen.items()}
    return [(after.program.choices[k], usual[k]) for k in after.program.choices if k in usual]


def main(arguments: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("what", choices=("times", "networks", "page"))
    p.add_argument("--times", type=Path, default=Path("tuner-times.json"))
    p.add_argument("--networks", type=Path, default=Path("tuner-networks.json"))
    p.add_argument("--write", type=Path, default=Path("docs/results/tuner.md"))
    p.add_argument("--sample", type=int, default=40, help="variants of a product that is learned from")
    p.add_argument("--most", type=int, default=0, help="variants of a product that is left out; 0: all")
    p.add_argument("--seconds", type=float, default=float("inf"), help="no other product or network after these")
    p.add_argument("--tune", type=float, default=60.0, help="seconds of tuning a network")
    p.add_argument("--time", type=float, default=3.0, help="seconds of timing a network on so many threads")
    p.add_argument("--folder", type=Path, action="append", default=[], help="networks: DIR/NAME.onnx, NAME.in.npz")
    p.add_argument("--only", action="append", default=[], metavar="PATTERN", help="names of networks")
    p.add_argument("--device", default="host")
    o = p.parse_args(arguments)
    if o.what == "times":
        times(o)
    elif o.what == "networks":
        networks(o)
    else:
        o.write.write_text(page(stored(o.times, {}), stored(o.networks, {})))
    return 0


if __name__ == "__main__":
    sys.exit(main())

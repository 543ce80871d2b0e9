"""The kernels of a fit, built as the device's code and timed by its clock, here or over a link.

Several cases are one network (`kernels.batches`). Products are timed in several tiles, each of which is a network of
its own; all others once. What the device tells is checked: a kernel without a time is left out, and a device that tells
none at all is an error.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from edgec.bench.remote import connect
from edgec.build import Built, build
from edgec.device.device import Device
from edgec.errors import LinkError
from edgec.execute.samples import random_inputs
from edgec.fuse.block import Block
from edgec.fuse.choice import fingerprint
from edgec.options import Settings, resolve
from edgec.progress import Progress, silent
from edgec.schedule.program import Kernel
from edgec.schedule.variants import Product, Variants
from edgec.tune.fit.kernels import Case, batches, cases_for, network
from edgec.tune.fit.record import MOST, Record, is_time

#: Turns that a network runs in, of which the quickest counts for each kernel, and runs of a turn.
TURNS, RUNS = 4, 3
#: Other tiles of a product that are timed: of those that the costs take for the best, and of all others.
NEAR, ANY = 2, 1
#: How many tiles count as those that the costs take for the best.
BEST = 8


@dataclass(frozen=True)
class Timed:
    """A kernel and its seconds; of a product also what its tiles are priced by, and the tile it was built with."""

    name: str
    case: str
    block: Block
    seconds: float
    product: Product | None = None
    variant: str | None = None


def timed(
    settings: Settings, link: str, record: Record, until: float, timeout: float, progress: Progress
) -> tuple[list[Timed], int]:
    """Kernels with their seconds, and how many networks were left for lack of time.

    ``settings`` are those of builds, ``until`` is a time of `time.monotonic`. Times in the ``record`` are not taken
    again. Raises LinkError for a device that is gone, or that tells no times.
    """
    device = resolve(settings).device
    work = _in_turns(cases_for(device), device)
    found: list[Timed] = []
    left = 0
    for k, batch in enumerate(work):
        progress("fit", f"network {k + 1} of {len(work)}, {len(record.seconds)} kernels timed", k / len(work))
        networks = _built(batch, settings)
        if not all(name is None or name in record.seconds for n in networks for name in n.names):
            if time.monotonic() > until:
                left += 1
                continue
            record.add(_measured(networks, link, timeout))
        for n in networks:
            for name, kernel in zip(n.names, n.built.program.kernels):
                block = kernel.main.block
                if name is not None and block is not None and name in record.seconds:
                    product = n.products.get(fingerprint(block))
                    case = name.partition(" / ")[0]
                    found.append(Timed(name, case, block, record.seconds[name], product, kernel.main.schedule.variant))
    return list({t.name: t for t in found}.values()), left


@dataclass(frozen=True)
class _Network:
    """A network of a batch: names of its kernels (None for what no price is of), products by fingerprints."""

    built: Built
    names: Sequence[str | None]
    products: Mapping[str, Product]


def _in_turns(cases: Sequence[Case], device: Device) -> list[list[Case]]:
    """Networks of products apart from others, in an order in which small and large ones take turns."""
    is_product = {case.name: case.has_tiles for case in cases}
    found = [
        batch
        for kind in (True, False)
        for batch in batches([case for case in cases if is_product[case.name] is kind], device)
    ]
    order = np.random.default_rng(0).permutation(len(found))
    return [found[int(i)] for i in order]


def _built(batch: Sequence[Case], settings: Settings) -> list[_Network]:
    """The network of a batch, and where it is of products, the same with other tiles."""
    model = network(batch).SerializeToString()

    def made(frozen: Mapping[str, str]) -> tuple[_Network, Variants]:
        built = build(model, compile=False, variants=frozen, **settings)
        variants = built.stages.context.variants
        assert isinstance(variants, Variants)
        products = {fingerprint(p.block): p for p in variants.seen.values()}
        return _Network(built, [_name(built, batch, k, products) for k in built.program.kernels], products), variants

    first, variants = made({})
    others = {key: _tiles(p, key) for key, p in variants.seen.items()} if batch[0].has_tiles else {}
    rounds = [{key: names[k] for key, names in others.items() if k < len(names)} for k in range(NEAR + ANY)]
    return [first, *(made(chosen)[0] for chosen in rounds if chosen)]


def _tiles(product: Product, key: str) -> list[str]:
    """Other tiles of a product: some of the best by the costs, and some of all others, drawn by its key."""
    others = [name for name in product.tiles()(product.device) if name != product.usual]
    random = np.random.default_rng([int(key[-8:], 16)])
    return [*map(str, random.permutation(others[:BEST])[:NEAR]), *map(str, random.permutation(others[BEST:])[:ANY])]


def _name(built: Built, batch: Sequence[Case], kernel: Kernel, products: Mapping[str, Product]) -> str | None:
    """A name for what a kernel computes and how; None for kernels of several steps, which no price is of."""
    block = kernel.main.block
    if block is None or len(kernel.steps) > 1:
        return None
    own = {f"k{k}": case.name for k, case in enumerate(batch)}
    words = (str(i.attributes.get("name", "")) for i in block.inputs)
    names = [
        own[w] for w in (n.partition("_")[0] for n in (*built.stages.graph.names(block.output), *words)) if w in own
    ]
    of = names[0] if names else "inside"
    variant = kernel.main.schedule.variant if fingerprint(block) in products else None
    return f"{of} / {fingerprint(block)[:12]}{f' / {variant}' if variant else ''}"


def _measured(networks: Sequence[_Network], link: str, timeout: float) -> dict[str, float]:
    """Seconds of the kernels of networks by their names; the networks take turns, so that all see the same machine."""
    found: dict[str, float] = {}
    with ExitStack() as links:
        devices = [links.enter_context(connect(n.built, link, None, timeout, silent, profile=True)) for n in networks]
        where = devices[0].link.name
        for _ in range(1 if counts(where) else TURNS):
            for n, device in zip(networks, devices):
                device.run([random_inputs(n.built.stages.graph, 0)], 1 if counts(where) else RUNS)
                if len(device.kernels) != len(n.names):
                    what = f"the device tells the times of {len(device.kernels)} kernels, and there are {len(n.names)}"
                    raise LinkError(what, where=where)
                for name, taken in zip(n.names, device.kernels):
                    if name is not None and is_time(taken / 1e9):
                        found[name] = min(found.get(name, MOST), taken / 1e9)
    if not found and any(name is not None for n in networks for name in n.names):
        raise LinkError("the device tells no time that a kernel can take", hint="is its clock set?", where=where)
    return found


def counts(link: str) -> bool:
    """Does the link count instructions, so that every run takes the same time?"""
    return link.startswith("board:")


def products_of(found: Sequence[Timed]) -> Iterator[list[Timed]]:
    """The tiles of each product that was timed in several."""
    by_case: dict[tuple[str, str], list[Timed]] = {}
    for t in found:
        if t.product is not None:
            by_case.setdefault((t.case, fingerprint(t.block)), []).append(t)
    yield from (group for group in by_case.values() if len({t.variant for t in group}) > 1)

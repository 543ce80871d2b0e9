"""Variants of a scheduled matmul: the shape of its register tile, and Winograd's method or the plain sum.

A variant is called "12x2" (rows x vectors of a tile), "12x2 chunk8 panels" (with decisions beyond the tile:
`contract.decisions`), "sparse 12x2" (the same without the zeros of the weights) or
"winograd 4x4" (outputs of a tile); GPUs have names of their own (`gpu.variants`). The default is the choice of the cost
model; where `edgec tune` has measured several, the fastest is taken. The key of a measurement is the block with its
layouts and, where many weights are zero, their positions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

import numpy as np

from edgec.device.device import Device
from edgec.fuse.block import Block
from edgec.fuse.choice import fingerprint
from edgec.ir.graph import Node
from edgec.rewrite.rule import Numeric
from edgec.schedule.candidates import Candidate, candidates
from edgec.schedule.contract.cheapest import contract
from edgec.schedule.contract.contract import Contract, tile_cycles, tiles_for
from edgec.schedule.contract.sparse import Form, form_of, has_zeros, is_sparse
from edgec.schedule.contract.winograd import Winograd, outputs_for, winograd
from edgec.schedule.flat import Flat, Weights, flatten
from edgec.schedule.gpu import variants as gpu
from edgec.schedule.gpu.choose import choose
from edgec.schedule.program import View

#: Tiles and forms of Winograd's method that are worth measuring, by the model of the device.
TILES, FORMS = 6, 2
#: Tiles without zeros that are worth measuring.
SPARSE = 4
#: The most elements that are read at once.
LARGEST = 16
#: Another variant must be faster by this fraction, as it was measured alone and on one thread.
MARGIN = 0.05
#: Words of variants that add up in another order.
REASSOCIATES = {"winograd", "swapped", "gathered", "scattered"}
#: Names of variants of a product on a CPU.
_NAME = re.compile(
    r"winograd (?P<outputs>[1-9][0-9]?(x[1-9][0-9]?)?)"
    r"|(?P<sparse>sparse )?(?P<rows>[1-9][0-9]{0,3})x(?P<vectors>[1-9][0-9]{0,3})(?P<words>( [a-z]+[0-9]*)*)",
    re.ASCII,
)


@dataclass(frozen=True)
class Product:
    """A block whose product was scheduled by the model: where everything lies, for which device (whose precision is the
    product's own), and the variant that was taken."""

    block: Block
    views: dict[Node, View]
    device: Device
    usual: str
    micro_kernels: tuple[str, ...] = ()  # of a user's own

    def variants(self, numeric: Numeric) -> list[str]:
        """The usual variant, and the others that are worth measuring by the model of the device."""
        flat = replace(flatten(self.block, self.views, Weights()), micro_kernels=self.micro_kernels)
        device = self.device
        if device.is_gpu:
            others: Sequence[str] = gpu.proposed(choose(self.block, flat, device, Weights()), device)
        else:
            others = proposed(flat, device, numeric)
        return list(dict.fromkeys([self.usual, *others]))

    def candidates(self, numeric: Numeric) -> list[Candidate]:
        """Every variant on a CPU, the cheapest by the model first; the usual one is among them if it has a record."""
        flat = replace(flatten(self.block, self.views, Weights()), micro_kernels=self.micro_kernels)
        return candidates(flat, self.device, numeric)

    def tiles(self) -> Callable[[Device], Mapping[str, float]]:
        """A function that gives predicted cycles of all tiles by their names, for a device with the same facts.

        Cycles follow its costs; there are none where a product has no tiles that costs decide on.
        """
        flat = replace(flatten(self.block, self.views, Weights()), micro_kernels=self.micro_kernels)
        if self.device.is_gpu:
            record = choose(self.block, flat, self.device, Weights())
            return lambda device: gpu.tile_cycles(record, device)
        plain = contract(flat, self.device, Weights())
        if plain is None:
            return lambda device: {}
        return lambda device: {f"{r}x{v}": cycles for (r, v), cycles in tile_cycles(plain, device).items()}


@dataclass
class Variants:
    """The variant of each product: ``measured`` has seconds by key and variant, ``frozen`` keeps earlier choices.

    ``chosen`` is filled with what was decided by either, ``seen`` with all products.
    """

    measured: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    frozen: Mapping[str, str] = field(default_factory=dict)
    chosen: dict[str, str] = field(default_factory=dict)
    seen: dict[str, Product] = field(default_factory=dict)

    def choose(self, key: str, usual: str, numeric: Numeric) -> str:
        """The frozen variant, else the quickest that is known to be quicker than the usual one."""
        if key in self.frozen:
            self.chosen[key] = self.frozen[key]
            return self.frozen[key]
        known = self.measured.get(key, {}).items()
        times = {w: s for w, s in known if numeric != "exact" or not {*w.split()} & REASSOCIATES}
        if usual not in times:
            return usual
        best = min(times, key=lambda w: (times[w], w))
        taken = best if times[best] < times[usual] * (1 - MARGIN) else usual
        self.chosen[key] = taken
        return taken


def entry(key: str, variant: str) -> str:
    """The name of a measurement in the profile database."""
    return f"{key}/{variant}"


def measurements(known: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Seconds by key and variant, of everything in a database that is of variants."""
    found: dict[str, dict[str, float]] = {}
    for name, seconds in known.items():
        key, slash, variant = name.partition("/")
        if slash:
            found.setdefault(key, {})[variant] = seconds
    return found


def key_of(block: Block, views: Mapping[Node, View], device: Device, micro_kernels: Sequence[str] = ()) -> str:
    """A name for everything that a product's speed depends on but its variant and the device it is tuned on.

    Of ``device`` that is what one network may have several of: languages, and precisions.
    """
    lie = [views[n] for n in (*block.inputs, block.output) if n in views]
    # Where a value begins counts as far as it says how many elements can be read at once.
    places = [(v.strides, v.buffer.dtype, v.offset % LARGEST if isinstance(v.offset, int) else "open") for v in lie]
    zeros = [
        sha256(np.packbits(n.value != 0).tobytes()).hexdigest()
        for n in block.inputs
        if n.is_const and is_sparse(n.value)
    ]
    own = " ".join([device.language, device.precision, *micro_kernels])
    return "product " + sha256(f"{fingerprint(block)} {places}{zeros or ''} {own}".encode()).hexdigest()


def named(flat: Flat, device: Device, weights: Weights, variant: str) -> Contract | Winograd | None:
    """The record of a product in this variant; None where it has no such variant."""
    name = _NAME.fullmatch(variant)
    if name is None:
        return None
    if name["outputs"]:
        return winograd(flat, device, weights, tuple(map(int, name["outputs"].split("x"))))
    rows, vectors, words = int(name["rows"]), int(name["vectors"]), tuple(name["words"].split())
    if name["sparse"]:
        form = _form(flat, device) if not words else None
        return form.packed(rows, vectors, weights, device) if form is not None else None
    return contract(replace(flat, tile=(rows, vectors), decided=words), device, weights)


def _form(flat: Flat, device: Device) -> Form | None:
    """A product whose weights have zeros, as it would be without them."""
    dense = contract(flat, device, Weights()) if has_zeros(flat) else None
    return form_of(dense) if dense is not None else None


def proposed(flat: Flat, device: Device, numeric: Numeric) -> Sequence[str]:
    """The variants worth measuring, by the model of the device."""
    names: dict[str, None] = {}
    plain = contract(flat, device, Weights())
    if plain is not None:
        names |= {f"{r}x{v}": None for r, v in tiles_for(plain, device)[:TILES]}
    if numeric != "exact":
        forms = ("x".join(map(str, outputs)) for outputs in outputs_for(flat, device)[:FORMS])
        names |= {f"winograd {form}": None for form in forms}
    form = _form(flat, device)
    if form is not None:
        names |= {f"sparse {r}x{v}": None for _, r, v in form.tiles(device)[:SPARSE]}
    return list(names)

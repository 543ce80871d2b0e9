"""The gradients of attention on tensor cores: scores are computed again tile by tile, and lie in registers alone.

A thread block has some rows, keys or queries, and iterates over tiles of the other. Nobody else adds to its gradients,
so that they are the same in every run: keys and values have tasks of their own, and queries others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from edgec.device.device import Device
from edgec.errors import DeviceError
from edgec.ir.graph import Node
from edgec.ir.vector import HALF
from edgec.schedule.gpu.tiles import Element, has_tensor_cores, multiplied
from edgec.schedule.procedure import ProcedureCall

#: Operators that have these kernels.
OPERATORS = frozenset({"attention_statistics", "attention_gradients"})
#: Rows of a tensor core instruction, and the columns that one instruction more takes.
ROWS, COLUMNS = 16, 8
#: Numbers that a thread keeps from instruction to instruction, at most: sums, and the scores of a tile.
KEPT: dict[Element, int] = {"f16": 176, "bf16": 176, "tf32": 176, "f32": 112}
#: Rows that a thread keeps as factors, at most.
HELD = 32
#: Share of the multiprocessors that must get a block; with fewer, blocks are made smaller.
FULL = 0.85


@dataclass(frozen=True)
class BackwardTile:
    """A thread block takes 16 rows a warp, and ``columns`` at a time; ``features`` and ``width`` are padded.

    Shared memory holds ``stages`` tiles of columns. With ``slices`` a thread block sums up that part of the gradients
    of its rows. ``element`` is the type of the factors.
    """

    warps: int
    columns: int
    features: int
    width: int
    element: Element
    stages: int = 2
    slices: int = 1

    @property
    def rows(self) -> int:
        return ROWS * self.warps

    @property
    def threads(self) -> int:
        return 32 * self.warps

    @property
    def bytes(self) -> int:
        """The size of an element."""
        return 2 if self.element in HALF else 4

    @property
    def chunk(self) -> int:
        """Elements of one copy, of 16 bytes."""
        return 16 // self.bytes

    @property
    def pitch(self) -> int:
        """The stride of queries and keys in shared memory, in elements."""
        return self.features + self.chunk

    @property
    def value_pitch(self) -> int:
        """The stride of values and of gradients of results in shared memory, in elements; 0 without any."""
        return self.width + self.chunk if self.width else 0

    @property
    def stage(self) -> int:
        """Elements of a tile of columns."""
        return self.columns * (self.pitch + self.value_pitch)

    @property
    def kept(self) -> int:
        """Sums and scores of a thread."""
        return (self.features + self.width) // 2 // self.slices + self.columns

    @property
    def holds(self) -> bool:
        """Are rows kept in registers as factors, too?"""
        return self.element in HALF and (self.features + self.width) // 4 <= HELD

    @property
    def shared_bytes(self) -> int:
        """Rows, tiles of columns, and of each column of a tile its two statistics and its pull."""
        operands = self.rows * (self.pitch + self.value_pitch) + self.stages * self.stage
        return self.bytes * operands + 12 * self.stages * self.columns


@dataclass(frozen=True)
class Band:
    """The keys that a mask lets queries see: of n - m from ``low`` to ``high``, if ``is_all`` every one as it is."""

    low: int
    high: int
    is_all: bool


@dataclass(frozen=True)
class AttentionGradients(ProcedureCall):
    """A call of one of `OPERATORS`."""

    template: ClassVar[str] = "attention_gradients"
    tile: BackwardTile | None = None
    band: Band | None = None

    @property
    def describe(self) -> str:
        t, at = self.tile, self.procedure.sizes
        assert t is not None
        values = f", values of {at['d']}" if "d" in at else ""
        sizes = f"{self.procedure.tasks} x {at['m']} queries, {at['n']} keys of {at['k']}{values}"
        return f"{self.node.op}, {sizes}, blocks of {t.rows} x {t.columns} on tensor cores ({t.element})"


def on_tensor_cores(call: ProcedureCall, device: Device) -> AttentionGradients:
    """The call with a tile for a device; raises DeviceError where the device has no kernels for it."""
    at = call.procedure.sizes
    heads, rows = int(call.procedure.tasks), min(at["m"], at["n"]) if "d" in at else at["m"]
    tile = tile_for(heads, rows, at["k"], at.get("d", 0), device) if has_tensor_cores(device) else None
    if tile is None or not at.get("has_statistics", True):
        needs = "tensor cores, heads of 256 features at most, and the statistics of rows as an operand"
        raise DeviceError(f"'{call.node.op}' has no kernel on '{device.name}'", hint=f"it needs {needs}")
    band = band_of(call.node.args[-1], at["m"], at["n"]) if at["mask_steps"] else None
    return AttentionGradients(call.node, call.procedure, call.arguments, call.store, 0, tile=tile, band=band)


def band_of(mask: Node, queries: int, keys: int) -> Band | None:
    """The band of what a constant mask lets any head see; None where that is not known, or everything."""
    if not mask.is_const or not mask.type.elements or mask.type.shape[-2] != queries or mask.type.shape[-1] != keys:
        return None
    seen = (mask.value != -np.inf).reshape(-1, queries, keys)
    m, n = np.nonzero(seen.any(0))
    apart = n - m
    low, high = (int(apart.min()), int(apart.max())) if apart.size else (0, -1)
    if low <= 1 - queries and high >= keys - 1:
        return None
    apart = np.arange(keys) - np.arange(queries)[:, None]
    band = np.where((apart >= low) & (apart <= high), 0, -np.inf)
    return Band(low, high, bool((mask.value == band).all()))


def largest_head(device: Device) -> int:
    """The largest head that these kernels take on a device; 0 where there are none."""
    if not has_tensor_cores(device):
        return 0
    return next((h for h in range(256, 0, -16) if tile_for(1, 64, h, h, device) is not None), 0)


def tile_for(heads: int, rows: int, features: int, width: int, device: Device) -> BackwardTile | None:
    """The tile of most rows that occupies most multiprocessors; None where none fits. Statistics have no ``width``."""
    fitting = [t for t in _tiles(features, width, device) if t.shared_bytes <= device.largest_shared_bytes]
    for tile in fitting:
        if heads * -(-rows // tile.rows) >= FULL * device.gpu.multiprocessors:
            return tile
    return min(fitting, key=lambda t: (t.rows, -t.columns, -t.stages), default=None)


def _tiles(features: int, width: int, device: Device) -> list[BackwardTile]:
    """Tiles whose sums and scores fit into registers, in the order in which they are tried."""
    element = multiplied(device)
    found = []
    for slices in (1, 2, 4):
        step = (16 if element in HALF else 8) * slices
        inner, outer = -(-features // step) * step, -(-width // step) * step
        for warps in (4, 2, 1):
            for columns, stages in ((64, 2), (32, 2), (32, 1), (16, 1)):
                tile = BackwardTile(warps, columns, inner, outer, element, stages, slices)
                if tile.kept <= KEPT[element]:
                    found.append(tile)
    return found

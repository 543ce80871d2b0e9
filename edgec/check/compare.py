"""Two arrays beside each other: how far apart are they?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from edgec.device.device import Precision
from edgec.frontend.language.facts import facts_of
from edgec.frontend.states import SCALES
from edgec.ir.graph import Graph, Node
from edgec.ir.types import ends
from edgec.rewrite.affine import affine, value_of

#: Largest difference, relative to the largest value of the reference, that passes: by the precision of the build. Of
#: less than fp32 it is 32 times what rounding one number may change of it.
TOLERANCES: dict[Precision, float] = {"fp32": 1e-4, "tf32": 2.0**-6, "fp16": 2.0**-6, "bf16": 2.0**-3}
TOLERANCE = TOLERANCES["fp32"]
#: What a model may compute with in place of floats, and the precision that this is.
_NARROW: dict[str, Precision] = {"f16": "fp16", "bf16": "bf16"}
#: What leaves every element what it is.
_MOVED = ("reshape", "transpose", "slice", "concat", "update")


def tolerance_of(graph: Graph, precision: Precision) -> float:
    """Tolerance of a build of ``precision``; a model that itself computes in 16 bits has the tolerance of its type."""
    computed = {n.type.dtype for n in graph.operations()}
    found = [precision, *(_NARROW[t] for t in computed if t in _NARROW)]
    facts = facts_of(graph)
    if facts is not None and facts.cache == "int8":  # a code that is rounded the other way is a larger difference
        found.append("fp16")
    return max(TOLERANCES[p] for p in found)


#: Differences of floats that are no difference: kernels make 0 of what is no normal float of 32 bits.
NOTHING = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True)
class Difference:
    """One output beside its reference. ``max_rel`` is the largest difference over the largest |reference| value.

    Both are infinite where a number stands beside a NaN or an infinity that the other does not have; ``note``
    then says so. Integers and truth values are counted: ``mismatches`` of ``elements`` are not what they should be.
    ``quantized`` outputs may be one ``step`` off: their integers stand for rounded numbers, or they are the real
    numbers that such integers stand for. Where too many of them are, ``note`` says so and none may be.
    """

    name: str
    max_abs: float
    max_rel: float
    note: str = ""
    quantized: bool = False
    step: float = 1.0
    #: None for floats, of which no two ways to compute give the same.
    mismatches: int | None = None
    elements: int = 0
    #: The index along an axis (a channel, say) that is farthest off its own largest value, and how far.
    group: str = ""
    group_rel: float = 0.0
    #: Why a difference beyond the tolerance passes.
    excused: str = ""

    def within(self, tolerance: float, mismatch_tolerance: float = 0.0) -> bool:
        """True if the largest difference is within ``tolerance``; for integers and booleans, if the fraction of
        mismatches is within ``mismatch_tolerance``."""
        if self.excused:
            return True
        if self.quantized and not self.note and self.max_abs <= self.step * (1 + tolerance):
            return True
        if self.mismatches is not None:
            return self.mismatches <= mismatch_tolerance * self.elements
        if self.max_abs <= NOTHING:
            return True
        return max(self.max_rel, self.group_rel) <= tolerance


def compare(name: str, got: np.ndarray, want: np.ndarray) -> Difference:
    """Difference of ``got`` from ``want``. NaN equals NaN, and an infinity equals itself."""
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape:
        return Difference(name, inf, inf, f"shape {list(got.shape)} instead of {list(want.shape)}")
    if got.dtype != want.dtype:
        return Difference(name, inf, inf, f"{got.dtype} instead of {want.dtype}")
    if not want.size:
        return Difference(name, 0.0, 0.0)
    if want.dtype.kind in "iub":
        return _counted(name, got, want)
    if want.dtype.name.lstrip("u").startswith("int"):  # integers of 2 and 4 bits
        return _counted(name, got.astype(np.int64), want.astype(np.int64))
    a, b = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    strange = ~same & ~(finite & np.isfinite(a))
    if strange.any():
        k = int(np.flatnonzero(strange.reshape(-1))[0])
        note = f"{int(strange.sum())} of {want.size} elements, first {a.reshape(-1)[k]} instead of {b.reshape(-1)[k]}"
        return Difference(name, inf, inf, note)
    if not finite.any():
        return Difference(name, 0.0, 0.0)
    distance = float(np.abs(a[finite] - b[finite]).max())
    return Difference(name, distance, _relative(distance, float(np.abs(b[finite]).max())))


def _counted(name: str, got: np.ndarray, want: np.ndarray) -> Difference:
    """Integers and truth values, as they are: floats would take large ones for equal that are not."""
    apart = got != want
    if not apart.any():
        return Difference(name, 0.0, 0.0, mismatches=0, elements=want.size)
    a, b = got[apart], want[apart]
    # Modulo 2^64, in which every distance of two integers of 64 bits fits.
    distance = int((np.maximum(a, b).astype(np.uint64) - np.minimum(a, b).astype(np.uint64)).max())
    scale = max(abs(int(want.max())), abs(int(want.min())))
    return Difference(name, distance, _relative(distance, scale), mismatches=int(apart.sum()), elements=want.size)


def _relative(distance: float, scale: float) -> float:
    """``distance`` over ``scale``; one that is not zero beside a reference that is: relative to one."""
    return distance / scale if scale else distance


def compare_all(
    got: Mapping[str, np.ndarray], want: Mapping[str, np.ndarray], quantized: Mapping[str, float] = {}
) -> tuple[Difference, ...]:
    """Every output of ``want``, in its order; one that is missing is infinitely far. ``quantized``: steps by name."""
    found = (
        compare(name, got[name], value) if name in got else Difference(name, inf, inf, "missing")
        for name, value in want.items()
    )
    return tuple(replace(d, quantized=d.name in quantized, step=quantized.get(d.name, 1.0)) for d in found)


def quantized_outputs(graph: Graph) -> dict[str, float]:
    """Step between neighboring values of the outputs that were rounded to integers.

    In a graph that tells scales, all integers of 8 and 16 bits were.
    """
    tells = any(key.startswith(SCALES) for key in graph.metadata)
    steps = {name: step_of(node, tells) for name, node in graph.outputs}
    return {name: step for name, step in steps.items() if step is not None}


def step_of(node: Node, tells: bool = False) -> float | None:
    """Step between neighboring values of what was rounded to integers; None for anything else.

    That is 1 for integers that stand for real numbers (rounded and clamped into the whole range of their type; with
    ``tells``, all of 8 and 16 bits), and the scale for the real numbers that the network dequantizes last.
    """
    if node.type.dtype in ("i8", "u8", "i16", "u16"):
        return 1.0 if tells or _is_saturated(node) else None
    if node.type.dtype == "f32" and (found := affine(node)) is not None and found.scale is not None:
        return float(np.abs(value_of(found.scale)).max(initial=0.0))
    return None


def _is_saturated(node: Node) -> bool:
    """Was this rounded, and clamped into the range of its type? What QuantizeLinear is, here and in other spellings.

    The ends are integers, so that clamping to one of them before rounding is the same as after it.
    """
    bounds, rounded = set(map(float, ends(node.type.dtype))), False
    while node.op in (*_MOVED, "min", "max") or (node.op in ("cast", "add", "round") and not rounded):
        if node.op in ("min", "max"):
            bounds -= {float(v) for a in node.args if a.is_const and a.type.elements == 1 for v in a.value.reshape(-1)}
        rounded = rounded or node.op == "round"
        node = node.args[1] if node.op == "update" else next((a for a in node.args if not a.is_const), node.args[0])
    return rounded and not bounds


def worst(differences: tuple[Difference, ...]) -> Difference:
    """The one farthest from its reference; a difference of zero when there are none."""
    return max(differences, key=lambda d: d.max_rel, default=Difference("", 0.0, 0.0))

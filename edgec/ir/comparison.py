"""Integer comparisons that are decided by their operands alone, whatever these are."""

from __future__ import annotations

from edgec.ir.dtypes import FLOATS
from edgec.ir.traverse import Tree

#: Results of comparing a value with itself, where there are no NaN.
OF_EQUALS = {"eq": True, "le": True, "ge": True, "ne": False, "lt": False, "gt": False, "xor": False}
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def decided(name: str, a: Tree, b: Tree) -> bool | None:
    """Result of an integer comparison that holds for all values: a value with itself, or with a bound of its type."""
    if a.dtype in FLOATS:
        return None
    if a is b:
        return OF_EQUALS[name]
    if a.op == "const":
        a, b, name = b, a, _MIRRORED.get(name, name)
    if b.op != "const":
        return None
    bits = 1 if a.dtype == "bool" else int(a.dtype[1:])
    half = 2 ** (bits - 1)
    least, greatest = (-half, half - 1) if a.dtype[0] == "i" else (0, 2 * half - 1)
    ends = {("lt", least): False, ("ge", least): True, ("gt", greatest): False, ("le", greatest): True}
    return ends.get((name, b.value))

"""Expressions as text: exact, and as readable as arithmetic.

    sum(r1_0:64 | x[i0:8 * 64 + r1_0] * w[r1_0]) + 1.0

A variable is written with its extent where it is first mentioned (or mentioned with another one), a size with its
range; after that its name is enough. Numbers are i64 or f32 unless a type follows (``3:i32``). A load has the type of
what it loads from, or another one behind it (``"dot"[]:f32``). ``$3`` is a part that was defined earlier.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent

#: Operators by the function they stand for, with their precedence.
INFIX = {
    "or": ("or", 1), "and": ("and", 2),
    "lt": ("<", 3), "le": ("<=", 3), "gt": (">", 3), "ge": (">=", 3), "eq": ("==", 3), "ne": ("!=", 3),
    "add": ("+", 4), "sub": ("-", 4),
    "mul": ("*", 5), "div": ("/", 5), "floordiv": ("//", 5), "floormod": ("%", 5),
}  # fmt: skip
COMPARED = 3
#: Reductions by the function that combines.
REDUCTIONS = {"add": "sum", "mul": "product", "max": "maximum", "min": "minimum", "and": "all", "or": "any"}
#: Words with a meaning of their own; a variable of such a name is written in quotes.
KEYWORDS = frozenset({"True", "False", "None", "inf", "nan", "or", "and", "load"})
#: The name of a fresh variable, and its short form.
FRESH, SHORT = re.compile(r"t\d{9}", re.ASCII), re.compile(r"t\d{1,8}", re.ASCII)
#: A part that is used again is written once where it has at least so many parts itself,
_WORTH = 12
#: and any part where the text would nest deeper than this.
_DEEPEST = 24


def renumbered(expressions: Iterable[Expr]) -> dict[str, str]:
    """Short names of the fresh variables in these expressions, in the order in which they were made."""
    names = {e.value.name for e in expressions if e.op == "var" and FRESH.fullmatch(e.value.name)}
    return {name: f"t{k}" for k, name in enumerate(sorted(names))}


def parts(roots: Iterable[Expr], known: Mapping[Expr, str]) -> list[Expr]:
    """The sub-expressions that are written by themselves, arguments first: those used again, and deep ones."""
    order = dict.fromkeys(e for root in roots for e in X.walk(root))
    uses = dict.fromkeys(order, 0)
    for e in order:
        for a in e.args:
            uses[a] += 1
    weight: dict[Expr, int] = {}
    depth: dict[Expr, int] = {}
    found = []
    for e in order:
        weight[e] = 1 + sum(weight[a] for a in e.args)
        depth[e] = 1 + max((depth[a] for a in e.args), default=0)
        is_shared = uses[e] > 1 and weight[e] >= _WORTH
        if e in known or is_shared or depth[e] > _DEEPEST:
            weight[e] = depth[e] = 1
            if e not in known:
                found.append(e)
    return found


class ExpressionWriter:
    """Writes expressions one after the other; what was mentioned before is referred to by name.

    ``slot`` gives the text of what is loaded from.
    """

    def __init__(self, slot: Callable[[Any], str], short: Mapping[str, str]) -> None:
        self.slot = slot
        self.short = short
        self.scope: dict[str, Expr] = {}
        self.parts: dict[Expr, str] = {}

    def define(self, part: Expr) -> str:
        """The text of a part, and its name from now on."""
        text = self.text(part, whole=True)
        self.parts[part] = f"${len(self.parts)}"
        return f"{self.parts[part]} = `{text}`"

    def extent(self, extent: Extent) -> str:
        if isinstance(extent, int):
            return str(extent)
        return f"({self.text(extent)})"

    def text(self, e: Expr, level: int = 0, whole: bool = False) -> str:
        """The text of ``e`` as an operand of an operator of precedence ``level``."""
        if e in self.parts and not whole:
            return self.parts[e]
        if e.op in INFIX:
            mark, own = INFIX[e.op]
            left = self.text(e.args[0], own + (own == COMPARED))
            inner = f"{left} {mark} {self.text(e.args[1], own + 1)}"
            return f"({inner})" if own < level else inner
        if e.op == "const":
            return _constant(e)
        if e.op in ("var", "size"):
            return self.name(e)
        if e.op == "reduce":
            combine, variables = e.value
            names = ", ".join(self.mention(X.var(v.name, v.extent)) for v in variables)
            bound = f"{names} " if names else ""
            return f"{REDUCTIONS[combine]}({bound}| {self.text(e.args[0])})"
        args = ", ".join(self.text(a) for a in e.args)
        if e.op == "load":
            found = getattr(e.value, "dtype", None) or getattr(getattr(e.value, "type", None), "dtype", None)
            return f"{self.slot(e.value)}[{args}]" + ("" if found == e.dtype else f":{e.dtype}")
        if e.op == "cast":
            return f"{e.dtype}({args})"
        return f"bits_as_{e.dtype}({args})" if e.op == "bitcast" else f"{e.op}({args})"

    def name(self, e: Expr) -> str:
        label = self._label(e)
        return label if self.scope.get(label) is e else self.mention(e)

    def _label(self, e: Expr) -> str:
        name = e.value.name
        if name in self.short:
            return self.short[name]
        is_plain = re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) and name not in KEYWORDS
        return name if is_plain and not SHORT.fullmatch(name) else json.dumps(name)

    def mention(self, e: Expr) -> str:
        """The name of a variable or size with its extent or range."""
        if e.op == "const":  # a variable of extent 1 is no variable any more
            return _constant(e)
        label = self._label(e)
        limit = f"{e.value.low}..{e.value.high}" if e.op == "size" else self.extent(e.value.extent)
        self.scope[label] = e
        return f"{label}:{limit}"


def _constant(e: Expr) -> str:
    value = e.value
    if e.dtype == "bool":
        return str(value)
    text = repr(value)
    if isinstance(value, float) and not math.isfinite(value):
        text = f"{'-' if math.copysign(1, value) < 0 else ''}{'nan' if math.isnan(value) else 'inf'}"
    return text if e.dtype == ("f32" if isinstance(value, float) else "i64") else f"{text}:{e.dtype}"

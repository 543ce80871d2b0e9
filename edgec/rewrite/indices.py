"""Index arithmetic as formulas of z3."""

from __future__ import annotations

from typing import Any

from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.index import bounds, is_static


class Indices:
    """Index arithmetic as formulas of z3; what is loaded stands for some integer, the same for the same load."""

    def __init__(self, z3: Any) -> None:
        self.z3 = z3
        self.atoms: dict[Expr, Any] = {}

    def ranges(self) -> list[Any]:
        """Loops run over their extents, sizes are no less than their least."""
        found: list[Any] = []
        done: set[Expr] = set()
        while len(done) < len(self.atoms):
            for e in [a for a in self.atoms if a not in done]:
                done.add(e)
                if e.op == "size":
                    found.append(self.atoms[e] >= e.value.low)
                elif e.op == "var":
                    found += [self.atoms[e] >= 0, self.atoms[e] < self(X.lift(e.value.extent, "i64"))]
        return found

    def __call__(self, e: Expr) -> Any:
        z3 = self.z3
        if e.op == "const":
            return z3.BoolVal(e.value) if e.dtype == "bool" else z3.IntVal(int(e.value))
        table = {
            "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "neg": lambda a: -a,
            "floordiv": lambda a, b: a / b, "floormod": lambda a, b: a % b,
            "min": lambda a, b: z3.If(a <= b, a, b), "max": lambda a, b: z3.If(a >= b, a, b),
            "select": z3.If, "and": z3.And, "or": z3.Or, "not": z3.Not,
            "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
            "eq": lambda a, b: a == b, "ne": lambda a, b: a != b,
        }  # fmt: skip
        integral = all(a.dtype in ("i64", "bool") for a in e.args)
        divides = e.op not in ("floordiv", "floormod") or (is_static(e.args[1]) and self._is_positive(e.args[1]))
        if e.op in table and integral and divides:
            return table[e.op](*map(self, e.args))
        if e not in self.atoms:
            name = f"{e.op}{len(self.atoms)}"
            self.atoms[e] = z3.Bool(name) if e.dtype == "bool" else z3.Int(name)
        return self.atoms[e]

    @staticmethod
    def _is_positive(e: Expr) -> bool:
        return bounds(e)[0] > 0

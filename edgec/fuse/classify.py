"""Mapping classes, derived from an operator's access map (DNNFusion, section 3.1): never declared."""

from __future__ import annotations

from enum import Enum

from edgec.ir import expr as X
from edgec.ir import index
from edgec.ir.expr import Expr
from edgec.ir.functions import FUNCTIONS
from edgec.ir.graph import Formula, Meaning, Node, Procedure
from edgec.ir.loads import reduces
from edgec.ir.memory import remembered
from edgec.ops import formula, is_procedure


class Mapping(Enum):
    """Mapping classes from output elements to input elements, in the order that decides for several inputs."""

    ONE_TO_ONE = 0
    REORGANIZE = 1
    SHUFFLE = 2
    ONE_TO_MANY = 3
    MANY_TO_MANY = 4

    @property
    def label(self) -> str:
        return self.name.lower().replace("_", "-")


def mapping(node: Node) -> Mapping:
    """The class of a node: the highest class among its inputs; a procedure may read anything for any element."""
    if is_procedure(node.op):
        return Mapping.MANY_TO_MANY
    derived = formula(node)
    if has_reduction(derived):
        return Mapping.MANY_TO_MANY
    classes = [_access(load, derived) for load in X.loads(derived.body)]
    return max(classes, key=lambda m: m.value, default=Mapping.ONE_TO_ONE)


def _access(load: Expr, derived: Formula) -> Mapping:
    variables = [v for v in derived.variables if v.op == "var"]
    used = [i for i in load.args if i.op != "const"]
    if used == variables:
        return Mapping.ONE_TO_ONE
    forms = [index.coefficients(i, variables) for i in load.args]
    if any(f is None for f in forms):
        division = all(_is_division(i) for i in load.args)
        return Mapping.REORGANIZE if division else Mapping.ONE_TO_MANY
    seen = {v for f in forms if f for v in f[0]}
    if len(seen) < len(variables):
        return Mapping.ONE_TO_MANY
    return Mapping.SHUFFLE if sorted(map(repr, used)) == sorted(map(repr, variables)) else Mapping.REORGANIZE


def _is_division(e: Expr) -> bool:
    return all(x.op in ("const", "var", "add", "mul", "floordiv", "floormod") for x in X.walk(e))


def has_reduction(derived: Formula) -> bool:
    return reduces(derived.body)


@remembered(50_000)
def _computes(body: Expr) -> int:
    """Scalar work for one element outside reductions: index arithmetic and choosing between loads are free."""
    total = 0
    seen: set[Expr] = set()
    stack = [body]
    while stack:
        e = stack.pop()
        if e in seen or e.op == "load":
            continue
        seen.add(e)
        if e.op == "select" and e.args[0].dtype == "bool" and _is_position(e.args[0]):
            stack.extend(e.args[1:])
            continue
        if e.op in ("cast", "bitcast"):
            total += 1
        elif e.op in FUNCTIONS:
            total += FUNCTIONS[e.op].flops
        stack.extend(e.args)
    return total


def computes(derived: Formula) -> int:
    """Scalar work for one element outside reductions."""
    return _computes(derived.body)


def _is_position(condition: Expr) -> bool:
    return all(e.op != "load" for e in X.walk(condition))


def is_movement(node: Node) -> bool:
    """It only moves elements: its formula is a load, chosen and placed by index alone."""
    if is_procedure(node.op):
        return False
    derived = formula(node)
    return not has_reduction(derived) and node.op != "iota" and _computes(derived.body) == 0


def is_elementwise(node: Node) -> bool:
    if is_procedure(node.op):
        return False
    derived = formula(node)
    return not has_reduction(derived) and not is_movement(node)


def flops(derived: Meaning) -> int:
    """Floating-point operations of a whole formula, a multiply-add counted as two; the steps of a procedure."""
    if isinstance(derived, Procedure):
        return index.upper(derived.steps)

    def price(e: Expr, times: int, seen: set[Expr]) -> int:
        if e in seen or e.op in ("load", "var", "const"):
            return 0
        seen.add(e)
        if e.op == "reduce":
            inner = times
            for v in e.value[1]:
                inner *= index.upper(v.extent)
            return price(e.args[0], inner, seen) + inner
        own = FUNCTIONS[e.op].flops * times if e.op in FUNCTIONS and e.dtype != "i64" else 0
        return own + sum(price(a, times, seen) for a in e.args)

    return price(derived.body, derived.type.elements, set())

"""Places whose mistakes change no result by construction, with the reason: they are no mutants.

Nothing is left out because no test finds it: a place is here by its form alone.
"""

from __future__ import annotations

import ast
import re

#: The reasons, as the page gives them, by a short name.
REASONS = {
    "words": "calls that only tell people something: `progress`, `print`, `warn`",
    "instances": "functions that draw instances for the proofs of rules: test data, of which any other draw is as good",
    "declared": "arguments of `dataclass`, `lru_cache` and `warn` (`slots`, `frozen`, `maxsize`, `stacklevel`)",
    "patience": "numbers of 8 and more, and fractions, that are named as limits of patience or as thresholds chosen "
    "freely (`PATIENCE`, `SECONDS`, `ATTEMPTS`, `DRAWN`, `SLACK`, `MOST`): one more is as right",
    "searches": "numbers of rounds that a search takes (`HALVINGS`, `DOUBLINGS`, `ITERATIONS`): one more is as right",
    "prices": "numbers in functions that predict times (named for `seconds`, `cycles`, `price`), which were fitted",
    "chance": "the boundary of a comparison with a random number, or with a fraction that is a chosen threshold: no "
    "value meets it but by accident",
    "asserted": "what weakens an `assert`, which states what holds already: a condition less, or its boundary",
    "rest": "which negative number a `reshape` has for what is left: numpy takes any",
    "roundings": "whole numbers that a unit of rounding (`U64`) is multiplied by: an allowance of one more is as sound",
    "truth": "numbers from 1 on below `bool(...)`: one more is as true",
}  # fmt: skip
_WORDS = {"progress", "_progress", "print", "warn", "_told"}
_DECLARED = {"slots", "frozen", "maxsize", "stacklevel"}
_LIMIT = re.compile(r"PATIENCE|SECONDS|TIMEOUT|ATTEMPTS|TRIES|DRAWN|DRAWS|SAMPLES|SLACK|PAUSE|FORGOTTEN|MOST|_MS$")
_LEAST = 8
_SEARCH = re.compile(r"HALVINGS|DOUBLINGS|ITERATIONS|BISECTIONS")
_PRICE = re.compile(r"(^|_)(seconds|cycles|price|priced)(_|$)|_s$")


def reason(node: ast.AST) -> str | None:
    """A key of `REASONS` if nothing at or below the node is a mistake that could show; else None."""
    match node:
        case ast.FunctionDef(args=args) if any(a.arg == "random" for a in args.args):
            return "instances"
        case ast.Expr(value=ast.Call(func=func)) if _name(func) in _WORDS:
            return "words"
        case ast.keyword(arg=name) if name in _DECLARED:
            return "declared"
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if (number := _number(value)) is not None:
            return _named(name, number)
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=numbers)) if len(names) == len(numbers):
            found = [(n.id, _number(v)) for n, v in zip(names, numbers) if isinstance(n, ast.Name)]
            plain = [(name, number) for name, number in found if number is not None]
            whys = [_named(name, number) for name, number in plain] if len(plain) == len(names) else [None]
            return whys[0] if all(whys) else None
        case ast.Call(func=ast.Name(id="bool"), args=[ast.Call(args=[*_, ast.Constant(value=int() as number)])]):
            return "truth" if number >= 1 and not isinstance(number, bool) else None
    return None


def _number(value: ast.expr) -> float | None:
    """The number that an expression writes down, as 32 << 20 does; None where it is none."""
    match value:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.BinOp(left=ast.Constant(value=int() as times), op=ast.LShift(), right=ast.Constant(value=int() as by)):
            return times << by
    return None


def _named(name: str, number: float) -> str | None:
    """A key of `REASONS` for a number with a name of its own."""
    if not name.isupper():
        return None
    if _SEARCH.search(name):
        return "searches"
    return "patience" if _LIMIT.search(name) and (number >= _LEAST or isinstance(number, float)) else None


def predicts(node: ast.AST) -> bool:
    """Is it a function that predicts a time, whose numbers were fitted?"""
    if not isinstance(node, ast.FunctionDef) or not _PRICE.search(node.name):
        return False
    return isinstance(node.returns, ast.Name) and node.returns.id == "float"


def asserted(node: ast.Assert) -> list[ast.expr]:
    """The conditions of an `assert` of which a change may show: those it joins, or both sides of a strict boundary."""
    match node.test:
        case ast.BoolOp(op=ast.And(), values=values):
            return [part for v in values for part in asserted(ast.Assert(v))]
        case ast.Compare(left=left, ops=[ast.Lt() | ast.Gt()], comparators=others):
            return [left, *others]
    return [node.test]


def boundary(node: ast.Compare) -> str | None:
    """A key of `REASONS` if it makes no difference whether the boundary of a comparison counts."""
    if not isinstance(node.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
        return None
    for side in (node.left, *node.comparators):
        match side:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="random"), attr="random")):
                return "chance"
            case ast.Constant(value=float() as number) if number % 1:
                return "chance"
    return None


def is_allowance(node: ast.AST, argument: ast.AST) -> bool:
    """Is it how many units of rounding a bound allows for?"""
    match node, argument:
        case ast.BinOp(op=ast.Mult(), right=ast.Name(id="U64")), ast.Constant(value=int()):
            return True
    return False


def is_rest(node: ast.AST, argument: ast.AST) -> bool:
    """Is it the -1 of numpy's `reshape`? Those of the package take no negative number."""
    match node, argument:
        case ast.Call(func=ast.Attribute(attr="reshape")), ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1)):
            return True
    return False


def _name(func: ast.expr) -> str:
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""

"""Mutants: small mistakes of every kind that a source file can have, one at a time.

A mutant replaces one expression or statement by one that differs from it: another comparison, operator or number, the
other branch, `and` for `or`, the largest for the smallest. Texts of errors, annotations and docstrings have none, and
neither have the places that `equivalent` names.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from copy import copy as shallow
from dataclasses import dataclass
from pathlib import Path

from benchmarks.trust.equivalent import asserted, boundary, is_allowance, is_rest, predicts, reason

#: Folders whose lines count.
SOURCES = ("edgec", "rewrite_rules")
_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitOr,
}  # fmt: skip
#: Functions that stand for one another.
_CALLED = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list", "sum": "max"}
#: What has nothing to be mistaken in, or nothing but words.
_SKIPPED = (ast.JoinedStr, ast.Raise, ast.Import, ast.ImportFrom, ast.Global)


@dataclass(frozen=True)
class Mutant:
    """One mistake: ``file`` is relative to the project, ``before`` and ``after`` are texts of the place that changes.

    The place is a range of lines and of bytes in the first and the last of them, as Python counts them.
    """

    file: str
    kind: str
    line: int
    column: int
    last_line: int
    last_column: int
    before: str
    after: str

    @property
    def name(self) -> str:
        return f"{self.file}:{self.line}:{self.column} {self.before} -> {self.after}"

    def applied(self, text: str) -> str:
        """The text of the file with the mistake in it."""
        lines = [line.encode() for line in text.splitlines(keepends=True)]
        first, last = self.line - 1, self.last_line - 1
        changed = lines[first][: self.column] + self.after.encode() + lines[last][self.last_column :]
        return b"".join([*lines[:first], changed, *lines[last + 1 :]]).decode()


def mutants(root: Path, file: str) -> list[Mutant]:
    """All mutants of a file that differ from it as Python reads it."""
    tree = ast.parse((root / file).read_text(encoding="utf-8"))
    return [_mutant(file, old, kind, new) for old, kind, new in _changes(tree)]


def everywhere(root: Path, seed: int) -> list[Mutant]:
    """The mutants of the whole package, in a drawn order: every prefix is a fair sample.

    The place of a mutant depends on its name alone, so that samples stay nearly the same where files change.
    """
    files = sorted(str(p.relative_to(root)) for s in SOURCES for p in (root / s).rglob("*.py"))
    found = [m for file in files for m in mutants(root, file)]
    return sorted(found, key=lambda m: hashlib.sha256(f"{seed} {m.name}".encode()).digest())


def _mutant(file: str, old: ast.expr | ast.stmt, kind: str, new: ast.AST) -> Mutant:
    text = ast.unparse(new)
    after = f"({text})" if isinstance(old, ast.expr) and not isinstance(new, (ast.Constant, ast.Name)) else text
    return Mutant(
        file, kind, old.lineno, old.col_offset, old.end_lineno or old.lineno, old.end_col_offset or 0,
        ast.unparse(old), after,
    )  # fmt: skip


def _changes(node: ast.AST, fitted: bool = False) -> Iterator[tuple[ast.expr | ast.stmt, str, ast.AST]]:
    """Every place below ``node`` that can be changed: the node, the kind of the change, and what replaces it.

    Numbers are left out where they are ``fitted``.
    """
    fitted = fitted or predicts(node)
    if isinstance(node, _SKIPPED) or reason(node) is not None or (fitted and isinstance(node, ast.Constant)):
        return
    if isinstance(node, ast.Assert):
        for condition in asserted(node):
            yield from _changes(condition, fitted)
        return
    if isinstance(node, (ast.expr, ast.stmt)):
        for kind, new in _others(node):
            yield node, kind, new
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "type_params", "type_comment"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if is_rest(node, child):
                yield child, "sign", child.operand
            elif isinstance(child, ast.AST) and not is_allowance(node, child):
                yield from _changes(child, fitted)


def _others(node: ast.expr | ast.stmt) -> Iterator[tuple[str, ast.AST]]:
    """Replacements of one node."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in _COMPARED and boundary(node) is None:
            new = shallow(node)
            new.ops = [_COMPARED[type(op)]()]
            yield "comparison", new
        case ast.BinOp(op=op) if type(op) in _COMPUTED and not _is_text(node):
            yield "operator", ast.BinOp(node.left, _COMPUTED[type(op)](), node.right)
        case ast.AugAssign(op=op) if type(op) in _COMPUTED:
            yield "operator", ast.AugAssign(node.target, _COMPUTED[type(op)](), node.value)
        case ast.BoolOp(op=op, values=values):
            yield "condition", ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
            yield "condition", values[0] if len(values) == 2 else ast.BoolOp(op, values[:-1])
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield "sign", operand
        case ast.IfExp(test=test, body=body, orelse=other):
            yield "branch", ast.IfExp(test, other, body)
        case ast.Constant(value=bool() as value):
            yield "constant", ast.Constant(not value)
        case ast.Constant(value=int() as value):
            yield "constant", ast.Constant(value + 1)
        case ast.Constant(value=float() as value):
            yield "constant", ast.Constant(value * 2 if value else 1.0)
        case ast.Call(func=ast.Name(id=name)) if name in _CALLED:
            yield "function", ast.Call(ast.Name(_CALLED[name]), node.args, node.keywords if name != "sorted" else [])
        case ast.Break():
            yield "jump", ast.Continue()
        case ast.Continue():
            yield "jump", ast.Break()
        case ast.Expr(value=ast.Call()):
            yield "statement", ast.Pass()


def _is_text(node: ast.BinOp) -> bool:
    """Does it join texts, or types?"""
    sides = (node.left, node.right)
    if any(isinstance(s, (ast.JoinedStr, ast.List)) or _is_string(s) for s in sides):
        return isinstance(node.op, (ast.Add, ast.Mod, ast.Mult))
    return isinstance(node.op, ast.BitOr) and any(_is_none(s) or isinstance(s, ast.Subscript) for s in sides)


def _is_string(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes))


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None

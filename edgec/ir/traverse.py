"""Walking over expressions and showing them as text, by what any expression has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar


class Tree(Protocol):
    """The part of an expression that is needed here."""

    op: str
    dtype: str
    value: Any

    @property
    def args(self) -> Sequence[Any]: ...


T = TypeVar("T", bound=Tree)


def walk(expr: T) -> Iterator[T]:
    """Every distinct sub-expression, arguments before users."""
    seen: set[T] = set()
    stack: list[T | None] = [expr]
    while stack:
        e = stack.pop()
        if e is None:  # below it is one whose arguments were all given
            done = stack.pop()
            assert done is not None
            yield done
        elif e not in seen:
            seen.add(e)
            if e.args:
                stack.append(e)
                stack.append(None)
                stack += e.args[::-1]
            else:
                yield e


def show(expr: Tree, slot: Callable[[Any], str] = str) -> str:
    """Readable one-line form, for comments, messages and tests."""
    infix = {"add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "floormod": "%"}
    if expr.op == "const":
        return str(expr.value)
    if expr.op in ("var", "size"):
        return str(expr.value.name)
    args = [show(a, slot) for a in expr.args]
    if expr.op == "load":
        return f"{slot(expr.value)}[{', '.join(args)}]"
    if expr.op == "cast":
        return f"{expr.dtype}({args[0]})"
    if expr.op == "bitcast":
        return f"bits_as_{expr.dtype}({args[0]})"
    if expr.op == "reduce":
        combine, variables = expr.value
        domain = ", ".join(f"{v.name}<{v.extent}" for v in variables)
        return f"{combine}[{domain}]({args[0]})"
    if expr.op in infix:
        return f"({args[0]} {infix[expr.op]} {args[1]})"
    return f"{expr.op}({', '.join(args)})"

"""Kernels that are alike: those that differ in the names of buffers and loops alone, whose text is therefore equal.

Networks repeat their blocks, so most kernels are like one before them. A likeness is everything that a template may
print of a kernel, with buffers and fresh loops numbered as they come; what is not known here stands for itself, so that
no other kernel is like it.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from edgec.ir.expr import Expr
from edgec.schedule.program import Buffer, Kernel

_FRESH = re.compile(r"t\d{9,}")


def likeness(kernel: Kernel, aliases: frozenset[Buffer], more: Hashable) -> Hashable:
    """A key that is equal for kernels of equal text, given the operands that share memory with the result.

    ``more`` is what else decides about the text. The key is of use as long as the kernel lives.
    """
    found = _Likeness()
    found.add(kernel)
    found.tokens.append(tuple(b in aliases for b in kernel.operands))
    return (*found.tokens, found.in_order(), more)


@lru_cache(maxsize=256)
def _fields(kind: type[Any]) -> tuple[str, ...]:
    return tuple(f.name for f in fields(kind))


class _Likeness:
    """The tokens of a likeness, in order."""

    def __init__(self) -> None:
        self.tokens: list[Any] = []
        self._numbers: dict[Any, int] = {}  # of expressions and buffers
        self._names: list[str] = []  # whose order decides that of terms in a sum

    def in_order(self) -> tuple[Any, ...]:
        """Names as the places that they have among all."""
        places = {name: place for place, name in enumerate(sorted({*self._names}))}
        return tuple(places[name] for name in self._names)

    def add(self, value: Any) -> None:
        """Anything that a record holds."""
        kind: Any = type(value)
        if kind is Expr:
            self._add_expression(value)
        elif kind is Buffer:
            self._add_buffer(value)
        elif kind is tuple or kind is list:
            self._add_all(kind, value)
        elif value is None or kind is str or kind is int or kind is bool or isinstance(value, Path):
            self.tokens += (kind, value)
        elif kind is float:
            self.tokens += (kind, repr(value))
        elif isinstance(value, Mapping):
            self._add_all(dict, [part for item in value.items() for part in item])
        elif kind is Kernel:
            out = value.block.output.type.dtype if value.block is not None else None
            self._add_all(
                kind, (value.schedule, value.operands, value.scratch_bytes, value.sizes, value.read_sizes, out)
            )
        elif is_dataclass(value):
            self._add_all(kind, [getattr(value, name) for name in _fields(kind)])
        else:
            self.tokens += (kind, id(value))

    def _add_all(self, kind: type, values: Iterable[Any]) -> None:
        values = tuple(values)
        self.tokens += (kind, len(values))
        for value in values:
            self.add(value)

    def _add_buffer(self, buffer: Buffer) -> None:
        number = self._numbers.setdefault(buffer, len(self._numbers))
        self.tokens += (Buffer, number, buffer.space, buffer.dtype, buffer.elements, buffer.data is None)

    def _add_expression(self, expr: Expr) -> None:
        """Each expression inside it at its first place, and its number wherever it comes again."""
        numbers = self._numbers
        stack: list[Expr | None] = [expr]
        while stack:
            e = stack.pop()
            if e is None:
                e = stack.pop()
                assert e is not None
                self.tokens += (e.op, e.dtype, len(e.args), *[numbers[a] for a in e.args])
                self._add_value(e)
                numbers[e] = len(numbers)
            elif e not in numbers:
                stack += (e, None, *e.args)
        self.tokens += (Expr, numbers[expr])

    def _add_value(self, e: Expr) -> None:
        """The part of an expression beside its arguments."""
        value = e.value
        if e.op == "var":
            self._add_loop(value.name, value.extent)
        elif e.op == "reduce":
            self.tokens += (value[0], len(value[1]))
            for v in value[1]:
                self._add_loop(v.name, v.extent)
        elif e.op == "const":
            self.tokens.append(repr(value))
        elif e.op == "load":
            self.add(value)
            if e.dtype == "i64" and isinstance(value, Buffer):
                self._names.append(f"load {value.key}")
        elif value is not None:
            self.tokens.append(value)

    def _add_loop(self, name: str, extent: Any) -> None:
        is_fresh = _FRESH.fullmatch(name) is not None
        self.tokens.append(None if is_fresh else name)
        if is_fresh:
            self._names.append(name)
        self.add(extent)

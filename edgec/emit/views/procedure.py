"""Procedures as their templates see them: operands by number, and C text for what depends on element types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from types import SimpleNamespace
from typing import Any

from edgec.emit.c_expression import Printer
from edgec.emit.c_literal import C_TYPES, STORAGE, literal, scalar_update
from edgec.emit.views.base import View
from edgec.ir import expr as X
from edgec.ir.dtypes import neutral
from edgec.ir.expr import Expr, Extent
from edgec.ir.types import CODED, Type
from edgec.schedule.procedure import ProcedureCall
from edgec.schedule.program import Buffer


@dataclass(frozen=True)
class Operand:
    """An operand or the result: the pointer to its first element, and how elements are read and written."""

    pointer: str
    type: Type

    @property
    def dtype(self) -> str:
        return self.type.dtype

    @property
    def shape(self) -> tuple[Extent, ...]:
        shape: tuple[Extent, ...] = self.type.shape
        return shape

    @property
    def elements(self) -> Extent:
        return X.plain(prod(self.type.shape))

    @property
    def ctype(self) -> str:
        """The C type of a value; what is coded in memory is decoded into it."""
        return C_TYPES[self.dtype]

    @property
    def storage(self) -> str:
        """The C type of an element in memory."""
        return STORAGE[self.dtype]

    def load(self, place: str) -> str:
        """The value of the element at a position."""
        element = f"{self.pointer}[{place}]"
        return f"ec_from_{self.dtype}({element})" if self.dtype in CODED else element

    def stored(self, value: str) -> str:
        """A value as it lies in memory."""
        return f"ec_to_{self.dtype}({value})" if self.dtype in CODED else value

    def store(self, place: str, value: str) -> str:
        """A statement that writes the element at a position."""
        return f"{self.pointer}[{place}] = {self.stored(value)};"

    def neutral(self, combine: str) -> str:
        """The result of ``combine`` (add, mul, max, min) for no element at all."""
        return literal(neutral(combine, self.dtype), self.dtype)

    def update(self, combine: str, name: str, value: str) -> str:
        """A statement that combines a variable with a value."""
        return scalar_update(combine, name, value, self.dtype)

    @property
    def key_type(self) -> str:
        return "uint64_t" if self.dtype in ("f64", "i64", "u64") else "uint32_t"

    def key(self, value: str) -> str:
        """An unsigned number for a value, in the same order: zeros are equal, NaN follows every number."""
        if self.dtype in ("f64", "i64"):
            return f"ec_key_{self.ctype}({value})"
        if self.dtype in ("f32", "f16", "bf16"):
            return f"ec_key_float({value})"
        return f"ec_key_int32_t({value})" if self.dtype in ("i8", "i16", "i32") else value


class ProcedureView(View):
    """A procedure: ``k.x[n]`` is operand n, ``k.result`` the result, ``k.at`` holds attributes and sizes by name."""

    @property
    def params(self) -> ProcedureCall:
        schedule = self.kernel.schedule
        assert isinstance(schedule, ProcedureCall)
        return schedule

    @property
    def operator(self) -> str:
        return self.params.node.op

    @property
    def at(self) -> Any:
        """The attributes of the operator and the sizes that its definition gives."""
        return SimpleNamespace(**self.params.node.attributes, **self.params.procedure.sizes)

    @property
    def tasks(self) -> Extent:
        return self.params.procedure.tasks

    @property
    def shared_rounds(self) -> Extent | None:
        found = self.params.procedure.rounds
        return found.count if found is not None and self.params.in_rounds else None

    @property
    def round(self) -> str | None:
        """The function that does one round, whose number comes last."""
        return f"{self.name}_round" if self.shared_rounds is not None else None

    def declared(self, name: str) -> str:
        usual = super().declared(name)
        if self.shared_rounds is None:
            return usual
        return f"{usual}\nvoid {name}_round({self.parameters}, {self.thread_parameters}, ec_int round);"

    @property
    def x(self) -> list[Operand]:
        return [Operand(self.pointers[buffer], type) for buffer, type in self.params.arguments]

    @property
    def result(self) -> Operand:
        return Operand(self.target, self.params.node.type)

    @property
    def in_place(self) -> bool:
        """Does the result lie over the operand that it may overwrite?"""
        operand = self._overwritten
        return operand is not None and operand.space == "arena"

    @property
    def may_be_in_place(self) -> bool:
        """Does the caller decide whether it lies there (a state)? Then the template compares the two pointers."""
        operand = self._overwritten
        return operand is not None and operand.space != "arena"

    @property
    def _overwritten(self) -> Buffer | None:
        which = self.params.procedure.overwrites
        operand = None if which is None else self.params.arguments[which][0]
        return operand if operand in self.aliases else None

    def updates(
        self, new: Iterable[tuple[str, Expr]], vectors: Mapping[object, str], lane: Expr, count: str | None
    ) -> list[str]:
        """Statements that compute elements of vectors (fp32) from others, from place ``j`` on, and store them.

        ``vectors`` are C pointers by the names that formulas load them by; ``count`` says how many lanes are live.
        """
        printer = Printer({lane: "j"}, vectors, lane, count, depth=0)
        values = [(vectors[name], printer.vector(formula)) for name, formula in new]
        suffix, tail = ("_n", f", {count}") if count else ("", "")
        return [*printer.lines, *(f"ec_store{suffix}({pointer} + j, {value}{tail});" for pointer, value in values)]

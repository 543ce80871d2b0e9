"""Kernels that are loops around device functions: slots, which load an element of an operand or store a result.

Matrix products, convolutions and attention differ in these functions alone; templates hold the loops around them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from edgec.emit.c_literal import STORAGE
from edgec.emit.gpu.base import GpuView, numbered
from edgec.emit.gpu.printer import GpuPrinter
from edgec.emit.syntax import Syntax
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.schedule.contract.int8_dot import BYTES
from edgec.schedule.gpu.contract import plain_load
from edgec.schedule.gpu.kernel import LANES

_NUMBERS = ("batch", "m", "n", "k", "d")


@dataclass(frozen=True)
class Slot:
    """A device function of ``lanes`` elements: its parameters, the arguments of a call, and its body."""

    name: str
    lanes: int
    parameters: str
    arguments: str
    lines: list[str]
    value: str = ""
    fill: str = ""  # of a conditional copy: four bytes to store where there is nothing to copy
    scalar: str = "float"
    pointer: str = ""  # the pointer type of slots that give the address of elements (``lanes`` is 0)
    copied: int = 16  # bytes of one copy from that address
    store: Slot | None = None  # stores the value, where all values are computed before the first is stored
    vector: str = "ec_vf"  # the type of LANES elements

    @property
    def ctype(self) -> str:
        return self.pointer or (self.vector if self.lanes > 1 else self.scalar)

    def call(self, *more: str, **change: str) -> str:
        names = [change.get(a, a) for a in self.arguments.split(", ") if a]
        return f"{self.name}({', '.join([*names, *more])})"


class SlotView(GpuView):
    """A kernel with slots; templates index its loops by ``batch``, ``m``, ``n``, ``k`` and ``d``."""

    def slot(
        self,
        what: str,
        loops: Mapping[str, Sequence[Expr]],
        value: Expr,
        lane: Expr | None,
        given: Mapping[Expr, str] = MappingProxyType({}),
    ) -> Slot:
        """The slot of an element of an operand, or of LANES along ``lane``; a call passes the values ``given``."""
        names, lines = _numbered(loops, self.syntax)
        printer = self.printer(names, lane)
        for known, name in given.items():
            printer.define(known, name)
        text = printer.vector(value) if lane is not None else printer.value(value)
        lines = _used(lines, [*printer.lines, text])
        parameters, arguments = self.tile_interface(_NUMBERS, [*lines, *printer.lines, text])
        more = [self.syntax.parameter(self.syntax.types["f32"], name) for name in given.values()]
        parameters = ", ".join([*([parameters] if parameters else []), *more])
        body = [*lines, *printer.lines]
        lanes = LANES if lane is not None else 1
        return Slot(
            f"{self.name}_{what}", lanes, parameters, arguments, body, text, scalar=self.syntax.types[value.dtype]
        )

    def place(self, what: str, loops: Mapping[str, Sequence[Expr]], value: Expr, copied: int = 16) -> Slot:
        """The slot of the address of ``copied`` bytes of a factor; null where a select makes it zero."""
        names, lines = _numbered(loops, self.syntax)
        printer = self.printer(names)
        load = plain_load(value)
        assert load is not None
        where = f"{self.pointers[load.value]} + {printer.position(load.args[0])}"
        text = f"{printer.value(value.args[0])} ? {where} : 0" if value.op == "select" else where
        lines = _used(lines, [*printer.lines, text])
        parameters, arguments = self.tile_interface(_NUMBERS, [*lines, *printer.lines, text])
        body = [*lines, *printer.lines]
        fill = ""
        if value.op == "select":
            byte = value.args[2].value & 255 if value.dtype in BYTES else 0
            fill = f"0x{byte * 0x1010101:08x}u"
        pointer = f"{self.qualifier}const {STORAGE[load.value.dtype]} *"
        return Slot(f"{self.name}_{what}", 0, parameters, arguments, body, text, fill, pointer=pointer, copied=copied)

    def finisher(self, loops: Mapping[str, Sequence[Expr]], result: Expr, accumulator: Expr, lane: Expr | None) -> Slot:
        """The slot that stores f(sum), where ``sum`` is one element or LANES neighbors along ``lane``."""
        names, lines = _numbered(loops, self.syntax)
        printer = self.printer(names, lane)
        value = _finished(printer, result, accumulator, lane)
        store = self.store_line(printer, self.record.address, value, lane, None)
        text = [*_used(lines, [*printer.lines, store]), *printer.lines, f"  {store}"]
        parameters, arguments = self.tile_interface(_NUMBERS, text)
        lanes = LANES if lane is not None else 1
        return Slot(
            f"{self.name}_finish", lanes, parameters, arguments, text, scalar=self.syntax.types[accumulator.dtype]
        )

    def finisher_apart(
        self, loops: Mapping[str, Sequence[Expr]], result: Expr, accumulator: Expr, lane: Expr | None
    ) -> Slot:
        """Separate slots to compute and store f(sum): where both use one buffer, loads would wait for stores."""
        names, lines = _numbered(loops, self.syntax)
        printer, storing = self.printer(names, lane), self.printer(names, lane)
        value = _finished(printer, result, accumulator, lane)
        store = self.store_line(storing, self.record.address, "value", lane, None)
        lanes, slots = LANES if lane is not None else 1, []
        for what, dtype, vector, text, last in (
            ("store", result.dtype, printer.stored_type(result), storing.lines, store),
            ("finish", accumulator.dtype, "ec_vf", printer.lines, value),
        ):
            parameters, arguments = self.tile_interface(_NUMBERS, [*_used(lines, [*text, last]), *text, last])
            body = [*_used(lines, [*text, last]), *text]
            scalar = self.syntax.types[dtype]
            slots.append(
                Slot(f"{self.name}_{what}", lanes, parameters, arguments, body, last, scalar=scalar, vector=vector)
            )
        return replace(slots[1], store=slots[0])


def _finished(printer: GpuPrinter, result: Expr, accumulator: Expr, lane: Expr | None) -> str:
    """The text of f(sum)."""
    accumulated = X.load("sum", (X.const(0) + lane,), "f32") if lane is not None else accumulator
    printer.define(accumulated, "sum")
    body = X.substitute(result, {accumulator: accumulated})
    return printer.to_store(body) if lane is not None else printer.value(body)


def _numbered(loops: Mapping[str, Sequence[Expr]], syntax: Syntax) -> tuple[dict[Expr, str], list[str]]:
    """(names of loops, lines that decode the numbers that templates index them by)."""
    names: dict[Expr, str] = {}
    lines: list[str] = []
    for number, variables in loops.items():
        mine, apart = numbered(variables, number, f"{number[0]}_", syntax=syntax)
        names |= mine
        lines += (f"  {line}" for line in apart)
    return names, lines


def _used(lines: Sequence[str], text: Sequence[str]) -> list[str]:
    """The lines that define loop variables which the text uses."""
    words = set(re.findall(r"[A-Za-z_]\w*", " ".join(text)))
    return [line for line in lines if line.split("=")[0].split()[-1] in words]

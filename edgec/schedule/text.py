"""Programs as text that reads back to an equal program, whose kernels give the same files to the byte."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

from edgec.fuse.text import complaint as of_plans
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.graph import Array
from edgec.ir.records.classes import Classes, reachable
from edgec.ir.records.reader import read
from edgec.ir.records.writer import Written, write
from edgec.ir.types import DTYPES
from edgec.schedule import build  # noqa: F401  (schedules are the classes that it imports)
from edgec.schedule.contract.contract import Contract
from edgec.schedule.contract.micro_kernel import is_known
from edgec.schedule.map import Map
from edgec.schedule.program import Buffer, Kernel, Program
from edgec.schedule.row import Row
from edgec.text import printable

#: Where a buffer can be.
_SPACES = ("input", "output", "weights", "arena")
#: Values that schedules name in their formulas: sums, and scores and rows of attention.
_NAMED = frozenset(("accumulator", "dot", "mixed"))


def complaint(record: object) -> str | None:
    """A sentence on what is wrong with a record out of a file, or None: names end in C, and must be plain words."""
    if isinstance(record, Buffer):
        data = record.data
        is_named = record.name.isidentifier() or record.space in ("input", "output")  # named as in the model
        is_sound = record.dtype in DTYPES and record.space in _SPACES and record.elements >= 0
        if not is_named or not is_sound or (data is not None and data.size != record.elements):
            return f"{printable(record.name)} is no buffer"
    elif type(record).__module__.startswith("edgec.schedule.") and not isinstance(record, (Kernel, Program)):
        words = [w for value in vars(record).values() for w in _strings(value)]
        wrong = [w for w in words if not re.fullmatch(r"\w*", w, re.ASCII)]
        if isinstance(record, Contract) and not is_known(record.micro_kernel):
            return f"there is no micro-kernel {printable(record.micro_kernel)}: name its folder with --micro-kernels"
        if wrong:
            return f"{printable(wrong[0])} is no plain word"
        if any(isinstance(e, Expr) and e.op != "var" for e in getattr(record, "loops", ())):
            return "loops are over variables"
        own = {"reduction": len(getattr(record, "reductions", ())), "sum": len(getattr(record, "factors", ()))}
        slots = [e.value for value in vars(record).values() for root in _expressions(value) for e in X.loads(root)]
        if any(isinstance(s, tuple) and s[1] not in range(own.get(s[0], 0)) for s in slots):
            return "a formula loads a reduction that is none of its row"
        if any(isinstance(s, str) and s not in _NAMED for s in slots):
            return "a formula loads what no schedule names"
        if isinstance(record, (Row, Map)):
            roots = [root for value in vars(record).values() for root in _expressions(value)]
            fields = (getattr(record, name, ()) for name in ("loops", "lane", "inside", "walk", "row"))
            walked = {e for value in fields for e in _expressions(value)}
            if any(X.free_variables(root) - walked for root in roots):
                return "a formula depends on a variable that no loop is over"
        return None
    return of_plans(record)


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _strings(item)


def _expressions(value: object) -> Iterator[Expr]:
    if isinstance(value, Expr):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _expressions(item)


@cache
def _classes() -> Classes:
    return reachable(Program)


def write_program(program: Program) -> Written:
    """The text of a program: its graph, then a paragraph for every buffer, block and kernel, then memory."""
    return write(program, _classes())


def read_program(text: str, constants: Mapping[str, Array]) -> Program:
    """The program that a text holds; raises ModelError with the number of the line for what is malformed."""
    found: Program = read(text, Program, _classes(), constants, complaint)
    return found

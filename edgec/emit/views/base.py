"""The part of a view that all templates use: name, operands, and the store of a result. No decision is made here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from edgec.emit.c_expression import Printer, extent_text
from edgec.emit.c_lanes import access
from edgec.emit.c_literal import STORAGE
from edgec.emit.c_text import advanced, size_name
from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.nest import coefficient
from edgec.ir.types import CODED
from edgec.schedule.program import Buffer, Kernel


@dataclass(frozen=True)
class Loop:
    """A loop as the template writes it."""

    name: str
    extent: Extent
    depth: int = 0
    step: int = 1

    @property
    def indent(self) -> str:
        return "  " * self.depth


def decoded(loops: Sequence[Loop], number: str) -> list[str]:
    """C that defines the variables of nested loops, outermost first, from the number of one of their iterations."""
    lines: list[str] = []
    below: Extent = 1
    for k, loop in reversed(list(enumerate(loops))):
        value = number if below == 1 else f"{number} / {extent_text(below)}"
        if k:
            value += f" % {extent_text(loop.extent)}"
        if loop.extent == 1:
            value = "0"
        elif loop.step != 1:
            value += f" * {loop.step}"
        lines.append(f"const ec_int {loop.name} = {value};")
        below = X.plain(below * loop.extent)
    return lines[::-1]


class View:
    """Names and parameters every kernel has."""

    panel_type = "const float *restrict "

    def __init__(self, kernel: Kernel, name: str, aliases: frozenset[Buffer]) -> None:
        self.kernel = kernel
        self.name = name
        self.buffers = list(kernel.operands)
        self.sizes = [size_name(s) for s in kernel.sizes]
        self.aliases = aliases  # operands that share memory with the result, on purpose
        self.pointers: dict[object, str] = {b: self.operand(f"p{k}") for k, b in enumerate(self.buffers[:-1])}
        self.target = self.operand("y")

    def operand(self, key: str) -> str:
        """The placeholder for the name of an operand, which the tensors of its calls give (`emit.operand_names`)."""
        return f"{self.name}_{key}"

    @property
    def task_loops(self) -> list[Loop]:
        """The loops whose iterations are the tasks, outermost first; none where the template decodes tasks itself."""
        return []

    @property
    def task(self) -> str:
        """The variable that counts tasks: that of the task loop where there is only one."""
        loops = self.task_loops
        return loops[0].name if len(loops) == 1 and loops[0].step == 1 and loops[0].extent != 1 else "task"

    @property
    def decoded(self) -> list[str]:
        """C that defines the variables of the task loops from the number of a task."""
        return decoded(self.task_loops, "task") if self.task == "task" else []

    @property
    def written(self) -> Sequence[Buffer]:
        """The operands that are written."""
        return self.buffers[-1:]

    @property
    def declarations(self) -> dict[str, str]:
        """The declaration of each operand as a parameter, by its name."""
        out = self.buffers[-1]
        declared = {
            self.pointers[b]: f"const {STORAGE[b.dtype]} *{'' if b in self.aliases else 'restrict '}"
            for b in self.buffers[:-1]
        }
        return {**declared, self.target: f"{STORAGE[out.dtype]} *{'' if self.aliases else 'restrict '}"}

    @property
    def parameters(self) -> str:
        return ", ".join(f"{kind}{name}" for name, kind in self.declarations.items())

    def declared(self, name: str) -> str:
        """The declaration of the kernel as a function of this name."""
        return f"void {name}({self.parameters}, {self.thread_parameters});"

    @property
    def last_arguments(self) -> tuple[str, ...]:
        """The arguments of a call after operands, scratch and sizes."""
        return ("thread", "threads")

    @property
    def arguments(self) -> str:
        """The names of the parameters of the kernel."""
        scratch = ["scratch_bytes"] if self.kernel.scratch_bytes else []
        return ", ".join([*self.declarations, *scratch, *self.sizes, *self.last_arguments])

    @property
    def shared_rounds(self) -> Extent | None:
        """The number of rounds that all threads share, with barriers between; None where threads share tasks.

        On one thread the kernel goes through all of them itself.
        """
        return None

    @property
    def round(self) -> str | None:
        """The function that does one round."""
        return None

    @property
    def merge(self) -> str | None:
        """The function that every thread calls, with the same arguments, when all have returned from the kernel.

        On one thread the kernel calls it itself.
        """
        return None

    @property
    def copied(self) -> str | None:
        """The operand that the kernel copies to where it may be already: a state that becomes its own new value."""
        copied = self.kernel.schedule.copied
        return self.pointers[copied] if copied is not None and copied in self.aliases else None

    def tile_interface(self, indices: Iterable[str], lines: Iterable[str]) -> tuple[str, str]:
        """Parameters and arguments of a tile function: the operands and indices its text uses, no others."""
        used = set(re.findall(r"[A-Za-z_]\w*", " ".join(lines)))
        known = {
            **self.declarations, "panel": self.panel_type, **dict.fromkeys((*indices, *self.sizes), "ec_int "),
            "count": "int ",
        }  # fmt: skip
        names = [name for name in known if name in used]
        return ", ".join(f"{known[n]}{n}" for n in names), ", ".join(names)

    @property
    def thread_parameters(self) -> str:
        scratch = "unsigned char *scratch_bytes, " if self.kernel.scratch_bytes else ""
        sizes = "".join(f"ec_int {s}, " for s in self.sizes)
        return f"{scratch}{sizes}ec_int thread, ec_int threads"

    @property
    def _store(self) -> str:
        """A float that is kept as bf16 between kernels need not be rounded as one that the model makes bf16."""
        block, out = self.kernel.block, self.buffers[-1]
        is_kept = out.dtype == "bf16" and block is not None and block.output.type.dtype == "f32"
        return "keep" if is_kept else "store"

    def store_line(self, printer: Printer, address: Expr, value: str, lane: Expr | None, count: str | None) -> str:
        out = self.buffers[-1]
        if lane is None:
            if out.dtype in CODED:
                return f"{self.target}[{printer.subscript(address)}] = ec_to_{out.dtype}({value});"
            return f"{self.target}[{printer.subscript(address)}] = {value};"
        place, stride = advanced(self.target, printer.position(address)), coefficient(address, lane)
        tail = f", {count}" if count else ""
        if stride == 1:
            return f"{access(self._store, out.dtype, count)}({place}, {value}{tail});"
        return f"{access('scatter', out.dtype, count)}({place}, {stride}, {value}{tail});"


class LoopedView(View):
    """A kernel whose outer loops are its tasks; every thread does its share of them."""

    @property
    def outer_variables(self) -> tuple[Expr, ...]:
        return self.kernel.schedule.task_loops

    @cached_property
    def outer_loops(self) -> dict[Expr, Loop]:
        return numbered(self.outer_variables)

    @property
    def outer(self) -> list[Loop]:
        return list(self.outer_loops.values())

    @property
    def outer_names(self) -> dict[Expr, str]:
        """The names of the outer loops in C."""
        return {v: d.name for v, d in self.outer_loops.items()}

    @property
    def task_loops(self) -> list[Loop]:
        return self.outer

    @property
    def tasks(self) -> Extent:
        return X.plain(prod(d.extent for d in self.task_loops))


def numbered(variables: Iterable[Expr], prefix: str = "o") -> dict[Expr, Loop]:
    """Loops with C names, in order."""
    return {v: Loop(f"{prefix}{k}", v.value.extent) for k, v in enumerate(variables)}

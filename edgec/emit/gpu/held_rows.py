"""View of reductions in CUDA whose threads hold their share of a row in registers: all passes over a row read it once.

Constants along the row are read before the kernel waits for those that write the row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from edgec.emit.gpu.loops import ReduceView
from edgec.emit.gpu.printer import GpuPrinter
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.schedule.gpu.kernel import LANES
from edgec.schedule.program import Buffer

#: Most steps of a thread along a row that it holds, and most elements of all loads.
ROUNDS, ALL = 8, 48
#: Registers of a multiprocessor, and those of a thread that its other work takes.
REGISTERS, OTHERS = 1 << 16, 40


@dataclass(frozen=True)
class Held:
    """A load whose values a thread holds in the array ``name``."""

    name: str
    load: Expr
    type: str
    before: list[str]  # lines before the loop that fills the array
    lines: list[str]  # lines inside it
    text: str

    @property
    def is_constant(self) -> bool:
        return isinstance(self.load.value, Buffer) and self.load.value.space == "weights"


class HeldReduceView(ReduceView):
    """A reduction; ``held`` is empty where a row is read pass by pass."""

    @property
    def rounds(self) -> int:
        """Steps of a thread along the row."""
        return -(-self.extent // (self.team * self.step)) if isinstance(self.extent, int) else 0

    @property
    def is_whole(self) -> bool:
        """Does every thread have an element in every round?"""
        return bool(self.extent == self.rounds * self.team * self.step)

    @property
    def held(self) -> Sequence[Held]:
        return self._held

    @cached_property
    def _held(self) -> list[Held]:
        p = self.params
        passes = len(p.reductions) + p.keeps_row
        is_open = not isinstance(p.results, int) or bool(self.size_lines)
        if is_open or p.wide or p.split > 1 or passes < 2 or not 0 < self.rounds <= ROUNDS:
            return []
        left = min(ALL, REGISTERS // (p.resident * self.threads) - OTHERS)
        found: list[Held] = []
        for load in self._candidates():
            size = self.rounds * (LANES if self.lane is not None else 1)
            if size > left:
                break
            left -= size
            printer = super()._printer(0, f"h{len(found)}_")
            inside = printer.enter(p.row, "j", 2)
            text = printer.vector(load) if self.lane is not None else printer.value(load)
            name, kind = f"held{len(found)}", "ec_vf" if self.lane is not None else "float"
            found.append(Held(name, load, kind, printer.lines, inside, text))
        return found

    def _candidates(self) -> list[Expr]:
        """Floats that are read along the row whatever a condition says: those of several passes, then constants."""
        p = self.params
        bodies = [*(body for _, body in p.reductions), *([p.result] if p.keeps_row else [])]
        counts = Counter(load for body in bodies for load in dict.fromkeys(_unconditional(body)))
        mine = [e for e in counts if isinstance(e.value, Buffer) and e.dtype == "f32" and p.row in X.free_variables(e)]
        again = [e for e in mine if counts[e] > 1 and e.value.space != "weights"]
        return [*again, *(e for e in mine if e.value.space == "weights")] if again else []

    def _printer(self, known: int, prefix: str) -> GpuPrinter:
        printer = super()._printer(known, prefix)
        for one in self.held:
            printer.define(one.load, f"{one.name}[round]")
        return printer

    @property
    def early(self) -> list[tuple[str, int]]:
        """Constants that are held need not be brought into L2."""
        pointers = {self.pointers[one.load.value] for one in self.held if one.is_constant}
        return [(pointer, size) for pointer, size in super().early if pointer not in pointers]


def _unconditional(e: Expr) -> Iterator[Expr]:
    """The loads of an expression outside the sides of selects, and outside positions and sums."""
    if e.op == "load":
        if not any(X.loads(a) for a in e.args):
            yield e
    elif e.op == "select":
        yield from _unconditional(e.args[0])
    elif e.op != "reduce":
        for a in e.args:
            yield from _unconditional(a)

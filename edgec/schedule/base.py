"""What every schedule says of itself: all that is known of a kernel outside its schedule, its view and its template."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.schedule.program import Buffer


class Record(ABC):
    """The decisions of one schedule about one kernel: a frozen dataclass. ``store`` is written, at ``address``."""

    template: ClassVar[str]
    store: Buffer
    address: Expr

    @property
    @abstractmethod
    def bodies(self) -> list[Expr]:
        """Everything that loads from buffers."""

    @property
    def at_store(self) -> list[Expr]:
        """Those bodies that are computed just before they are stored, for one place after the other."""
        return []

    @property
    def tables(self) -> list[Buffer]:
        """What is read beside what the bodies load."""
        return []

    @property
    def scratch_bytes(self) -> int:
        """Memory that each thread needs for itself; or all of them together, where scratch is shared."""
        return 0

    @property
    def shares_scratch(self) -> bool:
        """Is there one scratch, however many threads there are?"""
        return False

    @property
    def operands(self) -> tuple[Buffer, ...]:
        """Every buffer once, the result last."""
        loaded = [e.value for body in self.bodies for e in X.loads(body) if isinstance(e.value, Buffer)]
        return (*dict.fromkeys([*loaded, *self.tables]), self.store)

    def overwrites(self, operand: Buffer) -> bool:
        """May the result lie where ``operand`` does: is each element read only just before its place is written?"""
        last = self.at_store
        loads = [(body, e) for body in self.bodies for e in X.loads(body) if e.value is operand]
        if not last or operand in self.tables or any(body not in last for body, _ in loads):
            return False
        for body in last:
            outside = X.transform(body, lambda e: X.const(0.0, e.dtype) if e.op == "reduce" else None)
            reads = [e for e in X.loads(body) if e.value is operand]
            direct = [e for e in X.loads(outside) if e.value is operand]
            if len(reads) != len(direct) or any(e.args[0] is not self.address for e in reads):
                return False
        return True

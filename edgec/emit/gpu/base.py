"""Views of GPU kernels: launch sizes, parameters, and indices decoded into loop variables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from math import prod

from edgec.emit.c_expression import extent_text
from edgec.emit.c_text import size_name
from edgec.emit.gpu.printer import CudaPrinter, GpuPrinter
from edgec.emit.syntax import C_SYNTAX, Syntax
from edgec.emit.views.base import View
from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.extent import sizes
from edgec.ir.index import upper
from edgec.ir.nest import extent
from edgec.schedule.gpu.kernel import LANES, GpuKernel
from edgec.schedule.gpu.loops import GROUP, GpuMap, GpuReduce
from edgec.schedule.program import Buffer


class GpuView(View, ABC):
    """A CUDA kernel; views of other languages override the parts that differ.

    ``qualifier`` begins the type of a pointer to device memory.
    """

    language = "cuda"
    syntax = C_SYNTAX
    qualifier = ""
    lanes = LANES
    is_part = False  # of a launch that it shares with others: a device function of the number of a thread block

    @property
    def head(self) -> str:
        """The function up to its body."""
        if self.is_part:
            return f"EC_DEVICE void {self.name}(const ec_int group, {self.kernel_parameters})"
        return f"{self.bounded} {self.name}({self.kernel_parameters})"

    @property
    def bounded(self) -> str:
        """The declaration of a kernel with the registers that its threads may have."""
        blocks = self.resident
        return f"EC_KERNEL({self.threads})" if blocks == 1 else f"EC_KERNEL_BESIDE({self.threads}, {blocks})"

    @property
    def resident(self) -> int:
        """Thread blocks that a multiprocessor has registers for."""
        return 1

    @property
    def group_number(self) -> str:
        """The number of a thread block."""
        return "group" if self.is_part else "ec_group()"

    @property
    def record(self) -> GpuKernel:
        record = self.kernel.schedule
        assert isinstance(record, GpuKernel)
        return record

    @property
    def threads(self) -> int:
        """Threads of one block."""
        return GROUP

    @property
    def cluster(self) -> int:
        """Neighboring thread blocks that form a cluster."""
        return 1

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of one thread block."""
        return 0

    @property
    @abstractmethod
    def groups(self) -> Extent:
        """Thread blocks of one launch."""

    @property
    def locks(self) -> int:
        """Counters that thread blocks of the launch synchronize by."""
        return self.record.locks

    @property
    def _store(self) -> str:
        return "store"

    def operand(self, key: str) -> str:
        return key

    @property
    def grid(self) -> Extent:
        """The thread blocks that the host launches: enough for the greatest sizes where it does not know them."""
        groups = self.groups
        unknown = isinstance(groups, Expr) and not self.kernel.read_sizes.keys().isdisjoint(sizes(groups))
        return upper(groups) if unknown else groups

    @property
    def launches(self) -> tuple[tuple[str, Extent], ...]:
        """(suffix of the kernel's name, number of thread blocks) of each launch, in order."""
        return (("", self.grid),)

    @property
    def local_bytes(self) -> int:
        """Memory that one thread block shares, where the host has to know it."""
        return 0

    @property
    def prologue(self) -> list[str]:
        """The first statements of the kernel."""
        early = [f"ec_prefetch({pointer}, {size});" for pointer, size in self.early]
        return [*early, "ec_wait();", *["ec_let_next();"] * self.starts_next, *self.size_lines]

    @property
    def starts_next(self) -> bool:
        """May the next kernel start to wait while this one runs?"""
        record = self.record
        return isinstance(record, (GpuMap, GpuReduce)) and record.starts_next

    @property
    def size_lines(self) -> list[str]:
        """Statements that read computed sizes, clamped to the range for which memory was planned."""
        return [*self.given_size_lines, *self.computed_size_lines]

    @property
    def given_size_lines(self) -> list[str]:
        """Those of sizes that are inputs of the network: they may be read before earlier kernels end."""
        return self._size_lines(lambda buffer: buffer.space == "input")

    @property
    def computed_size_lines(self) -> list[str]:
        return self._size_lines(lambda buffer: buffer.space != "input")

    def _size_lines(self, reads: Callable[[Buffer], bool]) -> list[str]:
        found = []
        for s, buffer in self.kernel.read_sizes.items():
            if not reads(buffer):
                continue
            value = f"ec_max_int({s.value.low}, ec_min_int({s.value.high}, (ec_int)*{self.pointers[buffer]}))"
            found += [f"const ec_int {size_name(s)} = {value};", f"(void){size_name(s)};"]
        return found

    @property
    def early(self) -> list[tuple[str, int]]:
        """Pointers to constants of the kernel itself, and the bytes of each to be brought into L2."""
        return self.prefetched([(buffer, buffer.bytes // 16 * 16) for buffer in self.record.early])

    def prefetched(self, prefetch: Sequence[tuple[Buffer, int]]) -> list[tuple[str, int]]:
        """Pointers to weights of the next kernel, and the bytes of each to be brought into L2."""
        return [(self.pointers[buffer], size) for buffer, size in prefetch]

    @property
    def given_sizes(self) -> list[str]:
        """The sizes that the host passes."""
        return [size_name(s) for s in self.kernel.sizes if s not in self.kernel.read_sizes]

    def scratch_as(self, element: str) -> str:
        """The kernel's scratch memory as a pointer to elements of a type."""
        return f"({element} *)(void *)scratch_bytes"

    @property
    def declarations(self) -> dict[str, str]:
        """Pointers as parameters; the compiler may move loads of what is constant to before ``ec_wait``."""
        found = super().declarations
        if self.language == "cuda":
            earlier = [self.pointers[b] for b in self.buffers[:-1] if b.space not in ("weights", "input")]
            found |= {name: found[name].replace(" *restrict ", " *EC_WAITED ") for name in earlier}
        return {name: f"{self.qualifier}{kind}" for name, kind in found.items()}

    @property
    def kernel_parameters(self) -> str:
        """Operands, scratch memory, run-time sizes and counters."""
        more = [f"{self.qualifier}unsigned char *scratch_bytes"] if self.kernel.scratch_bytes else []
        more += [f"ec_int {s}" for s in self.given_sizes]
        more += [f"{self.qualifier}int *locks"] if self.locks else []
        return ", ".join([self.parameters, *more])

    @property
    def last_arguments(self) -> tuple[str, ...]:
        return ("locks",) if self.locks else ()

    def declared(self, name: str) -> str:
        return f"{self.bounded} {name}({self.kernel_parameters});"

    def printer(self, names: dict[Expr, str], lane: Expr | None = None, depth: int = 1) -> GpuPrinter:
        printer = CudaPrinter(names, self.pointers, lane, depth=depth)
        printer.coarse = self.record.coarse
        return printer


def numbered(
    variables: Sequence[Expr], number: str, prefix: str, step: int = 1, syntax: Syntax = C_SYNTAX
) -> tuple[dict[Expr, str], list[str]]:
    """(names, lines) that decode one number into loops, outermost first; the innermost goes in steps of ``step``.

    The variable of a single loop is the number itself.
    """
    loops = [v for v in variables if v.op == "var"]
    if len(loops) == 1 and step == 1:
        return {loops[0]: number}, []
    names: dict[Expr, str] = {}
    lines: list[str] = []
    below: Extent = 1
    for k, v in reversed(list(enumerate(loops))):
        each = step if k == len(loops) - 1 else 1
        own = X.plain(extent(v) // each)
        value = number if below == 1 else f"{number} / {extent_text(below)}"
        if own == 1:
            value = "0"
        elif k:
            value += f" % {extent_text(own)}"
        names[v] = f"{prefix}{k}"
        value = f"{value} * {each}" if each > 1 and own != 1 else value
        lines.append(syntax.constant(syntax.position, names[v], value))
        below = X.plain(below * own)
    return names, lines


def count(variables: Sequence[Expr]) -> Extent:
    """The number of iterations of nested loops."""
    return X.plain(prod(extent(v) for v in variables))

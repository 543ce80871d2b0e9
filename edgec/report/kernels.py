"""Kernels of a program: the nodes that one computes, its template and its cost; and the largest of them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.markup import escape

from edgec.fuse import Block
from edgec.fuse.cost_model import work
from edgec.report import traffic
from edgec.report.record import Record
from edgec.report.terminal import number, size, table
from edgec.schedule.program import Kernel, Program
from edgec.text import printable

#: Number of kernels that a build names as its largest.
LARGEST = 5


def kernel_record(kernel: Kernel) -> Record:
    """The operators and ONNX nodes of a kernel, and its template in words."""
    operators = list(dict.fromkeys(n.op for b in blocks_of(kernel) for n in b.nodes)) or ["border"]
    names = [printable(name) for name in kernel.names]
    return {"operators": operators, "nodes": names, "template": kernel.describe}


def blocks_of(kernel: Kernel) -> list[Block]:
    """The blocks that a kernel computes: several in a chain, none in a border."""
    return [s.block for s in kernel.steps if s.block is not None]


def kernel_cost(kernel: Kernel) -> Record:
    """FLOPs, each value computed once for the loops it depends on; bytes read and written, each element once."""
    moved = traffic.of_kernel(kernel)
    flops = int(sum(work(b) for b in blocks_of(kernel)))
    return {"flops": flops, "bytes_read": moved.read, "bytes_written": moved.written}


def largest(program: Program) -> list[Record]:
    """The kernels with the most arithmetic, most first."""
    rows = [(k, kernel_cost(kernel), kernel) for k, kernel in enumerate(program.kernels)]
    rows.sort(key=lambda row: (-row[1]["flops"], -row[1]["bytes_read"], row[0]))
    return [{"kernel": k, **kernel_record(kernel), **cost} for k, cost, kernel in rows[:LARGEST]]


def draw_largest(rows: Sequence[Record]) -> RenderableType:
    """The rows of `largest` as a table."""
    drawn = table(">kernel", "template", "operators", ">FLOPs", ">bytes", title="Largest kernels")
    for k in rows:
        moved = size(k["bytes_read"] + k["bytes_written"])
        main = k["template"].split(", then ")[-1]  # of a chain, the step that computes the result
        template, operators = escape(main.split(",")[0]), " ".join(k["operators"][:4])
        drawn.add_row(str(k["kernel"]), template, operators, number(k["flops"]), moved)
    return drawn

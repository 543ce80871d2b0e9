"""The byte ledger: bytes that each kernel of a plan moves, and the least that any plan moves."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.markup import escape

from edgec.fuse import Plan
from edgec.pipeline import Run
from edgec.report import traffic
from edgec.report.kernels import kernel_cost, kernel_record
from edgec.report.record import Record
from edgec.report.terminal import size, table


def bytes_moved(plan: Plan) -> Record:
    """Bytes that a whole plan reads and writes, and the least that any plan of its graph moves."""
    moved, bound = traffic.of_plan(plan), traffic.least(plan)
    return {"read": moved.read, "written": moved.written, "lower_bound": bound.together}


def record(run: Run) -> Record:
    """The same with the bytes that the unfused graph moves, and kernel by kernel."""
    plan: Plan = run["fuse"]
    kernels = [
        {"kernel": k, **kernel_record(kernel), **kernel_cost(kernel)}
        for k, kernel in enumerate(run["schedule"].kernels)
    ]
    return {**bytes_moved(plan), "unfused": traffic.unfused(run.graph).together, "kernels": kernels}


def draw(ledger: Record) -> RenderableType:
    """The byte ledger: every kernel, and the sums."""
    drawn = table(">kernel", "operators", ">reads", ">writes", title="Bytes, every element once a kernel")
    for k in ledger["kernels"]:
        cells = (escape(" ".join(k["operators"][:6])), size(k["bytes_read"]), size(k["bytes_written"]))
        drawn.add_row(str(k["kernel"]), *cells)
    together = ledger["read"] + ledger["written"]
    beside = f"unfused {size(ledger['unfused'])}, {ledger['unfused'] / max(together, 1):.2f} times as much"
    return Group(drawn, f"together {size(together)}; {beside}; no plan moves less than {size(ledger['lower_bound'])}")

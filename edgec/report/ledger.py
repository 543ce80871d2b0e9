"""The byte ledger: bytes that each kernel of a plan moves, the least that any plan moves, and what a GPU counts."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.markup import escape

from edgec.bench import counters
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


def with_counted(ledger: Record, launches: Sequence[counters.Counted], prefetched: int) -> Record:
    """The ledger with what a GPU counted: the sums, and kernel by kernel where each was one launch.

    ``prefetched`` are bytes of weights that kernels read for later ones.
    """
    sums = {"read": sum(c.read for c in launches), "written": sum(c.written for c in launches)}
    kernels = ledger["kernels"]
    if len(launches) == len(kernels):
        kernels = [k | {"counted_read": c.read, "counted_written": c.written} for k, c in zip(kernels, launches)]
    return ledger | {"kernels": kernels, "counted": {**sums, "prefetched": prefetched, "launches": len(launches)}}


def draw(ledger: Record) -> RenderableType:
    """The byte ledger: every kernel, and the sums."""
    counted = ledger.get("counted")
    by_kernel = counted is not None and "counted_read" in (ledger["kernels"] or [{}])[0]
    more = (">counted reads", ">writes") if by_kernel else ()
    drawn = table(">kernel", "operators", ">reads", ">writes", *more, title="Bytes, every element once a kernel")
    for k in ledger["kernels"]:
        cells = [escape(" ".join(k["operators"][:6])), size(k["bytes_read"]), size(k["bytes_written"])]
        cells += [size(k["counted_read"]), size(k["counted_written"])] if by_kernel else []
        drawn.add_row(str(k["kernel"]), *cells)
    together = ledger["read"] + ledger["written"]
    beside = f"unfused {size(ledger['unfused'])}, {ledger['unfused'] / max(together, 1):.2f} times as much"
    lines = [f"together {size(together)}; {beside}; no plan moves less than {size(ledger['lower_bound'])}"]
    if counted is not None:
        found = counted["read"] + counted["written"] - counted["prefetched"]
        said = (
            f"counted by the GPU {size(found)}, {found / max(together, 1):.2f} of it, in {counted['launches']} launches"
        )
        ahead = f" without {size(counted['prefetched'])} that were fetched ahead" if counted["prefetched"] else ""
        lines.append(said + ahead)
    return Group(drawn, *lines)

"""Resources of a GPU that its kernels need: registers, memory, occupancy; and their share of its roofline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import RenderableType
from rich.markup import escape

from edgec.device.cuda import KernelReport
from edgec.device.device import Device
from edgec.device.occupancy import occupancy
from edgec.emit.gpu.base import GpuView
from edgec.emit.source import CallSite
from edgec.fuse.cost_model import CostModel, work
from edgec.ir.footprint import footprint
from edgec.ir.index import upper
from edgec.ir.types import DTYPES
from edgec.report.record import Record
from edgec.report.terminal import duration, number, size, table
from edgec.schedule.program import Kernel, Program


def launch(call: CallSite, program: Program, device: Device, said: Mapping[str, KernelReport]) -> Record | None:
    """One kernel's launch on ``device``; None on a processor. ``said`` is what the compiler says, by function.

    ``bound_us`` is the least time that the roofs allow: arithmetic of floats, or of tensor cores where they multiply,
    and bytes of memory, each element once.
    """
    if not isinstance(call.view, GpuView):
        return None
    kernel, view = call.kernel, call.view
    report = said.get(call.function.name)
    shared = view.shared_bytes + (report.shared_bytes if report is not None else 0)
    flops = sum(work(b) for b in [kernel.block] if b is not None)
    moved = bytes_of(kernel, program)
    return {
        "groups": upper(view.groups),
        "threads": view.threads,
        "registers": report.registers if report is not None else None,
        "shared_bytes": shared,
        "spill_bytes": report.spill_bytes if report is not None else None,
        "occupancy": occupancy(device, view.threads, report.registers, shared) if report is not None else None,
        "flops": int(flops),
        "bytes": moved,
        "predicted_us": predicted(kernel, device) * 1e6,
        "bound_us": bound(kernel, flops, moved, device) * 1e6,
    }


def bytes_of(kernel: Kernel, program: Program) -> int:
    """Bytes a launch moves, each element once, as it lies in memory; of a table no more than is looked up."""
    block = kernel.block
    if block is None:
        return kernel.weights_bytes + kernel.writes.bytes
    read = {n: n.type.elements for n in block.inputs} if block.is_procedure else footprint(block.formula)
    constants = [n for n in read if n.is_const]
    total = kernel.weights_bytes
    if constants:
        total = total * sum(read[n] for n in constants) // max(sum(n.type.elements for n in constants), 1)
    for node, elements in read.items():
        view = program.views.get(node)
        if view is not None and not node.is_const:
            total += int(elements) * DTYPES[view.buffer.dtype].itemsize
    return total + block.output.type.elements * DTYPES[kernel.writes.dtype].itemsize


def predicted(kernel: Kernel, device: Device) -> float:
    """Seconds by the models that schedules are chosen with."""
    seconds = kernel.schedule.predicted_seconds(device)
    if seconds is not None:
        return seconds
    return CostModel(device)(kernel.block) if kernel.block is not None else 0.0


def bound(kernel: Kernel, flops: float, moved: int, device: Device) -> float:
    """Seconds that arithmetic or memory take at the least."""
    rate = kernel.schedule.multiply_adds(device)
    peak = 2.0 * device.gpu.multiprocessors * rate * device.gpu.clock_mhz * 1e6
    return max(flops / peak if peak else 0.0, moved / (device.gpu.memory_gbps * 1e9) if device.gpu.memory_gbps else 0.0)


def totals(rows: Sequence[Record]) -> Record:
    """The largest of every resource, the sums of times, and how many kernels spill."""
    known = [r for r in rows if r["registers"] is not None]
    return {
        "kernels": len(rows),
        "functions": len(known),
        "registers": max((r["registers"] for r in known), default=None),
        "shared_bytes": max((r["shared_bytes"] for r in rows), default=0),
        "spilling": sum(bool(r["spill_bytes"]) for r in known),
        "predicted_us": sum(r["predicted_us"] for r in rows),
        "bound_us": sum(r["bound_us"] for r in rows),
    }


def draw(rows: Sequence[Record]) -> RenderableType:
    """A line a kernel; ``rows`` are kernels of a report that have a ``launch``."""
    drawn = table(
        ">kernel", "template", ">groups x threads", ">regs", ">shared", ">spills", ">occupancy", ">FLOPs", ">bytes",
        ">predicted", ">measured", ">of roof", title="What kernels take of the GPU",
    )  # fmt: skip
    for row in rows:
        g, us = row["launch"], row.get("measured_us")
        time = us or g["predicted_us"]
        drawn.add_row(
            str(row["kernel"]), escape(row["template"].split(",")[0]), f"{g['groups']} x {g['threads']}",
            _known(g["registers"]), size(g["shared_bytes"]), _known(g["spill_bytes"]),
            "" if g["occupancy"] is None else f"{g['occupancy']:.0%}", number(g["flops"]), size(g["bytes"]),
            duration(g["predicted_us"] / 1e3), "" if us is None else duration(us / 1e3),
            f"{g['bound_us'] / time:.0%}" if time else "",
        )  # fmt: skip
    return drawn


def _known(value: int | None) -> str:
    return "" if value is None else str(value)

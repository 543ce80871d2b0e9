"""The parts of a network on a device with a CPU and a GPU: the processor of each, its times and its transfers."""

from __future__ import annotations

from rich.console import RenderableType
from rich.markup import escape
from rich.text import Text

from edgec.build import Built
from edgec.partition import Assignment
from edgec.partition.cut import NEVER
from edgec.report.record import Record
from edgec.report.terminal import size, table

#: Refusals that a terminal shows.
LARGEST = 8


def record(built: Built) -> Record | None:
    """The partition of a build between two devices; None with one device."""
    assignment = built.stages.assignment
    if assignment is None:
        return None
    graph = built.graph
    parts = built.program.parts
    blocks = [
        {
            "operators": list(dict.fromkeys(name for n in p.block.nodes for name in graph.names(n))),
            "kind": p.block.kind,
            "side": p.side,
            "cpu_ms": p.cpu_seconds * 1e3,
            "gpu_ms": p.gpu_seconds * 1e3 if p.gpu_seconds < NEVER else None,
            "refused": p.refused or None,
        }
        for p in assignment.blocks
    ]
    return {
        "devices": dict(assignment.names),
        "predicted_ms": assignment.seconds * 1e3,
        "cpu_alone_ms": sum(p.cpu_seconds for p in assignment.blocks) * 1e3,
        "gpu_alone_ms": _gpu_alone(assignment),
        "undivided": assignment.whole or None,
        "transfers": [
            {
                "value": ", ".join(graph.names(t.value)) or str(dict(t.value.attrs).get("name", t.value.op)),
                "to": t.to,
                "bytes": t.value.type.bytes,
                "predicted_ms": t.seconds * 1e3,
            }
            for t in assignment.transfers
        ],
        "parts": [
            {
                "device": part.device.name,
                "side": "gpu" if part.device.is_gpu else "cpu",
                "kernels": len(part.program.kernels),
                "first": next((n for k in part.program.kernels for n in k.names), None),
                "last": next((n for k in reversed(part.program.kernels) for n in reversed(k.names)), None),
                "bytes_in": sum(v.type.bytes for v in part.reads),
                "bytes_out": sum(v.type.bytes for v in part.writes),
            }
            for part in parts
        ],
        "blocks": blocks,
    }


def _gpu_alone(assignment: Assignment) -> float | None:
    """Predicted milliseconds of all kernels on the GPU; None where some have to run on the processor."""
    seconds = sum(p.gpu_seconds for p in assignment.blocks)
    return seconds * 1e3 if seconds < NEVER else None


def draw(found: Record) -> list[RenderableType]:
    """The parts, what they were predicted to take beside the alternatives, and what had to stay on the processor."""
    alone = f"{found['gpu_alone_ms']:.3g}" if found["gpu_alone_ms"] is not None else "not possible"
    sides = {b["side"] for b in found["blocks"]}
    drawn: list[RenderableType] = []
    title = "BufferAlias"
    if found["parts"]:
        parts = table(">part", "device", ">kernels", "from", "to", ">in", ">out", title=title)
        for k, p in enumerate(found["parts"]):
            ends = (escape(p["first"] or ""), escape(p["last"] or ""))
            parts.add_row(str(k), p["device"], str(p["kernels"]), *ends, size(p["bytes_in"]), size(p["bytes_out"]))
        drawn.append(parts)
    else:
        only = "gpu" if "gpu" in sides else "cpu"
        why = f": {found['undivided']}" if found["undivided"] else ""
        drawn.append(f"BufferAlias: all of it on {found['devices'][only]}{escape(why)}")
    count = len(found["transfers"])
    copied = sum(t["predicted_ms"] for t in found["transfers"])
    cpu, gpu = found["devices"]["cpu"], found["devices"]["gpu"]
    drawn.append(
        f"predicted {found['predicted_ms']:.3g} ms, {copied:.3g} of it for {count} transfer{'s' * (count != 1)}; "
        f"{cpu} alone {found['cpu_alone_ms']:.3g}, {gpu} alone {alone} (kernels only)"
    )
    refused = [b for b in found["blocks"] if b["refused"]]
    for b in refused[:LARGEST]:
        name = b["operators"][0] if b["operators"] else b["kind"]
        drawn.append(Text(f"not on {gpu}: {name}: {b['refused']}", style="yellow"))
    if len(refused) > LARGEST:
        drawn.append(Text(f"and {len(refused) - LARGEST} more (--json has all)", style="yellow"))
    return drawn

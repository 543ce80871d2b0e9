"""Divided networks: who computes what, what crosses, predicted and measured times, and links that were measured."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from edgec.distribute.bench import Measured
from edgec.distribute.check import CheckedOver
from edgec.distribute.manifest import Manifest
from edgec.distribute.places import Place, Speed
from edgec.report.check import cost_text
from edgec.report.record import Record, head
from edgec.report.terminal import duration, error_text, size, table, verdict


def record(folder: Path, manifest: Manifest, without_c: str = "") -> Record:
    """A divided network as it was built: times in milliseconds, links in millions of bits a second.

    ``without_c`` is the reason why there is no C beside the parts, where there is none.
    """
    m = manifest
    workers = [
        {**_speed(Place(w.device, w.link), w.speed), "worker": k,
         "arena_bytes": sum(p.arena_bytes for p in m.parts if p.worker == k),
         "weights_bytes": sum(p.weights_bytes for p in m.parts if p.worker == k)}
        for k, w in enumerate(m.workers)
    ]  # fmt: skip
    parts = [
        {"folder": p.folder, "worker": p.worker, "ms": p.seconds * 1e3,
         "bytes_in": sum(r.bytes(m.tensors[r.tensor].dtype, m.tensors[r.tensor].shape) for r in p.reads),
         "bytes_out": sum(m.tensors[n].bytes for n in p.writes)}
        for p in m.parts
    ]  # fmt: skip
    tried = [{"split": t["split"], "workers": t["workers"], **_times(t["latency_s"], t["period_s"])} for t in m.tried]
    return {
        **head("build"), "folder": str(folder), "split": m.split, "goal": m.goal, "verdict": m.verdict,
        **_times(m.latency_s, m.period_s), "alone_ms": m.alone_s * 1e3, "bytes_a_frame": m.bytes_a_frame,
        "kernels_measured": m.measured, "workers": workers, "parts": parts, "tried": tried,
        "panels": {name: len(own) for name, own in m.panels.items()}, "without_c": without_c,
    }  # fmt: skip


def _times(latency_s: float, period_s: float) -> Record:
    return {"latency_ms": latency_s * 1e3, "frames_per_second": 1 / period_s if period_s > 0 else None}


def _speed(place: Place, speed: Speed) -> Record:
    return {
        "device": place.device,
        "link": place.link,
        "megabits_per_second": speed.bytes_per_s * 8e-6,
        "latency_us": speed.latency_s * 1e6,
    }


def draw(found: Record) -> RenderableType:
    """The verdict, every part with its worker, and what else was tried."""
    drawn = table(">part", "worker", ">computes", ">reads", ">gives")
    for p in found["parts"]:
        w = found["workers"][p["worker"]]
        where = escape(f"{p['worker']} {w['device']}@{w['link']}")
        drawn.add_row(p["folder"], where, duration(p["ms"]), size(p["bytes_in"]), size(p["bytes_out"]))
    how = "from measured kernels" if found["kernels_measured"] else "predicted"
    parts: list[RenderableType] = [
        f"{escape(found['folder'])}: {found['split']}, for {found['goal']}",
        escape(found["verdict"]),
        drawn,
        f"{how}: {duration(found['latency_ms'])} a frame, {_rate(found['frames_per_second'])}, "
        f"{size(found['bytes_a_frame'])} cross; one device alone {duration(found['alone_ms'])}",
    ]
    if found["tried"]:
        others = table("tried", ">devices", ">a frame", ">frames a second")
        for t in found["tried"]:
            rate = _rate(t["frames_per_second"])
            others.add_row(t["split"], str(t["workers"]), duration(t["latency_ms"]), rate)
        parts.append(others)
    if found["without_c"]:
        parts.append(escape(f"no host and workers in C: {found['without_c']}"))
    return Group(*parts)


def _rate(frames: float | None) -> str:
    return "-" if frames is None else f"{frames:.3g} frames/s"


def bench_record(manifest: Manifest, measured: Measured) -> Record:
    """Measured figures beside those that were predicted; ``ratio`` is one device alone over the time between frames.

    Predicted memory is that of weights and arenas; Python and messages take more.
    """
    m, t = manifest, measured.timing
    return {
        **head("bench"), "split": m.split, "goal": m.goal, "median_ms": t.median_ms, "p10_ms": t.p10_ms,
        "p90_ms": t.p90_ms, "calls": t.calls, "frames_per_second": measured.frames_per_second,
        "frames": measured.frames, "bytes_a_frame": measured.bytes_a_frame,
        "predicted_latency_ms": m.latency_s * 1e3,
        "predicted_frames_per_second": 1 / m.period_s if m.period_s > 0 else None,
        "predicted_bytes_a_frame": m.bytes_a_frame, "alone_ms": m.alone_s * 1e3,
        "ratio": m.alone_s * measured.frames_per_second,
        "workers": [
            {"worker": k, "device": w.device, "link": w.link, "resident_bytes": measured.memory[k],
             "predicted_bytes": sum(p.arena_bytes + p.weights_bytes for p in m.parts if p.worker == k)}
            for k, w in enumerate(m.workers)
        ],
    }  # fmt: skip


def draw_bench(found: Record) -> RenderableType:
    """Measured and predicted figures side by side, and the memory of every worker."""
    drawn = table("", ">measured", ">predicted")
    drawn.add_row("a frame", duration(found["median_ms"]), duration(found["predicted_latency_ms"]))
    drawn.add_row("stream", _rate(found["frames_per_second"]), _rate(found["predicted_frames_per_second"]))
    drawn.add_row("bytes a frame", size(found["bytes_a_frame"]), size(found["predicted_bytes_a_frame"]))
    for w in found["workers"]:
        drawn.add_row(escape(f"memory of worker {w['worker']}"), size(w["resident_bytes"]), size(w["predicted_bytes"]))
    devices = len(found["workers"])
    said = f"{found['split']} on {devices} device{'s' if devices > 1 else ''}: {found['ratio']:.2f}x the frames of one"
    return Group(drawn, f"[bold]{said}[/] ({duration(found['alone_ms'])} when it was built)")


def check_record(checked: CheckedOver, devices: int) -> Record:
    """The worst difference of every output."""
    outputs = [
        {"name": o.name, "max_abs": o.max_abs, "max_rel": o.max_rel, "ok": o.within(checked.tolerance),
         "mismatches": o.mismatches, "note": o.note}
        for o in checked.outputs
    ]  # fmt: skip
    return {
        **head("check"), "ok": checked.ok, "reference": checked.reference, "samples": checked.samples,
        "tolerance": checked.tolerance, "devices": devices, "outputs": outputs, "floats": checked.floats,
        "compression": [{"name": d.name, "max_abs": d.max_abs, "max_rel": d.max_rel} for d in checked.compression],
    }  # fmt: skip


def draw_check(found: Record) -> RenderableType:
    """The verdict, and a line for every output."""
    drawn = table("output", ">max |d|", ">relative", "")
    for o in found["outputs"]:
        drawn.add_row(escape(o["name"]), error_text(o["max_abs"]), error_text(o["max_rel"]), escape(o["note"]))
    said = f"{found['samples']} samples on {found['devices']} devices beside {escape(found['reference'])}, "
    costs = [Text(cost_text(d, found["floats"])) for d in found["compression"]]
    return Group(verdict(found["ok"]), f"{said}tolerance {found['tolerance']:.0e}", drawn, *costs)


def links_record(links: Iterable[tuple[Place, Speed]]) -> Record:
    """Speeds of links that were measured."""
    return {**head("device probe"), "links": [_speed(place, speed) for place, speed in links]}


def draw_links(found: Record) -> RenderableType:
    """A line for every link."""
    drawn = table("device", "link", ">bandwidth", ">latency")
    for k in found["links"]:
        bandwidth = f"{k['megabits_per_second']:.4g} Mbit/s"
        drawn.add_row(escape(k["device"]), escape(k["link"]), bandwidth, duration(k["latency_us"] / 1e3))
    return drawn

"""Times of a network, as a whole and kernel by kernel, and those of a peer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Group, RenderableType
from rich.markup import escape

from edgec.bench.timing import Benched
from edgec.report.record import Record, head
from edgec.report.terminal import duration, table
from edgec.text import counted


def record(benched: Benched, device: str) -> Record:
    """Times in milliseconds; ``ratio`` is the time of edgec divided by the peer's."""
    peer = benched.peer_timing
    return {
        **head("bench"),
        "device": device,
        **asdict(benched.timing),
        "threads": benched.threads,
        "pinned": benched.pinned,
        "rounds": benched.rounds,
        "peer": {"name": benched.peer, **asdict(peer)} if peer is not None else None,
        "ratio": benched.ratio,
        "max_rel": benched.max_rel,
        "link": benched.link,
        "kernels": [{"kernel": k, "name": name, "ms": ms} for k, (name, ms) in enumerate(benched.kernels)],
    }


def draw(found: Record) -> RenderableType:
    """Median and percentiles of edgec and its peer, and the slowest kernels."""
    drawn = table("", ">median", ">10 %", ">90 %", ">calls")
    figures = [("edgec", found), *([(found["peer"]["name"], found["peer"])] if found["peer"] else [])]
    for name, t in figures:
        times = (duration(t[key]) for key in ("median_ms", "p10_ms", "p90_ms"))
        drawn.add_row(name, *times, str(t["calls"]))
    pinned = ", pinned" if found["pinned"] else ""
    where = f" over {found['link']}" if found["link"] else f"{pinned}, {found['rounds']} rounds in turns"
    parts: list[RenderableType] = [f"{counted(found['threads'], 'thread')}{where}", drawn]
    if found["kernels"]:
        parts += ["", _draw_slowest(found["kernels"])]
    if found["ratio"] is not None:
        word = "faster" if found["ratio"] < 1 else "slower"
        factor = 1 / found["ratio"] if found["ratio"] < 1 else found["ratio"]
        peer, far = found["peer"]["name"], found["max_rel"]
        parts.append(f"[bold]{factor:.2f}x {word}[/] than {peer}; largest difference {far:.1e}")
    return Group(*parts)


def _draw_slowest(kernels: Sequence[Record], most: int = 10) -> RenderableType:
    """The kernels that took the most time."""
    whole = sum(k["ms"] for k in kernels) or 1.0
    drawn = table(">kernel", ">time", ">share", "computes", title=f"{counted(len(kernels), 'kernel')}, the slowest")
    for k in sorted(kernels, key=lambda k: -k["ms"])[:most]:
        drawn.add_row(str(k["kernel"]), duration(k["ms"]), f"{k['ms'] / whole:.0%}", escape(k["name"]))
    return drawn

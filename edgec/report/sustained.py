"""A network at work for minutes, as a record, a table and a page with a chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Group, RenderableType
from rich.markup import escape

from edgec import files
from edgec.bench.sustained import Sustained
from edgec.report.page import sustained_page
from edgec.report.record import Record, finite, head
from edgec.report.terminal import duration, table
from edgec.text import counted

#: Pixels of a chart.
WIDTH, HEIGHT, MARGIN = 720, 160, 56
#: What a chart is of, with its unit.
CHARTS = (
    ("median_ms", "median latency, ms"), ("p99_ms", "99th percentile, ms"), ("mhz", "clock, MHz"),
    ("celsius", "temperature, °C"), ("watts", "power, W"), ("joules", "energy of an inference, J"),
)  # fmt: skip


def record(found: Sustained, model: str, device: str) -> Record:
    """Every minute, every placement that was tried, and what the system does not tell."""
    return {
        **head("device bench"),
        "model": model,
        "device": device,
        **asdict(found),
        "cores": list(found.cores),
        "minutes": [asdict(m) for m in found.minutes],
        "placements": [{**asdict(p), "cores": list(p.cores)} for p in found.placements],
        "hidden": list(found.hidden),
        "page": None,
    }


def draw(found: Record) -> RenderableType:
    """A line a minute, the placements, and what is hidden."""
    shown = [key for key in ("mhz", "celsius", "watts", "joules") if any(m[key] is not None for m in found["minutes"])]
    names = {"mhz": ">clock", "celsius": ">temperature", "watts": ">power", "joules": ">an inference"}
    drawn = table(">minute", ">median", ">99 %", ">runs", *(names[key] for key in shown))
    for k, m in enumerate(found["minutes"], 1):
        sensors = (_sensor(key, m[key]) for key in shown)
        drawn.add_row(str(k), duration(m["median_ms"]), duration(m["p99_ms"]), f"{m['runs']:,}", *sensors)
    parts: list[RenderableType] = []
    if found["placements"]:
        tried = table(">threads", "cores", ">median")
        for p in sorted(found["placements"], key=lambda p: float(p["median_ms"])):
            tried.add_row(str(p["threads"]), _cores(p["cores"]), duration(p["median_ms"]))
        parts += [tried, ""]
    where = f"{counted(found['threads'], 'thread')} on {_cores(found['cores'])} over {found['link']}"
    change = f"the last minute takes {found['slowdown']:.2f} of the first one's time"
    parts += [escape(where), drawn, change]
    if found["kept"]:
        parts.append(f"kept: the next build for {escape(found['device'])} takes these threads and cores")
    if found["hidden"]:
        parts.append(f"the system does not tell {', '.join(found['hidden'])}")
    if found["power_source"]:
        parts.append(f"power is told by {escape(found['power_source'])}")
    return Group(*parts, "")


def _sensor(key: str, value: float | None) -> str:
    if value is None:
        return ""
    unit = {"mhz": "MHz", "celsius": "°C", "watts": "W", "joules": "J"}[key]
    return f"{value:.4g} {unit}"


def _cores(cores: Sequence[int]) -> str:
    return f"cores {' '.join(map(str, cores))}" if cores else "any cores"


def write(found: Record, path: Path) -> None:
    """Write the page of a record."""
    files.replace(path, sustained_page(finite(found), charts(found["minutes"])).encode())


def charts(minutes: Sequence[Record]) -> list[Record]:
    """A line for each figure that is known of every minute: points in pixels, from 0 up to the largest value."""
    made = []
    for key, name in CHARTS:
        values = [m[key] for m in minutes]
        if any(v is None for v in values):
            continue
        top = max(max(values), 1e-9) * 1.1
        wide, tall = WIDTH - 2 * MARGIN, HEIGHT - MARGIN
        points = [
            {
                "x": MARGIN + wide * (k + 0.5) / len(values),
                "y": HEIGHT - MARGIN / 2 - tall * v / top,
                "value": f"{v:.4g}",
            }
            for k, v in enumerate(values)
        ]
        line = " ".join(f"{p['x']:.1f},{p['y']:.1f}" for p in points)
        made.append({"name": name, "points": points, "line": line, "top": f"{top:.3g}", "minutes": len(values),
                     "width": WIDTH, "height": HEIGHT, "margin": MARGIN})  # fmt: skip
    return made

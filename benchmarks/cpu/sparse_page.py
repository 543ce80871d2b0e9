"""Measurements of benchmarks/cpu/sparse.py, as the tables of a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.table import geometric_mean, markdown

Rows = Sequence[Mapping[str, Any]]


def page(rows: Rows, command: str) -> str:
    """A table a type: microseconds of the dense kernels, and how many times as fast the sparse ones are as edgec's."""
    parts = [f"Written by `{command}`."]
    for dtype in dict.fromkeys(r["type"] for r in rows):
        parts += ["", f"### {dtype}", "", _table([r for r in rows if r["type"] == dtype]), "", *_summary(rows, dtype)]
    return "\n".join(parts)


def _levels(rows: Rows) -> list[float]:
    return sorted({r["zeros"] for r in rows if r["zeros"]})


def _times(rows: Rows) -> dict[tuple[str, str], dict[tuple[str, float], float]]:
    found: dict[tuple[str, str], dict[tuple[str, float], float]] = {}
    for r in rows:
        found.setdefault((r["network"], r["layer"]), {})[r["engine"], r["zeros"]] = r["us"]
    return found


def _table(rows: Rows) -> str:
    levels = _levels(rows)
    heads = ["network", "layer", "ORT, us", "dense, us", *(f"{z:g}" for z in levels), "break-even"]
    body = []
    for (network, layer), times in _times(rows).items():
        dense = times["edgec", 0.0]
        gains = [dense / times["edgec", z] for z in levels]
        ort = times["onnxruntime", 0.0]
        body.append(
            [network, layer, f"{ort:.1f}", f"{dense:.1f}", *(f"{g:.2f}" for g in gains), crossing(levels, gains)]
        )
    return markdown(heads, body, 2)


def crossing(levels: Sequence[float], gains: Sequence[float]) -> str:
    """The share of zeros at which the sparse kernel begins to be faster, between two that were measured."""
    if gains[0] >= 1:
        return f"< {levels[0]:g}"
    for k in range(1, len(levels)):
        if gains[k] >= 1:  # times, not gains, are nearly straight lines over the share of zeros
            before, after = 1 / gains[k - 1] - 1, 1 - 1 / gains[k]
            return f"{levels[k - 1] + (levels[k] - levels[k - 1]) * before / (before + after):.2f}"
    return f"> {levels[-1]:g}"


def _summary(rows: Rows, dtype: str) -> list[str]:
    mine = [r for r in rows if r["type"] == dtype]
    levels, times = _levels(mine), list(_times(mine).values())
    heads = ["zeros", "faster than dense edgec", "gain, geometric mean", "over dense onnxruntime, geometric mean"]
    body = []
    for z in levels:
        gains = [t["edgec", 0.0] / t["edgec", z] for t in times]
        over = [t["onnxruntime", 0.0] / t["edgec", z] for t in times]
        faster = sum(g > 1 for g in gains)
        body.append(
            [f"{z:g}", f"{faster} of {len(gains)}", f"{geometric_mean(gains):.2f}", f"{geometric_mean(over):.2f}"]
        )
    return [markdown(heads, body, 1)]


def put(path: Path, name: str, text: str) -> None:
    """Replace what stands between the marks ``name`` of a page."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    old = path.read_text(encoding="utf-8")
    head, found, rest = old.partition(begin)
    tail = rest.partition(end)[2]
    if not found:
        raise SystemExit(f"{path} has no marks {begin} ... {end}")
    path.write_text(f"{head}{begin}\n{text}\n{end}{tail}", encoding="utf-8")

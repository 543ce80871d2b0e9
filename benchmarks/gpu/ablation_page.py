"""The page of the gain of fusion on a GPU, from its rows."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from typing import Any

from benchmarks.alone import Row
from benchmarks.table import markdown

HEAD = """# Gain of fusion on a GPU

Networks with random weights that nobody tuned for, at batch 1 in fp32, in four ways: *unfused*, with a kernel for every
core operator; *patterns*, with the fixed patterns of other compilers; *planner*; and *planner + rules*, planned after
rewriting. The kernel templates are the same in all of them. Milliseconds are of the GPU: the median of five times 30
runs, in turns. `over` is the time of another way over that of *planner + rules*.

Bytes are of one run. The *ledger* is what the planner knows: every element once a kernel. *Counted* are the sectors
that are filled into the L2 cache, which is emptied before each kernel, and those that kernels write to it (Nsight
Compute), less the weights that a kernel fetches for the next one, which the next one fetches again from an emptied
cache. The counters see what a ledger of elements cannot: instructions, sectors of 32 bytes of which a part is wanted,
and partial sums. There are no counters of OpenCL kernels.
"""
VARIANTS = ("unfused", "patterns", "planner", "planner + rules")


def text(rows: Sequence[Row]) -> str:
    """The page."""
    parts = [HEAD]
    for language in ("CUDA", "OpenCL"):
        timed = sorted((r for r in rows if _is_timed(r, language)), key=lambda r: str(r["name"]))
        if timed:
            parts += [f"## {language}", _summary(timed, language), _times(timed, language)]
    counted = sorted((r for r in rows if _is_counted(r)), key=lambda r: str(r["name"]))
    if counted:
        parts += ["## Bytes by ledger and by counters", _agreement(counted), _bytes(counted)]
    left = [r for r in rows if not any(_is_timed(r, x) for x in ("CUDA", "OpenCL"))]
    if left:
        reasons = [[r["name"], r.get("late") or r.get("error_message") or "?"] for r in left]
        parts.append("## Not timed\n\n" + markdown(["network", "reason"], reasons))
    known: dict[str, Any] = next((r["machine"] for r in rows if "machine" in r), {})
    commands = "\n".join(dict.fromkeys(f"python -m benchmarks.gpu.ablation {r['command']}" for r in rows))
    parts.append(f"{known.get('date')}; {known.get('gpu')}.\n\n```sh\n{commands}\n```")
    return "\n\n".join(p.strip() for p in parts) + "\n"


def _of(row: Row, language: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = row.get("variants", {}).get(language, {})
    return found


def _is_timed(row: Row, language: str) -> bool:
    return all("ms" in _of(row, language).get(v, {}) for v in VARIANTS)


def _is_counted(row: Row) -> bool:
    return any("read_counted" in v for v in _of(row, "CUDA").values())


def _mean(ratios: Sequence[float]) -> float:
    return exp(sum(map(log, ratios)) / len(ratios))


def _summary(rows: Sequence[Row], language: str) -> str:
    said = []
    for variant in VARIANTS[:3]:
        ratios = [_of(r, language)[variant]["ms"] / _of(r, language)[VARIANTS[3]]["ms"] for r in rows]
        said.append(f"* over {variant}: {_mean(ratios):.2f} times as fast in geometric mean of {len(ratios)} networks, "
                    f"{min(ratios):.2f} to {max(ratios):.2f}")  # fmt: skip
    return "\n".join(said)


def _times(rows: Sequence[Row], language: str) -> str:
    head = ["network", *(f"{v}, ms" for v in VARIANTS), *(f"over {v}" for v in VARIANTS[:3]), "kernels", "error"]
    table = []
    for row in rows:
        found = [_of(row, language)[v] for v in VARIANTS]
        ms = [v["ms"] for v in found]
        kernels = " ".join(str(v["kernels"]) for v in found)
        worst = max(v["error"] for v in found)
        table.append([row["name"], *(f"{x:.3f}" for x in ms), *(f"{x / ms[3]:.2f}" for x in ms[:3]), kernels,
                      f"{worst:.1e}"])  # fmt: skip
    return markdown(head, table)


def _counted(variant: dict[str, Any]) -> tuple[float, float]:
    """Bytes by the ledger and by the counters."""
    counted = variant["read_counted"] + variant["written_counted"] - variant["prefetched"]
    return variant["read"] + variant["written"], counted


def _agreement(rows: Sequence[Row]) -> str:
    said = []
    for variant in VARIANTS:
        pairs = [_counted(v) for r in rows if "read_counted" in (v := _of(r, "CUDA")[variant])]
        ratios = [counted / ledger for ledger, counted in pairs]
        if ratios:
            near = sum(0.9 <= r <= 1.1 for r in ratios)
            said.append(f"* {variant}: counted over ledger {_mean(ratios):.2f} in geometric mean, {min(ratios):.2f} to "
                        f"{max(ratios):.2f}; within 10 % on {near} of {len(ratios)}")  # fmt: skip
    return "\n".join(said)


def _bytes(rows: Sequence[Row]) -> str:
    variants = [v for v in VARIANTS if any("read_counted" in _of(r, "CUDA")[v] for r in rows)]
    head = ["network", *(f"{v}: ledger, counted (MB)" for v in variants)]
    table = []
    for row in rows:
        cells = []
        for variant in variants:
            found = _of(row, "CUDA")[variant]
            ledger, counted = _counted(found) if "read_counted" in found else (0.0, 0.0)
            cells.append(f"{ledger / 1e6:.1f}, {counted / 1e6:.1f} ({counted / ledger:.2f})" if ledger else "-")
        table.append([row["name"], *cells])
    return markdown(head, table)

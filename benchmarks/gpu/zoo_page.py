"""The page of the zoo on a GPU, from its rows."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence
from datetime import date
from math import exp, log
from typing import Any

from benchmarks.alone import Row
from benchmarks.table import markdown

HEAD = """# The zoo on a GPU

Networks of the [zoo](zoo.md)'s catalog, that nobody tuned for, in fp32 at batch 1 beside PyTorch on the same GPU, in
one run. Errors are the largest difference from onnxruntime on the processor over the largest value. Milliseconds are of
the GPU: the median of seven times 100 runs of edgec's CUDA graph, and of seven times up to 30 runs of PyTorch, without
TF32 and with pictures channels last: eagerly, as a CUDA graph, and through torch.compile (`reduce-overhead`;
`max-autotune` takes minutes a module and was not tried). The ratio is over PyTorch's best: below 1 edgec is faster.
A mode that a module cannot be captured or compiled for in time has a dash, and the ratio is over the others. All are
made ready first, and then take turns.
"""
MODES = ("eager", "graph", "reduce-overhead")


def machine(is_dry: bool) -> Row:
    """Facts that the rows of a run share: the date, the GPU and the versions."""
    import torch

    found: Row = {"date": date.today().isoformat(), "torch": torch.__version__, "gpu": "none: a dry run"}
    if not is_dry:
        query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        found["gpu"] = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()[0].strip()
    return {"machine": found}


def best_of(row: Row) -> float | None:
    """Milliseconds of PyTorch's fastest mode."""
    return min((ms for m in MODES if isinstance(ms := row.get("torch", {}).get(m), float)), default=None)


def text(rows: Sequence[Row]) -> str:
    timed = [r for r in rows if isinstance(r.get("ms"), float) and best_of(r)]
    timed.sort(key=_ratio, reverse=True)
    table = [
        [r["name"], f"{r['error']:.0e}", str(r["kernels"]), f"{r['ms']:.3f}",
         *(_shown(r["torch"].get(m)) for m in MODES), f"{_ratio(r):.2f}"]
        for r in timed
    ]  # fmt: skip
    parts = [HEAD, _summary(rows, timed)]
    head = ["network", "error", "kernels", "edgec", *(f"PyTorch {m}" for m in MODES), "ratio"]
    parts.append("## Rows\n\n" + markdown(head, table))
    left = [r for r in rows if r not in timed]
    if left:
        parts.append("## Not timed\n\n" + markdown(["network", "reason"], [[r["name"], _reason(r)] for r in left]))
    parts.append(_provenance(rows))
    return "\n\n".join(p.strip() for p in parts) + "\n"


def _ratio(row: Row) -> float:
    return float(row["ms"]) / (best_of(row) or float("nan"))


def _shown(ms: Any) -> str:
    return f"{ms:.3f}" if isinstance(ms, float) else "-"


def _summary(rows: Sequence[Row], timed: Sequence[Row]) -> str:
    if not timed:
        return f"None of {len(rows)} networks were timed."
    ratios = [_ratio(r) for r in timed]
    mean = exp(sum(map(log, ratios)) / len(ratios))
    return (
        f"{len(timed)} of {len(rows)} networks tried were timed: geometric mean of the ratios {mean:.2f}, largest "
        f"{max(ratios):.2f}; {sum(r > 1 for r in ratios)} above 1. The largest error is "
        f"{max(r['error'] for r in timed):.1e}."
    )


def _reason(row: Row) -> str:
    said = row.get("late") or row.get("error_message") or "its times are not known"
    return f"{row.get('step', 'start')}: {str(said)[:160]}".replace("|", "\\|").replace("<", "&lt;")


def _provenance(rows: Sequence[Row]) -> str:
    known = next((r["machine"] for r in rows if "machine" in r), {})
    return (
        f"## Provenance\n\n{known.get('date')}; {known.get('gpu')}; PyTorch {known.get('torch')}.\n\n"
        f"```sh\npython -m benchmarks.gpu.zoo {shlex.join(sys.argv[1:])}\n```"
    )

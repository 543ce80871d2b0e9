"""The page of networks in four precisions on a GPU, from its rows."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from typing import Any

from benchmarks.alone import Row
from benchmarks.table import markdown

HEAD = """# Four precisions on a GPU

Twelve networks with random weights that nobody tuned for, at batch 1, beside PyTorch in the same precision on the same
GPU, in turns. Milliseconds are of the GPU: the median of seven times 100 runs of edgec's CUDA graph, and of seven
times up to 30 runs of PyTorch, with pictures channels last: eagerly, as a CUDA graph, and through torch.compile
(`reduce-overhead`; `max-autotune` takes minutes a module and was not tried). fp32 is without TF32 in both, tf32 is
products in TF32, fp16 is weights and activations in fp16. `faster` is PyTorch's best over edgec; PyTorch has no int8
here, so that int8 stands beside edgec's own fp16. A mode that a module cannot be captured or compiled for in time, or
that was not asked for, has a dash; without a column, no row was.

Errors are the largest difference from onnxruntime in fp32 over the largest value; behind a semicolon, for int8, from
the evaluation of the quantized graph in numpy. int8 is calibrated on the one input that it is compared on.
"""
MODES = ("eager", "graph", "reduce-overhead")


def best_of(row: Row) -> float | None:
    """Milliseconds of PyTorch's fastest mode."""
    return min((ms for m in MODES if isinstance(ms := row.get("torch", {}).get(m), float)), default=None)


def text(rows: Sequence[Row]) -> str:
    """The page."""
    timed = [r for r in rows if isinstance(r.get("ms"), float)]
    half = {r["network"]: r["ms"] for r in timed if r["precision"] == "fp16"}
    timed.sort(key=lambda r: (r["network"], r["precision"]))
    modes = [m for m in MODES if any(m in r.get("torch", {}) for r in timed)]
    table = [
        [r["network"] + " *" * _is_older(r, rows), r["precision"], _error(r), str(r["kernels"]), f"{r['ms']:.3f}",
         *(_shown(r.get("torch", {}).get(m)) for m in modes), _faster(r, half)]
        for r in timed
    ]  # fmt: skip
    head = ["network", "precision", "error", "kernels", "edgec", *(f"PyTorch {m}" for m in modes), "faster"]
    parts = [HEAD, _summary(timed, half), markdown(head, table, text_columns=2)]
    left = [r for r in rows if r not in timed]
    if left:
        parts.append("## Not timed\n\n" + markdown(["row", "reason"], [[r["name"], _reason(r)] for r in left]))
    older = sorted({_date(r) for r in timed if _is_older(r, rows)})
    if older:
        parts.append(f"Rows with * are of another run, of {', '.join(older)}, and of the code of that day.")
    known = next((r["machine"] for r in rows if "machine" in r and not _is_older(r, rows)), {})
    commands = "\n".join(dict.fromkeys(f"python -m benchmarks.gpu.precisions {r['command']}" for r in rows))
    parts.append(f"{known.get('date')}; {known.get('gpu')}; PyTorch {known.get('torch')}.\n\n```sh\n{commands}\n```")
    return "\n\n".join(p.strip() for p in parts) + "\n"


def _date(row: Row) -> str:
    return str(row.get("machine", {}).get("date", ""))


def _is_older(row: Row, rows: Sequence[Row]) -> bool:
    """Is a row kept from an earlier day than the last?"""
    return _date(row) < max(map(_date, rows))


def _summary(timed: Sequence[Row], half: dict[str, float]) -> str:
    said = []
    for precision in ("fp32", "tf32", "fp16"):
        ratios = [best / r["ms"] for r in timed if r["precision"] == precision and (best := best_of(r))]
        if ratios:
            said.append(f"* {precision}: {_mean(ratios):.2f} times PyTorch's best in geometric mean of {len(ratios)} "
                        f"networks, {min(ratios):.2f} to {max(ratios):.2f}")  # fmt: skip
    own = [half[r["network"]] / r["ms"] for r in timed if r["precision"] == "int8" and r["network"] in half]
    if own:
        said.append(f"* int8: {_mean(own):.2f} times edgec's fp16 in geometric mean of {len(own)}, "
                    f"{min(own):.2f} to {max(own):.2f}")  # fmt: skip
    return "\n".join(said)


def _mean(ratios: Sequence[float]) -> float:
    return exp(sum(map(log, ratios)) / len(ratios))


def _faster(row: Row, half: dict[str, float]) -> str:
    if row["precision"] == "int8":
        return f"{half[row['network']] / row['ms']:.2f}x of fp16" if row["network"] in half else "-"
    best = best_of(row)
    return f"{best / row['ms']:.2f}x" if best else "-"


def _error(row: Row) -> str:
    own = f"; {row['error_of_integers']:.0e}" if "error_of_integers" in row else ""
    return f"{row['error']:.0e}{own}"


def _shown(ms: Any) -> str:
    return f"{ms:.3f}" if isinstance(ms, float) else "-"


def _reason(row: Row) -> str:
    said = row.get("late") or row.get("error_message") or "its times are not known"
    return f"{row.get('step', 'start')}: {str(said)[:200]}".replace("|", "\\|").replace("<", "&lt;")

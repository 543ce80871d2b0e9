"""The page of training steps on a GPU, from its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.alone import Row
from benchmarks.table import markdown

HEAD = """# Training steps on a GPU

Steps of `edgec train --device cuda_sm90` beside PyTorch's on one GPU, each row in one run: random weights and data, SGD
with momentum on all weights, batch normalization by its statistics. A step is forward, loss, backward and update.
Milliseconds are of the GPU: the median of seven times 60 runs of edgec's CUDA graph, and of seven times up to 30 runs
of PyTorch, with the spread (the largest less the smallest) behind it. PyTorch runs eagerly with its fused optimizer, as
that step captured in one CUDA graph, and with model and loss through torch.compile (`default`, `reduce-overhead`);
pictures lie channels first or last, whichever is the faster as a graph. The ratio is over PyTorch's best: below 1 edgec
is faster.

In both, fp32 is without TF32, tf32 is products of matmuls and convolutions in TF32, and fp16 is products in fp16 with
weights in fp32 (in PyTorch autocast, its loss scaled by a constant and no test for infinite gradients; edgec scales and
tests); bf16 is the same in bf16, with values between kernels in bf16 too and no scaling of the loss. Errors of edgec
are beside the module in double precision: the largest difference of a gradient over the largest of its weight, and of
ten losses over the larger of 1 and the loss. Memory is in MiB: edgec's state, arena and frozen weights, and the most
that PyTorch's allocator held in an eager step.
"""
PEERS = ("eager", "graph", "default", "reduce-overhead")


def text(rows: Sequence[Row]) -> str:
    """The page."""
    timed = [r for r in rows if r.get("ms", {}).get("edgec")]
    known = next((r["machine"] for r in rows if "machine" in r), {})
    older = {r["name"]: r["machine"] for r in timed if r.get("machine", known) != known}
    table = [
        [r["network"] + " *" * (r["name"] in older), str(r["batch"]), r["precision"], f"{r['gradients']:.1e}",
         f"{r['losses']:.1e}", str(r["launches"]), *(_shown(r["ms"].get(m)) for m in ("edgec", *PEERS)), _ratio(r),
         f"{r['bytes'] / 2**20:.0f}", _mib(r.get("torch_bytes"))]
        for r in timed
    ]  # fmt: skip
    head = ["network", "batch", "precision", "gradients", "losses", "launches", "edgec ms",
            *(f"PyTorch {m}" for m in PEERS), "ratio", "edgec MiB", "PyTorch MiB"]  # fmt: skip
    parts = [HEAD, markdown(head, table, text_columns=3)]
    left = [r for r in rows if r not in timed]
    if left:
        parts.append("## Not timed\n\n" + markdown(["row", "reason"], [[r["name"], _reason(r)] for r in left]))
    failed = [[r["name"], m, str(r[f"{m}_failed"]).splitlines()[0]] for r in timed for m in PEERS if f"{m}_failed" in r]
    if failed:
        parts.append("Modes of PyTorch that were not timed; the ratio is over the others:")
        parts.append(markdown(["row", "mode", "reason"], failed, text_columns=3))
    said = dict.fromkeys(f"python -m benchmarks.gpu.training {r['command']}" for r in rows)
    if older:
        others = dict.fromkeys(f"{m.get('date')} on an {m.get('gpu')}" for m in older.values())
        parts.append(f"Rows with * are of another run, of {' and '.join(others)}, and of the code of that day.")
    elif len(said) > 1:
        parts.append("All rows are of machines of one kind; those of one command are of one run.")
    commands = "\n".join(said)
    parts.append(f"{known.get('date')}; {known.get('gpu')}; PyTorch {known.get('torch')}.\n\n```sh\n{commands}\n```")
    return "\n\n".join(p.strip() for p in parts) + "\n"


def best_of(row: Row) -> float | None:
    """Milliseconds of PyTorch's fastest mode, by medians; None where no mode was timed."""
    times = [row["ms"][m] for m in PEERS if row["ms"].get(m)]
    return min(map(_median, times)) if times else None


def _ratio(row: Row) -> str:
    best = best_of(row)
    return f"{_median(row['ms']['edgec']) / best:.2f}" if best else "-"


def _median(times: Sequence[float]) -> float:
    return times[len(times) // 2]


def _shown(times: Any) -> str:
    return f"{_median(times):.3f} ({times[-1] - times[0]:.3f})" if times else "-"


def _mib(size: int | None) -> str:
    return f"{size / 2**20:.0f}" if size is not None else "-"


def _reason(row: Row) -> str:
    said = row.get("late") or row.get("error_message") or "its times are not known"
    return f"{row.get('step', 'start')}: {str(said)[:200]}".replace("|", "\\|").replace("<", "&lt;")

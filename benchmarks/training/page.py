"""The page of training steps beside PyTorch, and the picture of losses beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchmarks.spoiled import SCALES, WORTH_MS
from benchmarks.training.machine import processor
from benchmarks.training.modules import CASES, Case
from benchmarks.training.rows import Row

OPTIMIZER = "sgd:lr={rate},momentum=0.9"
#: The network whose losses are drawn.
CURVE = "digits"


def svg(ours: list[float], theirs: list[float], title: str) -> str:
    """A picture of two curves on a logarithmic axis."""
    width, height, left = 640, 300, 56
    low, high = (math.log10(f([max(v, 1e-6) for v in (*ours, *theirs)])) for f in (min, max))

    def points(values: list[float]) -> str:
        spread = max(high - low, 1e-9)
        return " ".join(
            f"{left + k * (width - left - 16) / max(len(values) - 1, 1):.1f},"
            f"{24 + (high - math.log10(max(v, 1e-6))) * (height - 64) / spread:.1f}"
            for k, v in enumerate(values)
        )

    style = 'font-family="sans-serif" font-size="12"'
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {style}>
<rect width="{width}" height="{height}" fill="white"/>
<text x="{left}" y="16">{title}</text>
<text x="8" y="30">{10**high:.3g}</text><text x="8" y="{height - 38}">{10**low:.3g}</text>
<text x="{width - 80}" y="{height - 12}">step {len(ours)}</text>
<path d="M{left} 20V{height - 36}H{width - 16}" fill="none" stroke="black"/>
<polyline points="{points(theirs)}" fill="none" stroke="#e07b39" stroke-width="5" stroke-opacity="0.5"/>
<polyline points="{points(ours)}" fill="none" stroke="#1f4e79" stroke-width="1.5"/>
<text x="{width - 220}" y="40" fill="#1f4e79">edgec (thin)</text>
<text x="{width - 120}" y="40" fill="#e07b39">PyTorch (wide)</text>
</svg>
"""


def is_spoiled(row: Row, threads: int) -> bool:
    """True where PyTorch gains nothing from more threads, though its steps are long: something else ran beside them."""
    alone, now = (min(p.ms.get(t, math.inf) for p in row.held[1:]) for t in (1, threads))
    return threads > 1 and WORTH_MS <= alone < math.inf and now > SCALES * alone


def page(
    rows: Sequence[Row], command: str, missing: Sequence[str] = (), beside: int = 0, picture: str = "training.svg"
) -> str:
    """The page of results: rows where PyTorch is faster, and networks that are refused, included.

    ``beside`` is the number of runs of other networks on other cores of the machine meanwhile, ``picture`` the file of
    losses.
    """
    others_run = f" (here up to {beside} runs of other networks, on cores of their own)" if beside else ""
    others = [
        f"`lr={case.rate:f}`".rstrip("0`") + f"` for {name}" for name, case in CASES.items() if case.rate != Case.rate
    ]
    versions = sorted({r.checked.reference for r in rows if r.checked is not None})
    lines = [
        "# Training steps beside PyTorch", "",
        f"Written by `{command}`, with {' and '.join(versions)} on an {processor()}.",
        f"Random weights and data, `{OPTIMIZER.format(rate=Case.rate)}` on all weights ({', '.join(others)});",
        "batch normalization uses its statistics. Gradients and losses are compared with the module in double",
        "precision: the largest difference over the largest gradient of a weight (at most 1e-4 passes; or",
        "twice the difference of PyTorch itself in fp32, which is told then: where many operands of a ReLU",
        "are 0 but for rounding, gradients differ), and of the losses of so many steps at a tenth of the",
        "learning rate over the larger of 1 and the loss (at most 1e-3, or twice that of PyTorch itself in",
        "fp32, which is beside it). Times are 10th percentiles in milliseconds of steps in turns, so that other",
        f"work of the machine meets both{others_run};",
        "all rows are of one version of the compiler. The ratio is edgec's time over the",
        "least of PyTorch's. Memory is weights, moments and what a step takes beside them (PyTorch: what its",
        "allocator held at most), in MiB, and its part of the least of PyTorch's; then what is resident in a process",
        "of its own (PyTorch eager), on one thread. Two threads are spoiled where PyTorch's best takes more than",
        f"{SCALES} of its time on one.", "",
        *([f"![losses]({picture})", ""] if any(r.curves for r in rows) else []),
        "| network | batch | gradients | losses | steps | PyTorch fp32 | threads | edgec ms | PyTorch ms | ratio |"
        " edgec MiB | PyTorch MiB | of it | resident MiB |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for row in rows:
        if row.checked is None:
            continue
        own = row.checked.narrow_gradients
        beside = f" (PyTorch fp32 {own:.1e})" if own is not None else ""
        apart = f"{row.checked.gradients:.1e}{beside} | {row.checked.losses:.1e}{'' if row.is_right else ' (fails)'}"
        begin = f"| {row.name} | {row.batch} | {apart} | {row.steps} | {row.single:.1e}"
        if not row.held:
            lines.append(f"{begin} |" + " |" * 8)
            continue
        ours, *theirs = row.held
        share = f"{ours.bytes / min(p.bytes for p in theirs):.2f}"
        held = f"{_mib(ours.bytes)} | {' / '.join(_mib(p.bytes) for p in theirs)} | {share}"
        there = f"{_mib(ours.resident)} / {_mib(theirs[0].resident)}" if ours.resident and theirs[0].resident else ""
        for threads, ms in sorted(ours.ms.items()):
            each = " / ".join(f"{p.ms[threads]:.3g} {p.name}" for p in theirs)
            ratio = f"{ms / min(p.ms[threads] for p in theirs):.2f}{' (spoiled)' if is_spoiled(row, threads) else ''}"
            lines.append(f"{begin} | {threads} | {ms:.3g} | {each} | {ratio} | {held} | {there} |")
    refused = [r for r in rows if r.refused]
    lines += ["", *(f"* {r.name}, batch {r.batch}: not measured: {r.refused}" for r in refused)]
    lines += [f"* Not measured: {', '.join(missing)}."] if missing else []
    return "\n".join(lines).rstrip() + "\n"


def _mib(size: int) -> str:
    return f"{size / 2**20:.1f}"

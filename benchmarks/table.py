"""The measurements as Markdown: a page, and what stands between markers of another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from pathlib import Path

from benchmarks import spoiled
from benchmarks.measure import BLOCK, PAUSE, Measured, Timed
from benchmarks.networks.catalog import Missing
from edgec.check.compare import TOLERANCE
from edgec.errors import UsageError

BEGIN, END = "<!-- benchmarks -->", "<!-- /benchmarks -->"
_METHOD = """\
Each network has a process of its own. edgec and onnxruntime take turns in it, in blocks of {block:.0f} ms (or three
calls, where that is longer), with a pause of {pause:.0f} ms before each, because the threads of both keep spinning for
a while. The first two calls of a block do not count. The process is kept on as many cores as there are threads. Shapes
are fixed, and inputs and outputs bound once, in both. A call goes through Python in both: that is part of the time, and
matters below some 20 us. Times are medians, with the 10th and the 90th percentile behind them. A ratio is edgec's time
over onnxruntime's: below 1 edgec is faster.

Before that, outputs are compared for every number of threads, on three random inputs and on the input that comes with
the network or from its data set, if there is one. The column *error* is the largest difference over the largest value
of an output, on the random inputs and then on the given one. The bound is {bound:.0e}. Where it is not kept, the column
says how far onnxruntime's results with and without its optimizations are apart on the same inputs: some networks make
large differences of small ones when they are fed with noise."""


@dataclass(frozen=True)
class Report:
    """Results of a run of the benchmark; ``facts`` describe the machine, ``peaks`` are GFLOP/s by threads."""

    date: str
    command: str
    facts: Mapping[str, str]
    peaks: Mapping[int, float]
    measured: Sequence[Measured]
    failed: Sequence[Missing]
    missing: Sequence[Missing]

    @property
    def threads(self) -> list[int]:
        return list(self.peaks)

    def of(self, m: Measured, threads: int) -> Timed:
        return next(t for t in m.timed if t.threads == threads)

    def mean_ratio(self, threads: int) -> float:
        return geometric_mean([self.of(m, threads).ratio for m in self.measured if not m.spoiled()])


def geometric_mean(values: Sequence[float]) -> float:
    return exp(sum(map(log, values)) / len(values)) if values else float("nan")


def page(report: Report) -> str:
    """The whole page."""
    parts = [
        "# Measurements",
        f"Written by `{report.command}` on {report.date}; every number below is of that one run.",
        "\n".join(f"* {what}: {value}" for what, value in report.facts.items()),
        _method(),
        "## Latency",
        _means(report),
        *(f"### {_threads(t).capitalize()}\n\n{_latency(report, t)}" for t in report.threads),
        "## Spoiled measurements",
        "\n".join([spoiled.RULE, "", *_spoiled(report)]),
        "## Memory, size and build time",
        "The lower bound of the arena is the most bytes that are alive at once, after results have taken the place of "
        "operands where that is possible. Weights are as the generated code stores them. Seconds are of edgec itself, "
        "and of the C compiler.",
        _sizes(report),
    ]
    if report.failed:
        parts += ["## Failed", _reasons(report.failed)]
    if report.missing:
        parts += ["## Not measured", _reasons(report.missing)]
    return "\n\n".join(parts) + "\n"


def _spoiled(report: Report) -> list[str]:
    return [f"* {m.name}: {'; '.join(why)}" for m in report.measured if (why := m.spoiled())] or ["None is."]


def _method() -> str:
    return _METHOD.format(block=BLOCK * 1e3, pause=PAUSE * 1e3, bound=TOLERANCE)


def _means(report: Report) -> str:
    means = [f"{report.mean_ratio(t):.3f} on {_threads(t)}" for t in report.threads]
    faster = [sum(report.of(m, t).ratio < 1 for m in report.measured) for t in report.threads]
    counts = [f"{n} of {len(report.measured)} on {_threads(t)}" for t, n in zip(report.threads, faster)]
    return f"Geometric mean of the ratios: {', '.join(means)}. edgec is faster on {', '.join(counts)}."


def _latency(report: Report, threads: int) -> str:
    rows = []
    for m in report.measured:
        t = report.of(m, threads)
        part = 2e-6 * m.macs / t.ours.median_ms / report.peaks[threads]
        rows.append([
            m.name, _count(m.macs), _milliseconds(t.ours), _milliseconds(t.theirs), f"{t.ratio:.2f}",
            f"{part:.0%}", error(m),
        ])  # fmt: skip
    heads = ["network", "multiply-adds", "edgec ms", "onnxruntime ms", "ratio", "of peak", "error"]
    return markdown(heads, rows)


def _sizes(report: Report) -> str:
    rows = [
        [
            m.name, m.source, str(m.operators), str(m.kernels), f"{m.arena_bytes:,}",
            f"{m.arena_bytes / max(m.arena_lower_bound_bytes, 1):.3f}", f"{m.weights_bytes:,}",
            f"{m.edgec_seconds:.1f} + {m.compile_seconds:.1f}",
        ]
        for m in report.measured
    ]  # fmt: skip
    heads = ["network", "from", "operators", "kernels", "arena bytes", "over bound", "weights bytes", "build s"]
    return markdown(heads, rows, text_columns=2)


def _reasons(entries: Sequence[Missing]) -> str:
    return "\n".join(f"* {e.name}: {e.reason}" for e in entries)


def _threads(threads: int) -> str:
    return f"{threads} thread" + "s" * (threads > 1)


def _count(n: int) -> str:
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if n >= unit:
            return f"{n / unit:.3g} {name}"
    return str(n)


def _milliseconds(t: object) -> str:
    median, low, high = (getattr(t, k) for k in ("median_ms", "p10_ms", "p90_ms"))
    return f"{median:.4g} ({low:.4g}–{high:.4g})"


def error(m: Measured) -> str:
    """The error on random inputs, and behind a comma that on the given one."""
    text = f"{m.error_on_random:.1e}"
    if m.error_on_given is not None:
        text += f", {m.error_on_given:.1e}"
    if m.own_disagreement is not None:
        text += f" (onnxruntime with and without its optimizations: {m.own_disagreement:.1e})"
    return text


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]], text_columns: int = 1) -> str:
    rule = ["---"] * text_columns + ["---:"] * (len(heads) - text_columns)
    return "\n".join(f"| {' | '.join(cells)} |".replace(" --- ", "---").replace(" ---: ", "---:")
                     for cells in (heads, rule, *rows))  # fmt: skip


def put_into(page_file: Path, text: str, markers: tuple[str, str] = (BEGIN, END)) -> None:
    """Replace the text between two markers of a page; raises UsageError where they are not there."""
    whole = page_file.read_text(encoding="utf-8")
    before, begin, rest = whole.partition(markers[0])
    _, end, after = rest.partition(markers[1])
    if not begin or not end:
        raise UsageError(f"there is no {markers[0]} ... {markers[1]}", where=str(page_file))
    page_file.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")

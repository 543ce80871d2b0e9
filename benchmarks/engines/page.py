"""The measurements beside the peers as lines, and as the page docs/results/peers.md."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks import spoiled
from benchmarks.spoiled import Times
from benchmarks.table import geometric_mean
from edgec.check.compare import TOLERANCE

#: A peer's result farther off than this is no fp32 result, and its time does not count as the fastest.
PEERS_TOLERANCE = 5e-3
_METHOD = """\
A measurement is one network on one number of threads. Every engine has its own process and virtual environment, and the
engines are interleaved (A B C, C B A, ...) on the same cores, as many as there are threads. A turn is 50 ms of calls,
or three calls if that is longer, after a pause of 30 ms and two warm-up calls. Inputs and outputs are bound once. A
time is the median of the turns' medians. A ratio is edgec's time over the other's within the same round: the median of
the rounds, and their 10th and 90th percentile. All engines compute in fp32; OpenVINO, ncnn and MNN are configured for
it. LiteRT runs litert-torch's conversion of the same module, ncnn pnnx's conversion of the ONNX file.

Outputs are compared with onnxruntime's without its optimizations: the largest difference over the largest value. A peer
with an error above {peers:.0e} is shown in brackets, and its time does not count."""


@dataclass(frozen=True)
class Entry:
    """One measurement, as it is kept in the cache."""

    data: Mapping[str, Any]

    @property
    def engines(self) -> Mapping[str, Any]:
        return self.data["engines"]  # type: ignore[no-any-return]

    @property
    def peers(self) -> list[str]:
        return [name for name in self.engines if not name.startswith("edgec")]

    def time(self, engine: str) -> float:
        """Milliseconds; infinite for one that failed."""
        entry = self.engines.get(engine, {"failed": ""})
        return float("inf") if "failed" in entry else median(entry["blocks"]["median"])

    def error(self, engine: str) -> float:
        error = self.engines[engine].get("error", "failed")
        return float("inf") if isinstance(error, str) else float(error)

    def counts(self, engine: str) -> bool:
        return self.error(engine) <= PEERS_TOLERANCE

    @property
    def fastest(self) -> str | None:
        return min(filter(self.counts, self.peers), key=self.time, default=None)

    def times(self) -> dict[str, Times]:
        """Medians of the rounds of every engine that ran, with their percentiles."""
        blocks = {e: np.array(x["blocks"]["median"]) for e, x in self.engines.items() if "failed" not in x}
        return {e: Times(*map(float, np.percentile(b, [50, 10, 90]))) for e, b in blocks.items() if b.size}

    def ratio(self, engine: str, to: str) -> np.ndarray:
        """10th, 50th and 90th percentile over the rounds of one's time over another's."""
        ours, theirs = (np.array(self.engines[e]["blocks"]["median"]) for e in (engine, to))
        found: np.ndarray = np.percentile(ours / theirs, [10, 50, 90])
        return found


@dataclass(frozen=True)
class Table:
    """All measurements there are: by network and threads, and what building the networks took."""

    entries: Mapping[tuple[str, int], Entry]
    builds: Mapping[str, Mapping[str, Any]]
    names: Sequence[str]
    threads: Sequence[int]

    @staticmethod
    def read(results: Path, names: Sequence[str], threads: Sequence[int]) -> Table:
        entries = {}
        for name in names:
            for t in threads:
                path = results / f"{name}.{t}.json"
                if path.is_file():
                    entries[name, t] = Entry(json.loads(path.read_text()))
        files = {name: results / f"{name}.build.json" for name in names}
        builds = {name: json.loads(path.read_text()) for name, path in files.items() if path.is_file()}
        return Table(entries, builds, [n for n in names if any((n, t) in entries for t in threads)], threads)

    def of(self, threads: int) -> Iterator[tuple[str, Entry]]:
        for name in self.names:
            if (name, threads) in self.entries:
                yield name, self.entries[name, threads]

    def spoiled(self, name: str) -> list[str]:
        """Reasons why the measurement of a network is spoiled."""
        found = {t: self.entries[name, t] for t in self.threads if (name, t) in self.entries}
        peers = {p for e in found.values() for p in e.peers}
        return spoiled.reasons({t: e.times() for t, e in found.items()}, peers)

    @property
    def is_right(self) -> bool:
        return all(
            entry.error(engine) <= TOLERANCE
            for entry in self.entries.values()
            for engine in entry.engines
            if engine.startswith("edgec")
        )

    def peers(self) -> list[str]:
        return list(dict.fromkeys(p for entry in self.entries.values() for p in [*entry.peers, *entry.data["missing"]]))


def line(found: Mapping[str, Any]) -> str:
    entry = Entry(found)
    times = ", ".join(f"{engine} {_shown(entry, engine)}" for engine in entry.engines)
    return f"{entry.data['threads']} thread(s): {times}; {_verdict(entry)}"


def _shown(entry: Entry, engine: str) -> str:
    if engine not in entry.engines or "failed" in entry.engines[engine]:
        return "failed"
    text = f"{entry.time(engine):.4g}"
    return text if engine.startswith("edgec") or entry.counts(engine) else f"[{text}]"


def _verdict(entry: Entry) -> str:
    if entry.fastest is None or entry.time("edgec") == float("inf"):
        return "no ratio"
    low, middle, high = entry.ratio("edgec", entry.fastest)
    return f"{middle:.3f} ({low:.3f}-{high:.3f}) of {entry.fastest}"


def summary(table: Table) -> str:
    """The geometric means, a line a number of threads."""
    lines = []
    for t in table.threads:
        compared = [
            (e, e.fastest)
            for name, e in table.of(t)
            if e.fastest and e.time("edgec") < float("inf") and not table.spoiled(name)
        ]
        best = [e.ratio("edgec", fastest)[1] for e, fastest in compared]
        ort = [e.ratio("edgec", "onnxruntime")[1] for e, _ in compared if e.time("onnxruntime") < float("inf")]
        lines.append(
            f"{t} thread{'s' * (t > 1)}: faster than the fastest peer on {sum(r < 1 for r in best)} of {len(best)} "
            f"networks; geometric mean {1 / geometric_mean(best):.2f}x the fastest peer, "
            f"{1 / geometric_mean(ort):.2f}x onnxruntime"
        )
    return "\n".join(lines)


def page(table: Table, command: str) -> str:
    entries = list(table.entries.values())
    peaks = {t: max(e.data["peak_gflops"] for _, e in table.of(t)) for t in table.threads if any(table.of(t))}
    versions = {n: e.engines[n]["version"] for e in entries for n in e.peers if "version" in e.engines[n]}
    compilers = sorted({b["compiler"] for built in table.builds.values() for b in built.values()})
    facts = [
        f"CPU: {entries[0].data['cpu']}",
        f"edgec with {', '.join(compilers)}",
        ", ".join(f"{name} {text}" for name, text in versions.items()),
        ", ".join(f"fp32 peak on {t} thread{'s' * (t > 1)}: {g:.0f} GFLOP/s, measured" for t, g in peaks.items()),
    ]
    parts = [
        "# Comparison with other engines",
        f"Written by `{command}`; measured on {max(e.data['date'] for e in entries)}.",
        "\n".join(f"* {fact}" for fact in facts),
        _METHOD.format(peers=PEERS_TOLERANCE),
        summary(table).replace("\n", "  \n"),
        *(f"## {t} thread{'s' * (t > 1)}\n\n{_latency(table, t)}" for t in table.threads),
        "## Spoiled measurements",
        "\n".join([spoiled.RULE, "", *_spoiled(table)]),
        "## Starting",
        "Milliseconds from an imported package to the end of the first run, with the files in the page cache, and the "
        "peak memory of the process up to then, in MB, which includes Python with numpy and the inputs (the column "
        f"before). Median of three processes on {table.threads[0]} thread; importing the package is not in it.",
        _starting(table),
        "## Building",
        "Seconds of edgec and of the C compiler; bytes of the code (`.text`), of the weights and of the arena.",
        _building(table),
        *_absent(table),
    ]
    return "\n\n".join(parts) + "\n"


def _spoiled(table: Table) -> list[str]:
    lines = [f"* {name}: {'; '.join(why)}" for name in table.names if (why := table.spoiled(name))]
    return lines or ["None is."]


def _rows(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def _latency(table: Table, threads: int) -> str:
    own = list(dict.fromkeys(e for _, entry in table.of(threads) for e in entry.engines if e.startswith("edgec")))
    peers = [p for p in table.peers() if any(p in entry.engines for _, entry in table.of(threads))]
    gain = ["gain of threads"] if "edgec on 1 thread" in own else []
    own = [e for e in own if e != "edgec on 1 thread"]
    rows = []
    for name, entry in table.of(threads):
        row = [name, *(_shown(entry, e) for e in [*own, *peers])]
        low, middle, high = entry.ratio("edgec", entry.fastest) if entry.fastest else [float("nan")] * 3
        row += [entry.fastest or "-", f"{middle:.3f} ({low:.3f}–{high:.3f})"]
        flops = 2e-6 * table.builds[name]["edgec"]["macs"]
        row.append(f"{flops / entry.time('edgec') / entry.data['peak_gflops']:.0%}")
        row += [f"{1 / entry.ratio('edgec', 'edgec on 1 thread')[1]:.2f}×" for _ in gain]
        rows.append([*row, f"{entry.error('edgec'):.1e}"])
    head = ["network", *(f"{e} ms" for e in [*own, *peers]), "fastest peer", "edgec over it", "of peak", *gain, "error"]
    return _rows(head, rows)


def _starting(table: Table) -> str:
    engines = ["edgec", *table.peers()]

    def cells(entry: Entry, value: Callable[[Mapping[str, Any]], float]) -> list[str]:
        found = {e: value(x) for e, x in entry.engines.items() if e in engines and "failed" not in x}
        lowest = min(found.values())
        texts = {e: f"{x:.1f}" if x < 20 else f"{x:.0f}" for e, x in found.items()}
        return [(f"**{texts[e]}**" if found[e] == lowest else texts[e]) if e in found else "-" for e in engines]

    rows = []
    for name, entry in table.of(table.threads[0]):
        base = median(x["before_mb"] for x in entry.engines.values() if "failed" not in x)
        starts = cells(entry, lambda x: 1e3 * (x["load_s"] + x["first_s"]))
        rows.append([name, *starts, f"{base:.0f}", *cells(entry, lambda x: x["peak_mb"])])
    return _rows(["network", *(f"{e} ms" for e in engines), "Python MB", *(f"{e} MB" for e in engines)], rows)


def _building(table: Table) -> str:
    rows = []
    for name in table.names:
        for label, b in table.builds[name].items():
            seconds = f"{b['edgec_s']:.1f} + {b['compile_s']:.1f}"
            sizes = [f"{b[key]:,}" for key in ("text_bytes", "weights_bytes", "arena_bytes")]
            rows.append([name, label, str(b["kernels"]), seconds, *sizes])
    return _rows(["network", "build", "kernels", "seconds", "code", "weights", "arena"], rows)


def _absent(table: Table) -> list[str]:
    """Missing measurements, with reasons."""
    reasons: dict[str, list[str]] = {}
    for entry in table.entries.values():
        failed = {e: x["failed"] for e, x in entry.engines.items() if "failed" in x}
        for engine, reason in {**failed, **entry.data["missing"]}.items():
            where = reasons.setdefault(f"{engine}: {reason}", [])
            if entry.data["network"] not in where:
                where.append(entry.data["network"])
    if not reasons:
        return []
    return ["## Not measured", "\n".join(f"* {reason} ({', '.join(where)})" for reason, where in reasons.items())]

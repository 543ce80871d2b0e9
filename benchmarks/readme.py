"""The tables of the README and of the results in summary, end to end: networks, other engines, measurements, pages.

    python -m benchmarks.readme                 # about an hour and a half on two idle cores; 10 GB of cache
    python -m benchmarks.readme --pages-only    # the pages again, of what is measured

Networks are made and engines installed on the first run (`benchmarks.peers`, whose options of measuring are taken too).
Finished measurements are kept, so that a run that was interrupted goes on where it was. The README, the summary and
docs/results/peers.md are written, or copies of them below ``--into``. At the end stands what could not be had, measured
or kept free of other work; the exit code is 1 where there is any such thing, or a result is wrong. A table of which a
row is missing is left as it is.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import ROOT, peers
from benchmarks.engines.page import Entry, Table, page
from benchmarks.table import geometric_mean, markdown, put_into

#: Rows of the README, one of each kind of network; the summary has all.
SHOWN = ("mobilenetv2_224", "resnet50_224", "yolov8n_320", "bert_base_128", "vit_tiny_224", "dscnn_kws")
README, SUMMARY, PAGE = "README.md", "docs/results/summary.md", "docs/results/peers.md"
ENGINES = "onnxruntime, OpenVINO, LiteRT (XNNPACK), ncnn and MNN"
COMMAND = "python -m benchmarks.readme"


def section(table: Table, names: Sequence[str], link: str) -> str:
    """The section between the markers: a table of ``names``, and the means of all that were measured unspoiled."""
    entries = [entry for t in table.threads for _, entry in table.of(t)]
    head = (
        f"Median latency, interleaved with {ENGINES}, all in fp32; {entries[0].data['cpu']},\n"
        f"{max(e.data['date'] for e in entries)}; ratios are taken within the same rounds:"
    )
    heads = ["network", "edgec ms, 1 thread", "fastest peer", "onnxruntime ms", "faster than the fastest"]
    heads += ["2 threads, edgec ms", "faster than the fastest"]
    rows = []
    for name in names:
        one, two = table.entries[name, 1], table.entries[name, 2]
        peer = f"{one.fastest} {one.time(str(one.fastest)):.4g}"
        row = [name, f"{one.time('edgec'):.4g}", peer, f"{one.time('onnxruntime'):.4g}", _times(_gain(one))]
        rows.append([*row, f"{two.time('edgec'):.4g}", _times(_gain(two))])
    which = f"{len(names)} of {len(table.names)} networks. " if len(names) < len(table.names) else ""
    return "\n\n".join([
        head, markdown(heads, rows),
        f"{which}{means(table)}\nAll columns and the method: [peers]({link}). `{COMMAND}` writes this table.",
    ])  # fmt: skip


def means(table: Table) -> str:
    """Geometric means, with the range, over the networks that nothing spoiled."""
    over: dict[str, list[str]] = {"the fastest peer": [], "onnxruntime": []}
    counted = 0
    for t in table.threads:
        found = [e for name, e in table.of(t) if not table.spoiled(name)]
        counted = max(counted, len(found))
        for peer, told in over.items():
            gains = [_gain(e, "" if peer != "onnxruntime" else peer) for e in found]
            mean = f"{_times(geometric_mean(gains))} ({min(gains):.2f} to {max(gains):.2f})" if gains else "none"
            told.append(f"{mean} on {t} thread{'s' * (t > 1)}")
    said = "; over ".join(f"{peer} {' and '.join(told)}" for peer, told in over.items())
    return f"Geometric mean (range) of {counted} over {said}."


def _gain(entry: Entry, over: str = "") -> float:
    """Times that edgec is faster than a peer, the fastest by default."""
    return float(1 / entry.ratio("edgec", over or str(entry.fastest))[1])


def _times(gain: float) -> str:
    return f"{gain:.2f}x"


def gaps(table: Table, wanted: Sequence[str]) -> Iterator[str]:
    """The obstacles to whole tables, in words."""
    for name in wanted:
        lacking = [t for t in table.threads if (name, t) not in table.entries]
        if lacking:
            yield f"{name}: not measured on {' and '.join(map(str, lacking))} thread(s)"
        for why in table.spoiled(name) if not lacking else ():
            yield f"{name}: spoiled by other work: {why}"
    absent: dict[str, list[str]] = {}
    for (name, _), entry in table.entries.items():
        failed = {e: x["failed"] for e, x in entry.engines.items() if "failed" in x}
        for engine, reason in {**entry.data["missing"], **failed}.items():
            absent.setdefault(f"{engine}: {reason}", []).append(name)
    for reason, names in absent.items():
        yield f"{reason} ({', '.join(dict.fromkeys(names))})"


def write(table: Table, into: Path, seconds: float) -> list[str]:
    """Write the pages below ``into``; those that were left as they are, with the reason."""
    left = []
    complete = [n for n in table.names if all((n, t) in table.entries and _is_compared(table, n, t) for t in (1, 2))]
    for path, names in ((README, SHOWN), (SUMMARY, table.names)):
        lacking = [n for n in names if n not in complete]
        if lacking or not names:
            left.append(f"{path} is left as it was: no measurement of {', '.join(lacking) or 'any network'}")
            continue
        link = "docs/results/peers.md" if path == README else "peers.md"
        put_into(into / path, section(table, names, link))
    if table.names:
        command = f"{COMMAND} --seconds {seconds:g}"
        (into / PAGE).write_text(page(table, command), encoding="utf-8")
    return left


def _is_compared(table: Table, name: str, threads: int) -> bool:
    entry = table.entries[name, threads]
    return entry.fastest is not None and all(entry.time(e) < float("inf") for e in ("edgec", "onnxruntime"))


def main(arguments: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--cache", type=Path, default=peers.default_cache(), help="environments, conversions, results")
    p.add_argument("--into", type=Path, default=ROOT, help="the folder that has README.md and docs/results")
    p.add_argument("--seconds", type=float, default=2.0, help="of taking turns, for a measurement")
    p.add_argument("--pages-only", action="store_true", help="measure nothing")
    options, others = p.parse_known_args(arguments)
    wrong = 0
    if not options.pages_only:
        wrong = peers.main(["--cache", str(options.cache), "--seconds", str(options.seconds), *others])
    table = Table.read(options.cache / "results", peers.NETWORKS, (1, 2))
    found = [*write(table, options.into, options.seconds), *gaps(table, peers.NETWORKS)]
    print("\nNot reproduced:" if found else "\nAll tables are reproduced.")
    print("\n".join(f"* {line}" for line in found))
    return int(bool(wrong or found or not table.is_right))


if __name__ == "__main__":
    sys.exit(main())

"""Networks in 16 bits: edgec with --precision compared with itself in fp32 and with OpenVINO in bf16.

    python -m benchmarks.cpu.precision --write docs/guide/precision.md

OpenVINO takes bf16 by itself where the processor multiplies it. The error is the largest difference from the fp32
network (onnxruntime without its optimizations) over its largest value. Networks, engines and caches are those of
peers.py.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import peers
from benchmarks.engines import compare as beside
from benchmarks.engines import install as peer_install
from benchmarks.engines.install import NotHad
from benchmarks.networks.catalog import wanted

PRECISIONS = ("bf16", "fp16", "fp32")
PEER = "openvino bf16"
#: What the page's table stands behind; everything before it is written by hand.
_MARK = "<!-- benchmarks/cpu/precision.py -->\n"


def main(arguments: list[str] | None = None) -> int:
    p = beside.parser(__doc__, peers.NETWORKS)
    p.add_argument("--precisions", nargs="+", default=PRECISIONS, choices=PRECISIONS)
    p.add_argument("--no-peer", action="store_true", help="without OpenVINO")
    options = p.parse_args(arguments)
    results = beside.results_folder(options, "precision")
    pythons, _ = ({}, {}) if options.no_peer else peers.environments(["openvino"], options.cache)
    for name in (n for n in options.networks if wanted(n, options.only)):
        try:
            peer_install.make_network(name, options.folder, options.cache)
        except NotHad as problem:
            print(f"{name}: left out: {problem}", flush=True)
            continue
        path = options.folder / f"{name}.onnx"
        built = {
            kind: beside.built(path, path, results / "built" / f"{name}-{kind}", options, precision=kind)
            for kind in options.precisions
        }
        for threads in [] if options.prepare else options.threads:
            found = _measured(path, built, threads, pythons, options)
            beside.keep(results, found, _row(found))
    if options.write:
        before = options.write.read_text(encoding="utf-8").partition(_MARK)[0] if options.write.is_file() else ""
        options.write.write_text(before + _MARK + _page(results, options), encoding="utf-8")
    return 0


def _measured(
    path: Path, built: Mapping[str, Any], threads: int, pythons: Mapping[str, str], options: argparse.Namespace
) -> dict[str, Any]:
    engines = [beside.engine(f"edgec {kind}", "edgec", b["folder"], threads) for kind, b in built.items()]
    engines += [beside.engine(PEER, PEER, path, threads, python) for python in pythons.values()]
    sizes = {kind: b["weights_bytes"] for kind, b in built.items()}
    return beside.measured(path, engines, threads, options, bytes=sizes)


def _row(found: Mapping[str, Any]) -> list[str]:
    """Network, threads, a time an engine, the two ratios of bf16, an error an engine, megabytes of weights."""
    turns = beside.Turns(found)
    labels = [*(f"edgec {p}" for p in PRECISIONS), PEER]
    sizes = [f"{found['bytes'][p] / 1e6:.3g}" if p in found["bytes"] else "-" for p in PRECISIONS]
    ratios = [turns.over("edgec bf16", PEER), turns.over("edgec bf16", "edgec fp32")]
    errors = [turns.error(label) for label in labels if label != "edgec fp32"]
    return [found["network"], str(found["threads"]), *map(turns.ms, labels), *ratios, *errors, *sizes]


def _page(results: Path, options: argparse.Namespace) -> str:
    head = ["network", "threads", *(f"{p} ms" for p in PRECISIONS), f"{PEER} ms", "bf16 over it", "bf16 over fp32"]
    head += ["error bf16", "error fp16", f"error {PEER}", *(f"{p} MB" for p in PRECISIONS)]
    said = "Written by `{command}`; {cpu}, {date}.".format(**beside.provenance("cpu.precision", options))
    return f"\n{said}\n\n" + beside.table(head, beside.rows(results, options.networks, options, _row))


if __name__ == "__main__":
    sys.exit(main())

"""Networks in 16 bits: edgec with --precision beside itself in fp32 and beside OpenVINO in bf16, in turns.

    python benchmarks/precision.py --write docs/precision.md

OpenVINO takes bf16 by itself where the processor multiplies it. The error is the largest difference from the fp32
network (onnxruntime without its optimizations) over its largest value. Networks, engines and caches are those of
peers.py.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import peer_install
import peers
from networks import wanted
from peer_install import NotHad

import edgec
from edgec.device.facts import load_device

PRECISIONS = ("bf16", "fp16", "fp32")
PEER = "openvino bf16"
#: What the page's table stands behind; everything before it is written by hand.
_MARK = "<!-- benchmarks/precision.py -->\n"


def main(arguments: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--cache", type=Path, default=peers._default_cache(), help="environments, networks, results")
    p.add_argument("--folder", type=Path, help="NAME.onnx and NAME.in.npz; made in the cache by default")
    p.add_argument("--networks", nargs="+", metavar="NAME", default=peers.NETWORKS)
    p.add_argument("--only", action="append", default=[], metavar="PATTERN", help="names to measure; may be repeated")
    p.add_argument("--precisions", nargs="+", default=PRECISIONS, choices=PRECISIONS)
    p.add_argument("--no-peer", action="store_true", help="without OpenVINO")
    p.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    p.add_argument("--seconds", type=float, default=6.0, help="of taking turns, for a measurement")
    p.add_argument("--again", action="store_true", help="build what is built already")
    p.add_argument("--prepare", action="store_true", help="install and build, but do not measure")
    p.add_argument("--under", type=shlex.split, default=[], metavar="COMMAND", help="run measurements under a command")
    p.add_argument("--write", type=Path, metavar="FILE", help="write the table into the page")
    options = p.parse_args(arguments)
    options.folder = options.folder or options.cache / "networks"
    results = options.cache / "precision"
    results.mkdir(parents=True, exist_ok=True)
    pythons, _ = ({}, {}) if options.no_peer else peers._environments(["openvino"], options.cache)
    for name in (n for n in options.networks if wanted(n, options.only)):
        try:
            peer_install.make_network(name, options.folder, options.cache)
        except NotHad as problem:
            print(f"{name}: left out: {problem}", flush=True)
            continue
        path = options.folder / f"{name}.onnx"
        built = {precision: _built(path, precision, results, options) for precision in options.precisions}
        for threads in [] if options.prepare else options.threads:
            found = {**_measured(path, built, threads, pythons, options), "built": built}
            (results / f"{name}.{threads}.json").write_text(json.dumps(found, indent=1) + "\n")
            print(" | ".join(_row(found)), flush=True)
    if options.write:
        command = shlex.join(["python", "benchmarks/precision.py", *(sys.argv[1:] if arguments is None else arguments)])
        before = options.write.read_text(encoding="utf-8").partition(_MARK)[0] if options.write.is_file() else ""
        options.write.write_text(before + _MARK + _page(results, options, command), encoding="utf-8")
    return 0


def _built(path: Path, precision: str, results: Path, options: argparse.Namespace) -> dict[str, Any]:
    """The folder of an artefact and the bytes it needs; built once, or --again."""
    folder = results / "built" / f"{path.stem}-{precision}"
    lock = folder / "edgec.lock"
    if not lock.is_file() or options.again:
        folder.parent.mkdir(exist_ok=True)
        shapes = {name: array.shape for name, array in peers._inputs(path).items()}
        edgec.build(path, folder, shapes=shapes, threads=max(options.threads), device="host", precision=precision)
    facts = json.loads(lock.read_text())
    return {"folder": str(folder.absolute()), **{key: facts[key] for key in ("weights_bytes", "arena_bytes")}}


def _measured(
    path: Path, built: Mapping[str, Any], threads: int, pythons: Mapping[str, str], options: argparse.Namespace
) -> dict[str, Any]:
    engines = [
        {"label": f"edgec {label}", "engine": "edgec", "python": sys.executable, "model": b["folder"],
         "threads": threads} for label, b in built.items()
    ]  # fmt: skip
    for python in pythons.values():
        model = str(path.absolute())
        engines.append({"label": PEER, "engine": PEER, "python": python, "model": model, "threads": threads})
    inputs, reference = path.with_suffix(".in.npz"), peers._reference(path, options.cache)
    took = peers.in_turns(engines, inputs, reference, threads, options)
    return {"network": path.stem, "threads": threads, **took}


def _row(found: Mapping[str, Any]) -> list[str]:
    """Network, threads, a time an engine, the two ratios of bf16, an error an engine, megabytes of weights."""
    engines = found["engines"]
    turns = {label: np.array(e["blocks"]["median"]) for label, e in engines.items() if "failed" not in e}

    def ms(label: str) -> str:
        return f"{median(turns[label]):.4g}" if label in turns else "failed" if label in engines else "-"

    def over(a: str, b: str) -> str:
        return f"{median(turns[a] / turns[b]):.3f}" if a in turns and b in turns else "-"

    def error(label: str) -> str:
        value = engines.get(label, {}).get("error", "-")
        return f"{value:.1e}" if isinstance(value, float) else str(value)

    labels = [*(f"edgec {p}" for p in PRECISIONS), PEER]
    sizes = [f"{found['built'][p]['weights_bytes'] / 1e6:.3g}" if p in found["built"] else "-" for p in PRECISIONS]
    ratios = [over("edgec bf16", PEER), over("edgec bf16", "edgec fp32")]
    errors = [error(label) for label in labels if label != "edgec fp32"]
    return [found["network"], str(found["threads"]), *map(ms, labels), *ratios, *errors, *sizes]


def _page(results: Path, options: argparse.Namespace, command: str) -> str:
    device = load_device("host")
    files = [results / f"{name}.{t}.json" for t in options.threads for name in options.networks]
    rows = [_row(json.loads(f.read_text())) for f in files if f.is_file()]
    head = ["network", "threads", *(f"{p} ms" for p in PRECISIONS), f"{PEER} ms", "bf16 over it", "bf16 over fp32"]
    head += ["error bf16", "error fp16", f"error {PEER}", *(f"{p} MB" for p in PRECISIONS)]
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    cpu = f"{device.description.partition(',')[0] or device.name}, {device.cores} cores"
    said = f"Written by `{command}`; {cpu}, {date.today().isoformat()}."
    return f"\n{said}\n\n" + "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())

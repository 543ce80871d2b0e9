"""Gain of fusion on an NVIDIA GPU, in CUDA and OpenCL: time, kernels, and bytes by ledger and by counters, in one run.

    python -m benchmarks.gpu.ablation [--only PATTERN ...] [--languages CUDA,OpenCL] [--seconds 540] [--no-counters]
        [--rows ROWS.jsonl] [--write PAGE]

A row is a network of `benchmarks.gpu.unseen` at batch 1 in fp32: with one kernel for every core operator, with fixed
patterns, planned, and planned after rewriting. All are held against onnxruntime on the processor. Each network has a
process of its own; they get ready side by side, and take turns in being timed when all are, or at seven tenths of
``--seconds``. ``--dry`` runs without a GPU: kernels in emulation, no OpenCL, no times. ``--only none`` writes the page
of the rows that are there.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shlex
import statistics
import sys
import tempfile
import time
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.alone import Row, append_row, read_rows
from benchmarks.gpu import ablation_page, zoo_page
from benchmarks.gpu.turns import Turns, take
from edgec.bench import counters

DEVICES = {"CUDA": "cuda_sm90", "OpenCL": "opencl_h200"}
#: The part of the time in which rows are made ready.
READY = 0.7
#: Modes of the planner, and whether rules rewrite first.
VARIANTS = {"unfused": ("none", False), "patterns": ("fixed", False), "planner": ("planner", False),
            "planner + rules": ("planner", True)}  # fmt: skip
#: Variants whose bytes are counted: a launch takes the profiler a tenth of a second.
COUNTED = ("patterns", "planner + rules")
#: Networks beside those of `benchmarks.gpu.unseen`.
MORE = ("tinybert_128", "unet_256")
ROUNDS, RUNS = 5, 30


def recipes() -> dict[str, Any]:
    """The recipe of each network, by name."""
    from benchmarks.gpu.unseen import UNSEEN
    from benchmarks.networks.make import RECIPES

    return {**UNSEEN, **{name: RECIPES[name] for name in MORE}}


class One:
    """One network: the steps until it can be timed, and what was found."""

    def __init__(self, entry: dict[str, Any], folder: Path, is_dry: bool) -> None:
        self.name, self.folder, self.is_dry = entry["name"], folder, is_dry
        self.languages = [x for x in entry["languages"] if x == "CUDA" or not is_dry]
        self.is_counted = entry["is_counted"] and not is_dry
        self.row: Row = {"name": self.name, "variants": {x: {} for x in self.languages}}
        self.networks: dict[tuple[str, str], Any] = {}
        self.inputs = folder / "ordered.npz"

    def prepare(self) -> None:
        import onnxruntime

        from benchmarks.networks import make as make_networks
        from edgec import pipeline
        from edgec.options import resolve
        from edgec.pipeline.context import Context
        from edgec.rewrite import simplify

        self._begin("export")
        make_networks.make(self.name, self.folder, recipes()[self.name])
        path = self.folder / f"{self.name}.onnx"
        inputs = dict(np.load(self.folder / f"{self.name}.in.npz"))
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
        outputs = [o.name for o in session.get_outputs()]
        want = dict(zip(outputs, session.run(outputs, inputs)))
        imported = pipeline.import_(str(path), Context(resolve({})))
        rewritten = simplify(imported)[0]
        np.savez(self.inputs, **{n.attributes["name"]: inputs[n.attributes["name"]] for n in imported.inputs})
        for language in self.languages:
            for variant, (mode, is_rewritten) in VARIANTS.items():
                self._begin(f"{language} {variant}")
                self._build(language, variant, rewritten if is_rewritten else imported, mode, inputs, want)
        self._begin("time")

    def _begin(self, step: str) -> None:
        """Says what comes next, also to those who wait."""
        self.row["step"] = step
        (self.folder / "step").write_text(step, encoding="utf-8")

    def _build(self, language: str, variant: str, graph: Any, mode: str, inputs: Any, want: Any) -> None:
        import edgec
        from edgec.report import traffic

        more = {"compiler": "emulated"} if self.is_dry else {}
        folder = self.folder / f"{language}_{mode}_{variant.count('+')}"
        begun = time.perf_counter()
        built = edgec.build(graph, folder, start="compress", fuse=mode, device=DEVICES[language], name="net", **more)
        moved = traffic.of_plan(built.stages.plan)
        found = self.row["variants"][language][variant] = {
            "kernels": built.kernels, "read": moved.read, "written": moved.written,
            "build_s": round(time.perf_counter() - begun, 1), "prefetched": counters.prefetched(built.program.kernels),
        }  # fmt: skip
        if self.is_dry:
            got = built.network.run(inputs)
        else:
            with np.load(self.inputs) as data:
                ordered = [np.ascontiguousarray(data[k]) for k in data.files]
            network = self.networks[language, variant] = _opened(folder)
            network.poison(0xFF)
            result = network(*ordered)
            got = dict(zip(want, result if isinstance(result, tuple) else (result,)))
        found["error"] = max(
            float(np.abs(np.asarray(got[k], np.float64) - w).max() / max(np.abs(w).max(), 1e-30))
            for k, w in want.items()
        )

    def time(self) -> None:
        times: dict[tuple[str, str], list[float]] = {key: [] for key in self.networks}
        for _ in range(ROUNDS):
            for key, network in self.networks.items():
                found = network.milliseconds(RUNS)
                times[key].append(float(found[0] if isinstance(found, tuple) else found))
        for (language, variant), ms in times.items():
            found = self.row["variants"][language][variant]
            found |= {"ms": statistics.median(ms), "least_ms": min(ms), "most_ms": max(ms)}
        if self.is_counted:
            self._count()

    def _count(self) -> None:
        for variant in COUNTED:
            mode, found = VARIANTS[variant][0], self.row["variants"]["CUDA"][variant]
            try:
                counted = counters.count(self.folder / f"CUDA_{mode}_{variant.count('+')}", self.inputs, 100)
            except Exception as problem:
                found["uncounted"] = f"{type(problem).__name__}: {problem}"[:400]
                continue
            found |= {
                "launches": len(counted),
                "read_counted": sum(c.read for c in counted),
                "written_counted": sum(c.written for c in counted),
            }


def _opened(folder: Path) -> Any:
    """The network of a built folder: each has a module of its own."""
    spec = importlib.util.spec_from_file_location(f"net_{folder.name}", folder / "net.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Net()


def one(job: dict[str, Any]) -> None:
    """The process of one network."""
    take(lambda: One(job["entry"], Path(job["folder"]), job["is_dry"]))


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--only", nargs="+", default=["*"], help="patterns of networks")
    p.add_argument("--languages", default="CUDA,OpenCL", help="separated by commas")
    p.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="networks made ready side by side")
    p.add_argument("--seconds", type=float, default=540, help="of the whole run")
    p.add_argument("--no-counters", action="store_true", help="time only")
    p.add_argument("--rows", type=Path, default=Path(tempfile.gettempdir()) / "ablation_gpu.jsonl")
    p.add_argument("--write", type=Path, help="the page of results")
    p.add_argument("--dry", action="store_true")
    p.add_argument("--one", help=argparse.SUPPRESS)
    options = p.parse_args()
    if options.one:
        one(json.loads(options.one))
        return
    if options.only != ["none"]:
        options.rows.unlink(missing_ok=True)
        until = time.time() + READY * options.seconds
        turns = Turns(__spec__.name, options.jobs, until, until + (1 - READY) * options.seconds)
        machine = zoo_page.machine(options.dry)
        shared = {"languages": options.languages.split(","), "is_counted": not options.no_counters}
        names = [name for name in recipes() if any(fnmatch(name, pattern) for pattern in options.only)]
        for row in turns.rows({name: {"name": name, **shared} for name in names}, options.dry):
            append_row(options.rows, row | machine | {"command": shlex.join(sys.argv[1:])})
            print(row["name"], row.get("late") or row.get("error_message") or "timed", flush=True)
    text = ablation_page.text(list(read_rows(options.rows).values()))
    print(text)
    if options.write:
        options.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

"""Twelve networks on an NVIDIA GPU in fp32, TF32, fp16 and int8 beside PyTorch's best on the same machine, in one run.

    python -m benchmarks.gpu.precisions [--only PATTERN ...] [--modes eager,graph,reduce-overhead] [--seconds 540]
        [--launches 12] [--rows ROWS.jsonl] [--write PAGE]

A row is a network in a precision, at batch 1. Results are compared with onnxruntime's in fp32 on the processor, those
of int8 with the evaluation of the quantized graph too. PyTorch runs the same module in the same precision: eagerly, as
a CUDA graph and through torch.compile; it has no int8. Each row has a process of its own; they get ready side by side,
and take turns in being timed when all are, or at three quarters of ``--seconds``. ``--launches`` prints the longest
launches. ``--dry`` runs without a GPU: kernels in emulation, no times. ``--only none`` writes the page of the rows that
are there.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shlex
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.alone import Row, append_row, read_rows
from benchmarks.gpu import precisions_page, zoo_page
from benchmarks.gpu.turns import Turns, take

DEVICE = "cuda_sm90"
#: The part of the time in which rows are made ready.
READY = 0.75
PRECISIONS = ("fp16", "tf32", "fp32", "int8")
MODES = ("eager", "graph", "reduce-overhead")
NETWORKS = (
    "densenet121", "efficientnet_v2_s", "swin_t", "convnext_tiny", "whisper_tiny_encoder", "distilbert_128",
    "bert_base_128", "vit_tiny_224", "resnet50", "regnet_y_800mf", "mobilenet_v3_large", "shufflenet_v2_x1_0",
)  # fmt: skip
#: The rows: one precision of all networks after the other, so that few processes wait for the same export.
ROWS = {f"{name}:{p}": {"network": name, "precision": p} for p in PRECISIONS for name in NETWORKS}

Arrays = dict[str, np.ndarray[Any, Any]]


class One:
    """One row: the steps until it can be timed, and what was found."""

    def __init__(self, name: str, entry: dict[str, Any], folder: Path, is_dry: bool, until: float) -> None:
        self.folder, self.is_dry, self.until = folder, is_dry, until
        self.modes, self.longest = entry.pop("modes"), entry.pop("longest")
        self.network, self.precision = entry["network"], entry["precision"]
        self.row: Row = {"name": name, **entry}
        self.calls: dict[str, Callable[[], float]] = {}

    def prepare(self) -> None:
        import torch

        torch.set_num_threads(1)
        self._begin("export")
        path, inputs, want = self._made()
        self._begin("build")
        self._build(path, inputs, want)
        self._begin("torch")
        if self.modes and self.precision != "int8":
            self._compile(list(inputs.values()))
        self._begin("time")

    def _begin(self, step: str) -> None:
        """Says what comes next, also to those who wait."""
        self.row["step"] = step
        (self.folder / "step").write_text(step, encoding="utf-8")

    def _made(self) -> tuple[Path, Arrays, Arrays]:
        """The network, inputs and onnxruntime's results; made once for the rows of a network."""
        import onnxruntime

        from benchmarks.gpu.unseen import UNSEEN
        from benchmarks.networks import make as make_networks

        shared = self.folder.parent / self.network
        with open(f"{shared}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            path, reference = Path(f"{shared}.onnx"), Path(f"{shared}.ref.npz")
            if not reference.is_file():
                make_networks.make(self.network, shared.parent, UNSEEN[self.network])
                inputs = dict(np.load(f"{shared}.in.npz"))
                settings = onnxruntime.SessionOptions()
                settings.intra_op_num_threads = 1
                session = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
                names = [o.name for o in session.get_outputs()]
                np.savez(reference, **dict(zip(names, session.run(names, inputs))))
        return path, dict(np.load(f"{shared}.in.npz")), dict(np.load(reference))

    def _build(self, path: Path, inputs: Arrays, want: Arrays) -> None:
        """Build the network, and hold its results against onnxruntime's."""
        import edgec
        from edgec.execute.executor import run_graph

        options: dict[str, Any] = {"precision": self.precision} if self.precision not in ("fp32", "int8") else {}
        if self.precision == "int8":
            options = {"precision": "int8", "calibrate": f"{self.folder.parent / self.network}.in.npz"}
        if self.is_dry:
            options["compiler"] = "emulated"
        begun = time.perf_counter()
        built = edgec.build(path, self.folder / "net", device=DEVICE, name="net", **options)
        self.row |= {"kernels": built.kernels, "build_s": round(time.perf_counter() - begun, 1)}
        ordered = [np.ascontiguousarray(inputs[n.attributes["name"]]) for n in built.stages.graph.inputs]
        described = [f"{k.template} {k.describe}"[:300] for k in built.program.kernels]
        if self.is_dry:
            got = built.network.run(inputs)
        else:
            sys.path.insert(0, str(self.folder / "net"))
            import net

            network = net.Net()
            network.poison(0xFF)
            found = network(*ordered)
            got = dict(zip(want, found if isinstance(found, tuple) else (found,)))
            again = network(*ordered)
            self.row["repeats"] = all(
                np.array_equal(a, b) for a, b in zip(again if isinstance(again, tuple) else (again,), got.values())
            )
            self.calls["edgec"] = lambda: self._ours(network, described)
        self.row["error"] = apart(got, want)
        if self.precision == "int8":
            self.row["error_of_integers"] = apart(got, run_graph(built.graph, inputs))

    def _ours(self, network: Any, described: list[str]) -> float:
        found: float = sorted(network.milliseconds(100) for _ in range(7))[3]
        if self.longest:
            each = [float(x) for x in network.profile()]
            self.row["sum_of_launches"] = sum(each)
            longest = sorted(zip(each, range(len(each)), described), reverse=True)[: self.longest]
            self.row["longest"] = [[round(ms * 1e3, 2), k, said] for ms, k, said in longest]
        return found

    def _compile(self, arrays: list[Any]) -> None:
        import torch

        from benchmarks.gpu import torch_modes
        from benchmarks.gpu.unseen import UNSEEN
        from benchmarks.networks import make as make_networks

        torch_modes.no_tf32(self.precision != "tf32")
        torch.manual_seed(zlib.crc32(self.network.encode()))
        recipe, dtype = UNSEEN[self.network], torch.float16 if self.precision == "fp16" else torch.float32
        module = recipe.make()
        with torch.no_grad():
            make_networks.draw_weights(module)
        place = "cpu" if self.is_dry else "cuda"
        module = module.eval().to(place, dtype)
        given = [torch.from_numpy(a).to(place) for a in arrays]
        given = [a.to(dtype) if a.is_floating_point() else a for a in given]
        if len(recipe.picture) == 3:
            module = module.to(memory_format=torch.channels_last)
            given = [a.to(memory_format=torch.channels_last) for a in given]
        with torch.inference_mode():
            modes = self.modes[:1] if self.is_dry else self.modes
            ways, self.row["torch"] = torch_modes.ways_of(module, given, modes, self.until)
            for mode, run in ways.items():
                run()
                if not self.is_dry:
                    self.calls[mode] = lambda run=run: torch_modes.milliseconds(run)  # type: ignore[misc]

    def time(self) -> None:
        from benchmarks.gpu.torch_modes import timed

        timed(self.calls, self.row)


def apart(got: Arrays, want: Arrays) -> float:
    """The largest difference of an output over its largest value."""
    return max(
        float(np.abs(np.asarray(got[k], np.float64) - w).max() / max(np.abs(w).max(), 1e-30)) for k, w in want.items()
    )


def one(job: dict[str, Any]) -> None:
    """The process of one row."""
    entry = dict(job["entry"])
    take(lambda: One(entry.pop("name"), entry, Path(job["folder"]), job["is_dry"], job["until"]))


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--only", nargs="+", default=["*"], help=f"patterns of {', '.join(ROWS)}")
    p.add_argument("--modes", default=",".join(MODES), help="of PyTorch, separated by commas")
    p.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="rows made ready side by side")
    p.add_argument("--seconds", type=float, default=540, help="of the whole run")
    p.add_argument("--launches", type=int, default=0, help="the longest launches that are printed")
    p.add_argument("--rows", type=Path, default=Path(tempfile.gettempdir()) / "precisions_gpu.jsonl")
    p.add_argument("--resume", action="store_true", help="keep the rows that are there, and time those that are not")
    p.add_argument("--write", type=Path, help="the page of results")
    p.add_argument("--dry", action="store_true")
    p.add_argument("--one", help=argparse.SUPPRESS)
    options = p.parse_args()
    if options.one:
        one(json.loads(options.one))
        return
    chosen = {name: e for name, e in ROWS.items() if any(fnmatch(name, pattern) for pattern in options.only)}
    if options.resume:
        there = read_rows(options.rows)
        chosen = {name: e for name, e in chosen.items() if there.get(name, {}).get("step") != "done"}
    elif chosen:
        options.rows.unlink(missing_ok=True)
    if chosen:
        until = time.time() + READY * options.seconds
        turns = Turns(__spec__.name, options.jobs, until, until + (1 - READY) * options.seconds)
        machine = zoo_page.machine(options.dry)
        shared = {"modes": [m for m in options.modes.split(",") if m], "longest": options.launches}
        entries = {name: {"name": name, **shared, **e} for name, e in chosen.items()}
        for row in turns.rows(entries, options.dry):
            append_row(options.rows, row | machine | {"command": shlex.join(sys.argv[1:])})
            print(json.dumps({k: v for k, v in row.items() if k != "longest"})[:600], flush=True)
            for us, k, said in row.get("longest", ()):
                print(f"    {us:8.2f} us  launch {k}: {said}", flush=True)
    text = precisions_page.text(list(read_rows(options.rows).values()))
    print(text)
    if options.write:
        options.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

"""An encoder of BERT-large's form and a decoder of 1B's in fp16 on two GPUs: edgec and PyTorch, on one GPU and on both.

    python -m benchmarks.gpu.two [--only PATTERN ...] [--layers 4] [--seconds 270] [--rows ROWS.jsonl] [--write PAGE]

A row is a shape and a way to run it. edgec runs on one GPU, divided by tensors with NCCL, the same through peer memory
(the batch in two parts, whose exchanges overlap with kernels, and at once), and divided by rows of the batch. PyTorch
runs on one GPU, by tensors with NCCL as Megatron-LM divides them (two processes, NCCL inside the CUDA graphs), and by
rows. All runs are CUDA graphs; errors are beside PyTorch in fp32. The rows get ready side by side and are timed one
after the other; they are written as they come, and those that are there with a time are kept. ``--dry`` builds small
networks in emulation and takes no times. Needs onnx, torch with NCCL, nvcc and two GPUs. NVLink multicast is left off.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import environment
from benchmarks.alone import Row, append_row, read_rows
from benchmarks.gpu import two_page, zoo_page
from benchmarks.gpu.turns import Turns, take
from benchmarks.gpu.two_networks import NETWORKS, Decoder, Encoder

DEVICE = "cuda_sm90"
#: By name: the network and its sizes; ``layers`` are those of the command line.
SHAPES: dict[str, tuple[str, dict[str, int]]] = {
    "8x512": ("encoder", {"batch": 8, "length": 512}), "1x128": ("encoder", {"batch": 1, "length": 128}),
    "32x512": ("encoder", {"batch": 32, "length": 512}), "token": ("decoder", {"length": 256}),
}  # fmt: skip
WAYS = (
    "edgec one", "edgec nccl", "edgec peer", "edgec at-once", "edgec rows", "torch one", "torch tensor", "torch rows",
)  # fmt: skip
#: The part of the time in which rows are made ready.
READY = 0.75
#: Times that are taken of each way.
TIMES = 7

os.environ.setdefault("NCCL_NVLS_ENABLE", "0")


def many(ms: float) -> int:
    """Runs between two events: about a tenth of a second."""
    return min(100, max(5, int(100 / max(ms, 1e-3))))


class One:
    """One row: the steps until it can be timed, and what was found."""

    def __init__(self, name: str, entry: dict[str, Any], folder: Path, is_dry: bool) -> None:
        self.folder, self.is_dry, self.row = folder, is_dry, Row({"name": name, **entry})
        kind, small = NETWORKS[entry["network"]]
        self.network = kind(**(small if is_dry else entry["sizes"]))
        self.system, self.way = entry["way"].split()
        self.call: Callable[[int], float] | None = None

    def _begin(self, step: str) -> None:
        self.row["step"] = step
        (self.folder / "step").write_text(step, encoding="utf-8")

    def prepare(self) -> None:
        self._begin("reference")
        self.weights = self.network.weights()
        self.given = self.network.given()
        self.wanted = self._reference()
        if self.system == "edgec":
            self._prepare_ours()
        elif not self.is_dry:
            self._prepare_torch()

    def _reference(self) -> np.ndarray[Any, Any]:
        """The output in fp32, computed without TF32."""
        if self.is_dry:
            import onnxruntime

            session = onnxruntime.InferenceSession(self.network.onnx().SerializeToString())
            return np.asarray(session.run(["y"], self.given)[0])
        import torch

        torch.backends.cuda.matmul.allow_tf32 = False
        with torch.inference_mode():
            run = self.network.torch(self.weights, torch.float32)
            if isinstance(self.network, Encoder):  # one sample after the other: the scores of all take much memory
                found = [run(torch.from_numpy(x[None]).cuda())[0].cpu().numpy() for x in self.given["x"]]
            else:
                found = run(*(torch.from_numpy(x).cuda() for x in self.given.values())).cpu().numpy()
        del run
        torch.cuda.empty_cache()
        return np.asarray(found)

    def _error(self, got: Any) -> float:
        first = got[0] if isinstance(got, tuple) else got
        found = np.asarray(first, np.float64).reshape(self.wanted.shape)
        return float(np.abs(found - self.wanted).max() / np.abs(self.wanted).max())

    # ---- edgec

    def _prepare_ours(self) -> None:
        import edgec

        self._begin("build")
        begun = time.perf_counter()
        given: dict[str, Any] = {"device": DEVICE, "precision": "fp16"}
        given |= {"compiler": "emulated"} if self.is_dry else {}
        folder, model = self.folder / "net", self.network.onnx()
        if self.way == "one":
            edgec.build(model, folder, **given)
        else:
            split = "rows" if self.way == "rows" else "tensor" if isinstance(self.network, Encoder) else "auto"
            overlap = self.way == "peer"
            built = edgec.build_gpus(model, folder, gpus=2, split=split, force=True, overlap=overlap, **given)
            self.row |= {"verdict": built.verdict, "sums": built.sums, "chunks": built.chunks}
        self.row["build_s"] = round(time.perf_counter() - begun, 1)
        self._begin("open")
        os.environ["EDGEC_EXCHANGE"] = {"nccl": "nccl", "peer": "peer", "at-once": "peer"}.get(self.way, "")
        spec = importlib.util.spec_from_file_location("net", folder / "net.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        network = module.Net()
        self.row["exchange"] = getattr(network, "exchange", None)
        self._begin("run")
        for _ in range(2):
            network.poison(0xFF)
            self.row["error"] = self._error(network(*self.given.values()))
        self.call = lambda runs: float(network.milliseconds(runs))

    # ---- PyTorch

    def _prepare_torch(self) -> None:
        import torch

        from benchmarks.gpu.torch_modes import between_events

        self._begin("torch")
        if self.way == "one":
            run, x = Part(self.network, self.weights, "one", 0).captured()
            self.call = lambda runs: between_events(run, runs)
            run()
            torch.cuda.synchronize()
            self.row["error"] = self._error(x().float().cpu().numpy())
            return
        sizes = {"network": self.row["network"], "sizes": vars(self.network)}
        job = {**sizes, "way": self.way, "meet": str(self.folder / "meet")}
        other = subprocess.Popen(
            [sys.executable, "-m", __spec__.name, "--other", json.dumps(job)], env=environment(),
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        part = Part(self.network, self.weights, self.way, 0, str(self.folder / "meet"))
        run, result = part.captured()

        def timed(runs: int) -> float:
            assert other.stdin is not None
            print(runs, file=other.stdin, flush=True)
            return part.together(run, runs)

        timed(1)
        own = result().float().cpu().numpy()
        wanted = self.wanted[: own.shape[0]]
        self.row["error"] = float(np.abs(own - wanted).max() / np.abs(wanted).max())
        self.call = timed

    def time(self) -> None:
        if self.call is not None and not self.is_dry:
            runs = many(self.call(3))
            found = sorted(self.call(runs) for _ in range(TIMES))
            if found[0] < 0:
                raise RuntimeError("a run failed while it was timed")
            self.row["ms"], self.row["spread"] = found[TIMES // 2], found[-1] - found[0]
        self.row["step"] = "done"


class Part:
    """PyTorch's part of a network on one GPU: all of it, the part of a rank, or the rank's rows of the batch."""

    def __init__(self, network: Encoder | Decoder, weights: Any, way: str, rank: int, meet: str = "") -> None:
        import torch
        import torch.distributed as dist

        torch.cuda.set_device(rank)
        torch.backends.cuda.matmul.allow_tf32 = False
        self.dist: Any = dist
        if way != "one":
            os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "0"
            dist.init_process_group("nccl", init_method=f"file://{meet}", rank=rank, world_size=2)
        given = [torch.from_numpy(x).cuda().to(torch.float16) for x in network.given().values()]
        if way == "rows":
            given = [x.chunk(2)[rank].contiguous() for x in given]
        elif way == "tensor" and isinstance(network, Decoder):  # caches of the rank's heads
            given[1:] = [x.chunk(2)[rank].contiguous() for x in given[1:]]
        self.given = given

        def summed(value: Any) -> Any:
            dist.all_reduce(value)
            return value

        ranks = 2 if way == "tensor" else 1
        more = {"summed": summed} if way == "tensor" else {}
        self.run: Callable[..., Any] = network.torch(weights, torch.float16, rank if ranks > 1 else 0, ranks, **more)

    def captured(self) -> tuple[Callable[[], Any], Callable[[], Any]]:
        """A run as a CUDA graph, and its result."""
        import torch

        with torch.inference_mode():
            aside = torch.cuda.Stream()
            with torch.cuda.stream(aside):
                for _ in range(3):
                    self.run(*self.given)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                y = self.run(*self.given)
        return graph.replay, lambda: y

    def together(self, run: Callable[[], Any], runs: int) -> float:
        """Milliseconds of a run on the slower of both GPUs, which begin together."""
        import torch

        from benchmarks.gpu.torch_modes import between_events

        self.dist.barrier()
        torch.cuda.synchronize()
        found = torch.tensor([between_events(run, runs)], device="cuda")
        self.dist.all_reduce(found, op=self.dist.ReduceOp.MAX)
        return float(found.item())


def other(job: dict[str, Any]) -> None:
    """The process of PyTorch's second GPU: it runs as often as it is told, a line at a time."""
    network = NETWORKS[job["network"]][0](**job["sizes"])
    part = Part(network, network.weights(), job["way"], 1, job["meet"])
    run, _ = part.captured()
    for line in sys.stdin:
        part.together(run, int(line))


def one(job: dict[str, Any]) -> None:
    """The process of one row."""
    entry = dict(job["entry"])
    take(lambda: One(entry.pop("name"), entry, Path(job["folder"]), job["is_dry"]))


def rows_of(layers: int) -> dict[str, dict[str, Any]]:
    """The rows, by name. A batch of one has no rows to divide, and no parts."""
    return {
        (name := f"{shape}:{way.replace(' ', '-')}"): {
            "name": name, "shape": shape, "network": network, "sizes": {**sizes, "layers": layers}, "way": way
        }
        for shape, (network, sizes) in SHAPES.items() for way in WAYS
        if sizes.get("batch", 1) > 1 or way.split()[1] not in ("rows", "at-once")
    }  # fmt: skip


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--only", nargs="+", default=["*"], help="patterns of rows, such as 8x512:edgec-*")
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--seconds", type=float, default=270, help="of the whole run")
    p.add_argument("--rows", type=Path, default=Path(tempfile.gettempdir()) / "two_gpus.jsonl")
    p.add_argument("--write", type=Path, help="the page of results")
    p.add_argument("--dry", action="store_true")
    p.add_argument("--one", help=argparse.SUPPRESS)
    p.add_argument("--other", help=argparse.SUPPRESS)
    options = p.parse_args()
    if options.one or options.other:
        (one if options.one else other)(json.loads(options.one or options.other))
        return
    there = {name for name, row in read_rows(options.rows).items() if row.get("ms")}
    left = {
        name: entry for name, entry in rows_of(options.layers).items()
        if name not in there and any(fnmatch(name, pattern) for pattern in options.only)
    }  # fmt: skip
    until = time.time() + READY * options.seconds
    turns = Turns(__spec__.name, os.cpu_count() or 1, until, until + (1 - READY) * options.seconds)
    for row in turns.rows(left, options.dry):
        append_row(options.rows, row | zoo_page.machine(options.dry) | {"command": shlex.join(sys.argv[1:])})
        print(json.dumps(row)[:1500], flush=True)
    text = two_page.text(list(read_rows(options.rows).values()))
    print(text)
    if options.write:
        options.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

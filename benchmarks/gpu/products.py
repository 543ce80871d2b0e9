"""Matmuls on an NVIDIA GPU compared with cuBLAS: microseconds of one kernel, in fp16, int8 and fp32.

    python -m benchmarks.gpu.products [--device cuda_sm90] [--tiles] [--out FILE.json] [--write PAGE]

Twelve shapes: square, skinny, of transformers at batch 1, of convolutions. Both read the right factor as [n, k], as a
dense layer has it, and leave a result of the same size. Both times are of a CUDA graph of many calls, one behind the
other; cuBLAS is called through PyTorch, of floats without TF32. With --tiles every tile is timed,
not only the one that the scheduler takes. Needs nvcc, torch and a GPU.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.table import geometric_mean, markdown, put_into
from edgec import ops
from edgec.artifact.compile import compile_library
from edgec.device.cuda import pick_cuda_compiler
from edgec.device.device import Device
from edgec.device.load import load_device
from edgec.emit.project import files
from edgec.fuse import plan
from edgec.ir.graph import Graph, Node, constant, placeholder
from edgec.ir.types import Type
from edgec.schedule.build import schedule
from edgec.schedule.gpu import contract as scheduler
from edgec.schedule.gpu import tiles
from edgec.schedule.gpu.tile import AnyTile
from edgec.schedule.options import ScheduleOptions

#: (rows, columns, depth)
SHAPES = (
    (1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (16, 4096, 4096), (64, 4096, 1024),
    (128, 768, 768), (128, 3072, 768), (128, 768, 3072), (197, 768, 192),
    (3136, 64, 576), (784, 512, 128), (196, 256, 2304),
)  # fmt: skip
KINDS = {"f16": "fp16", "s8": "fp16", "f32": "fp32"}
NAMES = {"f16": "fp16", "s8": "int8", "f32": "fp32"}
PLACES = ("<!-- products -->", "<!-- end of products -->")


def graph(shape: tuple[int, int, int], kind: str, count: int, gelu: bool = False) -> Graph:
    """``count`` products of the input with one matrix; of each result the largest of a row is handed out.

    A ReLU follows each, or a GELU, which is rounded to int8 where the factors are.
    """
    rows, columns, depth = shape
    random = np.random.default_rng(0)
    given = placeholder("a", Type("f32", (rows, depth)))
    if kind != "s8":
        w = constant((random.standard_normal((depth, columns)) / depth**0.5).astype(np.float32))
    else:
        w = constant(random.integers(-127, 128, (depth, columns)).astype(np.int8))
    outputs = []
    for number in range(count):
        # As in the middle of a network: it lies in memory as it is multiplied.
        a = ops.node("mul", given, constant(np.float32(40 + number)))
        if kind == "s8":
            a = ops.node(
                "min", ops.node("max", ops.node("round", a), constant(np.float32(-127))), constant(np.float32(127))
            )
            a = ops.node("cast", a, to="i8")
            sums = ops.node("matmul", ops.node("cast", a, to="i32"), ops.node("cast", w, to="i32"))
            y = ops.node("mul", ops.node("cast", sums, to="f32"), constant(np.float32(1e-4)))
        else:
            y = ops.node("matmul", a, w)
        y = _gelu(y, kind) if gelu else ops.node("max", y, constant(np.float32(0)))
        outputs += [
            (f"y{number}", ops.node("reduce", y, combine="max", axes=(1,))),
            (f"a{number}", ops.node("slice", a, starts=(0, 0), steps=(1, 1), shape=(1, 1))),
        ]
    return Graph((given,), tuple(outputs), {}, {})


def _gelu(x: Node, kind: str) -> Node:
    inner = ops.node("erf", ops.node("mul", x, constant(np.float32(0.5**0.5))))
    y = ops.node("mul", x, ops.node("add", inner, constant(np.float32(1))))
    if kind != "s8":
        return y
    y = ops.node("add", ops.node("round", ops.node("mul", y, constant(np.float32(37)))), constant(np.float32(-120)))
    y = ops.node("min", ops.node("max", y, constant(np.float32(-128))), constant(np.float32(127)))
    return ops.node("cast", ops.node("cast", y, to="i8"), to="f32")


def offers(shape: tuple[int, int, int], kind: str, device: Device, every: bool) -> list[AnyTile]:
    rows, columns, depth = shape
    element = "s8" if kind == "s8" else ""
    chosen = tiles.tile_for(1, rows, columns, depth, device, element, True)
    if not every:
        return [chosen]
    found = [chosen]
    for offer in tiles.offers(columns, depth, device, element, True):
        count = -(-rows // offer.m) * -(-columns // offer.n)
        for split in (1, 2, 4, 8, 16):
            if split > 1 and (depth // split < 2 * offer.k or count * split > 2 * device.gpu.multiprocessors):
                break
            if count * split * 4 >= device.gpu.multiprocessors:
                found.append(replace(offer, split=split))
    return list(dict.fromkeys(found))


def made(shape: tuple[int, int, int], kind: str, device: Device, folder: Path, wanted: list[AnyTile]) -> list[int]:
    """A compiled project with a kernel for every tile; the numbers of their launches."""
    left = list(wanted)
    scheduler.tile_for = lambda *_: left.pop(0)  # type: ignore[assignment]
    program = schedule(plan(graph(shape, kind, len(wanted)), gpu=True), device, ScheduleOptions(fp32_blocks=0))
    folder.mkdir(parents=True)
    for path, content in files(program, device, "net").items():
        (folder / path).write_bytes(content)
    compile_library(folder, device, pick_cuda_compiler(device), jobs=2)
    return [k for k, kernel in enumerate(program.kernels) if kernel.template == "contract"]


def ours(folder: Path, shape: tuple[int, int, int], kind: str) -> list[float]:
    """Microseconds of every launch."""
    sys.path.insert(0, str(folder))
    import net

    random = np.random.default_rng(1)
    a = random.standard_normal((shape[0], shape[2]), dtype=np.float32)
    network = net.Net()
    network(a)
    return [float(x) * 1e3 for x in network.profile()]


def theirs(shape: tuple[int, int, int], kind: str) -> float:
    """Microseconds of cuBLAS."""
    import torch

    from benchmarks.gpu.torch_modes import microseconds_of_call

    rows, columns, depth = shape
    if kind != "s8":
        dtype = torch.float16 if kind == "f16" else torch.float32
        a = torch.randn(rows, depth, device="cuda").to(dtype)
        w = (torch.randn(columns, depth, device="cuda") / depth**0.5).to(dtype)
        run = lambda: torch.nn.functional.linear(a, w)  # noqa: E731
    else:
        a = torch.randint(-127, 128, (max(rows, 32), depth), device="cuda", dtype=torch.int8)  # it takes no fewer
        w = torch.randint(-127, 128, (columns, depth), device="cuda", dtype=torch.int8)
        run = lambda: torch._int_mm(a, w.t())  # noqa: E731
    return microseconds_of_call(run)


def drawn(found: list[dict[str, Any]]) -> str:
    """A row for every shape, two columns for every kind; the last row is of ratios, above 1 where edgec is faster."""
    kinds = list(dict.fromkeys(f["kind"] for f in found))
    times = {(f["kind"], tuple(f["shape"])): (f["us"], f["cublas_us"]) for f in found}
    rows = []
    for shape in dict.fromkeys(tuple(f["shape"]) for f in found):
        pairs = [times.get((kind, shape), (None, None)) for kind in kinds]
        rows.append([" x ".join(map(str, shape)), *(f"{us:.3g}" if us else "-" for pair in pairs for us in pair)])
    last = ["cuBLAS over edgec, geometric mean"]
    for kind in kinds:
        last += [f"{geometric_mean([b / a for (k, _), (a, b) in times.items() if k == kind]):.2f}", ""]
    head = ["rows x columns x depth", *(text for kind in kinds for text in (f"{NAMES[kind]}, us", "cuBLAS"))]
    return markdown(head, [*rows, last])


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--device", default="cuda_sm90")
    p.add_argument("--kinds", default="f16,s8")
    p.add_argument("--tiles", action="store_true")
    p.add_argument("--out", type=Path)
    p.add_argument("--write", type=Path, help="a page whose table between two marks is replaced")
    p.add_argument("--step", help=argparse.SUPPRESS)
    options = p.parse_args()
    if options.step:
        folder, shape, kind = json.loads(options.step)
        print(json.dumps(ours(Path(folder), tuple(shape), kind)))
        return
    root = Path(tempfile.mkdtemp(prefix="edgec-products-"))
    waiting = []
    results: list[dict[str, Any]] = []
    with ProcessPoolExecutor() as pool:
        for kind in options.kinds.split(","):
            device = replace(load_device(options.device), precision=KINDS[kind])
            for shape in SHAPES:
                wanted = offers(shape, kind, device, options.tiles)
                folder = root / kind / "x".join(map(str, shape))
                waiting.append((kind, shape, folder, wanted, pool.submit(made, shape, kind, device, folder, wanted)))
        for _, _, _, _, work in waiting:
            work.exception()
    for kind, shape, folder, wanted, work in waiting:
        told: dict[str, Any] = {"kind": kind, "shape": shape}
        try:
            launches = work.result()
            step = json.dumps([str(folder), shape, kind])
            done = subprocess.run(
                [sys.executable, "-m", __spec__.name, "--step", step], capture_output=True, text=True, check=True
            )
            times = json.loads(done.stdout.splitlines()[-1])
            rows = [{**vars(t), "us": round(times[k], 2)} for t, k in zip(wanted, launches)]
            best = min(rows, key=lambda r: r["us"])
            told |= {"us": rows[0]["us"], "best_us": best["us"], "best": [best[x] for x in ("m", "n", "k", "split")]}
            told["tile"] = [rows[0][x] for x in ("m", "n", "k", "split")]
            told["cublas_us"] = round(theirs(shape, kind), 2)
            results.append({**told, "tiles": rows})
        except Exception as error:
            told["failed"] = f"{error} {getattr(error, 'stderr', '')}"[-500:]
        print(json.dumps(told), flush=True)
    for kind in options.kinds.split(","):
        for name in ("us", "best_us"):
            ratios = [r["cublas_us"] / r[name] for r in results if r["kind"] == kind]
            if ratios:
                print(f"{kind} {name}: {exp(sum(map(log, ratios)) / len(ratios)):.3f} of cuBLAS in geometric mean")
    if options.out:
        options.out.write_text(json.dumps(results))
    if options.write:
        put_into(options.write, drawn(results), PLACES)


if __name__ == "__main__":
    main()

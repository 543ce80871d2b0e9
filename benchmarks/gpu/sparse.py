"""Products by 2:4 weights on an NVIDIA GPU: our dense and our sparse kernel beside PyTorch's, in fp16 and int8.

    python -m benchmarks.gpu.sparse [--only PATTERN] [--device cuda_sm90] [--tiles 3] [--seconds 290]
        [--rows ROWS.jsonl] [--write PAGE]

Twelve products of ResNet-50, BERT and ViT by weights of which two of each four along k are zero. Ours are built for
each tile among the best of the device's model, in the network's layout; convolutions are convolutions. PyTorch's are
the dense product (cuBLAS) and the semi-structured one (`torch.sparse.to_sparse_semi_structured`) by those of its
libraries that run: cuSPARSELt, with its default algorithm or that of its search, and CUTLASS; of a convolution by the
matrix of its windows, without making that. All times are of a CUDA graph of many calls, one behind the other. Errors
are of the sums of rows and of columns, relative to the largest, against float64. Six cases of attention with a mask in
blocks follow (`benchmarks.gpu.sparse_attention`).

All kernels are compiled first, side by side; then a case is timed after the other, in one process as long as that
lives, and its row is written as it comes: a run that is ended goes on with those that are missing. ``--dry`` runs
without a GPU: kernels in emulation, no times. ``--only none`` writes the page of the rows that are there. Needs nvcc,
torch and a GPU.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from fnmatch import fnmatch
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.alone import Row, append_row, read_rows
from benchmarks.gpu import sparse_attention, sparse_page
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
from edgec.schedule.gpu import tiles, two_of_four
from edgec.schedule.gpu.tile import TensorTile
from edgec.schedule.gpu.tile_cycles import cycles
from edgec.schedule.options import ScheduleOptions

#: (rows, columns, depth), or (height and width, inputs, outputs, width of the window, stride) of a convolution.
SHAPES: dict[str, tuple[int, ...]] = {
    "resnet50 3x3 64 @56": (56, 64, 64, 3, 1),
    "resnet50 3x3 128 @28": (28, 128, 128, 3, 1),
    "resnet50 3x3 256 @14": (14, 256, 256, 3, 1),
    "resnet50 3x3 512 @7": (7, 512, 512, 3, 1),
    "resnet50 1x1 256-1024 @14": (196, 1024, 256),
    "resnet50 1x1 2048-512 @7": (49, 512, 2048),
    "bert-base 128 projection": (128, 768, 768),
    "bert-base 128 FFN up": (128, 3072, 768),
    "bert-base 128 FFN down": (128, 768, 3072),
    "bert-base 512 FFN up": (512, 3072, 768),
    "bert-large 512 FFN down": (512, 1024, 4096),
    "vit-b 197 FFN up": (197, 3072, 768),
}
KINDS = ("fp16", "int8")
#: Seconds that one case may take at most.
PATIENCE = 40


def sizes(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """(rows, columns, depth) of the product."""
    if len(shape) == 3:
        return shape[0], shape[1], shape[2]
    side, inputs, outputs, window, stride = shape
    return (side // stride) ** 2, outputs, inputs * window * window


def halved(shape: tuple[int, ...], kind: str) -> np.ndarray:
    """[depth, columns] of weights, two of each four along the inputs of one tap; depth is (taps, inputs)."""
    _, columns, depth = sizes(shape)
    random = np.random.default_rng(0)
    w = (
        random.standard_normal((depth // 4, 4, columns))
        if kind == "fp16"
        else (random.integers(-127, 128, (depth // 4, 4, columns)))
    )
    w[random.random(w.shape).argsort(axis=1) > 1] = 0
    w = w.reshape(depth, columns)
    return (w * (2 / depth) ** 0.5).astype(np.float16).astype(np.float32) if kind == "fp16" else w.astype(np.int8)


def given(shape: tuple[int, ...]) -> np.ndarray:
    """The operand before it is scaled or rounded: [rows, depth], or [1, height, width, inputs]."""
    rows, _, depth = sizes(shape)
    where = (rows, depth) if len(shape) == 3 else (1, shape[0], shape[0], shape[1])
    return np.random.default_rng(1).standard_normal(where).astype(np.float32)


def scaled(x: np.ndarray, kind: str, number: int) -> np.ndarray:
    """The operand of product ``number``."""
    return (
        (x * (number + 1)).astype(np.float16)
        if kind == "fp16"
        else (np.clip(np.rint(x * np.float32(40 + number)), -127, 127).astype(np.int8))
    )


def unrolled(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """[rows, depth] of an operand, of a convolution with its taps outermost in depth."""
    if len(shape) == 3:
        return x
    _, inputs, _, window, stride = shape
    padded = np.pad(x[0], ((window // 2,) * 2, (window // 2,) * 2, (0, 0)))
    seen = np.lib.stride_tricks.sliding_window_view(padded, (window, window), axis=(0, 1))[::stride, ::stride]
    return np.ascontiguousarray(seen.transpose(0, 1, 3, 4, 2)).reshape(-1, window * window * inputs)


def product(a: Node, shape: tuple[int, ...], w: np.ndarray) -> Node:
    """The product of an operand as it lies in memory, before an epilogue: [rows, columns]."""
    bytes_ = w.dtype == np.int8
    wide = (lambda x: ops.node("cast", x, to="i32")) if bytes_ else (lambda x: x)
    if len(shape) == 3:
        return ops.node("matmul", wide(a), wide(constant(w)))
    _, inputs, outputs, window, stride = shape
    kernel = w.reshape(window, window, inputs, outputs).transpose(3, 2, 0, 1)
    image = ops.node("transpose", a, perm=(0, 3, 1, 2))
    room = window // 2
    if room:
        image = ops.node("pad", image, before=(0, 0, room, room), after=(0, 0, room, room), value=0.0)
    y = ops.node(
        "conv", wide(image), wide(constant(np.ascontiguousarray(kernel))), strides=(stride, stride), dilations=(1, 1),
        groups=1,
    )  # fmt: skip
    return ops.node("reshape", ops.node("transpose", y, perm=(0, 2, 3, 1)), shape=(sizes(shape)[0], outputs))


def graph(shape: tuple[int, ...], kind: str, count: int) -> Graph:
    """``count`` products by one matrix; of each result the sums of rows and columns are handed out."""
    w = halved(shape, kind)
    x = placeholder("a", Type("f32", given(shape).shape))
    outputs = []
    for number in range(count):
        # As in the middle of a network: it lies in memory as it is multiplied.
        a = ops.node("mul", x, constant(np.float32(number + 1 if kind == "fp16" else 40 + number)))
        if kind == "int8":
            low, high = (constant(np.float32(limit)) for limit in (-127, 127))
            a = ops.node("cast", ops.node("min", ops.node("max", ops.node("round", a), low), high), to="i8")
        y = product(a, shape, w)
        if kind == "int8":
            y = ops.node("mul", ops.node("cast", y, to="f32"), constant(np.float32(1e-4)))
        y = ops.node("max", y, constant(np.float32(0)))
        corner = (0,) * len(a.type.shape)
        part = ops.node("slice", a, starts=corner, steps=(1,) * len(corner), shape=(1,) * len(corner))
        outputs += [
            (f"r{number}", ops.node("reduce", y, combine="add", axes=(1,))),
            (f"c{number}", ops.node("reduce", y, combine="add", axes=(0,))),
            (f"a{number}", part),
        ]
    return Graph((x,), tuple(outputs), {}, {})


def offers(shape: tuple[int, ...], kind: str, device: Device, count: int) -> list[TensorTile]:
    """The tiles that are timed: dense ones, the scheduler's first, then those for 2:4."""
    element = "s8" if kind == "int8" else tiles.multiplied(device)
    size = (1, *sizes(shape))
    dense = tiles.tiles_for(*size, device, element, True)[:count]
    sparse = two_of_four.sparse_tiles_for(*size, device, element, 16)
    found: dict[tuple[int, int, int], TensorTile] = {}
    for t in sparse:  # of one tile the best split, so that shapes are tried
        found.setdefault((t.m, t.n, t.k), t)
    return [*dense, *list(found.values())[: 2 * count]]  # type: ignore[list-item]


def made(name: str, device: Device, folder: Path, count: int, compiler: str | None) -> list[Row]:
    """A compiled project with a kernel for every tile; the tiles, with the numbers of their launches."""
    if name in sparse_attention.CASES:
        return sparse_attention.made(name, device, folder, compiler)
    kind, shape = name.split(" ", 1)[0], SHAPES[name.split(" ", 1)[1]]
    wanted = offers(shape, kind, device, count)
    left = list(wanted)
    scheduler.tile_for = lambda *_: left.pop(0)  # type: ignore[assignment]
    scheduler.with_two_of_four = lambda p, tile, offer, *_: (tile, offer)  # type: ignore[assignment]
    program = schedule(plan(graph(shape, kind, len(wanted)), gpu=True), device, ScheduleOptions(fp32_blocks=0))
    folder.mkdir(parents=True)
    for path, content in files(program, device, "net").items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    compile_library(folder, device, pick_cuda_compiler(device, compiler), jobs=1)
    launches = [k for k, kernel in enumerate(program.kernels) if kernel.template == "contract"]
    assert not left and len(launches) == len(wanted), f"{len(launches)} launches for {len(wanted)} tiles"
    clock = device.gpu.clock_mhz
    size = (1, *sizes(shape))
    return [
        {
            "tile": t.name, "two_of_four": t.two_of_four, "launch": k,
            "predicted_us": round(cycles(t, *size, device) / clock, 2),
        }
        for t, k in zip(wanted, launches)
    ]  # fmt: skip


def expected(shape: tuple[int, ...], kind: str, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Sums of rows and of columns of a product's result, in float64."""
    a = unrolled(scaled(given(shape), kind, number), shape).astype(np.float64)
    y = np.maximum(a @ halved(shape, kind).astype(np.float64) * (1e-4 if kind == "int8" else 1), 0)
    return y.sum(axis=1), y.sum(axis=0)


def ours(name: str, folder: Path, rows: list[Row], is_dry: bool) -> list[Row]:
    """Rows with microseconds and errors of every tile."""
    kind, shape = name.split(" ", 1)[0], SHAPES[name.split(" ", 1)[1]]
    sys.path.insert(0, str(folder))
    sys.modules.pop("net", None)
    import net

    sys.path.pop(0)
    network = net.Net()
    got = network(given(shape))
    got = list(got.values()) if isinstance(got, dict) else list(got)
    times = [] if is_dry else [float(x) * 1e3 for x in network.profile()]
    network.close()
    for number, row in enumerate(rows):
        row["error"] = max(
            float(np.abs(np.asarray(have, np.float64).reshape(-1) - want).max() / np.abs(want).max())
            for have, want in zip(got[3 * number : 3 * number + 2], expected(shape, kind, number))
        )
        row["us"] = None if is_dry else round(times[row.pop("launch")], 2)
    return rows


def _timed(run: Callable[[], Any]) -> float:
    """Microseconds of a call; torch is loaded on a GPU alone."""
    from benchmarks.gpu.torch_modes import microseconds_of_call

    return microseconds_of_call(run)


def theirs(name: str) -> Row:
    """PyTorch's microseconds and errors, dense and semi-structured by each of its libraries."""
    import torch
    from torch.sparse import SparseSemiStructuredTensor, to_sparse_semi_structured

    kind, shape = name.split(" ", 1)[0], SHAPES[name.split(" ", 1)[1]]
    a = torch.from_numpy(unrolled(scaled(given(shape), kind, 0), shape)).cuda()
    w = torch.from_numpy(np.ascontiguousarray(halved(shape, kind).T)).cuda()
    w = w.half() if kind == "fp16" else w
    want = a.double() @ w.double().t()
    most = float(want.abs().max())
    linear = torch.nn.functional.linear

    def told(run: Callable[[], Any]) -> Row:
        try:
            error = float((run()[: want.shape[0]].double() - want).abs().max()) / most
            return {"us": round(_timed(run), 2), "error": error}
        except Exception as problem:
            torch.cuda.synchronize()
            return {"failed": " ".join(str(problem).split())[:120]}

    def semi_structured(library: str) -> Callable[[], Any]:
        """A call of a library; bytes with sums of 32 bits, as the others have them."""
        SparseSemiStructuredTensor._FORCE_CUTLASS = library == "cutlass"
        held = to_sparse_semi_structured(w)
        if library == "cutlass" or (library == "cusparselt" and kind == "fp16"):
            return lambda: linear(a, held)
        wide = torch.nn.functional.pad(a, (0, 0, 0, -len(a) % 16)).t()
        given = {"out_dtype": torch.int32 if kind == "int8" else None}
        if library == "searched":
            given["alg_id"] = torch._cslt_sparse_mm_search(held.packed, wide, **given)
        return lambda: torch._cslt_sparse_mm(held.packed, wide, **given).t()

    row: Row = {"torch": torch.__version__, "gpu": torch.cuda.get_device_name()}
    if kind == "fp16":
        row["cublas"] = told(lambda: linear(a, w))
    else:
        row["cublas"] = told(lambda: torch._int_mm(a, w.t()))
    for library in sparse_page.LIBRARIES:
        try:
            row[library] = told(semi_structured(library))
        except Exception as problem:
            row[library] = {"failed": " ".join(str(problem).split())[:120]}
    return row


def one(name: str, folder: Path, rows: list[Row], is_dry: bool) -> Row:
    """The row of a case."""
    if name in sparse_attention.CASES:
        return sparse_attention.one(name, folder, rows, is_dry, _timed)
    row: Row = {"name": name, "size": sizes(SHAPES[name.split(" ", 1)[1]])}
    row["tiles"] = ours(name, folder, rows, is_dry)
    return row if is_dry else row | theirs(name)


def measured(compiled: dict[str, tuple[Path, list[Row]]], is_dry: bool, until: float) -> Iterator[Row]:
    """A row for each case that there is time for, in one process; in a new one after a case that failed."""
    pool = None
    for name, (folder, rows) in compiled.items():
        left = until - time.time()
        if left < 2:
            print("no time is left; the same command goes on with what is missing", flush=True)
            break
        pool = pool or ProcessPoolExecutor(1, get_context("spawn"))
        try:
            yield pool.submit(one, name, folder, rows, is_dry).result(left if is_dry else min(PATIENCE, left))
        except Exception as problem:  # what a kernel or a library may do to a process is not known
            yield {"name": name, "failed": f"{type(problem).__name__} {' '.join(str(problem).split())[:300]}"}
            _end(pool)
            pool = None
    if pool is not None:
        _end(pool)


def _end(pool: ProcessPoolExecutor) -> None:
    for process in list((pool._processes or {}).values()):
        process.kill()
    pool.shutdown(wait=False)


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--only", nargs="*", default=["*"], help="patterns of names such as 'fp16 bert*'")
    p.add_argument("--device", default="cuda_sm90")
    p.add_argument("--tiles", type=int, default=3, help="dense tiles of a case, and twice as many for 2:4")
    p.add_argument("--seconds", type=float, default=290)
    p.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    p.add_argument("--rows", type=Path, default=Path("sparse-gpu.jsonl"), help="rows, one line each; kept")
    p.add_argument("--write", type=Path, help="the page")
    p.add_argument("--dry", action="store_true")
    options = p.parse_args()
    until = time.time() + options.seconds
    rows = {name: row for name, row in read_rows(options.rows).items() if "failed" not in row}
    names = [*(f"{kind} {shape}" for kind in KINDS for shape in SHAPES), *sparse_attention.CASES]
    wanted = [n for n in names if n not in rows and any(fnmatch(n, pattern) for pattern in options.only)]
    with tempfile.TemporaryDirectory(prefix="edgec-sparse-") as temporary:
        with ProcessPoolExecutor(options.jobs, max_tasks_per_child=1) as pool:
            waiting = {}
            for number, name in enumerate(wanted):
                device = replace(load_device(options.device), precision="fp16")
                compiler = "emulated" if options.dry else None
                folder = Path(temporary) / str(number)
                waiting[name] = folder, pool.submit(made, name, device, folder, options.tiles, compiler)
            for _, work in waiting.values():
                work.exception()
        print(f"{len(waiting)} cases compiled, {until - time.time():.0f} s left", flush=True)
        failed: Iterator[Row] = (
            {"name": name, "failed": " ".join(str(problem).split())[:300]}
            for name, (_, work) in waiting.items()
            if (problem := work.exception()) is not None
        )
        ready = {name: (folder, work.result()) for name, (folder, work) in waiting.items() if not work.exception()}
        for row in chain(failed, measured(ready, options.dry, until)):
            row["date"] = time.strftime("%Y-%m-%d")
            append_row(options.rows, row)
            print(sparse_page.line(row), flush=True)
            rows[row["name"]] = row
    if options.write:
        sparse_page.write(options.write, [rows[n] for n in names if n in rows])


if __name__ == "__main__":
    main()

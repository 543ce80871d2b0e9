"""Attention of long sequences with a mask in blocks on an NVIDIA GPU: cases of `benchmarks.gpu.sparse`.

Sixteen heads of 64 in fp16. The mask hides all but a share of the blocks of 64 x 64, as in sparse Transformers: the
first keys and a query's own block are always seen. Ours is built twice, with and without the list of tiles that are
seen; PyTorch's is scaled_dot_product_attention with the mask, and without one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.alone import Row
from edgec import ops
from edgec.artifact.compile import compile_library
from edgec.device.cuda import pick_cuda_compiler
from edgec.device.device import Device
from edgec.emit.project import files
from edgec.fuse import plan
from edgec.ir.graph import Graph, constant, placeholder
from edgec.ir.types import Type
from edgec.schedule.attention import mask
from edgec.schedule.build import schedule
from edgec.schedule.gpu.attention import largest_head
from edgec.schedule.options import ScheduleOptions

HEADS, SIZE, BLOCK = 16, 64, 64
#: (tokens, share of the blocks that are seen).
CASES = {f"attention of {n}, {share} seen": (n, share) for n in (1024, 4096) for share in (0.1, 0.25, 0.5)}


def seen(length: int, share: float) -> np.ndarray:
    """[queries, keys] of truth."""
    blocks = np.random.default_rng(length).random((length // BLOCK,) * 2) < share
    blocks[:, 0] = True
    np.fill_diagonal(blocks, True)
    return blocks.repeat(BLOCK, 0).repeat(BLOCK, 1)


def operands(length: int) -> list[np.ndarray]:
    random = np.random.default_rng(1)
    return [random.standard_normal((HEADS, length, SIZE), dtype=np.float32) for _ in "qkv"]


def graph(length: int, share: float) -> Graph:
    """softmax(q k^T / sqrt(size) + mask) v, where q, k and v are results of other kernels."""
    q, k, v = (placeholder(name, Type("f32", (HEADS, length, SIZE))) for name in "qkv")
    moved = [ops.node("mul", x, constant(np.float32(1.5))) for x in (q, k, v)]
    scores = ops.node("matmul", moved[0], ops.node("transpose", moved[1], perm=(0, 2, 1)))
    scores = ops.node("mul", scores, constant(np.float32(SIZE**-0.5)))
    scores = ops.node("add", scores, constant(np.where(seen(length, share), 0, -np.inf).astype(np.float32)))
    weights = ops.node("exp", ops.node("sub", scores, ops.node("reduce", scores, combine="max", axes=(2,))))
    total = ops.node("reduce", weights, combine="add", axes=(2,))
    return Graph((q, k, v), (("y", ops.node("matmul", ops.node("div", weights, total), moved[2])),), {}, {})


def made(name: str, device: Device, folder: Path, compiler: str | None) -> list[Row]:
    """Two compiled projects, and what their kernels are."""
    found = []
    for way, most in (("listed", mask.MOST_TILES), ("all", -1.0)):
        mask.MOST_TILES = most
        planned = plan(graph(*CASES[name]), gpu=True, head=largest_head(device))
        program = schedule(planned, device, ScheduleOptions(fp32_blocks=0))
        place = folder / way
        place.mkdir(parents=True)
        for path, content in files(program, device, "net").items():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_bytes(content)
        compile_library(place, device, pick_cuda_compiler(device, compiler), jobs=1)
        found.append({"way": way, "kernel": program.kernels[-1].schedule.describe})
    return found


def one(name: str, folder: Path, rows: list[Row], is_dry: bool, timed: Callable[[Callable[[], Any]], float]) -> Row:
    """The row of a case."""
    length, share = CASES[name]
    q, k, v = operands(length)
    sees = seen(length, share)
    want = np.empty((HEADS, length, SIZE))
    for head in range(HEADS):
        scores = np.where(sees, q[head].astype(np.float64) @ k[head].T * 2.25 * SIZE**-0.5, -np.inf)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        want[head] = weights / weights.sum(axis=1, keepdims=True) @ (v[head] * 1.5)
    row: Row = {"name": name, "share": float(sees.mean())}
    for told in rows:
        sys.path.insert(0, str(folder / told["way"]))
        sys.modules.pop("net", None)
        import net

        sys.path.pop(0)
        network = net.Net()
        got = network(q, k, v)
        got = next(iter(got.values())) if isinstance(got, dict) else got
        us = None if is_dry else round(1e3 * float(network.profile()[-1]), 2)
        network.close()
        error = float(np.abs(np.asarray(got, np.float64) - want).max() / np.abs(want).max())
        row[told["way"]] = {"us": us, "error": error, "kernel": told["kernel"]}
    return row if is_dry else row | _theirs(q, k, v, sees, timed)


def _theirs(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, sees: np.ndarray, timed: Callable[[Callable[[], Any]], float]
) -> Row:
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    near = [(torch.from_numpy(x).cuda() * 1.5).half()[None] for x in (q, k, v)]
    hides = torch.from_numpy(np.where(sees, 0, -np.inf)).cuda().half()
    row: Row = {"torch": torch.__version__, "gpu": torch.cuda.get_device_name()}
    for label, given in (("masked", hides), ("unmasked", None)):
        try:
            with torch.inference_mode():
                row[label] = round(timed(lambda g=given: scaled_dot_product_attention(*near, attn_mask=g)), 2)
        except Exception as problem:
            row[label] = None
            row["failed_torch"] = " ".join(str(problem).split())[:120]
    return row

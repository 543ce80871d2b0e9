"""Attention on an NVIDIA GPU compared with PyTorch's scaled_dot_product_attention: microseconds of one kernel.

    python -m benchmarks.gpu.attention [--device cuda_sm90] [--precision fp32,fp16] [--out FILE.json] [N ...]

Sixteen heads of 64 features and eight of 128, N queries and keys, with and without a causal mask. Queries, keys and
values lie in memory as a network's kernels leave them (halves for fp16). edgec's time is of the kernel, PyTorch's of a
CUDA graph of many calls. Needs nvcc, torch and a GPU; with --compile it only compiles and prints what ptxas says, with
--replay FILE.json it only writes a page anew.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.table import markdown, put_into
from edgec import ops
from edgec.device.cuda import compile_cuda, pick_cuda_compiler
from edgec.device.device import Device
from edgec.device.load import load_device
from edgec.emit.project import files
from edgec.fuse import plan
from edgec.ir.graph import Graph, constant, placeholder
from edgec.ir.types import Type
from edgec.schedule.build import schedule
from edgec.schedule.gpu.attention import largest_head
from edgec.schedule.options import ScheduleOptions
from edgec.schedule.program import Program

LENGTHS = (128, 256, 512, 1024, 2048, 4096)
HEADS = ((16, 64), (8, 128))


def attention(heads: int, length: int, size: int, causal: bool) -> Graph:
    """softmax(q k^T / sqrt(size)) v, where q, k and v are results of other kernels."""
    q, k, v = (placeholder(name, Type("f32", (heads, length, size))) for name in "qkv")
    one = constant(np.full(size, 1.5, np.float32))
    moved = [ops.node("mul", x, one) for x in (q, k, v)]  # so that they lie as in a network
    scores = ops.node("matmul", moved[0], ops.node("transpose", moved[1], perm=(0, 2, 1)))
    scores = ops.node("mul", scores, constant(np.float32(size**-0.5)))
    if causal:
        mask = np.where(np.tril(np.ones((length, length), bool)), 0, -np.inf).astype(np.float32)
        scores = ops.node("add", scores, constant(mask))
    weights = ops.node("exp", ops.node("sub", scores, ops.node("reduce", scores, combine="max", axes=(2,))))
    total = ops.node("reduce", weights, combine="add", axes=(2,))
    return Graph((q, k, v), (("y", ops.node("matmul", ops.node("div", weights, total), moved[2])),), {}, {})


def made(graph: Graph, device: Device, folder: Path) -> Program:
    program = schedule(plan(graph, gpu=True, head=largest_head(device)), device, ScheduleOptions(fp32_blocks=0))
    folder.mkdir(parents=True)
    for path, content in files(program, device, "net").items():
        (folder / path).write_bytes(content)
    return program


def built(case: tuple[str, int, int, int, bool], name: str, root: Path, link: bool) -> dict[str, Any]:
    """A compiled project, and what ptxas says of its kernel."""
    precision, heads, size, length, causal = case
    device = replace(load_device(name), precision=precision)
    folder = root / f"{precision}_{heads}_{length}_{causal}"
    program = made(attention(heads, length, size, causal), device, folder)
    sources = sorted([*folder.glob("*.cu"), *folder.glob("*.S")])
    library = folder / "libnet.so"
    reports = compile_cuda(pick_cuda_compiler(device), device, sources, library, link=link)
    told: dict[str, Any] = {"precision": precision, "heads": heads, "size": size, "n": length, "causal": causal}
    told["kernel"] = program.kernels[-1].schedule.describe
    told["ptxas"] = [(r.registers, r.spill_bytes) for r in reports if "attention" in r.name]
    return {**told, "folder": str(folder)}


def measured(folder: Path, heads: int, length: int, size: int, causal: bool, precision: str) -> dict[str, Any]:
    """Microseconds of the kernel and of PyTorch, and errors of both against float64."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    sys.path.insert(0, str(folder))
    sys.modules.pop("net", None)
    import net

    sys.path.pop(0)
    random = np.random.default_rng(length)
    q, k, v = (random.standard_normal((heads, length, size), dtype=np.float32) for _ in range(3))
    network = net.Net()
    got = network(q, k, v)
    us = 1e3 * float(network.profile()[-1])
    network.close()
    dtype = torch.float16 if precision == "fp16" else torch.float32
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    wide = [torch.from_numpy(x).cuda().double() * 1.5 for x in (q, k, v)]
    near = [x.to(dtype)[None] for x in wide]
    scores = wide[0] @ wide[1].transpose(1, 2) * size**-0.5
    if causal:
        scores += torch.full_like(scores, -torch.inf).triu(1)
    want = torch.softmax(scores, -1) @ wide[2]
    with torch.inference_mode():
        theirs = scaled_dot_product_attention(*near, is_causal=causal)[0]
        for _ in range(3):
            scaled_dot_product_attention(*near, is_causal=causal)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(20):
                scaled_dot_product_attention(*near, is_causal=causal)
        found = []
        for _ in range(7):
            a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            a.record()
            for _ in range(5):
                graph.replay()
            b.record()
            torch.cuda.synchronize()
            found.append(a.elapsed_time(b) * 10)
    most = float(want.abs().max())
    return {
        "us": us,
        "torch_us": sorted(found)[3],
        "error": float((torch.from_numpy(got).cuda().double() - want).abs().max()) / most,
        "torch_error": float((theirs.double() - want).abs().max()) / most,
    }


PLACES = ("<!-- attention -->", "<!-- end of attention -->")


def drawn(found: list[dict[str, Any]]) -> str:
    """A row for every length and mask, two columns for every precision and size of heads; the last row is of ratios."""
    kinds = list(dict.fromkeys((t["precision"], t["heads"], t["size"]) for t in found))
    head = ["keys", "mask"]
    for precision, heads, size in kinds:
        head += [f"{precision}, {heads} heads of {size}", "PyTorch"]
    rows = []
    for n, causal in dict.fromkeys((t["n"], t["causal"]) for t in found):
        row = [str(n), "causal" if causal else "none"]
        for kind in kinds:
            same = ((t["precision"], t["heads"], t["size"], t["n"], t["causal"]) == (*kind, n, causal) for t in found)
            told = next(t for t, is_same in zip(found, same) if is_same)
            row += [f"{told['us']:.1f}", f"{told['torch_us']:.1f}"]
        rows.append(row)
    last = ["PyTorch's over ours", ""]
    for kind in kinds:
        ratios = [t["torch_us"] / t["us"] for t in found if (t["precision"], t["heads"], t["size"]) == kind]
        last += [f"{np.exp(np.mean(np.log(ratios))):.2f}", ""]
    worst = {p: max(t["error"] for t in found if t["precision"] == p) for p in dict.fromkeys(k[0] for k in kinds)}
    errors = ", ".join(f"{error:.1e} in {precision}" for precision, error in worst.items())
    return markdown(head, [*rows, last]) + f"\n\nLargest errors: {errors}."


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("lengths", nargs="*", type=int, metavar="N")
    p.add_argument("--device", default="cuda_sm90")
    p.add_argument("--precision", default="fp32,fp16")
    p.add_argument("--causal", action="store_true", help="with a mask too, not only without")
    p.add_argument("--compile", action="store_true")
    p.add_argument("--out", type=Path)
    p.add_argument("--write", type=Path, help="a page whose table between two marks is replaced")
    p.add_argument("--replay", type=Path, help="what --out wrote: only the table is made anew")
    options = p.parse_args()
    if options.replay:
        put_into(options.write, drawn(json.loads(options.replay.read_text())), PLACES)
        return
    root = Path(tempfile.mkdtemp(prefix="edgec-attention-"))
    cases = [
        (precision, heads, size, length, causal)
        for precision in options.precision.split(",")
        for heads, size in HEADS
        for length in options.lengths or LENGTHS
        for causal in ((False, True) if options.causal else (False,))
    ]
    found: list[dict[str, Any]] = []
    with ProcessPoolExecutor() as pool:
        waiting = [pool.submit(built, case, options.device, root, not options.compile) for case in cases]
        for work in waiting:
            work.exception()
    for (precision, heads, size, length, causal), work in zip(cases, waiting):
        told = work.result()
        if not options.compile:
            told |= measured(Path(told.pop("folder")), heads, length, size, causal, precision)
        print(json.dumps(told), flush=True)
        found.append(told)
    if options.out:
        options.out.write_text(json.dumps(found))
    if options.write:
        put_into(options.write, drawn(found), PLACES)


if __name__ == "__main__":
    main()

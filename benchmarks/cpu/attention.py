"""Attention compared with onnxruntime: `python -m benchmarks.cpu.attention [LENGTH ...] [--write FILE]`.

Four heads of 64 features (two from 4096 keys on), random queries, keys and values. Networks are built before anything
is timed, and kept in ``--cache``. The exit code is 1 where a result is wrong, where a buffer of all scores is planned,
or where onnxruntime is faster from 256 keys on.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

import edgec
from benchmarks.engines.peer import Peer
from benchmarks.measure import Ours, on_cores, take_turns
from benchmarks.table import markdown
from edgec.artifact.folder import read_lock
from edgec.check.compare import TOLERANCE, compare_all, worst

FEATURES = 64


#: A window of so many keys, the query's own the last of them.
WINDOW = 256
MASKS = ("none", "causal", "window")


def mask_of(name: str, length: int) -> np.ndarray:
    """[length, length] of zeros, and of the least float where a query must not look."""
    query, key = np.mgrid[:length, :length]
    sees = (key <= query) & ((key > query - WINDOW) | (name != "window"))
    return np.where(sees, 0, np.finfo(np.float32).min).astype(np.float32)


def attention(length: int, mask: str) -> ModelProto:
    """[1, length, heads * 64] three times, to the same."""
    heads = 2 if length >= 4096 else 4
    width = heads * FEATURES
    shape, flat = np.array([1, length, heads, FEATURES]), np.array([1, length, width])
    constants = {"split": shape, "flat": flat, "scale": np.float32(FEATURES**-0.5)}
    if mask != "none":
        constants["mask"] = mask_of(mask, length)
    nodes = []
    for name, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes.append(helper.make_node("Reshape", [name, "split"], [f"{name}_heads"]))
        nodes.append(helper.make_node("Transpose", [f"{name}_heads"], [f"{name}_turned"], perm=perm))
    nodes += [
        helper.make_node("MatMul", ["q_turned", "k_turned"], ["products"]),
        helper.make_node("Mul", ["products", "scale"], ["scores"]),
        *([helper.make_node("Add", ["scores", "mask"], ["masked"])] if mask != "none" else []),
        helper.make_node("Softmax", ["scores" if mask == "none" else "masked"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "v_turned"], ["mixed"]),
        helper.make_node("Transpose", ["mixed"], ["turned"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["turned", "flat"], ["y"]),
    ]
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, length, width]) for n in ("q", "k", "v", "y")]
    weights = [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, "attention", info[:3], info[3:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)
#: From here on it has to be faster than onnxruntime.
FASTER_FROM = 256


@dataclass(frozen=True)
class Row:
    """One length on so many threads: milliseconds of the quickest calls, the worst error, bytes between kernels."""

    length: int
    mask: str
    threads: int
    ours: float
    theirs: float
    error: float
    arena_bytes: int
    weights_bytes: int
    kernels: int

    @property
    def scores_bytes(self) -> int:
        """Bytes of the scores of one head."""
        return 4 * self.length**2

    @property
    def is_met(self) -> bool:
        met = self.length < FASTER_FROM or (self.ours < self.theirs and self.arena_bytes < self.scores_bytes)
        return met and self.error <= TOLERANCE


def built(length: int, mask: str, cache: Path) -> Path:
    """The folder of what was built for a length, with its model beside it."""
    folder = cache / f"attention_{length}_{mask}"
    if not (folder / "edgec.lock").is_file():
        cache.mkdir(parents=True, exist_ok=True)
        path = cache / f"attention_{length}_{mask}.onnx"
        path.write_bytes(attention(length, mask).SerializeToString())
        edgec.build(path, folder, threads=2)
    return folder


def measured(length: int, mask: str, threads: int, cache: Path, seconds: float) -> Row:
    folder = built(length, mask, cache)
    lock = read_lock(folder)
    random = np.random.default_rng(length)
    shape = next(tuple(port["shape"]) for port in lock["inputs"])
    arrays = {n: random.standard_normal(shape, np.float32) for n in ("q", "k", "v")}
    with on_cores(threads):
        net, peer = Ours(folder, threads), Peer(folder.with_suffix(".onnx"), {}, threads)
        error = worst(compare_all(net.run(arrays), peer.run(arrays))).max_rel
        results = net.results()
        ours, theirs = take_turns((net.bind(arrays, results), peer.bind(arrays, results)), seconds)
        net.close()
    ms = [min(t) * 1e3 for t in (ours, theirs)]
    return Row(length, mask, threads, *ms, error, lock["arena_bytes"], lock["weights_bytes"], lock["kernels"])


def page(rows: list[Row]) -> str:
    heads = [
        "keys", "mask", "threads", "edgec, ms", "onnxruntime, ms", "ratio", "error", "kernels", "arena, KiB",
        "weights, KiB", "a head's scores, KiB",
    ]  # fmt: skip
    lines = [
        [
            str(r.length), r.mask, str(r.threads), f"{r.ours:.3f}", f"{r.theirs:.3f}", f"{r.ours / r.theirs:.2f}",
            f"{r.error:.1e}", str(r.kernels), f"{r.arena_bytes / 1024:.0f}",
            f"{r.weights_bytes / 1024:.0f}", f"{r.scores_bytes / 1024:.0f}",
        ]
        for r in rows
    ]  # fmt: skip
    return markdown(heads, lines)


_INTRODUCTION = """\
# Attention compared with onnxruntime

Made by `python -m benchmarks.cpu.attention --write docs/results/attention.md`: queries, keys and values of 64 features
in four heads (two from 4096 keys on), split, multiplied and merged as exporters write it, in fp32. Times are minima of
many calls, interleaved in one run. *Arena* is all memory between inputs and outputs, for all threads; below 256 keys
the planner stores the scores where that is faster. *Causal* masks later keys, *window* all but the 256 keys up to the
query's own: a constant matrix in the model, of which one row is stored, or a comparison on a GPU. From 256 keys on,
masked blocks of keys are skipped.
"""


def main() -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("lengths", type=int, nargs="*", default=LENGTHS)
    p.add_argument("--masks", nargs="+", choices=MASKS, default=MASKS)
    p.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    p.add_argument("--seconds", type=float, default=1.0, help="of timing, for each length and number of threads")
    p.add_argument("--cache", type=Path, default=Path("attention"), help="where builds are kept")
    p.add_argument("--write", type=Path, metavar="FILE", help="write the table as Markdown")
    o = p.parse_args()
    cases = [(length, mask) for mask in o.masks for length in o.lengths]
    for length, mask in cases:
        built(length, mask, o.cache)
    rows = [measured(*case, threads, o.cache, o.seconds) for threads in o.threads for case in cases]
    print(page(rows))
    if o.write:
        o.write.write_text(f"{_INTRODUCTION}\n{page(rows)}\n", encoding="utf-8")
    return int(not all(r.is_met for r in rows))


if __name__ == "__main__":
    sys.exit(main())

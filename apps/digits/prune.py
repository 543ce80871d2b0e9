"""Prunes the demo network while it is trained: most weights become zero, and the others learn to do without them.

edgec chooses which weights stay and gives masks, layer by layer; the training loop, which is nobody's but ours,
multiplies its weights by them. The share of zeros grows along a cubic (Zhu and Gupta, "To prune, or not to prune",
2017) through the first half of the epochs, and all the time the sparse network learns what the dense one says of
pictures that are turned, stretched and moved (distillation: Hinton, Vinyals and Dean 2015). The dense network is
trained on in just the same way without masks, on the same pictures in the same order: what is told of the sparse
network is how far it is from that one. Needs what train.py needs, and edgec. The pictures that are counted are used
for nothing but counting.
"""

from __future__ import annotations

import argparse
import copy
import os
import tempfile
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import onnxruntime  # type: ignore[import-untyped]
import train
from onnx import TensorProto, helper, numpy_helper
from train import Array, Labels

import edgec

#: How often masks are made anew, up to which part of the epochs.
RENEWALS, GROWING = 6, 0.5
#: The temperature of the dense network's answers, and what they count for beside the labels.
TEMPERATURE, TAUGHT = 4.0, 0.9
#: Radians, factors and pixels by which pictures are changed at most; and how many of them stay as they are.
TURN, STRETCH, SLANT, MOVE, AS_THEY_ARE = 0.25, 0.15, 0.15, 1.2, 0.2


def layers_of(network: onnx.ModelProto) -> list[str]:
    """The names of the weights with a mask, in order: those of layers that mix channels."""
    graph = network.graph
    grouped = {n.input[1] for n in graph.node for a in n.attribute if a.name == "group" and a.i > 1}
    return [n.input[1] for n in graph.node if n.op_type in ("Conv", "Gemm") and n.input[1] not in grouped]


def lesson() -> onnx.ModelProto:
    """A loss as an ONNX model: of `scores` [n, 10] beside `told` [n, 20], the labels and then the answers of the dense
    network at a temperature."""
    nodes, constants = [], []

    def node(op: str, *inputs: str, **attributes: object) -> str:
        nodes.append(helper.make_node(op, inputs, [f"v{len(nodes)}"], **attributes))
        return str(nodes[-1].output[0])

    def constant(value: object, dtype: type = np.float32) -> str:
        constants.append(numpy_helper.from_array(np.asarray(value, dtype), f"c{len(constants)}"))
        return str(constants[-1].name)

    def surprise(scores: str, first: int, share: float) -> str:
        bounds = [constant([k], np.int64) for k in (first, first + 10, 1)]
        likely = node("Slice", "told", *bounds)
        apart = node("ReduceSum", node("Mul", node("LogSoftmax", scores, axis=1), likely), bounds[2], keepdims=0)
        return node("Mul", node("ReduceMean", apart, keepdims=0), constant(-share))

    heated = node("Div", "scores", constant(TEMPERATURE))
    by_labels, by_dense = surprise("scores", 0, 1 - TAUGHT), surprise(heated, 10, TAUGHT * TEMPERATURE**2)
    nodes.append(helper.make_node("Add", [by_labels, by_dense], ["loss"]))
    given = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", k]) for n, k in (("scores", 10), ("told", 20))]
    graph = helper.make_graph(
        nodes, "lesson", given, [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])], constants
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def warped(pictures: Array, rng: np.random.Generator) -> Array:
    """Pictures turned, stretched, slanted and moved at random; between pixels, the mean of four."""
    count, _, rows, columns = pictures.shape
    draw = rng.uniform(-1, 1, (6, count, 1, 1)) * (rng.random((count, 1, 1)) >= AS_THEY_ARE)
    center = np.array([rows - 1, columns - 1]) / 2
    y, x = (np.arange(n) - c for n, c in zip((rows, columns), center))
    y, x = np.broadcast_arrays(y[:, None], x + SLANT * draw[1] * y[:, None])
    cos, sin = (f(TURN * draw[0]) / (1 + STRETCH * draw[2]) for f in (np.cos, np.sin))
    row = np.clip(cos * y - sin * x + center[0] + MOVE * draw[3], -1, rows)
    column = np.clip(sin * y + cos * x + center[1] + MOVE * draw[4], -1, columns)
    padded = np.pad(pictures[:, 0], ((0, 0), (1, 2), (1, 2)))
    top, left = np.floor(row).astype(int), np.floor(column).astype(int)
    down, right, each = row - top, column - left, np.arange(count)[:, None, None]
    found = sum(
        np.abs(1 - i - down) * np.abs(1 - j - right) * padded[each, top + 1 + i, left + 1 + j]
        for i, j in np.ndindex(2, 2)
    )
    return np.asarray(found, np.float32)[:, None]


def softmax(scores: Array) -> Array:
    """The probabilities that scores [picture, class] stand for."""
    powers: Array = np.exp(scores - scores.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def scoring(network: onnx.ModelProto) -> onnx.ModelProto:
    """The network without its last softmax, which belongs to the loss."""
    made = onnx.ModelProto()
    made.CopyFrom(network)
    last = made.graph.node.pop()
    made.graph.output[0].name = last.input[0]
    return made


def fine_tuned(
    dense: onnx.ModelProto, kind: str, share: float, folder: Path, pictures: Array, labels: Labels, epochs: int,
    rng: np.random.Generator,
) -> onnx.ModelProto:  # fmt: skip
    """A network that learns from a dense one, beginning with its weights; a share of its own are zero, or none."""
    batches, names = len(pictures) // train.BATCH, layers_of(dense)
    growing = max(round(epochs * GROWING), 1)
    renewals = {round(growing * k / RENEWALS): 1 - (1 - k / RENEWALS) ** 3 for k in range(1, RENEWALS + 1)}
    scores = scoring(dense)
    teacher = onnxruntime.InferenceSession(scores.SerializeToString(), providers=["CPUExecutionProvider"])
    onnx.save(lesson(), folder / "lesson.onnx")
    asked = {"optimizer": train.OPTIMIZER, "batch": train.BATCH, "batch_norm": "batch"}
    edgec.build(scores, folder / f"out_{share}", loss=str(folder / "lesson.onnx"), **asked)
    kept: list[tuple[Array, Array]] = []
    with edgec.load(folder / f"out_{share}") as net:
        for epoch in range(epochs):
            if share and epoch in renewals:
                net.export_onnx(folder / "now.onnx")
                asked_now = {"prune": kind, "sparsity": share * renewals[epoch], "calibrate": folder / "pictures.npz"}
                found = edgec.masks(folder / "now.onnx", **asked_now).values()
                kept = [(net.weights[name], mask) for name, mask in zip(names, found, strict=True)]
                for weight, mask in kept:
                    weight *= mask
            for k, batch in enumerate(rng.permutation(len(pictures))[: batches * train.BATCH].reshape(-1, train.BATCH)):
                seen, wanted = warped(pictures[batch], rng), np.eye(10, dtype=np.float32)[labels[batch]]
                told = softmax(teacher.run(None, {"image": seen})[0] / TEMPERATURE)
                rate = train.cosine(epoch * batches + k, epochs * batches)
                net.step(seen, np.concatenate([wanted, told], 1), learning_rate=rate)
                for weight, mask in kept:
                    weight *= mask
        net.export_onnx(folder / "learned.onnx")
    return onnx.load(folder / "learned.onnx")


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--prune", default="vector=1", help="what goes together (edgec build --prune)")
    p.add_argument("--sparsity", type=float, default=0.9, help="the share of zeros, of all weights")
    p.add_argument("--epochs", type=int, default=160, help="of training with masks, and on without")
    p.add_argument("--dense-epochs", type=int, default=train.EPOCHS, help="of training before")
    p.add_argument("--width", type=int, default=1, help="times as many channels as the demo network")
    p.add_argument("--seeds", type=int, nargs="+", default=[train.SEED])
    p.add_argument("--jobs", type=int, default=os.cpu_count(), help="seeds at the same time")
    p.add_argument("--out", type=Path, help="a folder for the sparse networks")
    given = p.parse_args()
    found = []
    with ProcessPoolExecutor(given.jobs) as pool:
        for seed, (told, rights) in zip(given.seeds, pool.map(partial(trained, given), given.seeds)):
            found.append(rights)
            print(f"seed {seed}: {told}; {in_words(*rights)}", flush=True)
    print(f"mean of {len(found)}: {in_words(*map(float, np.mean(found, axis=0)))}")


def in_words(before: float, on: float, sparse: float) -> str:
    points = f"{100 * (sparse - on):+.2f} points"
    return f"read right {before:.2%} dense, {on:.2%} trained on, {sparse:.2%} sparse: {points}"


def trained(given: argparse.Namespace, seed: int) -> tuple[str, tuple[float, float, float]]:
    """The networks of one seed: the share of zeros in words, and how many pictures they read right: the dense one,
    the dense one trained on, the sparse one."""
    seen, unseen, seen_labels, unseen_labels = train.data()
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.savez(folder / "pictures.npz", image=seen[:256])
        begun = train.digits_network(rng, given.width)
        dense = train.trained(begun, seen, seen_labels, rng, given.dense_epochs)
        same = copy.deepcopy(rng)
        sparse = fine_tuned(dense, given.prune, given.sparsity, folder, seen, seen_labels, given.epochs, rng)
        on = fine_tuned(dense, given.prune, 0.0, folder, seen, seen_labels, given.epochs, same)
        if given.out is not None:
            given.out.mkdir(parents=True, exist_ok=True)
            onnx.save(train.of_one(sparse), given.out / f"digits_{seed}.onnx")
        found = [train.accuracy(train.of_one(n), unseen, unseen_labels) for n in (dense, on, sparse)]
    return zeros(dense, sparse), (found[0], found[1], found[2])


def zeros(dense: onnx.ModelProto, sparse: onnx.ModelProto) -> str:
    """The share of zeros among the weights that can be pruned, and how many are left."""
    names = set(layers_of(dense))
    total, left = (
        sum(int(np.count_nonzero(numpy_helper.to_array(t))) for t in n.graph.initializer if t.name in names)
        for n in (dense, sparse)
    )
    return f"{1 - left / total:.1%} zeros, {left} of {total} weights"


if __name__ == "__main__":
    main()

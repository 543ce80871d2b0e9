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
import train
from layers import Array, Chain, Conv, Layer, Linear
from sklearn.datasets import load_digits  # type: ignore[import-untyped]
from sklearn.model_selection import train_test_split  # type: ignore[import-untyped]
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

import edgec

#: How often masks are made anew, up to which part of the epochs.
RENEWALS, GROWING = 6, 0.5
#: The temperature of the dense network's answers, and what they count for beside the labels.
TEMPERATURE, TAUGHT = np.float32(4), np.float32(0.9)
#: Radians, factors and pixels by which pictures are changed at most; and how many of them stay as they are.
TURN, STRETCH, SLANT, MOVE, AS_THEY_ARE = 0.25, 0.15, 0.15, 1.2, 0.2


def weights_of(network: Chain) -> list[tuple[Layer, tuple[int, ...]]]:
    """Layers with a mask, in order, and how [outputs, inputs, taps..] lie in their own weights."""
    orders: dict[type, tuple[int, ...]] = {Conv: (2, 3, 1, 0), Linear: (1, 0)}
    return [(layer, orders[type(layer)]) for layer in network.leaves() if type(layer) in orders]


class Masks:
    """The weights of a network that edgec keeps."""

    def __init__(self, network: Chain, kind: str, share: float, data: Path) -> None:
        found = edgec.masks(train.to_onnx(network), prune=kind, sparsity=share, calibrate=data).values()
        self.pairs = [(layer, m.transpose(order)) for (layer, order), m in zip(weights_of(network), found, strict=True)]

    def apply(self) -> None:
        for layer, mask in self.pairs:
            layer.weights["w"] *= mask


def warped(pictures: Array, rng: np.random.Generator) -> Array:
    """Pictures turned, stretched, slanted and moved at random; between pixels, the mean of four."""
    count, rows, columns, _ = pictures.shape
    draw = rng.uniform(-1, 1, (6, count, 1, 1)) * (rng.random((count, 1, 1)) >= AS_THEY_ARE)
    center = np.array([rows - 1, columns - 1]) / 2
    y, x = (np.arange(n) - c for n, c in zip((rows, columns), center))
    y, x = np.broadcast_arrays(y[:, None], x + SLANT * draw[1] * y[:, None])
    cos, sin = (f(TURN * draw[0]) / (1 + STRETCH * draw[2]) for f in (np.cos, np.sin))
    row = np.clip(cos * y - sin * x + center[0] + MOVE * draw[3], -1, rows)
    column = np.clip(sin * y + cos * x + center[1] + MOVE * draw[4], -1, columns)
    padded = np.pad(pictures[..., 0], ((0, 0), (1, 2), (1, 2)))
    top, left = np.floor(row).astype(int), np.floor(column).astype(int)
    down, right, each = row - top, column - left, np.arange(count)[:, None, None]
    found = sum(
        np.abs(1 - i - down) * np.abs(1 - j - right) * padded[each, top + 1 + i, left + 1 + j]
        for i, j in np.ndindex(2, 2)
    )
    return np.asarray(found, np.float32)[..., None]


def fine_tuned(
    dense: Chain, kind: str, share: float, data: Path, pictures: Array, labels: train.Labels, epochs: int,
    rng: np.random.Generator,
) -> Chain:  # fmt: skip
    """A network that learns from a dense one, beginning with its weights; a share of its own are zero, or none."""
    network = copy.deepcopy(dense)
    batches = len(pictures) // train.BATCH
    adam = train.Adam(network, steps=epochs * batches)
    growing = max(round(epochs * GROWING), 1)
    renewals = {round(growing * k / RENEWALS): 1 - (1 - k / RENEWALS) ** 3 for k in range(1, RENEWALS + 1)}
    masks: Masks | None = None
    for epoch in range(epochs):
        if share and epoch in renewals:
            masks = Masks(network, kind, share * renewals[epoch], data)
            masks.apply()
        for batch in rng.permutation(len(pictures))[: batches * train.BATCH].reshape(-1, train.BATCH):
            seen, wanted = warped(pictures[batch], rng), np.eye(10, dtype=np.float32)[labels[batch]]
            told = train.softmax(dense.forward(seen, training=False) / TEMPERATURE)
            scores = network.forward(seen, training=True)
            by_labels, by_dense = train.softmax(scores) - wanted, train.softmax(scores / TEMPERATURE) - told
            network.backward(((1 - TAUGHT) * by_labels + TAUGHT * TEMPERATURE * by_dense) / np.float32(train.BATCH))
            adam.step()
            if masks is not None:
                masks.apply()
    return network


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
    train.EPOCHS = given.dense_epochs
    pictures, labels = load_digits(return_X_y=True)
    pictures = (pictures.reshape(-1, 8, 8, 1) / 16).astype(np.float32)
    seen, unseen, seen_labels, unseen_labels = train_test_split(
        pictures, labels, test_size=train.TEST_PICTURES, random_state=train.SEED, stratify=labels
    )
    rng = np.random.default_rng(seed)
    with threadpool_limits(1), tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "calibration.npz"
        np.savez(data, image=seen[:256].transpose(0, 3, 1, 2))
        dense = train.digits_network(rng, given.width)
        train.train(dense, seen, seen_labels, rng)
        same = copy.deepcopy(rng)
        sparse = fine_tuned(dense, given.prune, given.sparsity, data, seen, seen_labels, given.epochs, rng)
        on = fine_tuned(dense, given.prune, 0.0, data, seen, seen_labels, given.epochs, same)
        images, out = unseen.transpose(0, 3, 1, 2), given.out or Path(folder)
        before, after, rest = (
            right(n, out / f"digits_{seed}.onnx", images, unseen_labels) for n in (dense, on, sparse)
        )
    return zeros(dense, sparse), (before, after, rest)


def right(network: Chain, path: Path, images: Array, labels: train.Labels) -> float:
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(train.to_onnx(network), path)
    return train.accuracy(path, images, labels)


def zeros(dense: Chain, sparse: Chain) -> str:
    """The share of zeros among the weights that can be pruned, and how many are left."""
    total, left = (
        sum(int(np.count_nonzero(layer.weights["w"])) for layer, _ in weights_of(n)) for n in (dense, sparse)
    )
    return f"{1 - left / total:.1%} zeros, {left} of {total} weights"


if __name__ == "__main__":
    main()

"""Prunes the demo network while it is trained: most weights become zero, and the others learn to do without them.

edgec chooses which weights stay and gives masks, layer by layer; the training loop, which is nobody's but ours,
multiplies its weights by them. In a few steps the zeros grow to the share that is asked for. Needs what train.py needs,
and edgec. Writes `digits_sparse.onnx` where it is told to.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx
import train
from layers import Array, Chain, Conv, Layer, Linear
from sklearn.datasets import load_digits  # type: ignore[import-untyped]
from sklearn.model_selection import train_test_split  # type: ignore[import-untyped]
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

import edgec

#: Shares of zeros, one after the other; after each the network is trained on.
STEPS = (0.6, 0.8, 0.9)


def weights_of(network: Chain) -> list[tuple[Layer, tuple[int, ...]]]:
    """Layers with a mask, in order, and how [outputs, inputs, taps..] lie in their own weights."""
    orders: dict[type, tuple[int, ...]] = {Conv: (2, 3, 1, 0), Linear: (1, 0)}
    return [(layer, orders[type(layer)]) for layer in network.leaves() if type(layer) in orders]


class Masked(Chain):
    """A network whose weights outside of their masks are zero in every step."""

    def __init__(self, network: Chain, masks: dict[str, Array]) -> None:
        super().__init__(*network.layers)
        pairs = zip(weights_of(network), masks.values(), strict=True)
        self.masks = [(layer, mask.transpose(order)) for (layer, order), mask in pairs]

    def forward(self, x: Array, *, training: bool) -> Array:
        for layer, mask in self.masks:
            layer.weights["w"] *= mask
        return super().forward(x, training=training)

    def finish(self) -> None:
        for layer, mask in self.masks:
            layer.weights["w"] *= mask


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--prune", default="vector=1", help="what goes together (edgec build --prune)")
    p.add_argument("--epochs", type=int, default=40, help="of training after each step")
    p.add_argument("--out", type=Path, default=Path("digits_sparse.onnx"))
    given = p.parse_args()
    pictures, labels = load_digits(return_X_y=True)
    pictures = (pictures.reshape(-1, 8, 8, 1) / 16).astype(np.float32)
    seen, unseen, seen_labels, unseen_labels = train_test_split(
        pictures, labels, test_size=train.TEST_PICTURES, random_state=train.SEED, stratify=labels
    )
    rng = np.random.default_rng(train.SEED)
    network = train.digits_network(rng)
    images = unseen.transpose(0, 3, 1, 2)
    data = given.out.with_suffix(".calibration.npz")
    np.savez(data, image=seen[:256].transpose(0, 3, 1, 2))
    with threadpool_limits(1):
        train.train(network, seen, seen_labels, rng)
        dense = right(network, given.out, images, unseen_labels)
        print(f"dense: {dense:.2%} of {len(images)} pictures")
        train.EPOCHS = given.epochs
        for share in STEPS:
            masks = edgec.masks(train.to_onnx(network), prune=given.prune, sparsity=share, calibrate=data)
            masked = Masked(network, dict(masks))
            train.train(masked, seen, seen_labels, rng)
            masked.finish()
            found = right(network, given.out, images, unseen_labels)
            print(f"{zeros(network):.1%} zeros: {found:.2%}, {100 * (found - dense):+.2f} points")
    data.unlink()


def right(network: Chain, path: Path, images: Array, labels: train.Labels) -> float:
    onnx.save(train.to_onnx(network), path)
    return train.accuracy(path, images, labels)


def zeros(network: Chain) -> float:
    """The share of zeros among the weights that can be pruned."""
    weights = [layer.weights["w"] for layer, _ in weights_of(network)]
    return 1 - sum(int(np.count_nonzero(w)) for w in weights) / sum(w.size for w in weights)


if __name__ == "__main__":
    main()

"""A learned ranking of variants: what measured times say beyond the price formulas of a device.

A model learns the logarithm of measured over predicted seconds from the features of variants. A product has a factor of
its own (the formulas leave out what all of its variants share), so times are compared within a product: its factor is
fitted beside the model. Gradient-boosted trees where scikit-learn is installed (the extra ``tune``), else a ridge
regression; with few times, none: then the order is that of the formulas. What a model says counts as far as it held for
times that were kept from it: where it did not hold at all, the order is that of the formulas too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log
from typing import Any, Protocol

import numpy as np

from edgec.tune.features import NAMES, Features

#: Times that a regression needs, and trees.
FEW, MANY = 12, 60
#: Turns in which the factors of products and the trees are fitted to what the others leave.
TURNS = 2
#: Parts of the times, of which each is kept from a model that is fitted to the others.
FOLDS = 3
#: Weight of the ridge's penalty, for each time.
PENALTY = 0.03
#: What a time may differ by from the others of its product, as a logarithm: more is taken as so much.
CLIP = 3.0


@dataclass(frozen=True)
class Sample:
    """A measured variant: its product, its features (with predicted cycles), measured seconds."""

    product: str
    features: Features
    seconds: float


class Model(Protocol):
    """A model of the logarithm of a factor, for each row [variants, features]."""

    def predict(self, rows: np.ndarray) -> np.ndarray: ...


@dataclass(frozen=True)
class Ranking:
    """The model, its name (trees, ridge or formula: no model), and the share of it that counts, from 0 to 1."""

    name: str
    model: Model | None = None
    share: float = 1.0

    def scores(self, features: Sequence[Features]) -> np.ndarray:
        """[variants] logarithms of predicted times, up to a constant of their product: the least is the best."""
        found = np.array([f["cycles"] for f in features]) * log(2)
        if self.model is not None and features:
            found = found + self.share * self.model.predict(_rows(features))
        return found


def fitted(samples: Sequence[Sample], trees: bool = True, seed: int = 0) -> Ranking:
    """The ranking that times teach. Those of a product with a single time teach nothing and are left out.

    Without ``trees``, or without scikit-learn, a ridge regression.
    """
    count: dict[str, int] = {}
    for s in samples:
        count[s.product] = count.get(s.product, 0) + 1
    samples = [s for s in samples if count[s.product] > 1]
    if len(samples) < FEW:
        return Ranking("formula")
    rows = _rows([s.features for s in samples])
    target = np.array([log(s.seconds) - s.features["cycles"] * log(2) for s in samples])
    order = {name: k for k, name in enumerate(dict.fromkeys(s.product for s in samples))}
    groups = np.array([order[s.product] for s in samples])
    target = np.clip(_centered(target, groups), -CLIP, CLIP)
    tools = _trees() if trees and len(samples) >= MANY else None

    def model(chosen: np.ndarray) -> Model:
        _, own = np.unique(groups[chosen], return_inverse=True)
        if tools is not None:
            return _grown(tools, rows[chosen], target[chosen], own, seed)
        return Ridge.fitted(rows[chosen], target[chosen], own)

    share = _share(model, rows, target, groups)
    return Ranking("ridge" if tools is None else "trees", model(np.arange(len(rows))), share)


def _share(model: Callable[[np.ndarray], Model], rows: np.ndarray, target: np.ndarray, groups: np.ndarray) -> float:
    """The factor of a model, from 0 to 1, that comes nearest to times that it was not fitted to.

    Those are of products of their own where there are several, else every third time.
    """
    parts = groups % FOLDS if groups.max() + 1 >= FOLDS else np.arange(len(rows)) % FOLDS
    said, true = list[np.ndarray](), list[np.ndarray]()
    for part in range(FOLDS):
        apart = parts == part
        _, own = np.unique(groups[apart], return_inverse=True)
        said.append(_centered(model(np.flatnonzero(~apart)).predict(rows[apart]), own))
        true.append(_centered(target[apart], own))
    x, y = np.concatenate(said), np.concatenate(true)
    return float(np.clip(x @ y / max(x @ x, 1e-12), 0, 1))


def _trees() -> Any:
    """The class of scikit-learn's trees, and what limits their threads; None where it is not installed."""
    try:
        from sklearn.ensemble import HistGradientBoostingRegressor
        from threadpoolctl import threadpool_limits
    except ImportError:
        return None
    return HistGradientBoostingRegressor, threadpool_limits


def _grown(tools: Any, rows: np.ndarray, target: np.ndarray, groups: np.ndarray, seed: int) -> Model:
    """Trees for what the products' own factors leave; the factors again for what the trees leave.

    On one thread: so few rows are not worth more, and kernels are timed beside it.
    """
    kind, limits = tools
    offsets = np.zeros(groups.max() + 1)
    with limits(1):
        for _ in range(TURNS):
            model: Model = kind(
                learning_rate=0.08, max_iter=100, max_leaf_nodes=8, min_samples_leaf=8, l2_regularization=3.0,
                max_features=0.3, early_stopping=False, random_state=seed,
            ).fit(rows, target - offsets[groups])  # fmt: skip
            offsets = _means(target - model.predict(rows), groups)
    return model


@dataclass(frozen=True)
class Ridge:
    """A linear regression on standardized features and their squares, with a penalty on its weights."""

    mean: np.ndarray
    scale: np.ndarray
    weights: np.ndarray

    @staticmethod
    def fitted(rows: np.ndarray, target: np.ndarray, groups: np.ndarray) -> Ridge:
        """Least squares within products: what all variants of one share is taken out of both sides."""
        mean, scale = rows.mean(0), rows.std(0)
        scale = np.where(scale > 1e-9, scale, np.inf)
        x = _centered(_expanded((rows - mean) / scale), groups)
        y = _centered(target, groups)
        penalty = PENALTY * len(rows) * np.eye(x.shape[1])
        return Ridge(mean, scale, np.linalg.solve(x.T @ x + penalty, x.T @ y))

    def predict(self, rows: np.ndarray) -> np.ndarray:
        found: np.ndarray = _expanded((rows - self.mean) / self.scale) @ self.weights
        return found


def _expanded(x: np.ndarray) -> np.ndarray:
    """Features and their squares, of which no value is far outside of what was seen."""
    near = np.clip(x, -4, 4)
    return np.concatenate([near, near * near], axis=1)


def _rows(features: Sequence[Features]) -> np.ndarray:
    return np.array([[f[name] for name in NAMES] for f in features], np.float64)


def _means(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """[groups] means of values, or of rows of them."""
    found = np.zeros((groups.max() + 1, *values.shape[1:]))
    np.add.at(found, groups, values)
    counts = np.bincount(groups)
    return found / counts.reshape(-1, *[1] * (values.ndim - 1))


def _centered(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    found: np.ndarray = values - _means(values, groups)[groups]
    return found

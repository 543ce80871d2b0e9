"""Bounds on the loss of compression: a figure that compares results with those in fp32, and its bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np

from edgec.errors import UsageError

#: Of more numbers than this, decisions in pictures say, are enough without pairing them.
PAIRED = 1 << 24

Array = np.ndarray
Outputs = Sequence[Mapping[str, Array]]


def max_abs(wanted: Outputs, got: Outputs) -> float:
    """The largest difference."""
    return max((_largest(w[k] - g[k]) for w, g in zip(wanted, got) for k in _floats(w)), default=0.0)


def max_rel(wanted: Outputs, got: Outputs) -> float:
    """The largest difference over the largest value of its output, over all samples."""
    names = _floats(wanted[0]) if wanted else []
    found = 0.0
    for k in names:
        size = max(_largest(w[k]) for w in wanted)
        far = max(_largest(w[k] - g[k]) for w, g in zip(wanted, got))
        found = max(found, far / size if size else far)
    return found


def cosine(wanted: Outputs, got: Outputs) -> float:
    """The least cosine of the angle between a result and what it should be."""
    return min((_cosine(w[k], g[k]) for w, g in zip(wanted, got) for k in _floats(w)), default=1.0)


def top1_drop(wanted: Outputs, got: Outputs, labels: Sequence[Array] = ()) -> float:
    """Samples in percent whose first output decides otherwise than the floats: accuracy can drop by no more.

    With ``labels``, one a sample, only decisions that the floats get right can be lost.
    """
    lost = []
    for number, (w, g) in enumerate(zip(wanted, got)):
        for k in _floats(w)[:1]:
            before, after = np.argmax(w[k], axis=-1), np.argmax(g[k], axis=-1)
            right = before == labels[number].reshape(before.shape) if labels else True
            lost.append(np.mean((before != after) & right))
    return float(100 * np.mean(lost)) if lost else 0.0


def likely_drop(wanted: Outputs, got: Outputs, labels: Sequence[Array] = ()) -> float:
    """`top1_drop`, or what it would be if the difference of any sample had met any other, where that is more.

    A hundred samples have few close decisions, and a search over many networks finds the one that happens to spare
    them. Their ten thousand pairs tell how often a difference of this size decides. Probabilities are taken as their
    logarithms: in those a difference does not depend on how sure the network was.
    """
    drop = top1_drop(wanted, got, labels)
    names = _floats(wanted[0])[:1] if wanted else []
    if not names or len({w[names[0]].shape for w in wanted}) > 1 or sum(w[names[0]].size for w in wanted) > PAIRED:
        return drop
    width = wanted[0][names[0]].shape[-1] if wanted[0][names[0]].ndim else 1
    before, after = (_scores(np.stack([o[names[0]].reshape(-1, width) for o in side])) for side in (wanted, got))
    lost = []
    for number, scores in enumerate(before):
        decided = np.argmax(scores, axis=-1)
        other = np.argmax(scores + (after - before), axis=-1) != decided
        lost.append(np.mean(other & (decided == labels[number].reshape(decided.shape) if labels else True)))
    return max(drop, float(100 * np.mean(lost)))


def _scores(values: Array) -> Array:
    """Scores that decide; for probabilities, their logarithms."""
    scores: Array = values.astype(np.float64)
    if scores.min(initial=0.0) >= 0 and np.abs(scores.sum(axis=-1) - 1).max(initial=0.0) < 1e-3:
        scores = np.log(np.maximum(scores, np.finfo(np.float32).tiny))
    return scores


def _floats(outputs: Mapping[str, Array]) -> list[str]:
    return [name for name, value in outputs.items() if value.dtype.kind == "f" and value.size]


def _largest(values: Array) -> float:
    return float(np.abs(values.astype(np.float64)).max(initial=0.0))


def _cosine(a: Array, b: Array) -> float:
    x, y = (v.astype(np.float64).reshape(-1) for v in (a, b))
    sizes = float(np.linalg.norm(x) * np.linalg.norm(y))
    return float(x @ y / sizes) if sizes else float(not (x.any() or y.any()))


#: Figures by name, and whether more of them is better.
FIGURES: dict[str, tuple[Callable[[Outputs, Outputs], float], bool]] = {
    "top1_drop": (top1_drop, False),
    "max_abs": (max_abs, False),
    "max_rel": (max_rel, False),
    "cosine": (cosine, True),
}


@dataclass(frozen=True)
class MaxLoss:
    """A bound for one figure."""

    figure: str
    bound: float

    def of(self, wanted: Outputs, got: Outputs, labels: Sequence[Array] = ()) -> float:
        """The figure; ``labels``, one a sample, count where decisions do."""
        if self.figure == "top1_drop":
            return top1_drop(wanted, got, labels)
        return FIGURES[self.figure][0](wanted, got)

    def likely(self, wanted: Outputs, got: Outputs, labels: Sequence[Array] = ()) -> float:
        """The figure, where a search asks it again and again about the same few samples."""
        return likely_drop(wanted, got, labels) if self.figure == "top1_drop" else self.of(wanted, got)

    def allows(self, value: float) -> bool:
        return value >= self.bound if FIGURES[self.figure][1] else value <= self.bound

    def __str__(self) -> str:
        return f"{self.figure}={self.bound:g}"


def parsed(text: str) -> MaxLoss:
    """A bound as the command line has it: ``top1_drop=0.5``, ``max_abs=0.1``, ``cosine=0.99``."""
    name, equals, rest = text.partition("=")
    hint = f"write one of {', '.join(FIGURES)}, = and a number: top1_drop=0.5, cosine=0.99"
    try:
        bound = float(rest)
    except ValueError:
        bound = float("nan")
    if not equals or name not in FIGURES or not isfinite(bound):
        raise UsageError(f"'{text}' is no bound", hint=hint)
    return MaxLoss(name, bound)

"""Losses: the mean of what a network's answers cost beside its targets, and its derivative by the answers.

The derivative of each is stated in closed form, so that a softmax and its logarithm are computed once. A last Softmax
or Sigmoid of the network belongs to the loss: what comes before it is its ``answers``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from edgec.errors import UsageError
from edgec.frontend.values import Value, emit, iota, maximum, select
from edgec.ir.types import Type
from edgec.text import one_of, printable


@dataclass(frozen=True)
class Cost:
    """A loss as values: one number, and its derivative by the answers; ``valid`` is false for a target out of range."""

    loss: Value
    slope: Value
    valid: Value | None = None


@dataclass(frozen=True)
class Loss:
    """A loss by name; ``takes_in`` are the operators of ONNX that belong to it where the network ends with one."""

    compute: Callable[[Value, Value, int], Cost]
    takes_in: tuple[str, ...] = ()
    has_classes: bool = False
    target_type: Type | None = None

    def target(self, answers: Type, axis: int) -> Type:
        """The type of the targets of ``answers``: numbers of classes along ``axis``, or as many floats; or the one that
        a loss has stated."""
        if self.target_type is not None:
            return self.target_type
        if not self.has_classes:
            return answers
        return Type("i64", tuple(n for d, n in enumerate(answers.shape) if d != axis))


def _cross_entropy(x: Value, labels: Value, axis: int) -> Cost:
    classes = x.shape[axis]
    shifted = x - x.reduce("max", [axis])
    powers = emit("exp", shifted)
    total = powers.sum([axis])
    # A label beyond 32 bits, which may wrap to a class here, is not valid: the step is refused.
    wanted = iota(classes, axis, x.rank, "i32").equals(labels.cast("i32").unsqueeze(axis))
    picked = select(wanted, shifted, 0.0).sum([axis])
    count = prod(labels.shape)
    slope = (powers / total - wanted.cast(x.dtype)) * (1.0 / count)
    valid = ((labels >= 0) & (labels < classes)).reduce("and", range(labels.rank), keep=False)
    return Cost(_mean(emit("log", total) - picked), slope, valid)


def _mse(x: Value, target: Value, axis: int) -> Cost:
    off = x - target
    return Cost(_mean(off * off), off * (2.0 / prod(x.shape)))


def _l1(x: Value, target: Value, axis: int) -> Cost:
    off = x - target
    return Cost(_mean(emit("abs", off)), emit("sign", off) * (1.0 / prod(x.shape)))


def _bce(x: Value, target: Value, axis: int) -> Cost:
    one = emit("log1p", emit("exp", -emit("abs", x))) + maximum(x, 0.0) - x * target
    return Cost(_mean(one), (emit("sigmoid", x) - target) * (1.0 / prod(x.shape)))


def _hinge(x: Value, target: Value, axis: int) -> Cost:
    missing = 1.0 - x * target
    slope = select(missing > 0.0, -target, 0.0) * (1.0 / prod(x.shape))
    return Cost(_mean(maximum(missing, 0.0)), slope)


def _mean(x: Value) -> Value:
    return x.mean(range(x.rank), keep=False)


#: Every loss by its name.
LOSSES = {
    "cross_entropy": Loss(_cross_entropy, ("Softmax", "LogSoftmax"), has_classes=True),
    "mse": Loss(_mse),
    "l1": Loss(_l1),
    "bce": Loss(_bce, ("Sigmoid",)),
    "hinge": Loss(_hinge),
}


def loss_of(text: str) -> tuple[str, str | None]:
    """(loss, output or None) behind a text such as mse:logits, or loss.onnx:logits: a name, or the path of a model.

    Raises UsageError for a loss that there is not.
    """
    name, _, output = text.partition(":")
    if not (name in LOSSES or is_own(name)) or not re.fullmatch(r"[^:]*(:.+)?", text):
        hint = one_of(name, LOSSES, ", or an ONNX file; an output may follow, as in mse:logits")
        raise UsageError(f"there is no loss '{printable(text)}'", hint=hint, where="--loss")
    return name, output or None


def is_own(name: str) -> bool:
    """True for the path of a loss of the user's own."""
    return name.endswith(".onnx")


def taken_in(name: str) -> tuple[str, ...]:
    """The operators of ONNX that belong to a loss where a network ends with one."""
    return LOSSES[name].takes_in if name in LOSSES else ()

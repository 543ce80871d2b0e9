"""Optimizers: a weight after a step, from its gradient and the moments that are kept for it. Formulas are PyTorch's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from edgec.differentiate.joined import ROW
from edgec.errors import UsageError
from edgec.frontend.values import Value, emit, minimum
from edgec.ops.graphs import concat
from edgec.text import one_of, printable


@dataclass(frozen=True)
class Optimizer:
    """The choice of ``--optimizer``. ``lr`` is the learning rate where the caller of a step gives none.

    ``clip`` bounds the norm of all gradients together; 0 leaves them as they are.
    """

    name: str
    lr: float
    momentum: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0
    clip: float = 0.0

    def __str__(self) -> str:
        said = (f"{f.name}={getattr(self, f.name):g}" for f in fields(self) if f.name in _TAKEN[self.name])
        return f"{self.name}:{','.join(said)}"

    @property
    def moments(self) -> tuple[str, ...]:
        """Names of what is kept for each weight, zero at the start."""
        return ("first", "second") if self.name != "sgd" else ("velocity",) if self.momentum else ()

    @property
    def powers(self) -> tuple[str, ...]:
        """Numbers that are kept for all weights together, zero at the start: 1 - beta^t."""
        return ("correction1", "correction2") if self.name != "sgd" else ()


#: Scalars that are added one after another.
FEW = 8
#: A sum of a long vector has at most so many rows, where its length allows it.
ROWS = 4096
_COMMON = ("lr", "weight_decay", "clip")
_ADAM = (*_COMMON, "beta1", "beta2", "eps")
_TAKEN = {"sgd": (*_COMMON, "momentum"), "adam": _ADAM, "adamw": _ADAM}
_DEFAULTS = {
    "sgd": Optimizer("sgd", 0.01),
    "adam": Optimizer("adam", 0.001),
    "adamw": Optimizer("adamw", 0.001, weight_decay=0.01),
}


def optimizer_of(text: str) -> Optimizer:
    """The optimizer of a text such as sgd:lr=0.01,momentum=0.9. Raises UsageError for one that there is not."""
    name, _, rest = text.partition(":")
    if name not in _DEFAULTS:
        hint = one_of(name, _DEFAULTS, ", as in sgd:lr=0.01,momentum=0.9")
        raise UsageError(f"there is no optimizer '{printable(name)}'", hint=hint, where="--optimizer")
    given: dict[str, Any] = {}
    for word in filter(None, (w.strip() for w in rest.split(","))):
        key, _, number = word.partition("=")
        key = {"wd": "weight_decay"}.get(key, key)
        if key not in _TAKEN[name]:
            raise UsageError(f"{name} has no '{printable(key)}'", hint=one_of(key, _TAKEN[name]), where="--optimizer")
        if key in given:
            raise UsageError(f"{key} is given twice", hint="give it once", where="--optimizer")
        given[key] = _number(key, number)
    return replace(_DEFAULTS[name], **given)


def _number(key: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    below = 1.0 if key in ("momentum", "beta1", "beta2") else float(np.finfo(np.float32).max)
    if not 0 <= value < below:
        bound = "from 0 to below 1" if below == 1 else "of 0 or more, in the range of floats of 32 bits"
        raise UsageError(f"{key} is '{printable(text)}'", hint=f"give a number {bound}", where="--optimizer")
    return value


def clipped(gradients: Sequence[Value], optimizer: Optimizer) -> tuple[list[Value], Value]:
    """Gradients scaled so that the norm of all of them together is at most ``clip``; and how many are not finite.

    With ``clip`` that count is 1 where the norm is no finite number.
    """
    if not optimizer.clip:
        return list(gradients), total([count_broken(g) for g in gradients])
    norm = total([_total(g * g) for g in gradients])
    factor = minimum(optimizer.clip / (emit("sqrt", norm) + 1e-6), 1.0)
    return [g * factor for g in gradients], count_broken(norm)


def count_broken(x: Value) -> Value:
    """The number of elements that are infinite or not a number."""
    return _total(1.0 - is_finite(x).cast(x.dtype))


def is_finite(x: Value) -> Value:
    """Tells of each element whether it is a finite number."""
    return emit("abs", x) < float("inf")


def _total(x: Value) -> Value:
    """The sum of all elements; of a long vector row by row first, so that many threads take part."""
    long = x.rank == 1 and isinstance(x.shape[0], int) and x.shape[0] > ROW and x.shape[0] % ROW == 0
    if long:
        width = ROW
        while x.shape[0] // width > ROWS and x.shape[0] % (2 * width) == 0:
            width *= 2
        x = x.reshape(x.shape[0] // width, width).sum([1], keep=False)
    return x.sum(range(x.rank), keep=False)


def total(values: Sequence[Value]) -> Value:
    """The sum of scalars: of many as one vector, so that none of the kernels that they come from has all additions."""
    if len(values) > FEW:
        return Value(concat([v.reshape(1).node for v in values], 0)).sum([0], keep=False)
    found = values[0]
    for value in values[1:]:
        found = found + value
    return found


def advanced(optimizer: Optimizer, powers: Mapping[str, Value]) -> dict[str, Value]:
    """The numbers for all weights, one step later."""
    betas = (optimizer.beta1, optimizer.beta2)
    return {name: powers[name] * beta + (1.0 - beta) for name, beta in zip(optimizer.powers, betas)}


def moments_after(o: Optimizer, weight: Value, gradient: Value, moments: Mapping[str, Value]) -> dict[str, Value]:
    """The moments of a weight, one step later."""
    g = _decayed(o, weight, gradient)
    if o.name != "sgd":
        first, second = moments["first"] * o.beta1, moments["second"] * o.beta2
        return {"first": first + g * (1.0 - o.beta1), "second": second + g * g * (1.0 - o.beta2)}
    return {"velocity": moments["velocity"] * o.momentum + g} if o.momentum else {}


def velocity_before(o: Optimizer, weight: Value, velocity: Value) -> Value:
    """The sum that the gradient of a step of SGD is added to."""
    return velocity * o.momentum + weight * o.weight_decay if o.weight_decay else velocity * o.momentum


def is_added_up(o: Optimizer) -> bool:
    """Tells whether the moments of a sum of gradients are a sum, so that parts of it can be added one by one."""
    return o.name == "sgd" and bool(o.momentum) and not o.clip


def weight_after(
    o: Optimizer, weight: Value, gradient: Value, moments: Mapping[str, Value], powers: Mapping[str, Value], rate: Value
) -> Value:
    """A weight after a step, from the moments and the ``powers`` of this step."""
    if o.name != "sgd":
        weight = weight * (1.0 - rate * o.weight_decay) if o.weight_decay and o.name == "adamw" else weight
        size = emit("sqrt", moments["second"]) / emit("sqrt", powers["correction2"]) + o.eps
        return weight - (rate / powers["correction1"]) * (moments["first"] / size)
    return weight - (moments["velocity"] if o.momentum else _decayed(o, weight, gradient)) * rate


def _decayed(o: Optimizer, weight: Value, gradient: Value) -> Value:
    return gradient + weight * o.weight_decay if o.weight_decay and o.name != "adamw" else gradient

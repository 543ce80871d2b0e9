"""The check of a training step: its gradients, and its losses and weights after many steps, beside a reference.

The reference is PyTorch in double precision. Where PyTorch is not asked for, it is the step's own graph in numpy, whose
derivatives are held against slopes of the loss.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf, isfinite, isnan
from typing import Any, Protocol

import numpy as np

from edgec.artifact.trainer import Trainer
from edgec.check.differences import apart_from_differences
from edgec.check.numpy_training import LARGE_RATE, InNumpy, gradient_behind
from edgec.differentiate.optimizers import optimizer_of
from edgec.errors import EdgecError, ModelError, ToolchainError, UsageError
from edgec.progress import Progress, silent

#: The largest difference that passes: of gradients over the largest of a weight, of losses over the larger of 1 and
#: the loss. Weights after many steps are told, not judged.
OF_GRADIENTS, OF_LOSSES = 1e-4, 1e-3
#: The same where products take factors of fewer bits.
NARROW_GRADIENTS, NARROW_LOSSES = 0.05, 0.05
#: The least largest gradient of a weight, over the largest of all, that its differences are told by: some gradients are
#: 0 but for rounding, as those by what softmax or a normalization takes away again.
_LEAST = 1e-3
#: Batches whose gradients are compared until one passes: where an operand of a ReLU is 0 but for rounding, it goes on
#: in one precision and ends in the other, so that a batch may differ where nothing is wrong (of U-Net's, one of five).
_TRIES = 5
#: The difference of slopes from gradients by the same rules of derivatives that passes, both in double precision.
OF_DIFFERENCES = 1e-5
#: Where none of them passes: times the difference of the reference itself in single precision that pass instead.
_OF_NARROW = 2.0
#: The relative change of inputs in their last digits.
_LAST_DIGIT = 2.0**-22
#: The part of the learning rate that many steps are compared at: random data lead nowhere, and large steps apart.
_CAREFUL = 0.1
#: Batches that a check goes through again and again.
_BATCHES = 8


class Reference(Protocol):
    """Another training of the same network."""

    version: str

    def step(self, *arrays: np.ndarray, rate: float | None = None) -> float: ...

    def gradients(self) -> dict[str, np.ndarray]: ...

    def weights(self) -> dict[str, np.ndarray]: ...


@dataclass(frozen=True)
class TrainingChecked:
    """The result of a check: largest differences, and the weight with the largest of the gradients'."""

    reference: str
    steps: int
    gradients: float
    worst: str
    losses: float
    weights: float
    first_loss: float
    last_loss: float
    bounds: tuple[float, float] = (OF_GRADIENTS, OF_LOSSES)
    narrow_gradients: float | None = None  # the reference's own error (`_own_error`), where edgec's did not pass alone
    narrow_losses: float | None = None  # the same of losses
    differences: float | None = None  # of slopes of the loss from gradients by the same rules, in double precision

    @property
    def ok(self) -> bool:
        slopes = self.differences is None or self.differences <= OF_DIFFERENCES
        return self.gradients <= self.bounds[0] and self.losses <= self.bounds[1] and slopes


def check_training(
    trainer: Trainer,
    *,
    vs: str | None,
    steps: int = 100,
    seed: int = 0,
    progress: Progress = silent,
    peer: Callable[[], Reference] | None = None,
    draw: Callable[[Trainer, int], list[np.ndarray]] | None = None,
    narrow: Callable[[], Reference] | None = None,
) -> TrainingChecked:
    """Hold a built training against a reference on random data: ``vs`` by name, or what ``peer`` makes.
    ``draw`` makes a batch of a number. ``narrow`` makes the reference in single precision, whose own gradients may be
    as far from those in double precision where many operands of a ReLU are 0 but for rounding (or those in double
    precision from themselves), and its losses where such differences lead steps apart.

    Raises UsageError for a name that is not known.
    """
    if steps < 1:
        raise UsageError(f"{steps} steps check nothing", hint="give 1 or more")
    data = [(draw or batch_of)(trainer, seed + k) for k in range(min(_BATCHES, steps))]
    bounds = (OF_GRADIENTS, OF_LOSSES)
    if trainer.said["precision"] != "fp32":
        bounds = (NARROW_GRADIENTS, NARROW_LOSSES)
    begin = peer or partial(reference_of, trainer, vs)
    narrow = narrow or (partial(reference_of, trainer, vs, is_double=False) if peer is None else None)
    tried = []
    for k, batch in enumerate(data[:_TRIES]):
        tried.append((*_apart(gradients_of(trainer, batch), _first_gradients(begin(), batch)), k))
        if tried[-1][0] <= bounds[0]:
            break
    gradients, worst, best = min(tried)
    own = None
    if gradients > bounds[0] and narrow is not None:
        own = _own_error(begin, narrow, data[best])
        bounds = (_widened(bounds[0], own), bounds[1])
    slopes = differences_of(trainer, data[best]) if vs is None and peer is None else None
    trainer.reset()
    reference, rate = begin(), trainer.learning_rate * _CAREFUL
    losses, theirs = list[float](), list[float]()
    for k in range(steps):
        progress("check", f"step {k + 1} of {steps}", k / steps)
        batch = data[k % len(data)]
        theirs.append(reference.step(*batch, rate=rate))
        losses.append(trainer.step(*batch, learning_rate=rate))
    apart, of_losses = _losses_apart(losses, theirs), None
    if apart > bounds[1] and narrow is not None:
        alone = narrow()
        of_losses = _losses_apart([alone.step(*data[k % len(data)], rate=rate) for k in range(steps)], theirs)
        bounds = (bounds[0], _widened(bounds[1], of_losses))
    weights = max(
        float(np.abs(w - trainer.weights[name]).max() / max(np.abs(w).max(), 1e-30))
        for name, w in reference.weights().items()
    )
    trainer.reset()
    ends = losses[0], losses[-1]
    return TrainingChecked(
        reference.version, steps, gradients, worst, apart, weights, *ends, bounds, own, of_losses, slopes
    )


def _widened(bound: float, own: float) -> float:
    """A bound that the reference's ``own`` difference keeps too; one that is no number says nothing."""
    return max(bound, _OF_NARROW * own) if isfinite(own) else bound


def _losses_apart(losses: Sequence[float], exact: Sequence[float]) -> float:
    """The largest difference of two series of losses over the larger of 1 and the loss."""
    apart = (abs(loss - e) / max(1.0, abs(e)) for loss, e in zip(losses, exact, strict=True))
    return max(inf if isnan(difference) else difference for difference in apart)


def _own_error(begin: Callable[[], Reference], narrow: Callable[[], Reference], batch: list[np.ndarray]) -> float:
    """The largest difference of a reference's gradients in single precision, or with other last digits of its inputs.

    Where an operand of a ReLU, or a maximum, is on either side but for rounding, a rounding decides on which.
    """
    exact = _first_gradients(begin(), batch)
    own, _ = _apart(_first_gradients(narrow(), batch), exact)
    for seed in range(_TRIES):
        chance = np.random.default_rng(seed)
        near = [a * (1 + _LAST_DIGIT * chance.uniform(-1, 1, a.shape)) if a.dtype.kind == "f" else a for a in batch]
        own = max(own, _apart(_first_gradients(begin(), near), exact)[0])
    return own


def _first_gradients(reference: Reference, batch: list[np.ndarray]) -> dict[str, np.ndarray]:
    """The gradients of a reference in its first step."""
    reference.step(*batch)
    return reference.gradients()


def _apart(found: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray]) -> tuple[float, str]:
    """The largest difference of a gradient, and the weight that has it."""
    least = max(_LEAST * max(float(np.abs(g).max()) for g in wanted.values()), float(np.finfo(np.float32).tiny))
    apart = {n: float(np.abs(found[n] - g).max() / max(np.abs(g).max(), least)) for n, g in wanted.items()}
    return max((inf if isnan(difference) else difference, n) for n, difference in apart.items())


def reference_of(trainer: Trainer, vs: str | None, is_double: bool = True) -> Reference:
    """The reference called ``vs``, in double precision if ``is_double`` and all operators have a meaning in it.

    Raises UsageError for one that there is not, ToolchainError without PyTorch.
    """
    if vs is None:
        try:
            return InNumpy(trainer, is_double)
        except ModelError:
            return InNumpy(trainer)
    if vs != "torch":
        raise UsageError(f"'{vs}' is no peer of a training", hint="it is torch, or leave out --vs", where="--vs")
    try:
        from edgec.check.torch_training import TorchTraining  # where it is asked for alone: it takes seconds
    except ImportError:
        hint = "pip install 'edgec[torch]', or leave out --vs: the graph in numpy is the reference then"
        raise ToolchainError("PyTorch is not installed", hint=hint) from None
    reference: Reference = TorchTraining(trainer, is_double=is_double)
    return reference


def batch_of(trainer: Trainer, seed: int) -> list[np.ndarray]:
    """Random inputs and targets of a step; integers among the inputs are 0 or 1."""
    ports = [(p.dtype, p.shape) for p in (*trainer.inputs, trainer.target)]
    return drawn_batch(ports, trainer.classes, trainer.said["loss"], seed)


def drawn_batch(ports: Sequence[tuple[str, Any]], classes: int | None, loss: str, seed: int) -> list[np.ndarray]:
    """Random arrays of types and shapes, of which the last one is that of the targets."""
    random = np.random.default_rng(seed)
    arrays = []
    for k, (dtype, shape) in enumerate(ports):
        is_target = k == len(ports) - 1
        if is_target and classes is not None:
            arrays.append(random.integers(0, classes, shape))
        elif is_target and loss.startswith(("bce", "hinge")):
            low = 0 if loss.startswith("bce") else -1
            arrays.append(random.choice([low, 1], shape).astype(np.float32))
        elif dtype.startswith(("i", "u")):
            arrays.append(random.integers(0, 2, shape))
        else:
            arrays.append(random.standard_normal(shape).astype(np.float32))
    return arrays


def gradients_of(trainer: Trainer, batch: list[np.ndarray]) -> dict[str, np.ndarray]:
    """The gradients of the first step, as its state shows them."""
    o = optimizer_of(trainer.said["optimizer"])
    trainer.reset()
    before = {name: w.astype(np.float64) for name, w in trainer.weights.items() if name not in trainer.statistics}
    scale = None
    while scale is None or scale != trainer.loss_scale:  # a step whose scaled gradients overflow changes no weight
        scale = trainer.loss_scale
        trainer.step(*batch, learning_rate=LARGE_RATE)
    return {name: gradient_behind(o, trainer.state, name, before[name], trainer.accumulate) for name in before}


def differences_of(trainer: Trainer, batch: list[np.ndarray]) -> float | None:
    """The difference of gradients by the rules of derivatives from slopes of the loss, in double precision; None for a
    network with an operator that has no meaning in it."""
    try:
        exact = InNumpy(trainer, is_double=True, clips=False, is_smooth=True)
        gradients = _first_gradients(exact, batch)
        return apart_from_differences(partial(exact.loss_at, batch), exact.trained, gradients)
    except EdgecError:
        return None

"""The check of a training step: its gradients, and its losses and weights after many steps, beside a reference.

The reference is PyTorch in double precision, or the step's own graph in numpy where PyTorch is not asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from edgec.artifact.trainer import Trainer
from edgec.check.trained_model import model_of
from edgec.differentiate.optimizers import Optimizer, optimizer_of
from edgec.differentiate.own_loss import loss_for
from edgec.differentiate.step import Choices, training_step
from edgec.differentiate.updates import GRADIENT
from edgec.errors import ToolchainError, UsageError
from edgec.frontend.onnx.importer import import_model
from edgec.ir.evaluate import run
from edgec.ir.types import DTYPES, Type
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
#: in one precision and ends in the other, so that one batch may differ where nothing is wrong.
_TRIES = 3
#: Where none of them passes: times the difference of the reference itself in single precision that pass instead.
_OF_NARROW = 2.0
#: A learning rate at which a step of plain SGD shows its gradients to the last bits.
_LARGE_RATE = 2.0**10
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
    narrow_gradients: float | None = None  # of the reference in single precision, where edgec's did not pass alone
    narrow_losses: float | None = None  # the same of losses

    @property
    def ok(self) -> bool:
        return self.gradients <= self.bounds[0] and self.losses <= self.bounds[1]


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
    as far from those in double precision where many operands of a ReLU are 0 but for rounding, and its losses where
    such differences lead steps apart.

    Raises UsageError for a name that is not known.
    """
    if steps < 1:
        raise UsageError(f"{steps} steps check nothing", hint="give 1 or more")
    data = [(draw or batch_of)(trainer, seed + k) for k in range(min(_BATCHES, steps))]
    bounds = (OF_GRADIENTS, OF_LOSSES)
    if trainer.said["precision"] != "fp32":
        bounds = (NARROW_GRADIENTS, NARROW_LOSSES)
    begin = peer or partial(reference_of, trainer, vs)
    narrow = narrow or (partial(reference_of, trainer, vs, is_double=False) if peer is None and vs else None)
    tried = []
    for k, batch in enumerate(data[:_TRIES]):
        tried.append((*_apart(gradients_of(trainer, batch), _first_gradients(begin(), batch)), k))
        if tried[-1][0] <= bounds[0]:
            break
    gradients, worst, best = min(tried)
    own = None
    if gradients > bounds[0] and narrow is not None:
        own, _ = _apart(*(_first_gradients(make(), data[best]) for make in (narrow, begin)))
        bounds = (max(bounds[0], _OF_NARROW * own), bounds[1])
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
        bounds = (bounds[0], max(bounds[1], _OF_NARROW * of_losses))
    weights = max(
        float(np.abs(w - trainer.weights[name]).max() / max(np.abs(w).max(), 1e-30))
        for name, w in reference.weights().items()
    )
    trainer.reset()
    ends = losses[0], losses[-1]
    return TrainingChecked(reference.version, steps, gradients, worst, apart, weights, *ends, bounds, own, of_losses)


def _losses_apart(losses: Sequence[float], exact: Sequence[float]) -> float:
    """The largest difference of two series of losses over the larger of 1 and the loss."""
    return max(abs(loss - e) / max(1.0, abs(e)) for loss, e in zip(losses, exact, strict=True))


def _first_gradients(reference: Reference, batch: list[np.ndarray]) -> dict[str, np.ndarray]:
    """The gradients of a reference in its first step."""
    reference.step(*batch)
    return reference.gradients()


def _apart(found: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray]) -> tuple[float, str]:
    """The largest difference of a gradient, and the weight that has it."""
    least = max(_LEAST * max(float(np.abs(g).max()) for g in wanted.values()), float(np.finfo(np.float32).tiny))
    return max((float(np.abs(found[n] - g).max() / max(np.abs(g).max(), least)), n) for n, g in wanted.items())


def reference_of(trainer: Trainer, vs: str | None, is_double: bool = True) -> Reference:
    """The reference called ``vs``; ``is_double`` is of PyTorch.

    Raises UsageError for one that there is not, ToolchainError without PyTorch.
    """
    if vs is None:
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
    random = np.random.default_rng(seed)
    arrays = []
    for port in (*trainer.inputs, trainer.target):
        shape: Any = port.shape
        if port is trainer.target and trainer.classes is not None:
            arrays.append(random.integers(0, trainer.classes, shape))
        elif port is trainer.target and trainer.said["loss"].startswith(("bce", "hinge")):
            low = 0 if trainer.said["loss"].startswith("bce") else -1
            arrays.append(random.choice([low, 1], shape).astype(np.float32))
        elif port.dtype.startswith(("i", "u")):
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
        trainer.step(*batch, learning_rate=_LARGE_RATE)
    return {name: _gradient(o, trainer.state, name, before[name], trainer.accumulate) for name in before}


def _gradient(
    o: Optimizer, state: Mapping[str, np.ndarray], name: str, before: np.ndarray, accumulate: int
) -> np.ndarray:
    """The gradient behind a weight, from the state after the first step at the large rate."""
    before = before.astype(np.float64)
    if accumulate > 1:
        return state[f"{name}_{GRADIENT}"].astype(np.float64) * accumulate
    if o.name != "sgd":
        found = state[f"{name}_first"].astype(np.float64) / (1.0 - o.beta1)
    elif o.momentum:
        found = state[f"{name}_velocity"].astype(np.float64)
    else:
        found = (before - state[name]) / _LARGE_RATE
    return found - (o.weight_decay * before if o.name != "adamw" else 0.0)


class InNumpy:
    """The graph of the step in numpy: what it computes before rewriting, fusing and compiling."""

    version = "the step's graph in numpy"

    def __init__(self, trainer: Trainer) -> None:
        judged = model_of(trainer)
        self.o, self.trained = optimizer_of(trainer.said["optimizer"]), judged.weights
        graph = import_model(judged.model)
        loss = loss_for(judged.loss, graph.outputs[0][1].type, judged.own)
        trained = tuple(judged.weights)
        choices = Choices(
            loss, self.o, trained, judged.axis, trainer.accumulate, judged.counter, running=judged.running
        )
        self.made = training_step(graph, choices)
        self.accumulate = trainer.accumulate
        types: dict[str, Type] = {str(n.attributes["name"]): n.type for n in self.made.graph.inputs}
        self.rate = next(name for name in types if name.startswith("learning_rate"))
        self.names = [*(p.onnx_name for p in trainer.inputs), trainer.target.onnx_name]
        self.state: dict[str, np.ndarray] = {
            n: np.zeros(types[n].shape, DTYPES[types[n].dtype]) for n in self.made.states
        }
        self.state |= {**judged.weights, **judged.statistics}
        self.learned = (*judged.weights, *judged.statistics)
        self.start = self.state

    def step(self, *arrays: np.ndarray, rate: float | None = None) -> float:
        self.batch = arrays
        given: dict[str, np.ndarray] = dict(zip(self.names, arrays))
        given[self.rate] = np.asarray(self.o.lr if rate is None else rate, np.float32)
        found = run(self.made.graph, {**given, **self.state})
        self.state = {name: found[new] for name, new in self.made.states.items()}
        loss, _ = self.made.graph.outputs[0]
        return float(found[loss])

    def gradients(self) -> dict[str, np.ndarray]:
        """Those of the first step, whose batch is the last one that was given."""
        self.state = dict(self.start)
        self.step(*self.batch, rate=_LARGE_RATE)
        begun = self.trained.items()
        return {name: _gradient(self.o, self.state, name, before, self.accumulate) for name, before in begun}

    def weights(self) -> dict[str, np.ndarray]:
        return {name: self.state[name] for name in self.learned}

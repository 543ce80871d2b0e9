"""A training in numpy by the step's own graph: what it computes before rewriting, fusing and compiling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from edgec.artifact.trainer import Trainer
from edgec.check.float64 import in_double, moderate, without_huge
from edgec.check.trained_model import model_of
from edgec.differentiate.optimizers import Optimizer, optimizer_of
from edgec.differentiate.own_loss import loss_for
from edgec.differentiate.step import Choices, training_step
from edgec.differentiate.updates import GRADIENT
from edgec.frontend.onnx.importer import import_model
from edgec.ir.evaluate import run
from edgec.ir.graph import Graph
from edgec.ir.types import DTYPES, Type

#: A learning rate at which a step of plain SGD shows its gradients to the last bits.
LARGE_RATE = 2.0**10


class InNumpy:
    """The graph of the step in numpy, in floats of 64 bits if ``is_double``, with gradients of any norm unless it
    ``clips`` them, and without numbers beside which others are lost if it ``is_smooth``.

    Raises EdgecError for an operator that has no meaning in double precision.
    """

    def __init__(self, trainer: Trainer, is_double: bool = False, clips: bool = True, is_smooth: bool = False) -> None:
        self.version = f"the step's graph in numpy{' in double precision' if is_double else ''}"
        judged = model_of(trainer)
        self.o, self.trained = optimizer_of(trainer.said["optimizer"]), judged.weights
        if not clips:
            self.o = replace(self.o, clip=0.0)
        graph = import_model(judged.model)
        loss = loss_for(judged.loss, graph.outputs[0][1].type, judged.own)
        trained = tuple(judged.weights)
        choices = Choices(
            loss, self.o, trained, judged.axis, trainer.accumulate, judged.counter, running=judged.running,
            micro_batches=trainer.one_by_one, at_once=trainer.one_by_one > 1,
        )  # fmt: skip
        self.made = training_step(graph, choices)
        self.accumulate, self.runs = trainer.accumulate, trainer.one_by_one
        self.graph = in_double(self.made.graph) if is_double else self.made.graph
        if is_smooth:
            self.graph = without_huge(self.graph)
            self.trained = {name: moderate(w) for name, w in judged.weights.items()}
        types: dict[str, Type] = {str(n.attributes["name"]): n.type for n in self.graph.inputs}
        self.dtypes = {name: DTYPES[type.dtype] for name, type in types.items()}
        self.rate = next(name for name in types if name.startswith("learning_rate"))
        self.names = [*(p.onnx_name for p in trainer.inputs), trainer.target.onnx_name]
        self.state: dict[str, np.ndarray] = {
            n: np.zeros(types[n].shape, DTYPES[types[n].dtype]) for n in self.made.states
        }
        self.state |= {**self.trained, **judged.statistics}
        self.learned = (*judged.weights, *judged.statistics)
        self.start = self.state

    def step(self, *arrays: np.ndarray, rate: float | None = None) -> float:
        self.batch = arrays
        samples = self._samples(arrays)
        learned, losses = self.state, []
        for k, sample in enumerate(samples):
            sample[self.rate] = np.asarray(self.o.lr if rate is None else rate, np.float32)
            if self.made.micro is not None:
                sample |= self.made.micro.flags(k)
            found = self._run(self.graph, {**sample, **learned})
            learned = {name: found[new] for name, new in self.made.states.items()}
            losses.append(found[self.graph.outputs[0][0]])
        self.state = learned
        return float(np.mean(losses))

    def _samples(self, arrays: Sequence[np.ndarray]) -> list[dict[str, np.ndarray]]:
        """The inputs of each run of the graph."""
        return [dict(zip(self.names, each)) for each in zip(*(np.split(a, self.runs) for a in arrays))]

    def _run(self, graph: Graph, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        names = [str(n.attributes["name"]) for n in graph.inputs]
        return run(graph, {n: given[n].astype(self.dtypes[n]) for n in names if n in given})

    def loss_at(self, arrays: Sequence[np.ndarray], weights: Mapping[str, np.ndarray]) -> float:
        """The loss of a batch by these trained weights."""
        (name, loss), *_ = self.graph.outputs
        graph = replace(self.graph, outputs=((name, loss),))
        return float(np.mean([self._run(graph, {**self.start, **s, **weights})[name] for s in self._samples(arrays)]))

    def gradients(self) -> dict[str, np.ndarray]:
        """Those of the first step, whose batch is the last one that was given."""
        self.state = dict(self.start)
        self.step(*self.batch, rate=LARGE_RATE)
        begun = self.trained.items()
        return {name: gradient_behind(self.o, self.state, name, before, self.accumulate) for name, before in begun}

    def weights(self) -> dict[str, np.ndarray]:
        return {name: self.state[name] for name in self.learned}


def gradient_behind(
    o: Optimizer, state: Mapping[str, np.ndarray], name: str, before: np.ndarray, accumulate: int
) -> np.ndarray:
    """The gradient behind a weight, from the state after the first step at the large rate; 0 where the weight is
    infinite, as in a mask, and shows none."""
    before = before.astype(np.float64)
    if accumulate > 1:
        return state[f"{name}_{GRADIENT}"].astype(np.float64) * accumulate
    with np.errstate(invalid="ignore"):
        if o.name != "sgd":
            found = state[f"{name}_first"].astype(np.float64) / (1.0 - o.beta1)
        elif o.momentum:
            found = state[f"{name}_velocity"].astype(np.float64)
        else:
            found = (before - state[name]) / LARGE_RATE
        found = found - (o.weight_decay * before if o.name != "adamw" else 0.0)
    return np.where(np.isinf(before), 0.0, found)

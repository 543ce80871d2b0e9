"""The training of a built folder in PyTorch: the same model, loss and optimizer, with gradients by autograd."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from edgec.artifact.trainer import Trainer
from edgec.check.in_torch import prepared
from edgec.check.trained_model import model_of
from edgec.differentiate.losses import loss_of
from edgec.differentiate.optimizers import optimizer_of
from edgec.frontend.onnx.model import Model

_LOSSES: dict[str, Any] = {
    "cross_entropy": F.cross_entropy,
    "mse": F.mse_loss,
    "l1": F.l1_loss,
    "bce": F.binary_cross_entropy_with_logits,
    "hinge": lambda answers, target: F.relu(1 - target * answers).mean(),
}


class TorchTraining:
    """A training that begins as the one in ``trainer`` does, in floats of 64 bits if ``is_double``.

    ``compiled`` has the answers and the loss compiled by torch.compile. Answers are those of the ONNX model, operator
    by operator, or of ``module``, whose parameters have the names of the trained weights and which is computed at
    ``place``, a device of PyTorch.
    """

    def __init__(
        self,
        trainer: Trainer,
        *,
        is_double: bool,
        compiled: bool = False,
        threads: int | None = None,
        rate: float | None = None,
        module: torch.nn.Module | None = None,
        place: str = "cpu",
    ) -> None:
        if threads is not None:
            torch.set_num_threads(threads)
        self.version = f"PyTorch {torch.__version__}{', compiled' if compiled else ''}"
        self.wide, self.place = torch.float64 if is_double else torch.float32, place
        judge: Any = _LOSSES.get(loss_of(trainer.said["loss"])[0])
        self._counter = None
        self.statistics: dict[str, Any] = {}
        if module is None:
            judged = model_of(trainer)
            if judged.own is not None:
                judge = _of_model(judged.own, self.wide)
            self._counter = judged.counter
            self.parameters = {
                name: torch.tensor(value, dtype=self.wide, requires_grad=True) for name, value in judged.weights.items()
            }
            self.statistics = {name: torch.tensor(v, dtype=self.wide) for name, v in judged.statistics.items()}
            names, run = [p.onnx_name for p in trainer.inputs], prepared(judged.model.proto, self.wide)

            def by_operators(*given: Any) -> Any:
                if trainer.one_by_one > 1:
                    samples = zip(*(torch.chunk(g, trainer.one_by_one) for g in given))
                    return torch.cat([run({**dict(zip(names, s)), **self.parameters})[0] for s in samples])
                number = {} if self._counter is None else {self._counter: torch.tensor(self._steps, dtype=torch.int32)}
                found = run({**dict(zip(names, given)), **number, **self.parameters, **self.statistics})
                self.statistics = {name: new.detach() for name, new in zip(judged.running, found[1:])}
                return found[0]

            answers: Any = by_operators
        else:
            own = deepcopy(module).to(place, self.wide)
            self.parameters = {n: p for n, p in own.named_parameters() if n in trainer.weights}
            answers = own

        def loss(given: Sequence[Any], target: Any) -> Any:
            return judge(answers(*given), target)

        self._loss = torch.compile(loss) if compiled else loss
        o = optimizer_of(trainer.said["optimizer"])
        self.accumulate, self._steps = trainer.accumulate, 0
        known, self.clip = list(self.parameters.values()), o.clip
        rate = o.lr if rate is None else rate
        if o.name == "sgd":
            self.optimizer: Any = torch.optim.SGD(known, rate, momentum=o.momentum, weight_decay=o.weight_decay)
        else:
            kind = torch.optim.Adam if o.name == "adam" else torch.optim.AdamW
            self.optimizer = kind(known, rate, (o.beta1, o.beta2), o.eps, o.weight_decay)

    def tensors(self, *arrays: np.ndarray) -> list[Any]:
        """Inputs and targets for steps."""
        made = [torch.from_numpy(np.ascontiguousarray(a)).to(self.place) for a in arrays]
        return [t.to(self.wide) if t.is_floating_point() else t for t in made]

    def advance(self, given: Sequence[Any]) -> Any:
        """One step on inputs and targets; the loss before it."""
        if self._steps % self.accumulate == 0:
            self.optimizer.zero_grad(set_to_none=True)
        loss = self._loss(given[:-1], given[-1])
        self._steps += 1
        (loss / self.accumulate if self.accumulate > 1 else loss).backward()
        if self._steps % self.accumulate:
            return loss
        if self.clip:
            torch.nn.utils.clip_grad_norm_(list(self.parameters.values()), self.clip)
        self.optimizer.step()
        return loss

    def peak_bytes(self, given: Sequence[Any]) -> int:
        """The bytes of weights and moments, and the most that PyTorch's allocator held during a step beside them."""
        self.advance(given)  # makes the moments
        moments = [v for s in self.optimizer.state.values() for v in s.values() if isinstance(v, torch.Tensor)]
        held = sum(t.numel() * t.element_size() for t in (*self.parameters.values(), *moments))
        self.optimizer.zero_grad(set_to_none=True)  # or the gradients of the step before would count as bytes set free
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as found:
            self.advance(given)
        now = most = 0
        for event in found.profiler.kineto_results.events():
            if event.name() == "[memory]":
                now += event.nbytes()
                most = max(most, now)
        return int(held + most)

    def step(self, *arrays: np.ndarray, rate: float | None = None) -> float:
        """One step on arrays; the loss before it."""
        for group in self.optimizer.param_groups if rate is not None else ():
            group["lr"] = rate
        return float(self.advance(self.tensors(*arrays)).detach())

    def gradients(self) -> dict[str, np.ndarray]:
        """The gradients of the last step by the names of the weights, of several steps with gradients accumulated the
        first."""
        found = {}
        for name, p in self.parameters.items():
            found[name] = p.grad.cpu().numpy() * self.accumulate if p.grad is not None else np.zeros(p.shape)
        return found

    def weights(self) -> dict[str, np.ndarray]:
        return {name: p.detach().cpu().numpy() for name, p in {**self.parameters, **self.statistics}.items()}


def _of_model(own: Model, wide: torch.dtype) -> Any:
    """A loss of the user's own, from answers and targets."""
    held = {t.name for t in own.proto.graph.initializer}
    names = [i.name for i in own.proto.graph.input if i.name not in held]
    run = prepared(own.proto, wide)
    return lambda answers, target: run(dict(zip(names, (answers, target))))[0].reshape(())

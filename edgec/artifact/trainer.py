"""A built network that learns: its weights, a step on them, and the way back to ONNX."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from edgec import files
from edgec.artifact.folder import read_lock
from edgec.artifact.names import LOCK
from edgec.artifact.network import Network, Port
from edgec.artifact.stepping import OnCuda, OnProcessor, Piece, Stepping
from edgec.artifact.trained_adapter import write_adapter
from edgec.errors import ModelError, UsageError
from edgec.frontend.onnx.model import read
from edgec.frontend.onnx.trainable import with_values
from edgec.ir.types import DTYPES
from edgec.options.training import ONE_BY_ONE
from edgec.options.typed import typed
from edgec.progress import Progress, silent
from edgec.untrusted import read_arrays

_SAID = ("loss", "update", "optimizer", "dropout", "precision", "loss_scale")
_NOT_MET, _BAD_TARGET, _NOT_FINITE, _BROKEN = 4, 32, 33, 34


class LossError(ModelError):
    """The loss or a gradient of a step is no finite number; the weights are as they were."""


@dataclass
class History:
    """The mean loss of every epoch."""

    losses: list[float] = field(default_factory=list)


class Trainer:
    """A built network with a training step: ``step``, ``fit``, and calls that use the weights as they are now.

    It owns the state (trained weights, then what the optimizer keeps), an arena and threads, on a GPU where the folder
    was built for one; calls wait for each other.
    """

    @typed
    def __init__(self, folder: str | Path, threads: int = 1) -> None:
        """Open a built folder; raises UsageError where it was built without a loss."""
        lock = read_lock(Path(folder))
        facts = lock.get("training")
        if not isinstance(facts, dict):
            raise UsageError("the folder has no training step", hint="build it with --loss", where=str(folder))
        try:
            self.learning_rate = float(facts["learning_rate"])
            self.classes: int | None = facts["classes"]
            self.said = {
                key: str(facts[key]) for key in ("loss", "update", "optimizer", "dropout", "precision", "loss_scale")
            }
            self.statistics = frozenset(map(str, facts.get("statistics", ())))
            self.accumulate = int(facts["accumulate"])
            #: Samples that PyTorch, too, would have to take one by one: the file is for one.
            self.one_by_one = int(facts["micro_batches"]) if facts["samples"] == ONE_BY_ONE else 1
            self.inputs, self.target = tuple(_port(p) for p in facts["inputs"]), _port(facts["target"])
            pieces = {p["onnx_name"]: Piece(int(p["at"]), bool(p["trained"]), _port(p)) for p in facts["state"]}
            size, arena = int(facts["state_bytes"]), int(facts["arena_bytes"])
            self._trained_bytes = int(facts["trained_bytes"])
            if any(piece.at < 0 or piece.end > size for piece in pieces.values()):
                raise ValueError("a piece lies outside of the state")
        except (KeyError, TypeError, ValueError):
            where = str(Path(folder) / LOCK)
            raise UsageError("is no lock that edgec writes", hint="build it again", where=where) from None
        self.network = Network(folder, threads)
        self.stepping: Stepping
        if lock.get("language") == "cuda":
            self.stepping = OnCuda(self.network, size, pieces)
        else:
            self.stepping = OnProcessor(self.network, size, pieces, arena)
        self.reset()

    @property
    def batch(self) -> int:
        """Samples of a step."""
        return int(self.inputs[0].shape[0]) if self.inputs and self.inputs[0].shape else 1

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """The trained weights by name, as views of the state: what is written to them counts.

        On a GPU the views are of a copy, which is handed back with the next step or call, and is old after it.
        """
        return self.stepping.weights

    @property
    def state(self) -> dict[str, np.ndarray]:
        """All that training changes by name: the weights, and what the optimizer keeps for them."""
        state = self.stepping.state
        return {name: piece.of(state) for name, piece in self.stepping.pieces.items()}

    @property
    def loss_scale(self) -> float:
        """The factor of gradients while they are computed, of a step in fp16; 1 in all others.

        It is halved by a step with infinite gradients, which changes no weight.
        """
        first = float(self.said["loss_scale"])
        return first + float(self.state["loss_scale"]) if first > 1 else first

    def reset(self) -> None:
        """Begin again with the weights of the model."""
        self.stepping.reset()

    @typed
    def step(self, *arrays: Any, learning_rate: float | None = None) -> float:
        """One step on a batch: the inputs in order, then the targets; the loss before it.

        Raises UsageError for arrays that do not fit, targets outside of the classes, and a learning rate that is no
        finite float of 32 bits, LossError where the loss or a gradient is no finite number. The weights are as they
        were then.
        """
        ports = (*self.inputs, self.target)
        if len(arrays) != len(ports):
            names = ", ".join(f"{p.onnx_name} {p}" for p in ports)
            raise UsageError(f"{len(arrays)} arrays are given, a step takes {len(ports)}", hint=names)
        given = [self._fitting(p, a) for p, a in zip(ports, arrays)]
        rate = self.learning_rate if learning_rate is None else learning_rate
        if not abs(rate) <= float(np.finfo(np.float32).max):
            raise UsageError(f"the learning rate is {rate}", hint="give a finite number")
        with self.network._lock:
            status = self.stepping.step(given, rate)
        loss = self.stepping.loss.value
        if status == _BAD_TARGET and self.classes is None:
            raise UsageError("a target is outside of what the loss takes", hint="look for an index beyond its bounds")
        if status == _BAD_TARGET:
            raise UsageError("a target is no class of the network", hint=f"classes are 0 to {(self.classes or 1) - 1}")
        if status == _NOT_FINITE:
            hint = "lower the learning rate, or look for such numbers in the data"
            raise LossError(f"the loss is {loss}, and the weights are as they were", hint=hint)
        if status == _BROKEN:
            hint = "lower the learning rate, or look for the operator whose slope is infinite, such as a root of 0"
            raise LossError(
                f"a gradient is no finite number (the loss is {loss:g}), and the weights are as they were",
                hint=hint,
            )
        if status == _NOT_MET:
            hint = "look for an index, such as the number of a word, beyond its bounds"
            raise UsageError("the network does not take such inputs, and the weights are as they were", hint=hint)
        if status:
            raise UsageError(f"the step returned status {status}", where=str(self.network.folder))
        return float(loss)

    @typed
    def fit(
        self,
        data: Mapping[str, np.ndarray] | Sequence[np.ndarray] | str | Path,
        *,
        epochs: int = 1,
        learning_rate: float | Callable[[int], float] | None = None,
        seed: int | None = 0,
        progress: Progress = silent,
    ) -> History:
        """Train on samples: arrays by name (or in order, targets last), or an .npz file of them; their first
        dimension counts samples.

        With gradients accumulated (``accumulate``), a call of `step` is one of those whose gradients are added up.
        Every epoch takes them in another order drawn from ``seed`` (None: as they are), and leaves out those that fill
        no batch. ``learning_rate`` may be a function of the number of the step.
        """
        arrays = self._samples(data)
        count, history, number = len(arrays[0]) // self.batch, History(), 0
        if epochs < 1:
            raise UsageError(f"{epochs} epochs make no step", hint="give 1 or more")
        if count < 1:
            told = f"{len(arrays[0])} samples make no step of {self.batch}"
            raise UsageError(told, hint="give more samples, or build with a smaller --batch")
        drawn = np.random.default_rng(seed)
        for epoch in range(epochs):
            order = drawn.permutation(len(arrays[0])) if seed is not None else np.arange(len(arrays[0]))
            total = 0.0
            for k in range(count):
                batch = order[k * self.batch : (k + 1) * self.batch]
                rate = learning_rate(number) if callable(learning_rate) else learning_rate
                total += self.step(*(a[batch] for a in arrays), learning_rate=rate)
                number += 1
                progress("train", f"epoch {epoch + 1}, loss {total / (k + 1):.4f}", number / (epochs * count))
            history.losses.append(total / count)
        return history

    def __str__(self) -> str:
        """The network, a line for every input, the target and every output, and what a step does."""
        rows = [("in", p) for p in self.inputs] + [("target", self.target)] + [("out", p) for p in self.network.outputs]
        step = ", ".join(f"{key} {value}" for key, value in self.said.items())
        lines = (f"  {kind:6} {port.onnx_name}  {port}" for kind, port in rows)
        return "\n".join([f"training of {self.network.name}", *lines, f"  step   {step}"])

    __repr__ = __str__

    def __call__(self, *arrays: np.ndarray) -> Any:
        """Run the network once on inputs in order, with the weights as they are now: the output, or all by name."""
        names = [p.onnx_name for p in self.network.inputs if p.onnx_name not in self.stepping.pieces]
        if len(arrays) != len(names):
            raise UsageError(f"{len(arrays)} arrays are given, and the network has {len(names)} inputs")
        results = self.stepping.predict(dict(zip(names, arrays)))
        return next(iter(results.values())) if len(results) == 1 else results

    @typed
    def save(self, path: str | Path) -> None:
        """Write the state as an .npz file, which is replaced as a whole where there is one."""
        files.replace(path, files.npz(self.state))

    @typed
    def restore(self, path: str | Path) -> None:
        """Go on from a file that `save` wrote. Raises UsageError for one of another training, and changes nothing."""
        found, mine = read_arrays(path), self.state
        kinds = {name: (a.dtype, a.shape) for name, a in mine.items()}
        if {name: (a.dtype, a.shape) for name, a in found.items()} != kinds:
            raise UsageError("was not saved by this training", hint="save the state again", where=str(path))
        for name, view in mine.items():
            view[...] = found[name]

    @typed
    def export_onnx(self, path: str | Path) -> None:
        """Write the model with its trained weights, in one file."""
        model = with_values(read(self.network.folder / f"{self.network.name}_model.onnx"), self.weights)
        files.replace(path, model.SerializeToString())

    @typed
    def save_adapter(self, folder: str | Path) -> None:
        """Write trained adapters as PEFT reads them; raises UsageError for a training of other weights."""
        kind, _, rank = self.said["update"].partition("=")
        if kind != "lora":
            hint = "build with --update lora=8, or write the network with export_onnx"
            raise UsageError("no adapter is trained", hint=hint, where=str(self.network.folder))
        write_adapter(folder, self.weights, int(rank))

    def delta(self) -> np.ndarray:
        """The change of the trained weights, as `NAME_export_delta` writes it."""
        found = np.empty(self._trained_bytes // 4, np.float32)
        self.stepping.delta(found)
        return found

    def close(self) -> None:
        """Stop the threads, or free the memory of the GPU; nothing can be trained afterwards."""
        self.stepping.close()
        self.network.close()

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _fitting(self, port: Port, given: Any) -> np.ndarray:
        """An array of a port's type; numbers of classes may be integers of any width, floats of 64 bits are rounded."""
        array = np.asarray(given)
        kinds = "iu" if port.dtype.startswith(("i", "u")) else "f"
        if array.shape != port.shape or array.dtype.kind not in kinds:
            hint = f"classes are 0 to {self.classes - 1}" if port is self.target and self.classes else None
            raise UsageError(f"'{port.onnx_name}' is {array.dtype}{list(array.shape)}, expected {port}", hint=hint)
        return np.ascontiguousarray(array, DTYPES[port.dtype])

    def _samples(self, data: Mapping[str, np.ndarray] | Sequence[np.ndarray] | str | Path) -> list[np.ndarray]:
        """Arrays in the order of a step, whose first dimension counts samples."""
        found: Any = read_arrays(data) if isinstance(data, (str, Path)) else data
        ports = (*self.inputs, self.target)
        if isinstance(found, Mapping):
            given = [found.get(p.onnx_name) for p in self.inputs]
            target = next((found[n] for n in (self.target.onnx_name, "label", "labels", "targets") if n in found), None)
            arrays = [*given, target]
        else:
            arrays = list(found)
        if len(arrays) != len(ports) or any(a is None for a in arrays):
            names = ", ".join(p.onnx_name for p in ports)
            raise UsageError("samples have an array for each input, and targets", hint=f"give {names}")
        made = [np.asarray(a) for a in arrays]
        if len({len(a) if a.ndim else 0 for a in made}) != 1:
            raise UsageError(f"arrays of {', '.join(str(a.shape) for a in made)} hold different numbers of samples")
        return made


def _port(entry: Mapping[str, Any]) -> Port:
    return Port(entry["onnx_name"], entry["name"], entry["dtype"], tuple(entry["shape"]))

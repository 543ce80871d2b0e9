"""The layout of a training's state: trained weights, then what the optimizer keeps, each at its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from edgec.emit.interface import Port
from edgec.schedule.memory import ALIGNMENT
from edgec.schedule.program import Training


@dataclass(frozen=True)
class Held:
    """A piece of the state: the input of a step it is, where it begins, and whether it is a trained weight."""

    port: Port
    at: int
    is_trained: bool

    @property
    def end(self) -> int:
        return self.at + int(self.port.type.bytes)


@dataclass
class StateLayout:
    """The pieces by the names of inputs, and the ``size`` in bytes of all of them and of the trained weights.

    Where the optimizer takes weights as one vector, the vector and each weight in it are pieces.
    """

    training: Training
    pieces: dict[str, Held] = field(default_factory=dict)
    vector: Held | None = None
    size: int = 0
    trained_bytes: int = 0

    @staticmethod
    def of(training: Training, ports: Sequence[Port]) -> StateLayout:
        """The layout of a step with inputs ``ports``."""
        made = StateLayout(training)
        renewed = set(training.step.states.values())
        known = {p.onnx_name: p for p in ports}
        states = [n for n, b, _ in training.step.inputs if b in renewed]
        trained = states[:1] if training.places else [n for n in states if n in training.initial]
        for name in (*trained, *(n for n in states if n not in trained)):
            made.pieces[name] = Held(known[name], made.size, name in trained)
            made.size = _whole(made.pieces[name].end)
            made.trained_bytes = made.size if name in trained else made.trained_bytes
        if training.places:
            made.vector = made.pieces[states[0]]
            for name, place in training.places.items():
                made.pieces[name] = Held(known[name], made.vector.at + 4 * place, True)
        return made

    @property
    def trained(self) -> list[Held]:
        """The trained weights, one by one."""
        return [h for h in self.pieces.values() if h.is_trained and h is not self.vector]

    @property
    def initial(self) -> bytes:
        """The first content of the trained weights."""
        made = np.zeros(self.trained_bytes, np.uint8)
        for held in self.trained:
            raw = (
                np.ascontiguousarray(self.training.initial[held.port.onnx_name], np.float32).reshape(-1).view(np.uint8)
            )
            made[held.at : held.at + raw.size] = raw
        return made.tobytes()

    @property
    def described(self) -> list[dict[str, Any]]:
        """An entry for each weight and each of its moments, however they lie in memory."""
        return [{**described_port(port), "at": at, "trained": is_trained} for port, at, is_trained in self._each()]

    def _each(self) -> Iterator[tuple[Port, int, bool]]:
        for held in self.trained:
            yield held.port, held.at, True
        whole = self.vector
        for held in self.pieces.values():
            if held.is_trained:
                continue
            if whole is None or held.port.shape != whole.port.shape:
                yield held.port, held.at, False
                continue
            moment = held.port.onnx_name.removeprefix(whole.port.onnx_name)
            for one in self.trained:
                port = Port(one.port.name + moment, one.port.onnx_name + moment, one.port.type)
                yield port, held.at + one.at - whole.at, False


def described_port(port: Port) -> Mapping[str, Any]:
    """A port for the lock."""
    shape = [int(n) for n in port.shape]
    return {
        "name": port.name,
        "onnx_name": port.onnx_name,
        "dtype": port.dtype,
        "shape": shape,
        "elements": prod(shape),
    }


def _whole(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT

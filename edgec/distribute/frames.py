"""Frames of a divided network on their way: what each part takes is sent when it is there, and answers are taken in."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from edgec.artifact.network import Network, Port
from edgec.distribute.connection import Due
from edgec.distribute.exchange import Exchange
from edgec.distribute.manifest import Manifest
from edgec.distribute.sides import Frame, Side, bytes_of
from edgec.errors import ModelError
from edgec.ir.dtypes import DTYPES


@dataclass
class Frames:
    """The parts of a manifest over connections to their workers; ``inputs`` are the ports of a frame."""

    manifest: Manifest
    sides: Sequence[Side]
    inputs: Sequence[Port]
    exchange: Exchange

    def stream(
        self, supply: Iterable[Mapping[str, np.ndarray]], most: int, active: deque[Frame]
    ) -> Iterator[dict[str, np.ndarray]]:
        """Outputs of every frame in order, while at most ``most`` are on their way, which are in ``active``.

        Raises ModelError for an input that does not fit, LinkError where a worker is lost.
        """
        frames = iter(supply)
        is_over = False
        while True:
            while not is_over and len(active) < most:
                try:
                    given = next(frames)
                except StopIteration:
                    is_over = True
                    break
                active.append(Frame(self.manifest, self._checked(given)))
                self._go_on(active[-1])
            if not active:
                return
            self.finish(active[0])
            done = active.popleft()
            yield {n: done.tensors[n] for n in self.manifest.outputs}

    def finish(self, frame: Frame) -> None:
        """Wait until all parts of a frame are done."""
        while frame.left:
            for due, data in self.exchange.turn():
                self._take(due, data)

    def _checked(self, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        unknown = [name for name in given if name not in self.manifest.inputs]
        if unknown:
            raise ModelError(f"there is no input '{unknown[0]}'", hint=f"they are {', '.join(self.manifest.inputs)}")
        return {p.onnx_name: Network._checked(p, given) for p in self.inputs}

    def _go_on(self, frame: Frame) -> None:
        """Queue every part of a frame whose inputs are there."""
        for k in frame.ready(self.manifest):
            side = self.sides[k]
            payload = [bytes_of(frame.tensors[r.tensor], r) for r in side.reads]
            connection = self.exchange.connections[side.entry.worker]
            connection.ask(side.number, side.types, payload, side.length, side.out, (frame, side))
            frame.let_go({r.tensor for r in side.entry.reads})
            connection.write()

    def _take(self, due: Due, data: np.ndarray) -> None:
        """The answer of a part: its outputs are there, and other parts may go on."""
        frame, side = due.frame
        begin = 0
        for port in side.writes:
            tensor = self.manifest.tensors[port.onnx_name]
            own = data[begin : begin + tensor.bytes]
            begin += tensor.bytes
            frame.take(tensor.name, own.view(DTYPES[tensor.dtype]).reshape(tensor.shape))
        frame.left -= 1
        self._go_on(frame)

"""Frames of a divided network on their way: what each part takes is sent when it is there, and answers are taken in."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from edgec.artifact.network import Network, Port
from edgec.distribute.connection import Asked
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
            for asked, output, data in self.exchange.turn():
                self._take(asked, output, data)

    def _checked(self, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        unknown = [name for name in given if name not in self.manifest.inputs]
        if unknown:
            raise ModelError(f"there is no input '{unknown[0]}'", hint=f"they are {', '.join(self.manifest.inputs)}")
        return {p.onnx_name: Network._checked(p, given) for p in self.inputs}

    def _go_on(self, frame: Frame) -> None:
        """Queue every part of a frame whose inputs are there, and begin those whose inputs are about to be."""
        for k in frame.ready(self.manifest):
            side = self.sides[k]
            connection = self.exchange.connections[side.entry.worker]
            connection.ask(_asked(frame, side), [bytes_of(frame.tensors[r.tensor], r) for r in side.reads])
            frame.let_go({r.tensor for r in side.entry.reads})
            connection.write()
        for k in frame.coming(self.manifest):
            side = self.sides[k]
            connection = self.exchange.connections[side.entry.worker]
            if not connection.is_open:
                frame.begin(k)
                connection.open(_asked(frame, side))
        for k in sorted(frame.begun):
            self._feed(frame, self.sides[k])

    def _feed(self, frame: Frame, side: Side) -> None:
        """Send what is there of a request that has begun, in order."""
        connection = self.exchange.connections[side.entry.worker]
        first = frame.begun[side.number]
        reads = list(takewhile(lambda r: r.tensor in frame.tensors, side.reads[first:]))
        connection.add([bytes_of(frame.tensors[r.tensor], r) for r in reads])
        frame.begun[side.number] += len(reads)
        if first + len(reads) == len(side.reads):
            del frame.begun[side.number]
            frame.let_go({r.tensor for r in side.entry.reads})
            connection.end()
        connection.write()

    def _take(self, asked: Asked, output: int | None, data: np.ndarray) -> None:
        """An output of a part is there, or its answer is complete (None): other parts may go on."""
        frame, side = asked.frame
        if output is None:
            frame.left -= 1
            return
        tensor = self.manifest.tensors[side.writes[output].onnx_name]
        frame.take(tensor.name, data.view(DTYPES[tensor.dtype]).reshape(tensor.shape))
        if not output:
            frame.expect([port.onnx_name for port in side.writes])
        self._go_on(frame)


def _asked(frame: Frame, side: Side) -> Asked:
    return Asked(side.number, side.types, side.length_in, side.outputs, side.out, (frame, side))

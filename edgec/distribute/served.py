"""Parts of a divided network at work in a worker: opened folders, with the arrays that they read bound once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from edgec.artifact.finals import Finals
from edgec.artifact.folder import read_lock
from edgec.artifact.names import LOCK
from edgec.artifact.network import Network, Port
from edgec.distribute.protocol import checksum, raw
from edgec.errors import UsageError
from edgec.ir.dtypes import DTYPES

#: A function that is called with outputs that are final.
Told = Callable[[Sequence[memoryview]], None]
#: Requests of a part that have room: one that is computed, and the next one.
TURNS = 2


class Served(Protocol):
    """A part as messages know it: what is received into ``rooms``, and what a run gives back.

    Rooms take turns: while a run reads one of them, the next request is received into the other.
    """

    number: int
    rooms: Sequence[Sequence[memoryview]]
    length: int
    length_out: int
    types: int
    types_out: int

    def run(self, turn: int, told: Told | None = None) -> Sequence[memoryview]:
        """Run once on what is in the rooms of a turn; the bytes of the outputs in order, valid until the next run.

        ``told`` is called during the run, with the first outputs as soon as they are final.
        """
        ...

    def reset(self) -> None:
        """States as they are at the start."""
        ...


class ServedPart:
    """A part with its input arrays: messages are received into ``rooms``, and ``run`` gives what is sent back.

    Nothing is allocated for a message. Raises UsageError for a folder that holds no compiled part, or one with sizes
    that are known only at run time.
    """

    def __init__(self, folder: Path, threads: int) -> None:
        self.number = number_of(folder)
        self._network = Network(folder, threads)
        ports = (*self._network.inputs, *self._network.outputs)
        if any(not isinstance(n, int) for p in ports for n in p.shape):
            raise UsageError("has sizes that are known only at run time", where=str(folder))
        states = states_of(read_lock(folder))
        held = {p.onnx_name: _zeros(p) for p in self._network.inputs if p.onnx_name in states}
        self._states = {new: held[old] for old, new in states.items()}
        ins = [p for p in self._network.inputs if p.onnx_name not in states]
        outs = [p for p in self._network.outputs if p.onnx_name not in self._states]
        turns = [{p.onnx_name: _zeros(p) for p in ins} for _ in range(TURNS)]
        results = self._states | {p.onnx_name: _zeros(p) for p in outs}
        self._calls = [self._network.bind(arrays | held, results)[0] for arrays in turns]
        self.rooms: Sequence[Sequence[memoryview]] = [[raw(a) for a in arrays.values()] for arrays in turns]
        self.length = sum(r.nbytes for r in self.rooms[0])
        self.types, self.types_out = (checksum([(p.dtype, _shape(p)) for p in group]) for group in (ins, outs))
        self._sent = [raw(results[p.onnx_name]) for p in outs]
        self.length_out = sum(r.nbytes for r in self._sent)
        self._told: Told | None = None
        self._finals = Finals(self._network, self._tell)

    def reset(self) -> None:
        """States as they are at the start."""
        for array in self._states.values():
            array[...] = 0

    def run(self, turn: int, told: Told | None = None) -> Sequence[memoryview]:
        """Run once on what is in the rooms of a turn; the bytes of the outputs in order, valid until the next run.

        ``told`` is called during the run, with the first outputs as soon as they are final.
        """
        self._told = told
        self._calls[turn]()
        return self._sent

    def _tell(self, count: int) -> None:
        """So many outputs of the part are final, of which states stay here."""
        if self._told is not None:
            self._told(self._sent[:count])


def number_of(folder: Path) -> int:
    """The number of a part, which its folder is named after. Raises UsageError for another name."""
    name = folder.absolute().name
    if not name.startswith("part") or not name[4:].isdecimal():
        hint = "edgec worker DIR/part0, of a network that was built with --over"
        raise UsageError("is no folder of a part", hint=hint, where=str(folder))
    return int(name[4:])


def digest_of(folders: Sequence[Path]) -> bytes:
    """Digest of the parts in these folders, by their numbers and locks: equal parts on both sides have equal ones."""
    found = sha256()
    for folder in sorted(folders, key=number_of):
        read_lock(folder)
        found.update(f"{number_of(folder)}:".encode() + sha256((folder / LOCK).read_bytes()).digest())
    return found.digest()


def states_of(lock: Mapping[str, Any]) -> dict[str, str]:
    """The next value of every state of a part, by the names of its ports."""
    found = lock.get("renewed", {})
    ins, outs = ({p["onnx_name"] for p in lock.get(key, ())} for key in ("inputs", "outputs"))
    if not {*found} <= ins or not {*found.values()} <= outs or len({*found.values()}) < len(found):
        raise UsageError("has states that are none of its ports", hint="build it again", where=str(lock.get("name")))
    return dict(found)


def _zeros(port: Port) -> np.ndarray:
    return np.zeros(_shape(port), DTYPES[port.dtype])


def _shape(port: Port) -> tuple[int, ...]:
    return tuple(int(n) for n in port.shape)

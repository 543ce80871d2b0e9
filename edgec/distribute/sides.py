"""Parts as the coordinator knows them: their entries and ports, both messages' sizes, and frames on their way."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgec.artifact.folder import read_lock
from edgec.artifact.network import Port
from edgec.distribute.manifest import Manifest, PartEntry
from edgec.distribute.parts import Read
from edgec.distribute.protocol import checksum, raw
from edgec.distribute.served import states_of
from edgec.distribute.sums import Sum
from edgec.errors import UsageError


class Frame:
    """A frame on its way: its tensors, how many parts read each, and the parts that wait for some.

    ``begun`` are parts whose inputs are sent as they come, with the number of those that were.
    """

    def __init__(self, manifest: Manifest, inputs: dict[str, np.ndarray]) -> None:
        self.tensors = inputs
        self.readers: dict[str, int] = dict.fromkeys(manifest.outputs, 1)
        for part in manifest.parts:
            for name in {r.tensor for r in part.reads}:
                self.readers[name] = self.readers.get(name, 0) + 1
        self._sums: dict[str, tuple[str, Sum]] = {}
        for tensor in manifest.tensors.values():
            own = Sum(tensor) if tensor.terms else None
            self._sums |= {name: (tensor.name, own) for name in tensor.terms if own is not None}
        self.left = len(manifest.parts)
        self.waiting = set(range(len(manifest.parts)))
        self.begun: dict[int, int] = {}
        self._expected, self._due, self._taken = set[str](), set[str](), set[str]()

    def ready(self, manifest: Manifest) -> list[int]:
        """Parts whose inputs are all there, each given once."""
        found = [k for k in sorted(self.waiting) if all(r.tensor in self.tensors for r in manifest.parts[k].reads)]
        self.waiting -= set(found)
        return found

    def expect(self, names: Collection[str]) -> None:
        """Tensors come soon, or are there: the worker that computes them has sent one of them."""
        self._expected.update(names)
        self._due.update(n for n in names if n not in self._taken)

    def coming(self, manifest: Manifest) -> list[int]:
        """Parts whose inputs are there or come soon, whatever other parts do."""
        if not self._due:
            return []
        sums = {n for n, _ in self._sums.values() if self._expected.issuperset(manifest.tensors[n].terms)}
        soon = self._expected | sums | self.tensors.keys()
        return [k for k in sorted(self.waiting) if all(r.tensor in soon for r in manifest.parts[k].reads)]

    def begin(self, part: int) -> None:
        """Send the inputs of a part as they come."""
        self.waiting.discard(part)
        self.begun[part] = 0

    def take(self, name: str, array: np.ndarray) -> None:
        """Keep a tensor that a part gave, where it is read; of a term, the sum, once that is complete."""
        self._taken.add(name)
        self._due.discard(name)
        if name in self._sums:
            whole, own = self._sums[name]
            total = own.take(name, array)
            if total is not None:
                self.take(whole, total)
        elif self.readers.get(name):
            self.tensors[name] = array

    def let_go(self, names: Iterable[str]) -> None:
        """Forget tensors that no part reads any more."""
        for name in names:
            self.readers[name] -= 1
            if not self.readers[name]:
                del self.tensors[name]


@dataclass(frozen=True)
class Side:
    """A part as the coordinator knows it: its entry, ports in order, both messages' sizes, and its number there.

    ``outputs`` are the bytes of every output.
    """

    entry: PartEntry
    reads: tuple[Read, ...]
    writes: tuple[Port, ...]
    types: int
    out: int
    length_in: int
    outputs: tuple[int, ...]
    number: int

    @property
    def length(self) -> int:
        """Bytes of the answer."""
        return sum(self.outputs)


def side_of(folder: Path, manifest: Manifest, k: int) -> Side:
    """A part as its folder has it. Raises UsageError where that is not what the manifest says."""
    entry = manifest.parts[k]
    where = folder / entry.folder
    lock = read_lock(where)
    reads = {r.port: r for r in entry.reads}
    states = states_of(lock)
    own = {*states, *states.values()}
    ins, outs = (
        tuple(_locked(p) for p in lock.get(key, ()) if p["onnx_name"] not in own) for key in ("inputs", "outputs")
    )
    shapes = {n: r.shape(manifest.tensors[r.tensor].shape) for n, r in reads.items()}
    fits = {p.onnx_name: (p.dtype, p.shape) for p in ins} == {
        n: (manifest.tensors[reads[n].tensor].dtype, shape) for n, shape in shapes.items()
    } and {p.onnx_name: (p.dtype, p.shape) for p in outs} == {
        n: (manifest.tensors[n].dtype, manifest.tensors[n].shape) for n in entry.writes
    }
    if not fits:
        raise UsageError("is another part than the manifest says", hint="build the network again", where=str(where))
    types, out = (checksum([(p.dtype, tuple(map(int, p.shape))) for p in group]) for group in (ins, outs))
    own_tensors = {n: manifest.tensors[r.tensor] for n, r in reads.items()}
    length = sum(r.bytes(own_tensors[n].dtype, own_tensors[n].shape) for n, r in reads.items())
    outputs = tuple(manifest.tensors[p.onnx_name].bytes for p in outs)
    return Side(entry, tuple(reads[p.onnx_name] for p in ins), outs, types, out, length, outputs, k)


def _locked(entry: Mapping[str, Any]) -> Port:
    return Port(entry["onnx_name"], entry["name"], entry["dtype"], tuple(entry["shape"]))


def port_of(manifest: Manifest, name: str) -> Port:
    tensor = manifest.tensors[name]
    return Port(name, name, tensor.dtype, tensor.shape)


def bytes_of(array: np.ndarray, read: Read) -> memoryview:
    """The bytes of what a part reads of a tensor."""
    if read.axis is not None:
        array = array[(slice(None),) * read.axis + (slice(read.begin, read.end),)]
    return raw(array)

"""The manifest of a divided network: its parts, what crosses between them, and predicted times, as JSON.

Anybody may have written the file, so every name, number and type in it is checked before it is used: parts come after
those that they read from, and every folder is below the manifest's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from math import isfinite, prod
from pathlib import Path
from typing import Any

from edgec.artifact.names import MANIFEST
from edgec.distribute.parts import Read
from edgec.distribute.places import MOST_WORKERS, Place, Speed
from edgec.errors import UsageError
from edgec.ir.dtypes import DTYPES
from edgec.untrusted import read_json

VERSION = 3
#: Bounds of what a manifest may claim: parts, tensors, dimensions of one, and bytes of one.
MOST_PARTS, MOST_TENSORS, MOST_RANK, MOST_BYTES = 1024, 4096, 16, 1 << 34
_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,1000}")
_FOLDER = re.compile(r"part[0-9]{1,4}")


@dataclass(frozen=True)
class Tensor:
    """A tensor that crosses: its name, element type and shape.

    One with ``terms`` is given by no part: it is the sum of these tensors, which the coordinator adds in their order.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    terms: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        return prod(self.shape) * DTYPES[self.dtype].itemsize


@dataclass(frozen=True)
class PartEntry:
    """A part: its folder, worker, inputs, the names of its outputs, and its predicted seconds and memory."""

    folder: str
    worker: int
    reads: tuple[Read, ...]
    writes: tuple[str, ...]
    seconds: float
    arena_bytes: int
    weights_bytes: int


@dataclass(frozen=True)
class WorkerEntry:
    """A worker: its place, and the speed of the link to it."""

    device: str
    link: str
    bytes_per_s: float
    latency_s: float

    @property
    def place(self) -> Place:
        return Place(self.device, self.link)

    @property
    def speed(self) -> Speed:
        return Speed(self.bytes_per_s, self.latency_s)


@dataclass(frozen=True)
class Manifest:
    """A divided network. Times are seconds; ``alone_s`` are those of the fastest device by itself.

    ``panels`` are the tensors that others are cut up into, which cross one by one.
    """

    name: str
    split: str
    goal: str
    verdict: str
    workers: tuple[WorkerEntry, ...]
    tensors: Mapping[str, Tensor]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    parts: tuple[PartEntry, ...]
    in_flight: int
    latency_s: float
    period_s: float
    bytes_a_frame: int
    alone_s: float
    measured: bool = False
    tried: tuple[Mapping[str, Any], ...] = field(default=())
    panels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def written(self) -> str:
        """The text of the file."""
        own = asdict(self)
        own["tensors"] = [asdict(t) for t in self.tensors.values()]
        return json.dumps({"divided": VERSION, **own}, indent=1) + "\n"


def read_manifest(folder: Path) -> Manifest:
    """The manifest in a folder; raises UsageError where there is none, or one that edgec does not write."""
    path = folder / MANIFEST
    try:
        found = read_json(path)
    except OSError:
        raise UsageError("holds no divided network", hint=f"it has no {MANIFEST}", where=str(folder)) from None
    try:
        return _manifest(found)
    except (KeyError, TypeError, ValueError) as error:
        told = str(error) if type(error) is ValueError else "it lacks an entry, or has one of another type"
        hint = "build it again: edgec build MODEL --over host@local --over host@local -o DIR"
        raise UsageError(f"is no manifest that edgec writes: {told}", hint=hint, where=str(path)) from None


def _manifest(found: Any) -> Manifest:
    _hold(isinstance(found, dict) and found.get("divided") == VERSION, "it is of another version")
    workers = tuple(_worker(w) for w in _items(found["workers"], MOST_WORKERS))
    tensors = {t.name: t for t in (_tensor(t) for t in _items(found["tensors"], MOST_TENSORS))}
    _hold(len(tensors) == len(found["tensors"]), "a tensor is there twice")
    inputs = tuple(_known(n, tensors) for n in _items(found["inputs"], MOST_TENSORS))
    outputs = tuple(_known(n, tensors) for n in _items(found["outputs"], MOST_TENSORS))
    _hold(not any(tensors[n].terms for n in inputs), "an input is a sum")
    sums = _sums(tensors, {*inputs, *outputs})
    there = set(inputs)
    _hold(len(there) == len(inputs), "an input is there twice")
    parts = []
    for k, entry in enumerate(_items(found["parts"], MOST_PARTS)):
        part = _part(entry, tensors, len(workers))
        _hold(part.folder == f"part{k}", "parts are not in order")
        _hold(all(r.tensor in there for r in part.reads), "a part reads what no part before it gives")
        _hold(all(r.tensor not in sums for r in part.reads), "a part reads a term of a sum")
        _hold(not any(tensors[n].terms for n in part.writes), "a part gives a sum")
        _hold(not there & set(part.writes), "a tensor is written twice")
        there |= set(part.writes)
        there |= {sums[n] for n in part.writes if n in sums and there.issuperset(tensors[sums[n]].terms)}
        parts.append(part)
    _hold(bool(workers and parts), "it has no parts")
    _hold(there == set(tensors), "a tensor is given by no part")
    taken = {*outputs, *sums, *(r.tensor for p in parts for r in p.reads)}
    _hold(taken.issuperset(n for p in parts for n in p.writes), "a part gives what nobody reads")
    return Manifest(
        _text(found["name"]), _text(found["split"]), _text(found["goal"]), _text(found["verdict"]), workers, tensors,
        inputs, outputs, tuple(parts), _whole(found["in_flight"], 1, 2 * MOST_PARTS), _real(found["latency_s"]),
        _real(found["period_s"]), _whole(found["bytes_a_frame"], 0, 1 << 60), _real(found["alone_s"]),
        _truth(found["measured"]), tuple(_tried(t) for t in _items(found["tried"], MOST_PARTS)),
        _panels(found["panels"], tensors),
    )  # fmt: skip


def _worker(entry: Any) -> WorkerEntry:
    speed = _real(entry["bytes_per_s"])
    _hold(speed > 0, "a link has no speed")
    return WorkerEntry(_text(entry["device"]), _text(entry["link"]), speed, _real(entry["latency_s"]))


def _tensor(entry: Any) -> Tensor:
    dtype = _text(entry["dtype"])
    _hold(dtype in DTYPES, "a tensor is of no known type")
    shape = tuple(_whole(n, 0, 1 << 40) for n in _items(entry["shape"], MOST_RANK))
    found = Tensor(_text(entry["name"]), dtype, shape, tuple(map(_text, _items(entry["terms"], MOST_WORKERS))))
    _hold(found.bytes <= MOST_BYTES, "a tensor is too large")
    return found


def _sums(tensors: Mapping[str, Tensor], others: Collection[str]) -> dict[str, str]:
    """The sum that every term goes into. A term is no more than that: it is no sum, input or output."""
    found: dict[str, str] = {}
    for tensor in tensors.values():
        _hold(not tensor.terms or tensor.dtype != "bool", "a sum is of truth values")
        for name in tensor.terms:
            term = tensors[_known(name, tensors)]
            _hold((term.dtype, term.shape) == (tensor.dtype, tensor.shape), "a term has another type than its sum")
            _hold(not term.terms and name not in others and name not in found, "a term is something else too")
            found[name] = tensor.name
        _hold(len(tensor.terms) != 1, "a sum has one term")
    return found


def _part(entry: Any, tensors: Mapping[str, Tensor], workers: int) -> PartEntry:
    folder = _text(entry["folder"])
    _hold(bool(_FOLDER.fullmatch(folder)), "a folder has another name")
    reads = tuple(_read(r, tensors) for r in _items(entry["reads"], MOST_TENSORS))
    writes = tuple(_known(n, tensors) for n in _items(entry["writes"], MOST_TENSORS))
    _hold(len(set(writes)) == len(writes), "a tensor is written twice")
    _hold(len({r.port for r in reads}) == len(reads), "an input of a part is there twice")
    worker = _whole(entry["worker"], 0, workers - 1)
    sizes = (_whole(entry[key], 0, 1 << 50) for key in ("arena_bytes", "weights_bytes"))
    return PartEntry(folder, worker, reads, writes, _real(entry["seconds"]), *sizes)


def _read(entry: Any, tensors: Mapping[str, Tensor]) -> Read:
    name = _known(entry["tensor"], tensors)
    shape, axis = tensors[name].shape, entry["axis"]
    if axis is None:
        return Read(_text(entry["port"]), name)
    axis = _whole(axis, 0, len(shape) - 1)
    end = _whole(entry["end"], 1, shape[axis])
    return Read(_text(entry["port"]), name, axis, _whole(entry["begin"], 0, end - 1), end)


def _tried(entry: Any) -> Mapping[str, Any]:
    numbers = {key: _real(entry[key]) for key in ("latency_s", "period_s")}
    return {"split": _text(entry["split"]), "workers": _whole(entry["workers"], 1, MOST_WORKERS), **numbers}


def _panels(found: Any, tensors: Mapping[str, Tensor]) -> Mapping[str, tuple[str, ...]]:
    _hold(isinstance(found, dict) and len(found) <= MOST_TENSORS, "panels are none")
    return {_text(n): tuple(_known(p, tensors) for p in _items(own, MOST_TENSORS)) for n, own in found.items()}


def _hold(fits: bool, otherwise: str) -> None:
    if not fits:
        raise ValueError(otherwise)


def _items(value: Any, most: int) -> list[Any]:
    _hold(isinstance(value, list) and len(value) <= most, "a list is none, or too long")
    return list(value)


def _text(value: Any) -> str:
    _hold(isinstance(value, str) and bool(_NAME.fullmatch(value)), "a text is none, or has control characters")
    return str(value)


def _known(value: Any, tensors: Mapping[str, Tensor]) -> str:
    _hold(_text(value) in tensors, "a tensor is not listed")
    return str(value)


def _whole(value: Any, least: int, most: int) -> int:
    _hold(type(value) is int and least <= value <= most, "a number is out of its range")
    return int(value)


def _real(value: Any) -> float:
    _hold(type(value) in (int, float) and isfinite(value) and value >= 0, "a number is no time or speed")
    return float(value)


def _truth(value: Any) -> bool:
    _hold(isinstance(value, bool), "a truth value is none")
    return bool(value)

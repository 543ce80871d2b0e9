"""Masks in files: what a training loop of the user's own multiplies its weights by, and what it gives back."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from edgec import files
from edgec.compress.layers import Layer
from edgec.compress.prune.operands import matrix
from edgec.errors import UsageError
from edgec.untrusted import read_arrays

Array = np.ndarray


def save(path: Path, masks: Mapping[str, Array]) -> None:
    """One array of truth a layer, by its ONNX node's name: [outputs, inputs, taps..], true where a weight stays."""
    files.replace(path, files.npz(masks, zipfile.ZIP_DEFLATED))


def masks_for(path: Path, layers: Sequence[Layer]) -> dict[Layer, Array]:
    """The masks of a file as [outputs, columns]. Raises UsageError for one that fits no layer, or cannot be read."""
    arrays = read_arrays(path)
    by_name = {layer.name: layer for layer in layers}
    found = {}
    for name, mask in arrays.items():
        if name not in by_name:
            hint = f"layers are {', '.join(list(by_name)[:6])}"
            raise UsageError(f"there is no layer '{name}' to prune", hint=hint, where=str(path))
        layer = by_name[name]
        if mask.size != layer.weights.size or mask.shape[:1] != (len(matrix(layer)),):
            raise UsageError(
                f"the mask of '{name}' is {list(mask.shape)}, its weights are {list(layer.weights.shape)}",
                hint="masks are [outputs, inputs, taps..]",
                where=str(path),
            )
        found[layer] = mask.reshape(len(mask), -1).astype(bool)
    if not found:
        raise UsageError("there are no masks", hint="--write-masks writes a file with some", where=str(path))
    return found

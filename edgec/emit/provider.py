"""A network as an execution provider of onnxruntime: what its templates see, and what it cannot be."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from edgec.emit.interface import Port
from edgec.errors import ModelError, UsageError
from edgec.ir.expr import Expr
from edgec.ir.extent import sizes
from edgec.ir.graph import (
    FIXED_DIMENSIONS,
    LEFT_OUT,
    MODEL_FILES,
    MODEL_SHA256,
    OTHER_PARTS,
    PREPROCESSING,
    RANDOM_STEP,
    STRINGS,
    WHOLE_SHA256,
)
from edgec.ir.sizes import dimensions
from edgec.text import printable

#: Numbers of element types in ONNX; those of less than a byte are packed there.
ELEMENT_TYPES = {
    "f32": 1, "u8": 2, "i8": 3, "u16": 4, "i16": 5, "i32": 6, "i64": 7, "bool": 9, "f16": 10, "f64": 11, "u32": 12,
    "u64": 13, "bf16": 16, "f8e4m3fn": 17, "f8e4m3fnuz": 18, "f8e5m2": 19, "f8e5m2fnuz": 20,
}  # fmt: skip


def provided(name: str, inputs: Sequence[Port], outputs: Sequence[Port], metadata: Mapping[str, str]) -> dict[str, Any]:
    """Values of the templates beside those of the project.

    ``name`` is that of the network. Raises UsageError for networks that did not come of an ONNX model, for sizes of
    outputs that data decide, and for elements of less than a byte; ModelError for metadata that were tampered with.
    """
    if "opset" not in metadata or not metadata.get(MODEL_SHA256):
        raise UsageError("sessions of onnxruntime read ONNX models, and this network was built from none")
    if PREPROCESSING in metadata:
        raise UsageError("sessions of onnxruntime run a model as its file is", hint="build it without --pre")
    texts = [key.removeprefix(STRINGS) for key in metadata if key.startswith(STRINGS)]
    if texts or RANDOM_STEP in metadata:
        step = printable(metadata.get(RANDOM_STEP, ""))
        what = f"'{printable(texts[0])}' is of strings" if texts else f"random numbers need the state '{step}'"
        raise UsageError(f"{what}, which a session does not hand on", hint="cut the model there, or leave the app out")
    built_from, networks = metadata.get(WHOLE_SHA256, metadata[MODEL_SHA256]), [name, *_lines(metadata, OTHER_PARTS)]
    if not re.fullmatch("[0-9a-f]{64}", built_from) or not all(re.fullmatch(r"[A-Za-z]\w*", n, re.A) for n in networks):
        raise ModelError("what is told of parts of the model is damaged")  # it ends in C
    known = dimensions(p.type for p in inputs)
    for port in (*inputs, *outputs):
        told = printable(port.onnx_name)
        if port.dtype not in ELEMENT_TYPES:
            raise UsageError(f"'{told}' has elements of {port.dtype}, which onnxruntime keeps packed")
        if any(size not in known for extent in port.shape for size in sizes(extent)):
            hint = "build without --app onnxruntime, or cut the model before it"
            raise UsageError(f"the data of a run decide the shape of '{told}'", hint=hint)
    numbers = {d.name: -1 - k for k, d in enumerate(known.values())}
    unchecked = -1 - len(numbers)

    def shape_of(port: Port) -> list[int]:
        """Its extents; -k for the size k - 1 of an input, the least number for a formula."""
        if port in inputs:
            return [extent if isinstance(extent, int) else numbers.get(extent, unchecked) for extent in port.names]
        return [unchecked if isinstance(extent, Expr) else int(extent) for extent in port.shape]

    return {
        "built_from": built_from, "weight_files": _lines(metadata, MODEL_FILES),
        "onnx_type": ELEMENT_TYPES, "shape_of": shape_of, "networks": networks,
        "fixed_dimensions": [
            (dimension, int(extent))
            for line in _lines(metadata, FIXED_DIMENSIONS)
            for dimension, _, extent in (line.rpartition("="),)
            if extent.isdecimal()
        ],
        "left": metadata.get(LEFT_OUT, ""),
    }  # fmt: skip


def _lines(metadata: Mapping[str, str], key: str) -> list[str]:
    return [line for line in metadata.get(key, "").split("\n") if line]

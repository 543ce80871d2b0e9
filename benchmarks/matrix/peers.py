"""Files whose loss against the network in fp32 bounds that of a compressed build: the peer's quantizer, or rounding."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import numpy_helper

from benchmarks.zoo import variants
from edgec.compress.calibrate import DRAWN
from edgec.compress.compress import GROUP

Arrays = Mapping[str, np.ndarray]
#: The bound of `--quantize mixed`, for the angle between results on inputs that it was calibrated with.
COSINE = 0.999
#: The loss that such an angle is.
ANGLE = float(np.sqrt(2 * (1 - COSINE)))


def peer_file(how: str, source: Path, target: Path) -> None:
    """Write the peer's variant of ``source``; raises whatever its tool raises.

    ``how`` is int8-dynamic or int8 (onnxruntime's quantizer; static ranges of the inputs that edgec draws), int4-weight
    (weights of matmuls rounded in groups), fp16 or bf16 (all weights rounded).
    """
    logging.getLogger().setLevel(logging.ERROR)
    if how == "int8-dynamic":
        variants.write(how, source, target)
    elif how == "int8":
        variants.write("int8-qdq", source, target, DRAWN)
    else:
        proto = onnx.load(source)
        _round_weights(proto, how)
        onnx.save(proto, target)


def _round_weights(proto: onnx.ModelProto, how: str) -> None:
    factors = {n.input[1] for n in proto.graph.node if n.op_type in ("MatMul", "Gemm")}
    transposed = {n.input[1] for n in proto.graph.node for a in n.attribute if a.name == "transB" and a.i}
    for tensor in proto.graph.initializer:
        value = numpy_helper.to_array(tensor)
        if value.dtype != np.float32:
            continue
        if how == "int4-weight":
            if value.ndim != 2 or tensor.name not in factors:
                continue
            rounded = four_bits(value.T).T if tensor.name not in transposed else four_bits(value)
        else:
            rounded = value.astype({"fp16": np.float16, "bf16": ml_dtypes.bfloat16}[how]).astype(np.float32)
        tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(rounded), tensor.name))


def four_bits(rows: np.ndarray) -> np.ndarray:
    """Rows rounded to 16 levels, groups of a row sharing a scale; rows that no groups fit are left as they are."""
    if rows.shape[1] % GROUP:
        return rows
    groups = rows.reshape(rows.shape[0], -1, GROUP)
    extreme = np.take_along_axis(groups, np.abs(groups).argmax(-1, keepdims=True), -1)
    scale = np.where(extreme == 0, 1, extreme / -8)
    levels = np.clip(np.rint(groups / scale), -8, 7)
    return np.asarray((levels * scale).reshape(rows.shape), np.float32)


def loss(got: Sequence[Arrays], want: Sequence[Arrays]) -> float:
    """Root of the mean square error of all floats over that of the results; outputs weigh alike."""
    worst = 0.0
    for name, first in want[0].items():
        if first.dtype.kind != "f" or not first.size:
            continue
        g, w = (np.concatenate([np.ravel(s[name]).astype(np.float64) for s in sets]) for sets in (got, want))
        finite = np.isfinite(w)
        if not np.isfinite(g[finite]).all():
            return float("inf")
        size = float(np.sqrt((w[finite] ** 2).mean())) if finite.any() else 0.0
        worst = max(worst, float(np.sqrt(((g[finite] - w[finite]) ** 2).mean())) / size if size else 0.0)
    return worst


def cosine(got: Mapping[str, Any], want: Mapping[str, Any]) -> float:
    """The least cosine of the angle between an output of floats and what it should be, where that is finite."""
    least = 1.0
    for name, wanted in want.items():
        finite = np.isfinite(wanted)
        if wanted.dtype.kind == "f" and wanted[finite].any():
            g, w = (a[finite].astype(np.float64) for a in (got[name], wanted))
            sizes = float(np.linalg.norm(g)) * float(np.linalg.norm(w))
            least = min(least, float(g @ w) / sizes if sizes and np.isfinite(g).all() else 0.0)
    return least


def opened_batch(source: Path, target: Path, name: str) -> None:
    """Write the network with the first dimension of all inputs and outputs called ``name``."""
    proto = onnx.load(source)
    kept = {t.name for t in proto.graph.initializer}
    for value in (*proto.graph.input, *proto.graph.output):
        dims = value.type.tensor_type.shape.dim
        if dims and value.name not in kept:
            dims[0].dim_param = name
    del proto.graph.value_info[:]
    onnx.save(proto, target)

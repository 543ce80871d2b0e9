"""Operators of com.microsoft that the standard has too by now, or that models of older exporters contain; refusals."""

from __future__ import annotations

from dataclasses import replace

from edgec.frontend.onnx.call import Call, refuse
from edgec.frontend.onnx.operators.conv import conv_transpose
from edgec.frontend.onnx.operators.microsoft.domain import MICROSOFT, microsoft
from edgec.frontend.onnx.operators.movement import gather_nd, pad, trilu
from edgec.frontend.onnx.operators.sampling import grid_sample
from edgec.frontend.onnx.operators.shape import range_
from edgec.frontend.values import Value, constant, emit, normalize_axis

microsoft("GatherND")(gather_nd)
microsoft("Trilu")(trilu)

refuse("generation is a loop around a network; build the network and write the loop in your own code", "BeamSearch",
       "GreedySearch", "Sampling", "WhisperBeamSearch", domain=MICROSOFT)  # fmt: skip
refuse("it is written for one kind of hardware; save the model at a lower level of optimization", "NhwcConv",
       "NhwcFusedConv", "ReorderInput", "ReorderOutput", domain=MICROSOFT)  # fmt: skip
refuse("strings are not supported; do this step in your own code", "StringJoin", domain=MICROSOFT)
refuse("its result is random; feed random numbers as an input", "BiasDropout", "BitmaskBiasDropout", "BitmaskDropout",
       domain=MICROSOFT)  # fmt: skip
for _operator in ("Conv", "MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool", "ReorderInput",
                  "ReorderOutput", "Upsample"):  # fmt: skip
    refuse("it is written for one kind of hardware; save the model with optimization level 'extended' instead of 'all'",
           _operator, domain="com.microsoft.nchwc")  # fmt: skip


@microsoft("Range")
def range_of_numbers(call: Call) -> Value:
    """The standard's Range, whose step may be left out."""
    step = call.optional(2)
    step = constant(1, call[0].dtype) if step is None else step
    return range_(replace(call, inputs=tuple(v.reshape() for v in (call[0], call[1], step))))


@microsoft("ExpandDims")
def expand_dims(call: Call) -> Value:
    return call[0].unsqueeze(normalize_axis(call.ints(1)[0], call[0].rank + 1))


@microsoft("Pad")
def pad_by_operand(call: Call) -> Value:
    """The standard's Pad; the pads are a vector or one row."""
    return pad(replace(call, opset=13, inputs=(call[0], call[1].reshape(call[1].type.elements), call.item(2))))


@microsoft("GridSample")
def grid_sample_by_old_names(call: Call) -> Value:
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(call.attribute("mode", "bilinear"), call.attribute("mode"))
    return grid_sample(replace(call, attributes={"align_corners": 0, **call.attributes, "mode": mode}))


@microsoft("ConvTransposeWithDynamicPads")
def conv_transpose_with_pads(call: Call) -> Value:
    """The standard's ConvTranspose, whose pads are an operand."""
    attributes = dict(call.attributes)
    if call.optional(2) is not None:
        attributes["pads"] = call.ints(2)
    return conv_transpose(replace(call, inputs=(call[0], call[1], call.item(3)), attributes=attributes))


@microsoft("CDist")
def cdist(call: Call) -> Value:
    """Distances between all rows of two matrices."""
    metric = call.attribute("metric", "sqeuclidean")
    if metric not in ("euclidean", "sqeuclidean"):
        raise call.error(f"metric {metric} is not known")
    apart = call[0].unsqueeze(1) - call[1].unsqueeze(0)
    y = (apart * apart).sum([2], keep=False)
    return emit("sqrt", y) if metric == "euclidean" else y

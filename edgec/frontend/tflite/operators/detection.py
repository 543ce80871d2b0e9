"""The last operator of single-shot detectors: boxes decoded from their anchors, the best ones chosen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from edgec.errors import ModelError
from edgec.frontend.tflite.call import TfliteCall, tflite
from edgec.frontend.tflite.integer import dequantized
from edgec.frontend.values import Value, concat, constant, emit, maximum, select


@tflite("TFLite_Detection_PostProcess")
def detection_postprocess(call: TfliteCall) -> list[Value]:
    """Boxes [1, N, 4] relative to anchors [N, 4] and scores [1, N, C] to boxes, classes, scores and their number.

    Boxes and anchors are center and size (y, x, h, w). All classes compete: a box goes when it overlaps a better one of
    any class too much. What lies beyond the number is 0.
    """
    options = _options(call.operator.custom_options)
    if int(options.get("max_classes_per_detection", 1)) != 1 or options.get("use_regular_nms", False):
        raise ModelError("choosing boxes class by class, or several classes a box, is not supported")
    boxes, scores, anchors = (_real(call, k) for k in range(3))
    boxes = boxes.part(2, 0, 4)
    corners = _corners(boxes.squeeze(0), anchors, options)
    classes, count = int(options["num_classes"]), int(options["max_detections"])
    if not 0 < classes <= scores.shape[2] or count < 1:
        raise ModelError(f"{classes} classes of {scores.shape[2]} scores, {count} boxes")
    scores = scores.squeeze(0).part(1, scores.shape[2] - classes, scores.shape[2])
    best = emit("argsort", scores, axis=1, descending=True, count=1)
    top = emit("gather_elements", scores, best, axis=1)
    number = min(count, int(scores.shape[0]))
    # What scores exactly the threshold counts.
    least = np.nextafter(np.float32(options["nms_score_threshold"]), np.float32(-np.inf))
    chosen = emit(
        "non_max_suppression", corners.unsqueeze(0), top.reshape(1, 1, scores.shape[0]), constant([number], "i64"),
        constant([options["nms_iou_threshold"]], "f32"), constant([least], "f32"), center=False, most=number,
    ).reshape(number)  # fmt: skip
    there, places = chosen >= 0, maximum(chosen, 0)

    def picked(x: Value) -> Value:
        found = select(there.unsqueeze(1), x.gather(places, 0), 0.0)
        return found.pad((0, 0), (count - number, 0)).unsqueeze(0)

    total = there.cast("f32").sum([0], keep=False).reshape(1)
    return [picked(corners), picked(best.cast("f32")).squeeze(2), picked(top).squeeze(2), total]


def _options(raw: bytes) -> Mapping[str, Any]:
    """The options, which are a flexbuffer."""
    from flatbuffers import flexbuffers

    try:
        found = flexbuffers.Loads(raw)
    except Exception:  # it checks nothing itself
        found = None
    if not isinstance(found, dict):
        raise ModelError("its options are damaged")
    return found


def _real(call: TfliteCall, k: int) -> Value:
    return call[k] if call[k].is_float else dequantized(call[k], call.tensor(k))


def _corners(boxes: Value, anchors: Value, options: Mapping[str, Any]) -> Value:
    """[N, 4]: the least y and x, the greatest y and x."""
    low, high = [], []
    for d, name in enumerate("yx"):
        middle, size = anchors.part(1, d, d + 1), anchors.part(1, d + 2, d + 3)
        center = boxes.part(1, d, d + 1) / float(options[f"{name}_scale"]) * size + middle
        scale = float(options["h_scale" if name == "y" else "w_scale"])
        half = emit("exp", boxes.part(1, d + 2, d + 3) / scale) * size * 0.5
        low.append(center - half)
        high.append(center + half)
    return concat([*low, *high], 1)

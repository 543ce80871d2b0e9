"""Networks made here, of what the others lack: a loop whose rounds are data, and a detector's last steps."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.accuracy.cover import Beside, Row, case

F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
node, info = helper.make_node, helper.make_tensor_value_info


def model(
    nodes: list[onnx.NodeProto], inputs: list[onnx.ValueInfoProto], outputs: list[str], **constants: object
) -> onnx.ModelProto:
    initializers = [numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()]
    ports = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph(nodes, "net", inputs, ports, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def newton() -> onnx.ModelProto:
    """Square roots by Newton's iteration, until nothing moves by more than ``close``; every step as a scan output."""
    step = [
        node("Div", ["a", "x"], ["q"]), node("Add", ["x", "q"], ["sum"]), node("Mul", ["sum", "half"], ["new"]),
        node("Sub", ["new", "x"], ["d"]), node("Abs", ["d"], ["far"]), node("ReduceMax", ["far"], ["most"], keepdims=0),
        node("Greater", ["most", "close"], ["again"]), node("Identity", ["new"], ["seen"]),
    ]  # fmt: skip
    body = helper.make_graph(
        step, "body", [info("i", I, []), info("c", B, []), info("x", F, [64])],
        [info("again", B, []), info("new", F, [64]), info("seen", F, [64])],
    )  # fmt: skip
    loop = [node("Identity", ["a"], ["x0"]), node("Loop", ["n", "", "x0"], ["root", "path"], "newton", body=body)]
    inputs = [info("a", F, [64]), info("n", I, []), info("close", F, [])]
    return model(loop, inputs, ["root", "path"], half=np.float32(0.5))


@case("Newton's iteration (Loop)")
def loop() -> Row:
    pair = Beside(newton(), loops={"newton": 16})
    random, rounds, same, total = np.random.default_rng(8), set(), 0, 0
    for close in (1e-6, 1e-3, 0.1, 1.0, 1e9):
        for most in (0, 1, 3, 16):
            a = random.uniform(0.1, 100, 64).astype(np.float32)
            given = {"a": a, "n": np.array(most), "close": np.array(close, np.float32)}
            got, want = pair(given)
            rounds.add(len(want["path"]))
            same, total = same + (len(got["path"]) == len(want["path"])), total + 1
    what = f"{total} runs of {min(rounds)} to {max(rounds)} rounds, roots and every step"
    return Row("Newton's iteration (Loop)", what, pair.relative, same=same, decisions=total, what="rounds")


ANCHORS, CLASSES, SHOWN = 300, 6, 10


def detector() -> onnx.ModelProto:
    """The last steps of Faster R-CNN: boxes from deltas, softmax, suppression by class, the ten best that are left."""
    nodes = [
        # [N, 4] deltas (dy, dx, dh, dw) on anchors (y, x, h, w): corners
        node("Split", ["anchors"], ["a_at", "a_size"], axis=1),
        node("Split", ["deltas"], ["d_at", "d_size"], axis=1),
        node("Mul", ["d_at", "a_size"], ["moved"]), node("Add", ["moved", "a_at"], ["center"]),
        node("Clip", ["d_size", "", "log_most"], ["clipped"]), node("Exp", ["clipped"], ["grown"]),
        node("Mul", ["grown", "a_size"], ["size"]), node("Mul", ["size", "half"], ["halves"]),
        node("Sub", ["center", "halves"], ["low"]), node("Add", ["center", "halves"], ["high"]),
        node("Concat", ["low", "high"], ["corners"], axis=1), node("Clip", ["corners", "zero", "one"], ["boxes"]),
        node("Unsqueeze", ["boxes", "axis0"], ["batch_boxes"]),
        node("Softmax", ["logits"], ["all_scores"], axis=1),
        node("Slice", ["all_scores", "axis1", "last", "axis1"], ["scores"]),  # without the background
        node("Transpose", ["scores"], ["by_class"], perm=[1, 0]),
        node("Unsqueeze", ["by_class", "axis0"], ["batch_scores"]),
        node("NonMaxSuppression", ["batch_boxes", "batch_scores", "most", "overlap", "least"], ["kept"]),
        node("Gather", ["kept", "one_i"], ["kept_class"], axis=1),
        node("Gather", ["kept", "two_i"], ["kept_box"], axis=1),
        node("Slice", ["kept", "axis1", "three", "axis1"], ["pairs"]),
        node("GatherND", ["by_class", "pairs"], ["kept_scores"]),
        node("Shape", ["kept_scores"], ["count"]), node("Min", ["count", "shown"], ["k"]),
        node("TopK", ["kept_scores", "k"], ["best", "places"]),
        node("Gather", ["kept_class", "places"], ["best_class"]), node("Gather", ["kept_box", "places"], ["box_at"]),
        node("Gather", ["boxes", "box_at"], ["best_boxes"]),
    ]  # fmt: skip
    inputs = [info("anchors", F, [ANCHORS, 4]), info("deltas", F, [ANCHORS, 4]), info("logits", F, [ANCHORS, CLASSES])]
    i = np.int64
    return model(
        nodes, [*inputs, info("least", F, [1])], ["best_boxes", "best", "best_class"],
        log_most=np.float32(4), half=np.float32(0.5),
        zero=np.float32(0), one=np.float32(1), axis0=i([0]), axis1=i([1]), last=i([CLASSES]), most=i([8]),
        overlap=np.float32([0.5]), one_i=i(1), two_i=i(2), three=i([3]), shown=i([SHOWN]),
    )  # fmt: skip


@case("detector's last steps (NMS, TopK, Gather)")
def detections() -> Row:
    pair = Beside(detector())
    random, same, total, counts = np.random.default_rng(9), 0, 0, set()
    for least in (0.05, 0.3, 0.5, 0.9, 2.0) * 4:
        anchors = np.concatenate([random.uniform(0.1, 0.9, (ANCHORS, 2)), random.uniform(0.05, 0.4, (ANCHORS, 2))], 1)
        given = {
            "anchors": anchors.astype(np.float32),
            "deltas": (random.standard_normal((ANCHORS, 4)) * 0.3).astype(np.float32),
            "logits": (random.standard_normal((ANCHORS, CLASSES)) * 2).astype(np.float32),
            "least": np.float32([least]),
        }
        got, want = pair(given)
        counts.add(len(want["best"]))
        same, total = same + np.array_equal(got["best_class"], want["best_class"]), total + 1
    what = f"{total} pictures with {min(counts)} to {max(counts)} boxes each; boxes, scores, classes"
    return Row("detector's last steps", what, pair.relative, same=same, decisions=total, what="lists of classes")

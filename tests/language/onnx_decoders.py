"""Small decoders in ONNX, written as exporters write them by the tests themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from chance import RANDOM
from onnx import TensorProto, helper, numpy_helper

VOCABULARY, WIDTH, HEADS, GROUPS, SIZE, HIDDEN, LAYERS, LONGEST = 37, 24, 4, 2, 16, 40, 2, 64
STYLES = ("grouped", "plain", "learned")


class Writer:
    """The graph under construction: nodes, each with a result by name, and weights."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def __call__(self, op: str, *inputs: Any, named: tuple[str, ...] = (), domain: str = "", **attributes: Any) -> str:
        operands = [i if isinstance(i, str) else self.constant(i) for i in inputs]
        names = list(named) or [f"{op}_{len(self.nodes)}"]
        self.nodes.append(helper.make_node(op, operands, names, f"node_{len(self.nodes)}", domain=domain, **attributes))
        return names[0]

    def constant(self, value: Any) -> str:
        array = np.asarray(value)
        array = array.astype(np.float32) if array.dtype == np.float64 else array
        self.weights.append(numpy_helper.from_array(array, f"constant_{len(self.weights)}"))
        return self.weights[-1].name

    def drawn(self, *shape: int) -> str:
        spread = 0.2 if len(shape) == 1 else shape[0] ** -0.5
        return self.constant((RANDOM.standard_normal(shape) * spread + (len(shape) == 1)).astype(np.float32))

    def norm(self, x: str) -> str:
        mean = self("ReduceMean", self("Mul", x, x), axes=[-1], keepdims=1)
        return self("Mul", self("Div", x, self("Sqrt", self("Add", mean, 1e-5))), self.drawn(WIDTH))

    def linear(self, x: str, rows: int, columns: int) -> str:
        return self("MatMul", x, self.drawn(rows, columns))

    def extent(self, x: str, axis: int) -> str:
        return self("Gather", self("Shape", x), axis, axis=0)

    def heads(self, x: str, count: int) -> str:
        return self("Transpose", self("Reshape", x, [0, 0, count, SIZE]), perm=[0, 2, 1, 3])


def _turns() -> list[np.ndarray]:
    angles = np.arange(LONGEST)[:, None] * 100.0 ** (-np.arange(SIZE // 2) / (SIZE // 2))
    return [np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)]


def _grouped(w: Writer, x: str, layer: int, window: int) -> str:
    """One operator, as onnxruntime-genai's builder writes it: lengths follow from the mask."""
    ends = w("Cast", w("Sub", w("ReduceSum", "attention_mask", [1], keepdims=1), [1]), to=TensorProto.INT32)
    total = w("Cast", w("Gather", w("Shape", "attention_mask"), 1, axis=0), to=TensorProto.INT32)
    parts = [w.linear(x, WIDTH, n * SIZE) for n in (HEADS, GROUPS, GROUPS)]
    return w(
        "GroupQueryAttention", *parts, f"past_key_values.{layer}.key", f"past_key_values.{layer}.value", ends, total,
        *_turns(), named=(f"seen_{layer}", f"present.{layer}.key", f"present.{layer}.value"), domain="com.microsoft",
        num_heads=HEADS, kv_num_heads=GROUPS, do_rotary=1, local_window_size=window,
    )  # fmt: skip


def _rotated(w: Writer, x: str) -> str:
    tables = [np.concatenate([t, t], axis=1) for t in _turns()]
    cos, sin = (w("Unsqueeze", w("Gather", t, "position_ids"), [1]) for t in tables)
    first, second = w("Slice", x, [0], [SIZE // 2], [3]), w("Slice", x, [SIZE // 2], [2**63 - 1], [3])
    turned = w("Concat", w("Neg", second), first, axis=-1)
    return w("Add", w("Mul", x, cos), w("Mul", turned, sin))


def _plain(w: Writer, x: str, layer: int, is_rotary: bool) -> str:
    """Operators of the standard, as torch and optimum export them: mask and repetition of heads from shapes."""
    q, k, v = (w.heads(w.linear(x, WIDTH, n * SIZE), n) for n in (HEADS, GROUPS, GROUPS))
    if is_rotary:
        q, k = _rotated(w, q), _rotated(w, k)
    k, v = (
        w("Concat", f"past_key_values.{layer}.{kind}", new, named=(f"present.{layer}.{kind}",), axis=2)
        for kind, new in (("key", k), ("value", v))
    )
    total, count = w.extent(k, 2), w.extent("input_ids", 1)
    shape = w("Concat", [1, GROUPS, HEADS // GROUPS], w("Unsqueeze", total, [0]), [SIZE], axis=0)
    keys, values = (w("Reshape", w("Expand", w("Unsqueeze", t, [2]), shape), [1, HEADS, -1, SIZE]) for t in (k, v))
    scale = np.float32(SIZE**-0.25)
    scores = w("MatMul", w("Mul", q, scale), w("Mul", w("Transpose", keys, perm=[0, 1, 3, 2]), scale))
    places = w("Range", w("Sub", total, count), total, 1)
    causal = w("LessOrEqual", w("Range", 0, total, 1), w("Unsqueeze", places, [1]))
    allowed = w("And", causal, w("Unsqueeze", w("Cast", "attention_mask", to=TensorProto.BOOL), [1, 2]))
    scores = w("Add", scores, w("Where", allowed, np.float32(0), np.float32(-3.4e38)))
    y = w("MatMul", w("Softmax", scores, axis=-1), values)
    return w("Reshape", w("Transpose", y, perm=[0, 2, 1, 3]), [0, 0, -1])


def decoder(style: str, window: int = -1, vocabulary: int = VOCABULARY) -> onnx.ModelProto:
    """A decoder of two layers; ``window`` is that of grouped attention."""
    w = Writer()
    table = w.drawn(vocabulary, WIDTH)
    x = w("Gather", table, "input_ids")
    if style == "learned":
        x = w("Add", x, w("Gather", w.drawn(LONGEST, WIDTH), "position_ids"))
    for layer in range(LAYERS):
        y = w.norm(x)
        y = _grouped(w, y, layer, window) if style == "grouped" else _plain(w, y, layer, style == "plain")
        x = w("Add", x, w.linear(y, HEADS * SIZE, WIDTH))
        y = w.norm(x)
        gate = w.linear(y, WIDTH, HIDDEN)
        y = w("Mul", w("Mul", gate, w("Sigmoid", gate)), w.linear(y, WIDTH, HIDDEN))
        x = w("Add", x, w.linear(y, HIDDEN, WIDTH))
    w("MatMul", w.norm(x), w("Transpose", table, perm=[1, 0]), named=("logits",))
    return _model(w, style, vocabulary)


def _model(w: Writer, style: str, vocabulary: int) -> onnx.ModelProto:
    def info(name: str, kind: int, *shape: int | str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, kind, shape)

    # onnxruntime-genai's builder leaves the size of a head open, too.
    batch, size = ("batch", "kv_cache_dim") if style == "grouped" else (1, SIZE)
    caches = [f"{layer}.{kind}" for layer in range(LAYERS) for kind in ("key", "value")]
    inputs = [
        info("input_ids", TensorProto.INT64, batch, "new"),
        info("attention_mask", TensorProto.INT64, batch, "total"),
        *([] if style == "grouped" else [info("position_ids", TensorProto.INT64, batch, "new")]),
        *(info(f"past_key_values.{c}", TensorProto.FLOAT, batch, GROUPS, "past", size) for c in caches),
    ]
    outputs = [
        info("logits", TensorProto.FLOAT, batch, "new", vocabulary),
        *(info(f"present.{c}", TensorProto.FLOAT, batch, GROUPS, "total", size) for c in caches),
    ]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(
        helper.make_graph(w.nodes, "lm", inputs, outputs, w.weights), opset_imports=opsets, ir_version=9
    )


def stacked(model: onnx.ModelProto, count: int | str = "new") -> onnx.ModelProto:
    """The same decoder with keys in one tensor and values in another, layer above layer; ``count`` new tokens."""
    found = onnx.ModelProto()
    found.CopyFrom(model)
    g, one = found.graph, numpy_helper.from_array(np.array([0]), "stack_axis")
    g.initializer.append(one)
    del g.input[-2 * LAYERS :]
    del g.output[1:]
    for kind in ("key", "value"):
        layers = [f"{layer}.{kind}" for layer in range(LAYERS)]
        for layer, name in enumerate(layers):
            at = numpy_helper.from_array(np.array(layer), f"stack_{layer}_{kind}")
            g.initializer.append(at)
            g.node.insert(0, helper.make_node("Gather", [f"past_{kind}", at.name], [f"past_key_values.{name}"], axis=0))
            g.node.append(helper.make_node("Unsqueeze", [f"present.{name}", one.name], [f"above.{name}"]))
        g.node.append(helper.make_node("Concat", [f"above.{name}" for name in layers], [kind], axis=0))
        for infos, name, length in ((g.input, f"past_{kind}", "past"), (g.output, kind, "total")):
            infos.append(helper.make_tensor_value_info(name, 1, [LAYERS, 1, GROUPS, length, SIZE]))
    for name, infos in (("input_ids", g.input), ("position_ids", g.input), ("logits", g.output)):
        dims = next(i for i in infos if i.name == name).type.tensor_type.shape.dim
        dims[1].CopyFrom(
            onnx.TensorShapeProto.Dimension(**{"dim_param" if isinstance(count, str) else "dim_value": count})
        )
    return found


def logits_of(model: onnx.ModelProto, tokens: list[int]) -> np.ndarray:
    """The logits of every position in onnxruntime, all tokens at once."""
    import onnxruntime

    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    given = {
        "input_ids": np.array([tokens]), "attention_mask": np.ones((1, len(tokens)), np.int64),
        "position_ids": np.arange(len(tokens))[None],
    }  # fmt: skip
    empty = np.zeros((1, GROUPS, 0, SIZE), np.float32)
    empties = {4: empty, 5: np.stack([empty] * LAYERS)}
    fed = {i.name: given[i.name] if i.name in given else empties[len(i.shape)] for i in session.get_inputs()}
    return np.asarray(session.run(["logits"], fed)[0][0])

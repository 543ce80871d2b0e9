"""ONNX models executed by PyTorch, operator by operator, so that autograd gives the gradients to compare with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import torch
from onnx import helper, inliner, numpy_helper
from torch.nn import functional as F

from edgec.check import torch_operators
from edgec.errors import UsageError
from edgec.ir.evaluate import evaluate_node
from edgec.ir.graph import constant
from edgec.ops import node
from edgec.text import printable

#: Tensors of PyTorch, which need not be installed where types are checked.
Tensor = Any
Attributes = dict[str, Any]


def run(model: onnx.ModelProto, given: Mapping[str, Tensor]) -> list[Tensor]:
    """The outputs for inputs and weights by name, floats in the type of ``given``."""
    return prepared(model, next(t.dtype for t in given.values() if t.is_floating_point()))(given)


def prepared(model: onnx.ModelProto, wide: torch.dtype) -> Callable[[Mapping[str, Tensor]], list[Tensor]]:
    """A function that gives the outputs for inputs and weights by name; constants are read once, floats as ``wide``.

    Operators that the standard defines by others are those. Raises UsageError for another operator that has no function
    here, or has one that an attribute does not matter to.
    """
    model = _by_others(model)
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)
    constants: dict[str, Any] = {"": None}
    for tensor in model.graph.initializer:
        constants[tensor.name] = _tensor(numpy_helper.to_array(tensor), wide)
    steps = []
    for n in model.graph.node:
        attributes = {a.name: helper.get_attribute_value(a) for a in n.attribute}
        if n.op_type == "Constant":
            (value,) = attributes.values()
            array = numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.array(value)
            constants[n.output[0]] = _tensor(array, wide)
            continue
        missing = _missing(n, attributes, opset)
        if missing:
            hint = "leave out --vs: gradients are compared with slopes of the loss in double precision then"
            where = f"node '{printable(n.name or n.output[0])}' ({printable(n.op_type)})"
            raise UsageError(f"{missing} that is not run in PyTorch here", hint=hint, where=where)
        attributes |= {"wide": wide, "opset": opset, "results": len(n.output)}
        steps.append((OPERATORS[n.op_type], attributes, list(n.input), list(n.output)))
    names = [o.name for o in model.graph.output]

    def call(given: Mapping[str, Tensor]) -> list[Tensor]:
        values = {**constants, **given}
        for operator, attributes, operands, outputs in steps:
            results = operator(attributes, *(values[name] for name in operands))
            values.update(zip(outputs, results if isinstance(results, tuple) else (results,)))
        return [values[name] for name in names]

    return call


def _by_others(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the standard's own bodies in place of operators that have no function here."""
    unknown = {n.op_type for n in model.graph.node if n.domain in ("", "ai.onnx")} - OPERATORS.keys() - {"Constant"}
    named = [("", operator) for operator in sorted(unknown)]
    return inliner.inline_selected_functions(model, named, inline_schema_functions=True) if unknown else model


def _missing(n: onnx.NodeProto, attributes: Attributes, opset: int) -> str | None:
    """The part of a node that its function here leaves out; None where there is none."""
    if n.op_type not in OPERATORS:
        return "an operator"
    try:
        known = onnx.defs.get_schema(n.op_type, opset, n.domain).attributes
    except onnx.defs.SchemaError:  # an operator of edgec's own
        return None
    for name, value in attributes.items():
        usual = helper.get_attribute_value(known[name].default_value) if name in known else None
        is_plain = value == usual or (name == "dilations" and set(value) <= {1})
        if not is_plain and name not in ATTRIBUTES.get(n.op_type, ()):
            return f"an attribute '{printable(name)}'"
    return None


def _tensor(array: np.ndarray, wide: torch.dtype) -> Tensor:
    tensor = torch.from_numpy(np.array(array))
    return tensor.to(wide) if tensor.is_floating_point() else tensor


def _padded(x: Tensor, a: Attributes, spans: Sequence[int], value: float = 0.0) -> Tensor:
    """With the padding of ONNX, which may differ on both sides."""
    rank = len(spans)
    pads = list(a.get("pads", [0] * (2 * rank)))
    auto = a.get("auto_pad", b"NOTSET").decode()
    if auto.startswith("SAME"):
        strides = a.get("strides", [1] * rank)
        sums = [max((-(-n // s) - 1) * s + span - n, 0) for n, s, span in zip(x.shape[2:], strides, spans)]
        less, more = [t // 2 for t in sums], [t - t // 2 for t in sums]
        pads = [*less, *more] if auto == "SAME_UPPER" else [*more, *less]
    sides = [side for d in reversed(range(rank)) for side in (pads[d], pads[rank + d])]
    return F.pad(x, sides, value=value) if any(sides) else x


def _spans(kernel: Sequence[int], a: Attributes) -> list[int]:
    return [(k - 1) * d + 1 for k, d in zip(kernel, a.get("dilations", [1] * len(kernel)))]


def _conv(a: Attributes, x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
    call = (F.conv1d, F.conv2d, F.conv3d)[w.ndim - 3]
    ones = [1] * (w.ndim - 2)
    x = _padded(x, a, _spans(w.shape[2:], a))
    return call(x, w, bias, a.get("strides", ones), 0, a.get("dilations", ones), a.get("group", 1))


def _conv_transpose(a: Attributes, x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
    rank = w.ndim - 2
    call = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1]
    ones, pads = [1] * rank, a.get("pads", [0] * (2 * rank))
    more = a.get("output_padding", [0] * rank)
    whole = call(x, w, bias, a.get("strides", ones), 0, more, a.get("group", 1), a.get("dilations", ones))
    for d in range(rank):
        whole = whole.narrow(2 + d, pads[d], whole.shape[2 + d] - pads[d] - pads[rank + d])
    return whole


def _whole_windows(a: Attributes, x: Tensor, value: float) -> Tensor:
    """With elements behind the end that the last window of a pool reads, where it may begin inside and end outside."""
    if not a.get("ceil_mode", 0):
        return x
    begun = a.get("pads", [0] * (2 * len(a["kernel_shape"])))
    sides: list[int] = []
    for d, span in enumerate(_spans(a["kernel_shape"], a)):
        step, size = a.get("strides", [1] * len(begun))[d], x.shape[2 + d]
        count = -(-(size - span) // step) + 1
        # A window that begins behind the data and what is in front of it is left out.
        count -= (count - 1) * step >= size - begun[len(begun) // 2 + d]
        sides = [0, max(0, (count - 1) * step + span - size), *sides]
    return F.pad(x, sides, value=value)


def _max_pool(a: Attributes, x: Tensor) -> Tensor:
    kernel = a["kernel_shape"]
    call = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[len(kernel) - 1]
    x = _whole_windows(a, _padded(x, a, _spans(kernel, a), -torch.inf), -torch.inf)
    ones = [1] * len(kernel)
    return call(x, kernel, a.get("strides", ones), 0, a.get("dilations", ones))


def _average_pool(a: Attributes, x: Tensor) -> Tensor:
    kernel = a["kernel_shape"]
    call = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[len(kernel) - 1]

    def summed(values: Tensor) -> Tensor:
        return call(_whole_windows(a, values, 0.0), kernel, a.get("strides", [1] * len(kernel)))

    ones = torch.ones_like(x)
    inside = torch.ones_like(_padded(x, a, kernel)) if a.get("count_include_pad", 0) else _padded(ones, a, kernel)
    return summed(_padded(x, a, kernel)) / summed(inside)


def _gemm(a: Attributes, x: Tensor, w: Tensor, c: Tensor | None = None) -> Tensor:
    x, w = (x.T if a.get("transA") else x), (w.T if a.get("transB") else w)
    y = a.get("alpha", 1.0) * (x @ w)
    return y if c is None else y + a.get("beta", 1.0) * c


def _normalized(a: Attributes, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor) -> Any:
    """Written out: PyTorch's own has no derivative by mean and variance. In training by those of the batch, with the
    running ones beside the result."""
    shape = (1, -1, *(1,) * (x.ndim - 2))
    if a.get("training_mode", 0):
        kept, axes = a.get("momentum", 0.9), [d for d in range(x.ndim) if d != 1]
        own, spread = x.mean(axes), x.var(axes, unbiased=False)
        y = _normalized({"epsilon": a.get("epsilon", 1e-5)}, x, scale, bias, own, spread)
        return y, mean * kept + own * (1 - kept), variance * kept + spread * (1 - kept)
    factor = scale / torch.sqrt(variance + a.get("epsilon", 1e-5))
    return (x - mean.reshape(shape)) * factor.reshape(shape) + bias.reshape(shape)


def _layer_norm(a: Attributes, x: Tensor, scale: Tensor, bias: Tensor | None = None) -> Tensor:
    axis = a.get("axis", -1) % x.ndim
    return F.layer_norm(x, list(x.shape[axis:]), scale, bias, a.get("epsilon", 1e-5))


def _reshape(a: Attributes, x: Tensor, shape: Tensor) -> Tensor:
    kept = not a.get("allowzero", 0)
    return x.reshape([x.shape[k] if n == 0 and kept else n for k, n in enumerate(shape.tolist())])


def _clip(a: Attributes, x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    low, high = a.get("min", low), a.get("max", high)
    return x if low is None and high is None else torch.clamp(x, low, high)


def _flatten(a: Attributes, x: Tensor) -> Tensor:
    return x.reshape(int(np.prod(x.shape[: a.get("axis", 1)])), -1)


def _dequantized(a: Attributes, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    axis = a.get("axis", 1)
    shape = [-1 if d == axis else 1 for d in range(x.ndim)] if scale.ndim else []
    y = x.to(scale.dtype)
    return (y if zero is None else y - zero.to(y).reshape(shape)) * scale.reshape(shape)


def _lstm(
    a: Attributes, x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, lengths: None = None,
    h: Tensor | None = None, c: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """One direction; gates are input, output, forget, cell."""
    assert a.get("direction", b"forward") == b"forward" and lengths is None
    batch, hidden = x.shape[1], a["hidden_size"]
    h = x.new_zeros(batch, hidden) if h is None else h[0]
    c = x.new_zeros(batch, hidden) if c is None else c[0]
    outputs = []
    for step in x:
        gates = step @ w[0].T + h @ r[0].T + (b[0, : 4 * hidden] + b[0, 4 * hidden :] if b is not None else 0)
        i, o, f, g = gates.chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        outputs.append(h)
    return torch.stack(outputs)[:, None], h[None], c[None]


def _dropped(a: Attributes, x: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
    """The elements that edgec's own generator keeps in this step."""
    count = step.numpy()
    numbers = node("random", constant(count), shape=tuple(x.shape), stream=a["stream"], seed=a["seed"])
    drawn = evaluate_node(numbers, [count])
    kept = torch.from_numpy(drawn >= np.float32(a["ratio"]))
    return torch.where(kept, x / (1 - a["ratio"]), 0), kept


def _concat(a: Attributes, *parts: Tensor) -> Tensor:
    return torch.cat(parts, a["axis"])


def _reduced(a: Attributes, x: Tensor, axes: Tensor | None, function: Callable[..., Any]) -> Tensor:
    chosen = axes.tolist() if axes is not None else a.get("axes", [])
    if not chosen and a.get("noop_with_empty_axes", 0):
        return x
    chosen = chosen or list(range(x.ndim))
    return function(x, dim=tuple(chosen), keepdim=bool(a.get("keepdims", 1)))


def _cast(a: Attributes, x: Tensor) -> Tensor:
    dtype = helper.tensor_dtype_to_np_dtype(a["to"])
    return x.to(a["wide"] if dtype.kind == "f" else torch.from_numpy(np.zeros(0, dtype)).dtype)


def _shape(a: Attributes, x: Tensor) -> Tensor:
    return torch.tensor(list(x.shape)[a.get("start", 0) : a.get("end")], dtype=torch.int64)


def _expanded(a: Attributes, x: Tensor, shape: Tensor) -> Tensor:
    return x.expand(torch.broadcast_shapes(x.shape, tuple(shape.tolist())))


def _sliced(
    a: Attributes, x: Tensor, starts: Tensor, ends: Tensor, axes: Tensor | None = None, steps: Tensor | None = None
) -> Tensor:
    begun, ended = starts.tolist(), ends.tolist()
    chosen = axes.tolist() if axes is not None else range(len(begun))
    for axis, *bounds in zip(chosen, begun, ended, steps.tolist() if steps is not None else [1] * len(begun)):
        x = x.index_select(axis, torch.tensor([*range(x.shape[axis])[slice(*bounds)]], dtype=torch.int64))
    return x


def _gathered(a: Attributes, x: Tensor, i: Tensor) -> Tensor:
    axis = a.get("axis", 0) % x.ndim
    found = x.index_select(axis, i.reshape(-1) % x.shape[axis])
    return found.reshape([*x.shape[:axis], *i.shape, *x.shape[axis + 1 :]])


def _divided(a: Attributes, x: Tensor, y: Tensor) -> Tensor:
    return x / y if x.is_floating_point() else torch.div(x, y, rounding_mode="trunc")


def _soft(a: Attributes, x: Tensor, function: Callable[..., Any]) -> Tensor:
    """Along one dimension, or before operator set 13 over all from one on."""
    if a["opset"] >= 13:
        return function(x, a.get("axis", -1))
    rows = x.reshape(int(np.prod(x.shape[: a.get("axis", 1)])), -1)
    return function(rows, -1).reshape(x.shape)


def _squeezed(a: Attributes, x: Tensor, axes: Tensor | None = None) -> Tensor:
    chosen = axes.tolist() if axes is not None else a.get("axes")
    return x.squeeze() if chosen is None else x.squeeze(tuple(chosen))


def _unsqueezed(a: Attributes, x: Tensor, axes: Tensor | None = None) -> Tensor:
    chosen = axes.reshape(-1).tolist() if axes is not None else a["axes"]
    rank = x.ndim + len(chosen)
    for axis in sorted(d % rank for d in chosen):
        x = x.unsqueeze(axis)
    return x


OPERATORS: dict[str, Callable[..., Any]] = {
    **torch_operators.OPERATORS,
    "Add": lambda a, x, y: x + y,
    "And": lambda a, x, y: x & y,
    "AveragePool": _average_pool,
    "BatchNormalization": _normalized,
    "Cast": _cast,
    "CastLike": lambda a, x, y: x.to(y.dtype),
    "Clip": _clip,
    "Abs": lambda a, x: torch.abs(x),
    "Concat": _concat,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "CountedDropout": _dropped,
    "DequantizeLinear": _dequantized,
    "Div": _divided,
    "Dropout": lambda a, x, *rest: x,
    "Erf": lambda a, x: torch.erf(x),
    "Equal": lambda a, x, y: x == y,
    "Exp": lambda a, x: torch.exp(x),
    "Expand": _expanded,
    "Flatten": _flatten,
    "Gather": _gathered,
    "GatherElements": lambda a, x, i: x.gather(a.get("axis", 0), i % x.shape[a.get("axis", 0)]),
    "Gelu": lambda a, x: F.gelu(x, approximate=a.get("approximate", b"none").decode()),
    "Gemm": _gemm,
    "GlobalAveragePool": lambda a, x: x.mean(tuple(range(2, x.ndim)), keepdim=True),
    "GreaterOrEqual": lambda a, x, y: x >= y,
    "Identity": lambda a, x: x,
    "IsNaN": lambda a, x: torch.isnan(x),
    "LSTM": _lstm,
    "LayerNormalization": _layer_norm,
    "Log": lambda a, x: torch.log(x),
    "LogSoftmax": lambda a, x: _soft(a, x, F.log_softmax),
    "MatMul": lambda a, x, y: x @ y,
    "MaxPool": _max_pool,
    "Mul": lambda a, x, y: x * y,
    "Neg": lambda a, x: -x,
    "Pow": lambda a, x, y: x**y,
    "Range": lambda a, first, end, step: torch.arange(first, end, step),
    "ReduceMean": lambda a, x, axes=None: _reduced(a, x, axes, torch.mean),
    "ReduceSum": lambda a, x, axes=None: _reduced(a, x, axes, torch.sum),
    "Relu": lambda a, x: F.relu(x),
    "Reshape": _reshape,
    "Shape": _shape,
    "Sigmoid": lambda a, x: torch.sigmoid(x),
    "Slice": _sliced,
    "Softmax": lambda a, x: _soft(a, x, F.softmax),
    "Sqrt": lambda a, x: torch.sqrt(x),
    "Squeeze": _squeezed,
    "Sub": lambda a, x, y: x - y,
    "Tanh": lambda a, x: torch.tanh(x),
    "Transpose": lambda a, x: x.permute(*a.get("perm", reversed(range(x.ndim)))),
    "Unsqueeze": _unsqueezed,
    "Where": lambda a, condition, x, y: torch.where(condition, x, y),
}

_POOL = ("auto_pad", "ceil_mode", "kernel_shape", "pads", "strides")
_REDUCTION = ("axes", "keepdims", "noop_with_empty_axes")
#: The attributes that functions take; others have to be what they are where a node leaves them out.
ATTRIBUTES: dict[str, tuple[str, ...]] = {
    **torch_operators.ATTRIBUTES,
    "AveragePool": (*_POOL, "count_include_pad"),
    "BatchNormalization": ("epsilon", "momentum", "training_mode"),
    "Cast": ("to", "saturate"),
    "CastLike": ("saturate",),
    "Clip": ("min", "max"),
    "Concat": ("axis",),
    "Conv": ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"),
    "ConvTranspose": ("dilations", "group", "kernel_shape", "output_padding", "pads", "strides"),
    "DequantizeLinear": ("axis",),
    "Dropout": ("ratio", "seed"),
    "Flatten": ("axis",),
    "Gather": ("axis",),
    "GatherElements": ("axis",),
    "Gelu": ("approximate",),
    "Gemm": ("alpha", "beta", "transA", "transB"),
    "LSTM": ("hidden_size",),
    "LayerNormalization": ("axis", "epsilon"),
    "LogSoftmax": ("axis",),
    "MaxPool": (*_POOL, "dilations"),
    "ReduceMean": _REDUCTION,
    "ReduceSum": _REDUCTION,
    "Reshape": ("allowzero",),
    "Shape": ("start", "end"),
    "Softmax": ("axis",),
    "Squeeze": ("axes",),
    "Transpose": ("perm",),
    "Unsqueeze": ("axes",),
}

"""ONNX models executed by PyTorch, operator by operator, so that autograd gives the gradients to compare with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper
from torch.nn import functional as F

from edgec.ir.evaluate import evaluate_node
from edgec.ir.graph import constant
from edgec.ops import node

#: Tensors of PyTorch, which need not be installed where types are checked.
Tensor = Any
Attributes = dict[str, Any]


def run(model: onnx.ModelProto, given: Mapping[str, Tensor]) -> list[Tensor]:
    """The outputs for inputs and weights by name, floats in the type of ``given``."""
    return prepared(model, next(t.dtype for t in given.values() if t.is_floating_point()))(given)


def prepared(model: onnx.ModelProto, wide: torch.dtype) -> Callable[[Mapping[str, Tensor]], list[Tensor]]:
    """A function that gives the outputs for inputs and weights by name; constants are read once, floats as ``wide``."""
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
        if n.op_type not in OPERATORS:
            raise NotImplementedError(f"{n.op_type} in PyTorch")
        steps.append((OPERATORS[n.op_type], attributes | {"wide": wide}, list(n.input), list(n.output)))
    names = [o.name for o in model.graph.output]

    def call(given: Mapping[str, Tensor]) -> list[Tensor]:
        values = {**constants, **given}
        for operator, attributes, operands, outputs in steps:
            results = operator(attributes, *(values[name] for name in operands))
            values.update(zip(outputs, results if isinstance(results, tuple) else (results,)))
        return [values[name] for name in names]

    return call


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
    ones = [1] * (w.ndim - 2)
    pads = a.get("pads", [0] * (2 * len(ones)))
    assert pads[: len(ones)] == pads[len(ones) :]
    extra, groups, dilations = a.get("output_padding", 0), a.get("group", 1), a.get("dilations", ones)
    return F.conv_transpose2d(x, w, bias, a.get("strides", ones), pads[: len(ones)], extra, groups, dilations)


def _max_pool(a: Attributes, x: Tensor) -> Tensor:
    x = _padded(x, a, _spans(a["kernel_shape"], a), -torch.inf)
    ones = [1] * len(a["kernel_shape"])
    return F.max_pool2d(x, a["kernel_shape"], a.get("strides", ones), 0, a.get("dilations", ones))


def _average_pool(a: Attributes, x: Tensor) -> Tensor:
    kernel = a["kernel_shape"]
    ones = [1] * len(kernel)
    total = F.avg_pool2d(_padded(x, a, _spans(kernel, a)), kernel, a.get("strides", ones))
    if a.get("count_include_pad", 0):
        return total
    return total / F.avg_pool2d(_padded(torch.ones_like(x), a, _spans(kernel, a)), kernel, a.get("strides", ones))


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
    return x.reshape([x.shape[k] if n == 0 else n for k, n in enumerate(shape.tolist())])


def _clip(a: Attributes, x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    return torch.clamp(x, a.get("min", low), a.get("max", high))


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
    chosen = axes.tolist() if axes is not None else a.get("axes", list(range(x.ndim)))
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
    return found.reshape(*x.shape[:axis], *i.shape, *x.shape[axis + 1 :])


def _unsqueezed(a: Attributes, x: Tensor, axes: Tensor) -> Tensor:
    rank = x.ndim + axes.numel()
    for axis in sorted(d % rank for d in axes.reshape(-1).tolist()):
        x = x.unsqueeze(axis)
    return x


OPERATORS: dict[str, Callable[..., Any]] = {
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
    "Div": lambda a, x, y: x / y,
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
    "LogSoftmax": lambda a, x: F.log_softmax(x, a.get("axis", -1)),
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
    "Softmax": lambda a, x: F.softmax(x, a.get("axis", -1)),
    "Sqrt": lambda a, x: torch.sqrt(x),
    "Squeeze": lambda a, x, axes: x.squeeze(tuple(axes.tolist())),
    "Sub": lambda a, x, y: x - y,
    "Tanh": lambda a, x: torch.tanh(x),
    "Transpose": lambda a, x: x.permute(*a["perm"]),
    "Unsqueeze": _unsqueezed,
    "Where": lambda a, condition, x, y: torch.where(condition, x, y),
}

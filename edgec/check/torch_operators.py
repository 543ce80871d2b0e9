"""Operators between the layers of networks, executed by PyTorch: element by element, by rows, and by moving."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import torch
from onnx import numpy_helper
from torch.nn import functional as F

#: Tensors of PyTorch, which need not be installed where types are checked.
Tensor = Any
Attributes = dict[str, Any]


def _split(a: Attributes, x: Tensor, sizes: Tensor | None = None) -> tuple[Tensor, ...]:
    axis, given = a.get("axis", 0), a.get("split") if sizes is None else sizes.tolist()
    if given is None:  # equal parts, the last one smaller
        given = -(-x.shape[axis] // a["results"])
    return tuple(x.split(given, axis))


def _instance_norm(a: Attributes, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    return F.instance_norm(x, weight=scale, bias=bias, eps=a.get("epsilon", 1e-5))


def _filled(a: Attributes, shape: Tensor) -> Tensor:
    value = torch.from_numpy(numpy_helper.to_array(a["value"]).copy()) if "value" in a else torch.zeros(1)
    return (value.to(a["wide"]) if value.is_floating_point() else value).reshape(()).expand(tuple(shape.tolist()))


def _tiled(a: Attributes, x: Tensor, repeats: Tensor) -> Tensor:
    return x.repeat(repeats.tolist())


def _added_up(a: Attributes, x: Tensor, axis: Tensor) -> Tensor:
    turned = x.flip(int(axis)) if a.get("reverse") else x
    found = turned.cumsum(int(axis)).to(x.dtype) - (turned if a.get("exclusive") else 0)
    return found.flip(int(axis)) if a.get("reverse") else found


def _gathered(a: Attributes, x: Tensor, i: Tensor) -> Tensor:
    lead, depth = a.get("batch_dims", 0), i.shape[-1]
    shape = i.shape[:-1]
    places = [i[..., d] % x.shape[lead + d] for d in range(depth)]
    batch = [torch.arange(n).reshape(*(-1 if e == d else 1 for e in range(len(shape)))) for d, n in enumerate(shape)]
    return x[(*batch[:lead], *places)]


def _bordered(
    a: Attributes, x: Tensor, pads: Tensor, value: Tensor | None = None, axes: Tensor | None = None
) -> Tensor:
    """By a constant."""
    chosen = [d % x.ndim for d in axes.tolist()] if axes is not None else list(range(x.ndim))
    around = dict(zip(chosen, zip(pads.tolist(), pads.tolist()[len(chosen) :])))
    sides = [side for d in reversed(range(x.ndim)) for side in around.get(d, (0, 0))]
    return F.pad(x, sides, value=0 if value is None else value.item())


def _over(function: Callable[..., Any]) -> Callable[..., Any]:
    """A reduction whose axes are an operand or an attribute."""

    def call(a: Attributes, x: Tensor, axes: Tensor | None = None) -> Tensor:
        chosen = axes.tolist() if axes is not None else a.get("axes", [])
        if not chosen and a.get("noop_with_empty_axes", 0):
            return x
        return function(x, dim=tuple(chosen) or tuple(range(x.ndim)), keepdim=bool(a.get("keepdims", 1)))

    return call


def _parametric(a: Attributes, x: Tensor, slope: Tensor) -> Tensor:
    return torch.where(x < 0, x * slope, x)


def _remainder(a: Attributes, x: Tensor, y: Tensor) -> Tensor:
    return torch.fmod(x, y) if a.get("fmod", 0) else torch.remainder(x, y)


def _depth_to_space(a: Attributes, x: Tensor) -> Tensor:
    (n, c, h, w), b = x.shape, a["blocksize"]
    if a.get("mode", b"DCR") == b"CRD":
        return F.pixel_shuffle(x, b)
    return x.reshape(n, b, b, c // b**2, h, w).permute(0, 3, 4, 1, 5, 2).reshape(n, c // b**2, h * b, w * b)


def _space_to_depth(a: Attributes, x: Tensor) -> Tensor:
    (n, c, h, w), b = x.shape, a["blocksize"]
    return x.reshape(n, c, h // b, b, w // b, b).permute(0, 3, 5, 1, 2, 4).reshape(n, c * b**2, h // b, w // b)


def _scattered(a: Attributes, x: Tensor, i: Tensor, updates: Tensor) -> Tensor:
    axis, how = a.get("axis", 0), a.get("reduction", b"none").decode()
    places = i % x.shape[axis]
    if how == "none":
        return x.scatter(axis, places, updates)
    named = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}[how]
    return x.scatter_reduce(axis, places, updates, named)


def _largest(a: Attributes, x: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    values, places = torch.topk(x, int(k), a.get("axis", -1), bool(a.get("largest", 1)), True)
    return values, places


def _gru(
    a: Attributes, x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, lengths: None = None,
    h: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """One direction or both; gates are update, reset, hidden."""
    assert lengths is None
    hidden, found, last = a["hidden_size"], [], []
    ways = {b"forward": (False,), b"reverse": (True,), b"bidirectional": (False, True)}
    for d, backwards in enumerate(ways[a.get("direction", b"forward")]):
        state = x.new_zeros(x.shape[1], hidden) if h is None else h[d]
        own, of_state = b[d].chunk(2) if b is not None else (x.new_zeros(3 * hidden),) * 2
        outputs = []
        for step in x.flip(0) if backwards else x:
            z, s, n = (step @ w[d].T + own).chunk(3, 1)
            rz, rs, rn = r[d].chunk(3)
            bz, bs, bn = of_state.chunk(3)
            z, s = torch.sigmoid(z + state @ rz.T + bz), torch.sigmoid(s + state @ rs.T + bs)
            after = s * (state @ rn.T + bn) if a.get("linear_before_reset", 0) else (s * state) @ rn.T + bn
            state = (1 - z) * torch.tanh(n + after) + z * state
            outputs.append(state)
        last.append(state)
        found.append(torch.stack(outputs[::-1] if backwards else outputs))
    return torch.stack(found, 1), torch.stack(last)


OPERATORS: dict[str, Callable[..., Any]] = {
    "Ceil": lambda a, x: torch.ceil(x),
    "ConstantOfShape": _filled,
    "Cos": lambda a, x: torch.cos(x),
    "CumSum": _added_up,
    "DepthToSpace": _depth_to_space,
    "Einsum": lambda a, *xs: torch.einsum(a["equation"].decode(), *xs),
    "Elu": lambda a, x: F.elu(x, a.get("alpha", 1.0)),
    "Floor": lambda a, x: torch.floor(x),
    "GRU": _gru,
    "GatherND": _gathered,
    "GlobalMaxPool": lambda a, x: x.amax(tuple(range(2, x.ndim)), keepdim=True),
    "Greater": lambda a, x, y: x > y,
    "HardSigmoid": lambda a, x: torch.clamp(x * a.get("alpha", 0.2) + a.get("beta", 0.5), 0, 1),
    "HardSwish": lambda a, x: F.hardswish(x),
    "InstanceNormalization": _instance_norm,
    "LeakyRelu": lambda a, x: F.leaky_relu(x, a.get("alpha", 0.01)),
    "Less": lambda a, x, y: x < y,
    "LessOrEqual": lambda a, x, y: x <= y,
    "Max": lambda a, *xs: reduce(torch.maximum, xs),
    "Min": lambda a, *xs: reduce(torch.minimum, xs),
    "Mod": _remainder,
    "Not": lambda a, x: ~x,
    "Or": lambda a, x, y: x | y,
    "PRelu": _parametric,
    "Pad": _bordered,
    "Reciprocal": lambda a, x: 1 / x,
    "ReduceL2": _over(torch.linalg.vector_norm),
    "ReduceMax": _over(torch.amax),
    "ReduceMin": _over(torch.amin),
    "ReduceSumSquare": _over(lambda x, **where: (x * x).sum(**where)),
    "ScatterElements": _scattered,
    "Selu": lambda a, x: a.get("gamma", 1.0507010221481323) * F.elu(x, a.get("alpha", 1.6732631921768188)),
    "Sign": lambda a, x: torch.sign(x),
    "Sin": lambda a, x: torch.sin(x),
    "Softplus": lambda a, x: F.softplus(x),
    "SpaceToDepth": _space_to_depth,
    "Split": _split,
    "Sum": lambda a, *xs: reduce(torch.add, xs),
    "Tile": _tiled,
    "TopK": _largest,
    "Trilu": lambda a, x, k=None: (torch.triu if a.get("upper", 1) else torch.tril)(x, 0 if k is None else int(k)),
}

_REDUCTION = ("axes", "keepdims", "noop_with_empty_axes")
#: The attributes that functions take.
ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "ConstantOfShape": ("value",),
    "CumSum": ("exclusive", "reverse"),
    "DepthToSpace": ("blocksize", "mode"),
    "Einsum": ("equation",),
    "Elu": ("alpha",),
    "GRU": ("direction", "hidden_size", "linear_before_reset"),
    "GatherND": ("batch_dims",),
    "HardSigmoid": ("alpha", "beta"),
    "InstanceNormalization": ("epsilon",),
    "LeakyRelu": ("alpha",),
    "Mod": ("fmod",),
    "ReduceL2": _REDUCTION,
    "ReduceMax": _REDUCTION,
    "ReduceMin": _REDUCTION,
    "ReduceSumSquare": _REDUCTION,
    "ScatterElements": ("axis", "reduction"),
    "Selu": ("alpha", "gamma"),
    "SpaceToDepth": ("blocksize",),
    "Split": ("axis", "num_outputs", "split"),
    "TopK": ("axis", "largest", "sorted"),
    "Trilu": ("upper",),
}

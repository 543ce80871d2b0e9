"""Convolutions: padding is an operator of its own, and a transposed convolution is an ordinary one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from edgec.frontend.onnx.call import Call, onnx
from edgec.frontend.values import Value, carried_out, check_table, emit
from edgec.ir.index import greater
from edgec.ops import contraction, graphs


@dataclass(frozen=True)
class Window:
    """Geometry of a kernel over the spatial dimensions."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[Any, ...]
    after: tuple[Any, ...]  # numbers, or formulas of run-time sizes

    @property
    def spans(self) -> tuple[int, ...]:
        """Input elements from the first to the last one a window touches."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations))


def window(call: Call, space: Sequence[int], kernel: Sequence[int]) -> Window:
    """The attributes all windows share, with auto_pad resolved for inputs of extents ``space``."""
    rank = len(space)
    strides = _sizes(call, "strides", rank)
    dilations = _sizes(call, "dilations", rank)
    pads: tuple[Any, ...] = _pads(call, rank)
    if len(kernel) != rank:
        raise call.error(f"kernel {list(kernel)} does not fit {rank} spatial dimensions")
    if any(k < 1 for k in kernel):
        raise call.error(f"kernel {list(kernel)} has no elements", "a window has at least one along every dimension")
    before, after = pads[:rank], pads[rank:]
    auto = call.attribute("auto_pad", "NOTSET")
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        total = [greater((-(-n // s) - 1) * s + span - n, 0) for n, s, span in zip(space, strides, spans)]
        less, more = tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
        before, after = (less, more) if auto == "SAME_UPPER" else (more, less)
    elif auto == "VALID":
        before = after = (0,) * rank
    return Window(tuple(kernel), strides, dilations, before, after)


def _sizes(call: Call, name: str, rank: int) -> tuple[int, ...]:
    given = call.attribute(name)
    sizes = (1,) * rank if given is None else tuple(given)
    if len(sizes) != rank or any(s < 1 for s in sizes):
        raise call.error(f"{name} {list(sizes)} do not fit {rank} spatial dimensions")
    return sizes


def _pads(call: Call, rank: int) -> tuple[int, ...]:
    """Elements around the input: those before it along every dimension, then those behind it."""
    given = call.attribute("pads")
    pads = (0,) * (2 * rank) if given is None else tuple(given)
    if len(pads) != 2 * rank or any(p < 0 for p in pads):
        raise call.error(f"pads {list(pads)} do not fit {rank} spatial dimensions", "there are two for each, from 0 on")
    return pads


def pad_space(x: Value, before: Sequence[Any], after: Sequence[Any], value: float = 0) -> Value:
    """Padding of the trailing dimensions."""
    lead = (0,) * (x.rank - len(before))
    return x.pad((*lead, *before), (*lead, *after), value)


def per_channel(values: Value, rank: int) -> Value:
    """[C] as [1, C, 1, ...], to be broadcast over a tensor of ``rank`` dimensions."""
    return values.reshape(1, values.node.type.elements, *[1] * (rank - 2))


def convolve(call: Call, x: Value, w: Value, pad_value: float = 0) -> Value:
    """The convolution a Conv-like node asks for, without its bias."""
    if x.rank < 3 or w.rank != x.rank:
        raise call.error(f"convolution of shape {list(x.shape)} by weights {list(w.shape)}")
    win = window(call, x.shape[2:], _kernel(call, w))
    check_fits(call, win, x.shape[2:])
    padded = pad_space(x, win.before, win.after, pad_value)
    return emit("conv", padded, w, strides=win.strides, dilations=win.dilations, groups=call.attribute("group", 1))


def _kernel(call: Call, w: Value) -> tuple[int, ...]:
    """The extents of a kernel: those of the weights, which the attribute repeats."""
    kernel = call.attribute("kernel_shape")
    if kernel is not None and tuple(kernel) != w.shape[2:]:
        raise call.error(f"kernel_shape {list(kernel)} differs from the weights {list(w.shape)}")
    return tuple(w.shape[2:])


def check_fits(call: Call, win: Window, space: Sequence[Any], steps: int = 0) -> None:
    """Raises ModelError for a window that is longer than what it moves over, by so many steps or more."""
    for n, before, after, span, stride in zip(space, win.before, win.after, win.spans, win.strides):
        if isinstance(n, int) and n and n + before + after - span <= min(-steps * stride, -1):
            raise call.error(f"a window over {span} elements of {n + before + after}, padding included")


@onnx("Conv")
def conv(call: Call) -> Value:
    y = convolve(call, call[0], call[1])
    bias = call.optional(2)
    return y if bias is None else y + per_channel(bias, y.rank)


@onnx("ConvTranspose")
def conv_transpose(call: Call) -> Value:
    x, w = call[0], call[1]
    rank = x.rank - 2
    kernel = _kernel(call, w)
    strides, dilations = _sizes(call, "strides", rank), _sizes(call, "dilations", rank)
    groups = call.attribute("group", 1)
    extra = call.attribute("output_padding")
    extra = (0,) * rank if extra is None else tuple(extra)
    if len(extra) != rank or any(not 0 <= e < max(s, d) for e, s, d in zip(extra, strides, dilations)):
        hint = "each is 0 or more, and less than the stride or the dilation"
        raise call.error(f"output_padding {list(extra)} does not fit {rank} spatial dimensions", hint)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    whole = [(n - 1) * s + span + e for n, s, span, e in zip(x.shape[2:], strides, spans, extra)]
    before, sizes = _transposed_extent(call, x.shape[2:], whole, strides)
    y = transposed_conv(x, w, strides, dilations, groups, [b + n for b, n in zip(before, sizes)])
    y = y.slice((0, 0, *before), (1,) * y.rank, (*y.shape[:2], *sizes))
    bias = call.optional(2)
    return y if bias is None else y + per_channel(bias, y.rank)


def _transposed_extent(
    call: Call, space: Sequence[int], whole: Sequence[int], strides: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Number of elements to cut at the beginning of the whole result, and number of those to keep."""
    rank = len(whole)
    auto = call.attribute("auto_pad", "NOTSET")
    wanted = call.attribute("output_shape")
    if auto in ("SAME_UPPER", "SAME_LOWER") and not wanted:
        wanted = [n * s for n, s in zip(space, strides)]
    if wanted:
        sizes = list(wanted)[-rank:]
        total = [max(n - m, 0) for n, m in zip(whole, sizes)]
        return [t // 2 if auto == "SAME_UPPER" else t - t // 2 for t in total], sizes
    pads = _pads(call, rank) if auto == "NOTSET" else (0,) * (2 * rank)
    return list(pads[:rank]), [n - b - a for n, b, a in zip(whole, pads[:rank], pads[rank:])]


def transposed_conv(
    x: Value, w: Value, strides: Sequence[int], dilations: Sequence[int], groups: int, least: Sequence[int]
) -> Value:
    """The transposed convolution without padding, at least ``least`` elements of it (``edgec.ops.contraction``)."""
    check_table(1000 * prod(strides))  # every phase is a node
    return carried_out(contraction.transposed_conv(x.node, w.node, strides, dilations, groups, least), x, w)


def spread(x: Value, strides: Sequence[int]) -> Value:
    """Zeros between the elements of the trailing dimensions, so that they lie ``strides`` apart."""
    return carried_out(graphs.spread(x.node, (*(1,) * (x.rank - len(strides)), *strides)), x)

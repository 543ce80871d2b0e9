"""Resizing: one dimension after the other, every result a weighted sum of inputs known at build time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, inf, isclose
from typing import Any

import numpy as np

from edgec.frontend.onnx.call import Call, onnx
from edgec.frontend.values import Value, check_table, clip, constant, emit, iota, normalize_axis, select, size
from edgec.ir import expr as X
from edgec.ir.expr import Extent
from edgec.ir.index import exact
from edgec.ir.types import DTYPES

Weights = Callable[[np.ndarray], np.ndarray]
#: Taps up to which rows are sums of gathered elements, and elements of a table by which they are multiplied beyond it.
MOST_TAPS, MOST_SHARES = 4, 2**20


@dataclass(frozen=True)
class _Axis:
    """Resizing along one dimension: ``scale`` = output / input, ``roi`` the requested part of the input.

    The scale is None where it depends on sizes that are known only at run time.
    """

    axis: int
    extent: Any
    size: Any
    scale: Any
    roi: tuple[float, float]

    @property
    def is_fixed(self) -> bool:
        return isinstance(self.extent, int) and isinstance(self.size, int)

    @property
    def is_identity(self) -> bool:
        if self.scale is None:
            return False
        return self.size == self.extent and isclose(self.scale, 1.0) and self.roi == (0.0, 1.0)


@onnx("Upsample")
def upsample(call: Call) -> Value:
    """The predecessor of Resize: coordinates are divided by the scale and, for nearest, cut."""
    x = call[0]
    scales = call.attribute("scales") if call.opset < 9 else call.constant(1).reshape(-1).tolist()
    return _resized(call, x, _by_scales(call, x, scales), "asymmetric", "floor")


@onnx("Resize")
def resize(call: Call) -> Value:
    x = call[0]
    if call.opset < 11:
        scales = call.constant(1).reshape(-1).tolist()
        return _resized(call, x, _by_scales(call, x, scales), "asymmetric", "floor")
    mode = call.attribute("coordinate_transformation_mode")
    return _resized(call, x, _axes(call, x, mode), mode, call.attribute("nearest_mode"))


def _by_scales(call: Call, x: Value, scales: Sequence[float]) -> list[_Axis]:
    _check_scales(call, scales)
    return [_Axis(d, n, _scaled(n, s), s, (0.0, 1.0)) for d, (n, s) in enumerate(zip(x.shape, scales))]


def _check_scales(call: Call, scales: Sequence[float]) -> None:
    if not all(0 < s < inf for s in scales):
        raise call.error(f"scales {list(scales)}", "each is a number above 0")


def _axes(call: Call, x: Value, mode: str) -> list[_Axis]:
    chosen = [normalize_axis(a, x.rank) for a in call.attribute("axes") or range(x.rank)]
    extents = [x.shape[a] for a in chosen]
    sizes = call.extents(3) if call.optional(3) is not None else ()
    scales: list[Any]
    if sizes:
        if any(isinstance(m, int) and (m < 0 or (m == 0 and n != 0)) for m, n in zip(sizes, extents)):
            raise call.error(f"sizes {list(sizes)}", "each is 1 or more")
        scales = [_ratio(m, n) for m, n in zip(sizes, extents)]
        policy = call.attribute("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch" and None in scales:
            raise call.error("keep_aspect_ratio_policy needs sizes known at build time")
        if policy != "stretch":
            scale = np.float32((min if policy == "not_larger" else max)(scales))
            scales = [float(scale)] * len(extents)
            sizes = tuple(int(float(scale * np.float32(n)) + 0.5) for n in extents)
    else:
        scales = [float(s) for s in call.constant(2).reshape(-1)]
        _check_scales(call, scales)
        sizes = tuple(_scaled(n, s) for n, s in zip(extents, scales))
    if not len(sizes) == len(scales) == len(extents):
        raise call.error(f"{len(scales)} scales for {len(extents)} dimensions")
    rois = [(0.0, 1.0)] * len(chosen)
    if mode == "tf_crop_and_resize":
        flat = [float(v) for v in call.constant(1).reshape(-1)]
        rois = list(zip(flat[: len(chosen)], flat[len(chosen) :]))
    return [_Axis(*parts) for parts in zip(chosen, extents, sizes, scales, rois)]


def _scaled(extent: Extent, scale: float) -> Extent:
    """The size a dimension is scaled to: floor(extent * scale), of a product in fp32, in which 0.7 * 10 is 7."""
    if isinstance(extent, int):
        return int(np.float32(extent) * np.float32(scale))
    ratio = Fraction(scale).limit_denominator(4096)
    return X.plain(extent * ratio.numerator // ratio.denominator)


def _ratio(size: Extent, extent: Extent) -> float | None:
    """size / extent where that is one number whatever the sizes are."""
    if isinstance(size, int) and isinstance(extent, int):
        return size / max(extent, 1)
    times = exact(size, extent)
    if times is None:
        shrunk = exact(extent, size)
        return 1 / shrunk if isinstance(shrunk, int) else None
    return float(times) if isinstance(times, int) else None


def _resized(call: Call, x: Value, axes: list[_Axis], transformation: str, nearest: str) -> Value:
    work = x if x.is_float or call.attribute("mode") == "nearest" else x.cast("f32")
    for a in axes:
        if isinstance(a.size, int) and a.size == 0:
            work = work.part(a.axis, 0, 0)
            continue
        if a.is_identity:
            continue
        if not a.is_fixed:
            work = _along_sizes(call, work, a, transformation, nearest)
        else:
            check_table(8 * int(a.size))  # coordinates, shares and places of every element along it
            work = _along(call, work, a, transformation, nearest)
    if work.dtype == x.dtype:
        return work
    limits = np.iinfo(DTYPES[x.dtype])
    return clip(emit("round", work), float(limits.min), float(limits.max)).cast(x.dtype)


def _along_sizes(call: Call, x: Value, a: _Axis, transformation: str, nearest: str) -> Value:
    """Along a dimension whose extent is known only at run time: coordinates are computed, not tabulated."""
    mode = call.attribute("mode", "nearest")
    times = exact(a.size, a.extent)
    if mode == "nearest" and isinstance(times, int):
        sample = _Axis(a.axis, 5, 5 * times, a.scale, a.roi)
        places = _nearest(_coordinates(call, sample, transformation), nearest)
        if (np.clip(places, 0, 4) == np.repeat(np.arange(5), times)).all():
            return _times(x, a.axis, times)
    if transformation not in _FORMULAS or mode not in ("nearest", "linear") or call.attribute("antialias"):
        raise call.error(
            f"mode '{mode}' with '{transformation}' needs sizes known at build time",
            "build for one shape with --shape instead of --dim",
        )
    extent, size_ = size(a.extent).cast("f32"), size(a.size).cast("f32")
    scale = size_ / extent if a.scale is None else constant(a.scale, "f32")
    where = _FORMULAS[transformation](iota(a.size, 0, 1).cast("f32"), scale, extent, size_)
    last = size(a.extent) - 1
    if mode == "nearest":
        whole = {
            "round_prefer_floor": lambda: emit("ceil", where - 0.5),
            "round_prefer_ceil": lambda: emit("floor", where + 0.5),
            "floor": lambda: emit("floor", where),
            "ceil": lambda: emit("ceil", where),
        }[nearest]()
        return x.gather(clip(whole.cast("i64"), 0, last), a.axis)
    low = emit("floor", where)
    weight = (where - low).reshape(*(a.size if d == a.axis else 1 for d in range(x.rank)))
    first = low.cast("i64")
    left, right = (x.gather(clip(first + k, 0, last), a.axis) for k in (0, 1))
    return left * (1.0 - weight) + right * weight


#: Coordinates in the input by output position, scale, and the extents of the input and of the output.
_FORMULAS: dict[str, Callable[[Value, Value, Value, Value], Value]] = {
    "asymmetric": lambda y, scale, n, m: y / scale,
    "half_pixel": lambda y, scale, n, m: (y + 0.5) / scale - 0.5,
    "pytorch_half_pixel": lambda y, scale, n, m: select(m > 1, (y + 0.5) / scale - 0.5, 0.0),
    "align_corners": lambda y, scale, n, m: y * select(m > 1, (n - 1) / (m - 1), 0.0),
}


def _nearest(where: np.ndarray, nearest: str) -> np.ndarray:
    """Positions of the nearest elements, not yet clipped."""
    whole = {
        "round_prefer_floor": np.ceil(where - 0.5),
        "round_prefer_ceil": np.floor(where + 0.5),
        "floor": np.floor(where),
        "ceil": np.ceil(where),
    }[nearest]
    return np.asarray(whole.astype(np.int64))


def _times(x: Value, axis: int, times: int) -> Value:
    """Every element ``times`` times: a broadcast, which costs no table."""
    extent = x.shape[axis]
    shape = [*x.shape[: axis + 1], times, *x.shape[axis + 1 :]]
    return x.unsqueeze(axis + 1).broadcast(*shape).reshape(*x.shape[:axis], extent * times, *x.shape[axis + 1 :])


def _along(call: Call, x: Value, a: _Axis, transformation: str, nearest: str) -> Value:
    where = _coordinates(call, a, transformation)
    if call.attribute("mode", "nearest") == "nearest":
        y = repeated(x, np.clip(_nearest(where, nearest), 0, a.extent - 1), a.axis)
    else:
        y = _weighted(call, x, a, where)
    outside = (where < 0) | (where > a.extent - 1)
    if transformation == "tf_crop_and_resize" and outside.any():
        mask = constant(outside).reshape(*(a.size if d == a.axis else 1 for d in range(x.rank)))
        return select(mask, call.attribute("extrapolation_value"), y)
    return y


def _coordinates(call: Call, a: _Axis, transformation: str) -> np.ndarray:
    """Input coordinate of every output position."""
    y = np.arange(a.size, dtype=np.float64)
    length = a.scale * a.extent
    if transformation == "align_corners":
        where = np.zeros(a.size) if length == 1 else y * (a.extent - 1) / (length - 1)
    elif transformation == "asymmetric":
        where = y / a.scale
    elif transformation == "tf_crop_and_resize":
        start, end = a.roi
        middle = (end - start) * (a.extent - 1)
        where = np.full(a.size, middle / 2) if length == 1 else y * middle / (length - 1)
        where = where + start * (a.extent - 1)
    elif transformation == "pytorch_half_pixel" and a.size == 1:
        where = np.zeros(1)
    elif transformation in ("half_pixel", "pytorch_half_pixel"):
        where = (y + 0.5) / a.scale - 0.5
    elif transformation == "half_pixel_symmetric":
        where = a.extent / 2 * (1 - a.size / length) + (y + 0.5) / a.scale - 0.5
    elif transformation == "tf_half_pixel_for_nn":
        where = (y + 0.5) / a.scale
    else:
        raise call.error(f"coordinate_transformation_mode '{transformation}' is unknown")
    # Division leaves dust beside whole numbers, and floor would see it.
    return np.asarray(np.round(where * 2.0**32) / 2.0**32)


def repeated(x: Value, places: np.ndarray, axis: int) -> Value:
    """Gathering every element the same number of times is a broadcast, which costs no table."""
    extent = x.shape[axis]
    if extent and len(places) % extent == 0 and len(places) > extent:
        times = len(places) // extent
        if (places == np.repeat(np.arange(extent), times)).all():
            return _times(x, axis, times)
    return x.gather(places, axis)


def _weighted(call: Call, x: Value, a: _Axis, where: np.ndarray) -> Value:
    """The sum over taps of inputs times weights; at the border the outermost element is repeated."""
    kernel, reach = _kernel(call)
    shrink = min(a.scale, 1.0) if call.attribute("antialias") else 1.0
    half = reach / shrink
    # All whole numbers in (where - half, where + half]: the weight at the far ends is 0.
    check_table(len(where), 8 * ceil(2 * half))
    first = np.floor(where - half).astype(np.int64) + 1
    taps = first[:, None] + np.arange(ceil(2 * half))[None, :]
    weights = kernel((taps - where[:, None]) * shrink)
    if call.attribute("antialias"):
        weights = weights / weights.sum(axis=1, keepdims=True)
    if call.attribute("exclude_outside"):
        weights = np.where((taps < 0) | (taps >= a.extent), 0, weights)
        weights = weights / weights.sum(axis=1, keepdims=True)
    taps = np.clip(taps, 0, a.extent - 1)
    if taps.shape[1] > MOST_TAPS and 0 < a.axis == x.rank - 1 and a.extent * a.size <= MOST_SHARES:
        shares = np.zeros((a.extent, a.size))
        np.add.at(shares, (taps, np.arange(a.size)[:, None]), weights)
        return x @ constant(shares, x.dtype)
    shape = [a.size if d == a.axis else 1 for d in range(x.rank)]
    total: Value | None = None
    for k in range(taps.shape[1]):
        if not weights[:, k].any():
            continue
        term = x.gather(taps[:, k], a.axis) * constant(weights[:, k], x.dtype).reshape(*shape)
        total = term if total is None else total + term
    assert total is not None
    return total


def _kernel(call: Call) -> tuple[Weights, int]:
    """Weight by distance, and the distance from which it is 0."""
    mode = call.attribute("mode")
    if mode == "linear":
        return lambda d: np.maximum(1 - np.abs(d), 0), 1
    if mode == "cubic":
        a = call.attribute("cubic_coeff_a", -0.75)

        def cubic(d: np.ndarray) -> np.ndarray:
            d = np.abs(d)
            near = (a + 2) * d**3 - (a + 3) * d**2 + 1
            far = a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
            return np.where(d <= 1, near, np.where(d < 2, far, 0))

        return cubic, 2
    raise call.error(f"mode '{mode}' is unknown")

"""Values of the frontends beside numpy: movements of drawn sizes, also where they crop or leave nothing."""

from __future__ import annotations

import numpy as np
import pytest

from edgec.errors import ModelError
from edgec.frontend.values import Value, concat
from edgec.ir import evaluate
from edgec.ir.graph import Graph, placeholder
from edgec.ir.types import Type

SEEDS = range(30)


def drawn(seed: int) -> tuple[np.random.Generator, np.ndarray, Value]:
    random = np.random.default_rng(seed)
    x = random.standard_normal(tuple(random.integers(1, 6, random.integers(1, 4)))).astype(np.float32)
    return random, x, Value(placeholder("x", Type("f32", x.shape)))


def equal(value: Value, x: np.ndarray, want: np.ndarray) -> None:
    assert value.shape == want.shape
    got = evaluate.run(Graph((placeholder("x", Type("f32", x.shape)),), (("y", value.node),)), {"x": x})["y"]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_pad(seed: int) -> None:
    """A negative amount crops, up to nothing."""
    random, x, value = drawn(seed)
    before, after = random.integers(-3, 4, (2, x.ndim)).tolist()
    for d, n in enumerate(x.shape):  # no more is cropped than there is
        before[d] = max(before[d], -n)
        after[d] = max(after[d], -(n + min(before[d], 0)))
    cut = tuple(slice(max(-b, 0), n - max(-a, 0)) for b, a, n in zip(before, after, x.shape))
    around = [(max(b, 0), max(a, 0)) for b, a in zip(before, after)]
    equal(value.pad(before, after, 2.5), x, np.pad(x[cut], around, constant_values=2.5))


@pytest.mark.parametrize("seed", SEEDS)
def test_parts_and_turns(seed: int) -> None:
    random, x, value = drawn(seed)
    axis = int(random.integers(x.ndim))
    start, stop = sorted(random.integers(0, x.shape[axis] + 1, 2).tolist())
    step = int(random.integers(1, 4))
    window = tuple(slice(start, stop, step) if d == axis else slice(None) for d in range(x.ndim))
    equal(value.part(axis, start, stop, step), x, x[window])
    axes = sorted(random.choice(x.ndim, int(random.integers(x.ndim + 1)), replace=False).tolist())
    equal(value.flip(*axes), x, np.flip(x, axes))
    equal(value.swap(0, axis), x, np.swapaxes(x, 0, axis))
    equal(concat([value, value * 2.0], axis), x, np.concatenate([x, x * 2], axis))
    equal(concat([value] * 3, axis), x, np.concatenate([x] * 3, axis))


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_that_are_gathered(seed: int) -> None:
    """In any order, or one after the other, forwards and backwards."""
    random, x, value = drawn(seed)
    axis = int(random.integers(x.ndim))
    n = x.shape[axis]
    start, step = int(random.integers(n)), int(random.choice([-2, -1, 1, 2, 3]))
    line = np.arange(start, n if step > 0 else -1, step)
    for places in (random.integers(0, n, (2, 3)), random.integers(0, n, 3), line, line[:1], np.repeat(line[:1], 2)):
        equal(value.gather(places, axis), x, np.take(x, places, axis))


@pytest.mark.parametrize("seed", SEEDS)
def test_sums_and_shapes(seed: int) -> None:
    random, x, value = drawn(seed)
    axes = sorted(random.choice(x.ndim, int(random.integers(1, x.ndim + 1)), replace=False).tolist())
    for combine, numpy in (("add", np.sum), ("mul", np.prod), ("max", np.max), ("min", np.min)):
        for keep in (True, False):
            equal(value.reduce(combine, [a - x.ndim for a in axes], keep), x, numpy(x, tuple(axes), keepdims=keep))
    equal(value.mean(axes), x, x.mean(tuple(axes), keepdims=True))
    equal(value.reshape(x.size), x, x.reshape(-1))
    equal(value.unsqueeze(0, x.ndim + 1), x, x[None, ..., None])
    equal(value.unsqueeze(0, -1).squeeze(0, -1), x, x)


def test_dimensions_that_cannot_be_meant() -> None:
    x = Value(placeholder("x", Type("f32", (2, 1))))
    assert x.unsqueeze(1, 0).shape == (1, 1, 2, 1) and x.squeeze(1).shape == (2,)
    with pytest.raises(ModelError, match="is not 1 and cannot be squeezed"):
        x.squeeze(0)
    with pytest.raises(ModelError, match="name a dimension twice"):
        x.unsqueeze(1, -3)

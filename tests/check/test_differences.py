"""Gradients held against slopes of a loss: exact ones pass, wrong ones do not."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from chance import RANDOM

from edgec.check.differences import apart_from_differences
from edgec.check.numpy_training import LARGE_RATE, gradient_behind
from edgec.check.training import _apart, _losses_apart, _widened
from edgec.differentiate.optimizers import optimizer_of

WEIGHTS = {"a": (3, 4), "b": (5,), "tiny": (2, 2), "zero": (7,)}


def loss_of(weights: Mapping[str, np.ndarray]) -> float:
    """A loss that is no polynomial, of weights of sizes far apart; one weight begins as zeros."""
    a, b, tiny, zero = (weights[n] for n in WEIGHTS)
    return float(np.sin(a).sum() * 10 + (b**3).sum() + 1e-4 * np.exp(tiny).sum() + np.tanh(zero).sum())


def begun() -> dict[str, np.ndarray]:
    return {n: RANDOM.standard_normal(s) * (n != "zero") for n, s in WEIGHTS.items()}


def gradients(w: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {
        "a": np.cos(w["a"]) * 10, "b": 3 * w["b"] ** 2, "tiny": 1e-4 * np.exp(w["tiny"]),
        "zero": 1 - np.tanh(w["zero"]) ** 2,
    }  # fmt: skip


def test_right_gradients_pass() -> None:
    weights = begun()
    assert apart_from_differences(loss_of, weights, gradients(weights)) < 1e-7


@pytest.mark.parametrize("name", ["a", "b", "zero"])
@pytest.mark.parametrize("wrong", ["scaled", "of another sign", "an element", "none"])
def test_wrong_gradients_do_not(name: str, wrong: str) -> None:
    weights = begun()
    found = gradients(weights)
    largest = np.unravel_index(np.abs(found[name]).argmax(), found[name].shape)
    if wrong == "an element":
        found[name][largest] *= 1.5
    else:
        found[name] = found[name] * {"scaled": 1.01, "of another sign": -1, "none": 0}[wrong]
    assert apart_from_differences(loss_of, weights, found) > 1e-4


@pytest.mark.parametrize("size", [1e-3, 1e-6, 1e-9, 1e-15])
def test_small_weights_hide_no_wrong_gradient(size: float) -> None:
    """A weight that begins all but zero goes less far, and the others as far as without it."""
    weights = {**begun(), "small": RANDOM.standard_normal(3) * size}

    def loss(w: Mapping[str, np.ndarray]) -> float:
        return loss_of(w) + 0.5 * float((w["small"] ** 2).sum())

    right = {**gradients(weights), "small": weights["small"]}
    assert apart_from_differences(loss, weights, right) < 1e-6
    assert apart_from_differences(loss, weights, {**right, "b": right["b"] * 1.01}) > 1e-4


def test_infinite_weights_stay_where_they_are() -> None:
    """A mask among the weights: minus infinity, whatever is added."""
    weights = {**begun(), "mask": np.array([0.5, -np.inf, 0.1])}

    def loss(w: Mapping[str, np.ndarray]) -> float:
        return loss_of(w) + float(np.exp(w["mask"]).sum())

    right = {**gradients(weights), "mask": np.exp(weights["mask"])}
    assert apart_from_differences(loss, weights, right) < 1e-6
    assert apart_from_differences(loss, weights, {**right, "mask": right["mask"] * 1.01}) > 1e-4


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_what_is_no_number_does_not_pass(number: float) -> None:
    weights = begun()
    right = gradients(weights)
    assert apart_from_differences(lambda _: number, weights, right) == np.inf
    for name in WEIGHTS:
        broken = np.where(np.arange(right[name].size).reshape(right[name].shape) == 1, number, right[name])
        assert apart_from_differences(loss_of, weights, {**right, name: broken}) == np.inf


def test_gradients_that_vanish_prove_nothing() -> None:
    """A constant loss, and one whose change is less than its rounding."""
    weights = begun()
    nothing = {n: np.zeros(s) for n, s in WEIGHTS.items()}
    assert apart_from_differences(lambda w: 3.0, weights, nothing) == 0.0
    rounded = {n: np.full(s, 1e-30) for n, s in WEIGHTS.items()}
    assert apart_from_differences(lambda w: 3.0 + 1e-16 * float(w["a"].sum()), weights, rounded) == 0.0


def test_a_reference_without_numbers_widens_no_bound() -> None:
    """An overflow in single precision says nothing of the errors that compiled code may have."""
    assert _widened(1e-4, 1e-3) == 2e-3
    assert [_widened(1e-4, own) for own in (np.nan, np.inf)] == [1e-4, 1e-4]
    known = {"a": np.ones(3), "b": np.ones(3)}
    for name in known:
        assert _apart({**known, name: np.full(3, np.nan)}, known) == (np.inf, name)
    assert _losses_apart([1.0, np.nan, 1.0], [1.0] * 3) == np.inf


def test_infinite_weights_show_no_gradient() -> None:
    before = np.array([1.0, -np.inf], np.float32)
    for text in ("sgd:lr=1", "adamw:lr=1"):
        o = optimizer_of(text)
        kept = {"m": before - np.float32(2 * LARGE_RATE), "m_first": np.full(2, 2 * (1 - o.beta1))}
        np.testing.assert_allclose(gradient_behind(o, kept, "m", before, 1), [2.0, 0.0])

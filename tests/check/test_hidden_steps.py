"""Mistakes that show in few kernels, steps or inputs: integers to the bit, sums of products, steps of a chain."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from edgec.check import lively
from edgec.check.lively import LEAST, _is_exact, _least
from edgec.ir.graph import Graph, constant, placeholder
from edgec.ir.types import Type
from edgec.ops import node


def block(*nodes: object, inputs: tuple[object, ...] = ()) -> object:
    return SimpleNamespace(nodes=nodes, inputs=inputs)


def steps(*blocks: object) -> object:
    """A kernel of these steps."""
    return SimpleNamespace(steps=[SimpleNamespace(block=b) for b in blocks])


def test_integers_of_integers_are_exact() -> None:
    x, f = (placeholder(n, Type(t, (4,))) for n, t in (("x", "i8"), ("f", "f32")))
    total = node("add", node("cast", x, to="i32"), node("cast", x, to="i32"))
    code = node("cast", node("round", f), to="i8")
    sums, codes = block(total, inputs=(x,)), block(code, inputs=(f,))
    casts = block(node("cast", f, to="i32"), inputs=(f,))
    assert _is_exact(steps(sums))  # type: ignore[arg-type]
    assert not _is_exact(steps(codes))  # type: ignore[arg-type]
    assert not _is_exact(steps(casts))  # type: ignore[arg-type]
    assert not _is_exact(steps(codes, sums))  # type: ignore[arg-type]


def test_sums_of_products_are_held_to_the_tolerance() -> None:
    x = placeholder("x", Type("f32", (1, 4)))
    product = node("matmul", x, constant(np.ones((4, 4), np.float32)))
    root = node("sqrt", product)
    assert _least(block(product), 1e-4) == 2e-4  # type: ignore[arg-type]
    assert _least(block(product, root), 1e-4) == LEAST  # type: ignore[arg-type]
    assert _least(block(product), 0.1) == LEAST  # type: ignore[arg-type]


@pytest.mark.parametrize("steps, expected", [(0, 32), (1, 32), (5, 160), (1000, 300)])
def test_chains_are_run_as_often_as_they_have_steps(steps: int, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = [SimpleNamespace(steps=()), SimpleNamespace(steps=(None,) * steps)]
    built = SimpleNamespace(
        program=SimpleNamespace(kernels=kernels), stages=SimpleNamespace(graph=None),
        options=SimpleNamespace(name="net", templates=()),
    )  # fmt: skip
    seen: list[object] = []
    monkeypatch.setattr(lively, "Kernels", lambda *_: None)
    monkeypatch.setattr(lively, "library_of", lambda _: None)
    monkeypatch.setattr(lively, "macs", lambda _: lively.MOST_MACS // 300)
    monkeypatch.setattr(lively, "_varied", lambda *_: {})
    monkeypatch.setattr(lively, "_wrong", lambda b, k, inputs, *_: seen.append(inputs) or ())
    assert not list(lively.wrong_kernels(built, [], 1e-4, lambda *_: None))  # type: ignore[arg-type]
    assert len(seen) == expected


def test_inputs_are_noise_alone_in_every_second_round() -> None:
    """In four sizes, so that a unit that small or large noise alone wakes is awake in some."""
    graph = Graph((placeholder("x", Type("f32", (400,))),), ())
    sizes = [
        float(np.abs(lively._varied(graph, seed, np.random.default_rng(seed))["x"]).mean()) for seed in range(1, 17, 2)
    ]
    for size, factor in zip(sizes, (0.1, 1.0, 10.0, 0.01) * 2):
        assert 0.7 * factor < size < 0.9 * factor  # the mean of a normal distribution's magnitudes is 0.798
    mixed = [lively._varied(graph, seed, np.random.default_rng(seed))["x"] for seed in range(0, 16, 2)]
    assert len({round(float(np.abs(m).mean()), 3) for m in mixed}) == 8

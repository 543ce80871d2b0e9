"""Comments at calls of kernels: operators, result and nodes, whatever a kernel has of them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from edgec.emit.function_comment import _nodes, _operators


def kernel(*blocks: tuple[str, ...] | None, names: tuple[str, ...] = ()) -> SimpleNamespace:
    steps = [
        SimpleNamespace(block=None if b is None else SimpleNamespace(nodes=[SimpleNamespace(op=o) for o in b]))
        for b in blocks
    ]
    return SimpleNamespace(steps=steps, names=names)


@pytest.mark.parametrize(
    "blocks, said",
    [
        ((), "border"), ((None,), "border"), ((("conv", "add", "conv"),), "conv add"),
        ((None, ("conv",)), "conv"), ((("conv",), ("add", "relu")), "conv, then add relu"),
    ],
)  # fmt: skip
def test_operators_of_every_step(blocks: tuple[tuple[str, ...] | None, ...], said: str) -> None:
    assert _operators(kernel(*blocks)) == said  # type: ignore[arg-type]


def test_six_nodes_at_most() -> None:
    names = tuple("abcdefg")
    assert _nodes(kernel(names=())) == ""  # type: ignore[arg-type]
    assert _nodes(kernel(names=names[:6])) == "  [a, b, c, d, e, f]"  # type: ignore[arg-type]
    assert _nodes(kernel(names=names)) == "  [a, b, c, d, e, f, ...]"  # type: ignore[arg-type]

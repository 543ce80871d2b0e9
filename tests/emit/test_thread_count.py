"""A network that takes less than waking a thread is built for one; whoever asks for more still gets its results."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from small_models import model, node, tensor_input, weights

import edgec


def product(size: int) -> onnx.ModelProto:
    """A matrix of ``size`` rows and columns times a constant one."""
    factor = np.linspace(-1, 1, size * size, dtype=np.float32).reshape(size, size)
    return model(
        [node("MatMul", ["x", "w"], ["y"])], [tensor_input("x", [size, size], 1)], ["y"], [weights("w", factor)]
    )


@pytest.mark.parametrize(("size", "workers"), [(8, 1), (256, 2)])
def test_threads_share_what_is_worth_it(size: int, workers: int) -> None:
    built = edgec.build(product(size), threads=2, device="host")
    assert built.program.threads == workers
    assert f"#define NET_MAX_THREADS {workers}\n" in (built.folder / "net.h").read_text(encoding="utf-8")
    assert ("ec_pool_run" in (built.folder / "net.c").read_text(encoding="utf-8")) == (workers > 1)
    x = {"x": np.random.default_rng(0).standard_normal((size, size), dtype=np.float32)}
    alone, shared = (edgec.Network(built.folder, threads).run(x)["y"] for threads in (1, 2))
    assert np.array_equal(alone, shared)
    assert edgec.check(built, samples=1).ok

"""Selection of sparse kernels, and the weights that they store."""

from __future__ import annotations

import numpy as np
import pytest
from compiled import program_of, target
from small_graphs import conv, graph, transpose, value, weights
from sparse_cases import kernels, last, matrix, sparse

from edgec import ops
from edgec.ir.graph import Graph, constant
from edgec.schedule.contract.sparse import FEWEST, Sparse, is_sparse
from edgec.schedule.program import Kernel

DEVICE = target("x86_64_avx512").device


def product(g: Graph) -> Kernel:
    return [k for k in program_of(g, DEVICE).kernels if k.template in ("contract", "winograd", "sparse")][-1]


def test_the_cases_are_sparse() -> None:
    """Else the kernel's own tests would test another one."""
    found = {name: product(g) for name, g in sparse() if name.startswith("sparse")}
    assert {name: k.sparsity for name, k in found.items() if k.template != "sparse"} == {}


def test_a_panel_stores_what_is_not_zero() -> None:
    w = np.zeros((50, 40), np.float32)
    w[3, 0] = w[17, 5] = w[18, 20] = w[44, 39] = 1
    kernel = product(graph(ops.node("matmul", value("a", 24, 50), constant(w))))
    params = kernel.schedule
    assert isinstance(params, Sparse) and params.width == 16 and params.stride == 1
    assert params.starts.data is not None and list(params.starts.data) == [0, 2, 3, 4]
    assert params.index.data is not None and list(params.index.data) == [3, 17, 18, 44]
    assert kernel.sparsity.density == pytest.approx(4 / 150)


def test_low_tiles_are_padded_to_whole_steps() -> None:
    params = product(graph(ops.node("matmul", value("a", 1, 100), matrix(100, 16, 0.1)))).schedule
    assert isinstance(params, Sparse) and params.stride * params.vectors == 8
    assert params.index.elements % params.stride == 0


def test_wide_blocks_are_taken_by_several_vectors() -> None:
    wide = np.random.default_rng(0).standard_normal((256, 64)).astype(np.float32)
    wide[np.random.default_rng(1).random(256) < 0.8] = 0
    params = product(graph(ops.node("matmul", value("a", 64, 256), constant(wide)))).schedule
    assert isinstance(params, Sparse) and params.vectors > 1


def test_few_or_scattered_zeros_are_refused_and_priced() -> None:
    w = np.random.default_rng(0).standard_normal((256, 64)).astype(np.float32)
    few = product(graph(ops.node("matmul", value("a", 64, 256), constant(w * (w > -1.0)))))
    assert few.template == "contract" and few.sparsity is None
    scattered = product(graph(ops.node("matmul", value("a", 64, 256), constant(w * (w > 0.3)))))
    assert scattered.template == "contract" and not scattered.sparsity.taken
    assert scattered.sparsity.density > 1 - scattered.sparsity.break_even > 0


def test_a_sum_by_fewer_products_needs_more_zeros() -> None:
    """Winograd's method is the dense price of a 3x3 convolution."""
    x = transpose(value("x", 1, 58, 58, 64), 0, 3, 1, 2)

    def priced(share: float) -> Kernel:
        random = np.random.default_rng(0)
        mask = (random.random((4, 64, 3, 3)) < share).repeat(16, 0)
        w = constant((mask * random.standard_normal(mask.shape)).astype(np.float32))
        return product(graph(last(conv(x, w))))

    assert priced(0.5).template == "winograd"
    assert priced(0.05).template == "sparse"
    assert priced(0.5).sparsity.break_even > product(pointwise(0.9)).sparsity.break_even


def pointwise(zeros: float) -> Graph:
    return graph(last(conv(value("x", 1, 64, 56, 56), kernels(64, 64, 1, 1, share=1 - zeros))))


def test_what_is_no_constant_stays_dense() -> None:
    both = product(graph(ops.node("matmul", value("a", 8, 64), value("b", 64, 32))))
    assert both.template == "contract" and both.sparsity is None
    assert product(graph(ops.node("matmul", value("a", 8, 64), weights(64, 32)))).template == "contract"


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("share", [0.0, 0.19, 0.21, 1.0])
def test_zeros_are_counted_as_far_as_they_decide(share: float, first: bool) -> None:
    values = np.ones((500, 400), np.float32)
    zeros = int(share * values.size)
    values.reshape(-1)[slice(zeros) if first else slice(values.size - zeros, None)] = 0
    assert is_sparse(values) is is_sparse(np.asfortranarray(values)) is (share > FEWEST)

"""Constant factors are packed once, for the schedule that was taken, and never for those that were only compared."""

from __future__ import annotations

from dataclasses import replace

import pytest
from chance import RANDOM
from compiled import program_of
from kernel_cases import convolutions, winograds
from small_graphs import conv, graph, pad, transpose, value, weights

from edgec import ops
from edgec.device.load import load_device
from edgec.fuse import plan
from edgec.ir.graph import Graph, constant
from edgec.schedule.build import schedule
from edgec.schedule.contract import contract, winograd
from edgec.schedule.options import ScheduleOptions
from edgec.schedule.variants import Variants


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The functions that pack, in the order of their calls."""
    calls: list[str] = []
    for module, name in ((contract, "in_panels"), (winograd, "transformed")):
        plain = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, plain=plain, name=name: calls.append(name) or plain(*a))
    return calls


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_product(packed: list[str], precision: str) -> None:
    weights = constant(RANDOM.standard_normal((64, 48)).astype("float32"))
    device = load_device("pixel_8")
    program = program_of(graph(ops.node("matmul", value("x", 8, 64), weights)), replace(device, precision=precision))
    assert [k.template for k in program.kernels if k.template == "contract"] and packed == ["in_panels"]


@pytest.mark.parametrize("device", ["x86_64_avx512", "x86_64_avx2", "pixel_8"])
def test_an_image_of_few_columns_has_lanes_along_channels(device: str) -> None:
    """Alone, a convolution gives channels first: rows of 3 would leave most lanes idle, and be packed for every row."""
    few = graph(conv(pad(value("x", 1, 128, 5, 5), 1, 1), weights(128, 128, 3, 3), stride=2))
    assert lane_factor(few, device) == "packed"
    products = graph(ops.node("matmul", value("a", 64, 40), transpose(value("b", 48, 40), 1, 0)))
    assert lane_factor(products, device) == "gathered"


def lane_factor(network: Graph, device: str) -> str:
    steps = (s.schedule for k in program_of(network, load_device(device)).kernels for s in k.steps)
    (found,) = {s.l_mode for s in steps if isinstance(s, contract.Contract)}  # of the pieces near the border, too
    return found


@pytest.mark.parametrize("device", ["x86_64_avx512", "pixel_8", "raspberry_pi_4"])
def test_a_result_in_rows_of_a_long_sum(device: str) -> None:
    """The weights are packed, and the result is stored in columns, as the image is too large to pack at run time."""
    network = dict(convolutions())["conv too long to pack"]
    last = program_of(network, load_device(device)).kernels[-1].schedule
    assert "contract" in [s.template for s in (last, *last.steps)]


def test_a_convolution_by_fewer_products(packed: list[str]) -> None:
    for name, network in winograds():
        packed.clear()
        program = program_of(network, load_device("x86_64_avx512"))
        if [k.template for k in program.kernels if k.template != "transpose"] == ["winograd"]:
            assert packed == ["transformed"], name
            return
    pytest.fail("no convolution by Winograd's method")


def test_variants_that_are_only_proposed(packed: list[str]) -> None:
    """And a variant that is taken in place of the usual one is the only one packed."""
    device, known = load_device("x86_64_avx512"), Variants()
    weights = constant(RANDOM.standard_normal((64, 48)).astype("float32"))
    fused = plan(graph(ops.node("matmul", value("x", 8, 64), weights)))
    schedule(fused, device, ScheduleOptions(variants=known))
    ((key, product),) = known.seen.items()
    packed.clear()
    other = product.variants("reassociates")[1]
    assert not packed
    (kernel,) = schedule(fused, device, ScheduleOptions(variants=Variants(frozen={key: other}))).kernels
    assert kernel.schedule.variant == other and packed == ["in_panels"]

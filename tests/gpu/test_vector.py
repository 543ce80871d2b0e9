"""Products of one vector on CUDA: where S is, factors that multiply the sums, what results load, and early launches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from chance import RANDOM
from emulated import Emulated, emulate

from edgec.device.load import load_device
from edgec.execute.executor import run_graph
from edgec.frontend.values import Value, constant, dequantized, emit
from edgec.fuse import plan
from edgec.ir.graph import Graph, placeholder
from edgec.ir.graph import constant as constant_node
from edgec.ir.types import DTYPES, Type
from edgec.schedule.build import schedule
from edgec.schedule.gpu.early_launch import early_launches
from edgec.schedule.gpu.vector import GpuVector
from edgec.schedule.options import ScheduleOptions

Operation = Callable[[Value], Value]


def mean(x: Value) -> Value:
    return x.sum([1]) * (1 / int(x.shape[1]))


def rms_norm(x: Value) -> Value:
    return x * (1.0 / emit("sqrt", mean(x * x) + 1e-5))


def divided(x: Value) -> Value:
    return x / emit("sqrt", mean(x * x) + 1e-5)


def layer_norm(x: Value) -> Value:
    centered = x - mean(x)
    return centered * (1.0 / emit("sqrt", mean(centered * centered) + 1e-5))


def unchanged(x: Value) -> Value:
    return x


#: S, its length, the number of results, whether S is in registers, and whether the sums get a factor.
CASES: dict[str, tuple[Operation, int, int, bool, bool]] = {
    "a norm": (rms_norm, 72, 20, True, True),
    "a norm by division": (divided, 320, 33, True, True),
    "a norm that several warps share": (rms_norm, 1536, 40, True, True),
    "a layer normalization": (layer_norm, 72, 20, False, False),
    "a vector as it is": (unchanged, 64, 24, True, False),
    "no whole pieces": (unchanged, 42, 24, False, False),
    "several rounds": (unchanged, 40, 3300, True, False),
}


def product(operation: Operation, depth: int, results: int) -> Graph:
    """``residual + gate * (S @ weights)``, the gate a constant."""
    x, residual = (Value(placeholder(n, Type("f32", (1, s)))) for n, s in (("x", depth), ("residual", results)))
    random = np.random.default_rng(results)
    weights = constant((random.standard_normal((depth, results)) / 8).astype(np.float32))
    gate = constant(random.standard_normal((1, results)).astype(np.float32))
    y = residual + gate * (operation(x) @ weights)
    return Graph((x.node, residual.node), (("y", y.node),))


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_products_of_a_vector(precision: str, tmp_path: Path) -> None:
    """Values against numpy; results of later rounds load what they need, too."""
    device = replace(load_device("cuda_sm90"), precision=precision)
    graphs = {name: product(*case[:3]) for name, case in CASES.items()}
    made = emulate(graphs, tmp_path, device, one_row=True)
    for name, (_, depth, results, in_registers, has_scale) in CASES.items():
        program = schedule(plan(graphs[name], gpu=True, one_row=True), device, ScheduleOptions(fp32_blocks=0))
        (record,) = [k.schedule for k in program.kernels if isinstance(k.schedule, GpuVector)]
        assert (record.tile.in_registers, record.scale is not None) == (in_registers, has_scale), name
        network = made[name]
        assert isinstance(network, Emulated), network
        given = {"x": RANDOM.standard_normal((1, depth)), "residual": RANDOM.standard_normal((1, results))}
        given = {n: a.astype(np.float32) for n, a in given.items()}
        want, got = run_graph(graphs[name], given)["y"], network(given)["y"]
        tolerance = 1e-4 if precision == "fp32" else 1e-2
        assert np.abs(got - want).max() <= tolerance * np.abs(want).max(), name


def coded(bits: int, depth: int, results: int, seed: int = 0) -> Value:
    """Weights of codes with a scale and an offset for every 32, which follow one another in a row."""
    random = np.random.default_rng(depth + seed)
    codes = random.integers(0, 1 << bits, (results, depth)).astype(DTYPES["u4" if bits == 4 else "u8"])
    scale, base = (random.standard_normal((results, depth // 32)).astype(np.float16) for _ in range(2))
    node, *numbers = (Value(constant_node(a)) for a in (codes, scale, base))
    return emit("transpose", dequantized(node, *numbers, axis=1, block=32), perm=(1, 0))


def coded_product(bits: int, depth: int, results: int) -> Graph:
    """A product of a norm with codes."""
    x = Value(placeholder("x", Type("f32", (1, depth))))
    return Graph((x.node,), (("y", (rms_norm(x) @ coded(bits, depth, results)).node),))


def test_products_with_codes(tmp_path: Path) -> None:
    """In registers a lane takes eight codes: some lanes have none, two warps share a row; a long row is not kept."""
    device = load_device("cuda_sm90")
    shapes = {(4, 96): (1, 1), (4, 1536): (2, 1), (8, 96): (1, 2), (8, 1536): (2, 2), (4, 6400): (1, 4)}
    graphs = {f"{bits}_{depth}": coded_product(bits, depth, 70) for bits, depth in shapes}
    made = emulate(graphs, tmp_path, device, one_row=True, few_bits=True)
    for (bits, depth), (ways, words) in shapes.items():
        network = made[f"{bits}_{depth}"]
        assert isinstance(network, Emulated), network
        (record,) = [k.schedule for k in network.program.kernels if isinstance(k.schedule, GpuVector)]
        assert (record.kind, record.tile.words, record.tile.in_registers) == (f"c{bits}", words, words < 4), depth
        assert record.tile.ways == ways or words == 4
        given = {"x": RANDOM.standard_normal((1, depth)).astype(np.float32)}
        want, got = run_graph(graphs[f"{bits}_{depth}"], given)["y"], network(given)["y"]
        assert np.abs(got - want).max() <= 1e-4 * np.abs(want).max(), (bits, depth)


@pytest.mark.parametrize("bits", [(4, 4), (8, 8), (4, 8), (8, 4)], ids=str)
def test_products_of_one_vector_share_a_kernel_where_codes_are_alike(bits: tuple[int, int]) -> None:
    """A gate and what it multiplies; a kernel reads codes of one format."""
    x = Value(placeholder("x", Type("f32", (1, 96))))
    gate, other = (x @ coded(b, 96, 70, seed) for seed, b in enumerate(bits))
    graph = Graph((x.node,), (("y", (emit("sigmoid", gate) * other).node),))
    planned = plan(graph, gpu=True, one_row=True, few_bits=True)
    kernels = schedule(planned, load_device("cuda_sm90"), ScheduleOptions(fp32_blocks=0)).kernels
    counts = [len(k.schedule.factors) if isinstance(k.schedule, GpuVector) else 0 for k in kernels]
    assert counts == ([2] if bits[0] == bits[1] else [0])


def test_a_factor_stays_inside_the_sum_where_numerics_are_exact() -> None:
    graph, device = product(rms_norm, 72, 20), load_device("cuda_sm90")
    options = ScheduleOptions(fp32_blocks=0, numeric="exact")
    kernels = schedule(plan(graph, gpu=True, one_row=True), device, options).kernels
    (record,) = [k.schedule for k in kernels if isinstance(k.schedule, GpuVector)]
    assert not record.tile.in_registers and record.scale is None


def test_light_products_start_light_ones_early() -> None:
    """One of more bytes neither starts another early nor is started so; the last kernel has none to start."""
    device = load_device("cuda_sm90")
    graphs = {"light": product(unchanged, 64, 24), "large": product(unchanged, 1024, 1100)}
    programs = {n: schedule(plan(g, gpu=True), device, ScheduleOptions(fp32_blocks=0)) for n, g in graphs.items()}
    (light,), (large,) = (p.kernels for p in programs.values())
    started = early_launches([light, light, large, large, light, light])
    assert [k.schedule.starts_next for k in started] == [True, False, False, False, True, False]

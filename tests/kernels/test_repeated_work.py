"""No kernel does more work than its operators do one by one: what a reduction gives is computed once, and kept.

Reductions over any dimensions, with element-wise work on what was reduced after them, are compiled and held against
the executor; the operations of their kernels are counted from the loops, as every build does. A build warns of them;
here a warning is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import kernel_cases
import numpy as np
import pytest
from chance import RANDOM, SEED, of
from compiled import FLAGS, STRICT, compile_graphs
from emulated import emulate
from small_graphs import (
    arrays,
    conv,
    graph,
    layernorm,
    mean,
    number,
    pad,
    relu,
    softmax,
    total,
    transpose,
    value,
    weights,
)  # fmt: skip

from edgec import ops
from edgec.device.device import Device
from edgec.device.load import load_device
from edgec.errors import EdgecError
from edgec.execute import invariants
from edgec.execute.invariants import RepeatedWork, warn_of_repeats
from edgec.fuse import grow, join, plan
from edgec.ir import evaluate, vector
from edgec.ir.graph import Graph, Node
from edgec.schedule import choose
from edgec.schedule import map as map_schedule
from edgec.schedule.build import schedule
from edgec.schedule.contract import operands
from edgec.schedule.flat import Flat, Weights
from edgec.schedule.gpu.attention import largest_head
from edgec.schedule.operations import asked, count
from edgec.schedule.program import Nest
from edgec.schedule.row import Row

TOLERANCE = 1e-4
NCHW, NHWC = (2, 18, 13, 11), (1, 37, 23, 3)


def centered(x: Node, *axes: int) -> Node:
    return ops.node("sub", x, mean(x, *axes))


def affine(x: Node, *shape: int) -> Node:
    return ops.node("add", ops.node("mul", x, weights(*shape)), weights(*shape))


def group_norm(x: Node, groups: int) -> Node:
    n, c, *rest = x.type.shape
    elements = c // groups * int(np.prod(rest))
    flat = layernorm(ops.node("reshape", x, shape=(n, groups, elements)), 2)
    return affine(ops.node("reshape", flat, shape=x.type.shape), c, *(1 for _ in rest))


def lengths(x: Node, *axes: int) -> Node:
    return ops.node("div", x, ops.node("sqrt", ops.node("add", total(ops.node("mul", x, x), *axes), number(1e-3))))


def below(x: Node, *axes: int) -> Node:
    """Of any type: the distance from the largest element."""
    return ops.node("sub", x, total(x, *axes, combine="max"))


def between_neighbors(x: Node, axis: int) -> Node:
    """Between each two neighbors along a dimension, weighted: an upsampling, one dimension of it."""
    shape = tuple(n - (d == axis) for d, n in enumerate(x.type.shape))
    sides = []
    for first in (0, 1):
        starts = tuple(first * (d == axis) for d in range(len(shape)))
        side = ops.node("slice", x, starts=starts, steps=(1,) * len(shape), shape=shape)
        sides.append(ops.node("mul", side, weights(*(n if d == axis else 1 for d, n in enumerate(shape)))))
    return ops.node("add", *sides)


def normal_forms() -> Iterator[tuple[str, Graph]]:
    x, y, z = value("x", *NCHW), value("x", *NHWC), value("x", 61, 35)
    yield "mean of an image, channels last", graph(centered(y, 1, 2))
    yield "the same, then channels first", graph(transpose(centered(y, 1, 2), 0, 3, 1, 2))
    yield "the same of channels first, read channels last", graph(centered(transpose(y, 0, 3, 1, 2), 2, 3))
    yield "mean of everything", graph(centered(x, 0, 1, 2, 3))
    for axes in ((0,), (1,), (2,), (3,), (0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (0, 3), (0, 2, 3), (1, 2, 3)):
        yield f"softmax over {axes}", graph(softmax(x, *axes))
        yield f"normalized over {axes}", graph(layernorm(x, *axes))
        yield f"unit length over {axes}", graph(lengths(x, *axes))
        for dtype in ("f64", "i64", "i32"):
            yield f"below the maximum over {axes}, {dtype}", graph(below(value("x", *NCHW, dtype=dtype), *axes))
    for groups in (1, 2, 6, 18):
        yield f"{groups} groups", graph(group_norm(x, groups))
        swapped = transpose(value("x", 2, 13, 11, 18), 0, 3, 1, 2)
        yield f"{groups} groups, channels last in memory", graph(group_norm(swapped, groups))
        yield f"{groups} groups, stored channels last", graph(transpose(group_norm(x, groups), 0, 2, 3, 1))
    for dtype in ("f32", "f64", "i64"):  # the choice is made by data, after the reduction
        v = value("x", 5, 13, 11, dtype=dtype)
        low = below(v, 0, 2)
        yield f"chosen, {dtype}", graph(ops.node("select", ops.node("lt", v, total(v, 0, 2, combine="min")), v, low))
    size = total(ops.node("abs", z), 1)
    unit = ops.node("mul", z, ops.node("div", number(1.0), size))
    yield "divided unless zero", graph(ops.node("select", ops.node("lt", number(0.0), size), unit, z))
    yield "leading dimension", graph(affine(layernorm(z, 0), 1, 35))
    yield "softmax of columns, transposed", graph(transpose(softmax(z, 0), 1, 0))
    yield "softmax of rows, transposed", graph(transpose(softmax(z, 1), 1, 0))
    # A sum of products that all elements read: of tokens, weighted.
    tokens = value("t", 1, 29, 40)
    pooled = total(ops.node("mul", value("a", 1, 29, 1), tokens), 1)
    yield "weighted sum of tokens, read by all", graph(ops.node("mul", pooled, value("k", 1, 29, 40)))
    yield "sums of products, read by all", graph(ops.node("mul", total(ops.node("mul", z, value("v", 1, 35)), 1), z))
    yield "unit length of columns", graph(ops.node("div", *(2 * [transpose(z, 1, 0)])), lengths(transpose(z, 1, 0), 1))
    yield "row of few", graph(layernorm(value("x", 300, 3), 1))
    for n in (2, 4, 8):  # several rows are in a vector
        yield f"unit length of rows of {n}", graph(lengths(value("x", 256, n), 1))
    yield "between neighbors of two dimensions", graph(between_neighbors(between_neighbors(x, 2), 3))
    curve = ops.node("exp", ops.node("sin", x))
    yield "between neighbors of what is computed", graph(between_neighbors(curve, 1))
    yield "scaled before it is reduced", graph(layernorm(affine(x, 18, 1, 1), 1, 2, 3))


FORMS = dict(normal_forms())


def read_by(y: Node) -> Node:
    """A random reader: element-wise, a matmul, a convolution, a part of a concatenation, or of a larger shape."""
    n = y.type.shape[-1]
    kind = int(RANDOM.integers(6))
    if kind == 0:
        return relu(y)
    if kind == 1 and y.type.rank > 1:
        return ops.node("matmul", y, weights(n, 9))
    if kind == 2:
        image = ops.node("reshape", y, shape=(1, y.type.elements // n, 1, n))
        return conv(pad(image, 0, 1), weights(7, y.type.elements // n, 1, 3)) if y.type.elements < 2000 else image
    if kind == 3:
        return ops.node("concat", relu(y), ops.node("mul", y, number(0.5)), y, axis=int(RANDOM.integers(y.type.rank)))
    if kind == 4:
        return ops.node("mul", ops.node("reshape", y, shape=(1, *y.type.shape)), weights(3, *(1 for _ in y.type.shape)))
    return y


def of_a_convolution() -> Node:
    """Groups of channels, or everything, normalized between two convolutions; they may be read in another shape."""
    channels, side = int(RANDOM.choice([6, 8, 24])), int(RANDOM.choice([3, 5, 8]))
    x = conv(pad(value("x", 1, 5, side, side), 1, 1), weights(channels, 5, 3, 3))
    if RANDOM.random() < 0.3:
        x = transpose(ops.node("reshape", x, shape=(1, channels, side * side)), 0, 2, 1)
        y = layernorm(ops.node("reshape", x, shape=(1, 1, channels * side * side)), 2)
        y = transpose(ops.node("reshape", y, shape=(1, side * side, channels)), 0, 2, 1)
        y = ops.node("reshape", y, shape=(1, channels, side, side))
    else:
        y = group_norm(x, int(RANDOM.choice([1, 2, 6 if channels != 8 else 4, channels])))
    y = ops.node("mul", y, ops.node("sigmoid", y)) if RANDOM.random() < 0.5 else y
    return conv(pad(y, 1, 1), weights(4, channels, 3, 3)) if RANDOM.random() < 0.7 else y


def drawn(count: int) -> Iterator[tuple[str, Graph]]:
    """Reductions over random dimensions of random shapes, in random orders of memory, with random readers."""
    makers: tuple[Callable[..., Node], ...] = (centered, softmax, layernorm, lengths)
    for k in range(count):
        rank = int(RANDOM.integers(2, 6))
        shape = tuple(int(n) for n in RANDOM.choice([1, 2, 3, 5, 8, 17, 33], rank))
        axes = tuple(d for d in range(rank) if RANDOM.random() < 0.5) or (int(RANDOM.integers(rank)),)
        exact = RANDOM.random() < 0.2  # types without vectors
        x = value("x", *shape, dtype=str(RANDOM.choice(["f64", "i64"])) if exact else "f32")
        perm = tuple(int(d) for d in RANDOM.permutation(rank))
        moved = transpose(x, *perm) if RANDOM.random() < 0.5 else x
        if RANDOM.random() < 0.3 and not exact:
            moved = affine(moved, *moved.type.shape[1:])
        y = below(moved, *axes) if exact else makers[int(RANDOM.integers(len(makers)))](moved, *axes)
        if RANDOM.random() < 0.3 and not exact:
            y = affine(y, *(n if RANDOM.random() < 0.5 else 1 for n in y.type.shape))
        if RANDOM.random() < 0.3:
            y = ops.node("reshape", y, shape=(y.type.elements // y.type.shape[-1], y.type.shape[-1]))
        if RANDOM.random() < 0.3:
            y = transpose(y, *reversed(range(y.type.rank)))
        readers = [y] if exact else [read_by(y) for _ in range(int(RANDOM.integers(1, 3)))]
        yield f"{k}: {shape} over {axes}, {[r.op for r in readers]}", graph(*dict.fromkeys(readers))
        if k % 6 == 0:
            yield f"{k}: of a convolution", graph(of_a_convolution())


#: Devices that graphs are planned for, on whatever machine.
PLANNED = ("x86_64_avx2", "x86_64_avx512", "generic", "jetson_orin_nano")


@cache
def random_graphs() -> dict[str, Graph]:
    with of("graphs of repeated work"):
        return dict(drawn(50))


def differences(graphs: dict[str, Graph], made: dict[str, object]) -> list[str]:
    wrong = []
    for k, (name, one) in enumerate(graphs.items()):
        network, inputs = made[name], arrays(one, SEED % 1000 + k)
        if isinstance(network, EdgecError):
            wrong.append(f"{name}: {network}")
            continue
        got, want = network(inputs), evaluate.run(one, inputs)  # type: ignore[operator]
        far = max(float(np.max(np.abs(got[y] - want[y]))) / max(float(np.max(np.abs(want[y]))), 1e-3) for y in want)
        if not far <= TOLERANCE:
            wrong.append(f"{name}: {far:.1e} (seed {SEED})")
    return wrong


@pytest.mark.parametrize("device", ["host", "generic"])
@pytest.mark.parametrize("graphs", ["forms", "random"])
def test_results(graphs: str, device: str, tmp_path: Path) -> None:
    chosen = FORMS if graphs == "forms" else random_graphs()
    flags = FLAGS if device == "host" else STRICT
    assert not differences(chosen, compile_graphs(chosen, tmp_path, flags=flags, device=load_device(device)))


@pytest.mark.parametrize("graphs", ["forms", "random"])
def test_results_on_a_gpu(graphs: str, tmp_path: Path) -> None:
    chosen = dict(list((FORMS if graphs == "forms" else random_graphs()).items())[::3])
    assert not differences(chosen, emulate(chosen, tmp_path, load_device("jetson_orin_nano")))


@pytest.mark.parametrize("device", PLANNED)
@pytest.mark.parametrize("name", FORMS)
def test_no_kernel_repeats_work(name: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(FORMS[name], device, monkeypatch)


@pytest.mark.parametrize("device", PLANNED)
def test_no_kernel_of_random_graphs_repeats_work(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for one in random_graphs().values():
        check(one, device, monkeypatch)


@pytest.mark.parametrize("device", ["x86_64_avx2", "jetson_orin_nano", "mali_g78"])
def test_no_kernel_of_other_cases_repeats_work(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cases of all templates; those of scattering are no formulas, nor are those of attention's gradients."""
    for group, found in kernel_cases.cases().items():
        for one in list(found.values())[:: 1 if len(found) < 10 else 5]:
            if group not in ("scattering", "sorting", "scanning", "recurring", "selection", "descending", "attending"):
                check(one, device, monkeypatch)


def check(one: Graph, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The invariant, however few the operations are."""
    monkeypatch.setattr(invariants, "LEAST_OPERATIONS", 0)
    target = load_device(device)
    head = largest_head(target) if target.is_gpu else 0
    warn_of_repeats(schedule(plan(one, gpu=target.is_gpu, head=head), target))


def rejected(one: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RepeatedWork, match="times the most"):
        check(one, "host", monkeypatch)


def test_a_map_that_reduces_for_every_element_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was: a mean inside the loops that it does not depend on."""
    kinds = [(k, a) for k, a in choose.SCHEDULES if a is not choose._row]
    monkeypatch.setattr(choose, "SCHEDULES", tuple(kinds))
    check(graph(centered(value("x", *NCHW), 1, 3)), "host", monkeypatch)  # without vectors, but not repeated
    monkeypatch.setattr(map_schedule, "independent", lambda body, loops: ())
    rejected(graph(centered(value("x", *NCHW), 1, 3)), monkeypatch)


def test_a_row_that_repeats_a_reduction_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop of the result among the tasks, each of which would reduce anew."""

    def with_tasks(flat: Flat, device: Device, weights: Weights) -> Row | None:
        found = row_of(flat, device, weights)
        return replace(found, loops=(*found.loops, *found.walk)) if found is not None else None

    row_of = choose.row
    monkeypatch.setattr(choose, "row", with_tasks)
    rejected(graph(layernorm(value("x", *NCHW), 1, 3)), monkeypatch)


def test_a_sum_of_products_that_is_repeated_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was: the loop of what reads a sum around the matmul that computes it."""
    one = FORMS["weighted sum of tokens, read by all"]
    monkeypatch.setattr(grow, "_sums_products", lambda *_: False)
    check(one, "host", monkeypatch)  # in a map, which holds the sums
    monkeypatch.setattr(operands, "is_repeated", lambda *_: False)
    rejected(one, monkeypatch)


def test_planner_that_fuses_what_is_read_often_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exponential of a row, computed for every row that it is multiplied by."""
    scaled = ops.node("mul", value("x", 61, 35), ops.node("exp", value("z", 1, 35)))
    check(graph(scaled), "host", monkeypatch)
    monkeypatch.setattr(join, "_repeats", lambda *_: None)
    rejected(graph(scaled), monkeypatch)


def test_planner_that_computes_neighbors_twice_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was: the first dimension of an upsampling, computed for each of the two that the second reads."""
    monkeypatch.setattr(join, "_places_read", lambda *_: 1)
    for name in ("between neighbors of two dimensions", "between neighbors of what is computed"):
        rejected(FORMS[name], monkeypatch)


def test_what_a_price_decided_is_no_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """A product of two, computed for each of the few rows that read it: cheaper than another kernel."""
    sides = ops.node("mul", value("a", 1, 35), value("b", 1, 35))
    one = graph(ops.node("add", value("x", 3, 35), sides))
    repeated = [c for c in plan(one).decisions.choices if c.taken.name == join.AGAIN]
    assert repeated
    check(one, "host", monkeypatch)
    program = schedule(plan(one), load_device("host"))
    with pytest.raises(RepeatedWork):
        warn_of_repeats(replace(program, choices={}))


def test_what_all_branches_of_choices_compute_is_computed_before_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The angle of two numbers: one arctangent, whatever quadrant they are in."""
    y, x = value("y", 61, 35), value("x", 61, 35)
    angle = ops.node("atan", ops.node("div", y, x))
    turned = [ops.node("add", angle, number(turn)) for turn in (3.14159, -3.14159)]
    behind = ops.node("select", ops.node("lt", number(0.0), y), *turned)
    one = graph(ops.node("select", ops.node("lt", x, number(0.0)), behind, angle))
    check(one, "host", monkeypatch)
    monkeypatch.setattr(vector, "_surely_computed", lambda *_: set())
    rejected(one, monkeypatch)


def test_choices_on_positions_are_counted_by_their_share() -> None:
    """Of a concatenation each part is computed where it is, and nowhere else."""
    parts = [ops.node("exp", value(f"x{k}", n, 7)) for k, n in enumerate((3, 11, 2))]
    joined = ops.node("concat", *parts, axis=0)
    for block in plan(graph(ops.node("mul", joined, number(2.0)))).blocks:
        nests = [Nest.over([tuple(v for v in block.formula.variables if v.op == "var")], (block.formula.body,))]
        assert count(nests) == asked(block)


@pytest.mark.parametrize("width", ["i32", "i64"])
def test_places_are_free_of_any_width(width: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves of trees in i32: the clamp of each place is inside the load, and no work that the gather repeats."""
    table, places = weights(5000, 1), value("leaves", 24, 100, dtype=width)
    check(graph(ops.node("gather", table, places, axis=0)), "host", monkeypatch)


@pytest.mark.parametrize("dtype", ["f32", "i64"])
def test_a_reduction_in_one_branch_of_a_choice_is_computed_once(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The least of a row, which rows without a flag do not need; lanes have no 64 bits."""
    x, flag = ops.node("cast", value("x", 61, 35), to=dtype), ops.node("lt", value("flag", 61, 1), number(0.0))
    apart = ops.node("sub", x, ops.node("reduce", x, combine="min", axes=(1,)))
    check(graph(ops.node("select", flag, apart, x)), "host", monkeypatch)
    below = ops.node("lt", x, ops.node("reduce", x, combine="max", axes=(1,)))
    check(graph(ops.node("select", flag, below, ops.node("not", below))), "host", monkeypatch)

"""Parts of long sums that pass over tasks, and panels of weights and their gradients that are packed at run time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from compiled import program_of, target, write_graphs
from several_threads import hold_on_threads
from small_graphs import conv, graph, transpose, value

from edgec import ops
from edgec.ir.graph import Graph, Node, constant
from edgec.schedule.contract.contract import Contract
from edgec.schedule.contract.passes import tasks_of_pass


def inside(name: str, batch: int, channels: int, size: int) -> Node:
    """A value that a convolution computes, with channels last."""
    weights = np.random.default_rng(channels).uniform(-1, 1, (channels, 3, 1, 1)).astype(np.float32)
    return conv(value(name, batch, 3, size, size), constant(weights))


def of_weights(batch: int, channels: int, outputs: int, size: int) -> Graph:
    """The gradient of weights of a 3x3 convolution, added to a momentum."""
    x, g = inside("x", batch, channels, size + 2), inside("g", batch, outputs, size)
    found = transpose(conv(transpose(x, 1, 0, 2, 3), transpose(g, 1, 0, 2, 3)), 1, 0, 2, 3)
    velocity = value("velocity", outputs, channels, 3, 3)
    return graph(ops.node("add", ops.node("mul", velocity, constant(np.float32(0.5))), found))


def of_operand(outputs: int, channels: int, size: int) -> Graph:
    """The gradient of the operand of a 3x3 convolution: weights that a run is given, flipped."""
    w = value("w", outputs, channels, 3, 3)
    flipped = ops.node("slice", w, starts=(0, 0, 2, 2), steps=(1, 1, -1, -1), shape=w.type.shape)
    last = np.random.default_rng(5).uniform(-1, 1, (4, channels, 1, 1)).astype(np.float32)
    return graph(conv(conv(inside("g", 1, outputs, size + 2), transpose(flipped, 1, 0, 2, 3)), constant(last)))


def forward(channels: int, outputs: int, size: int) -> Graph:
    last = np.random.default_rng(6).uniform(-1, 1, (4, outputs, 1, 1)).astype(np.float32)
    w = value("w", outputs, channels, 3, 3)
    return graph(conv(conv(inside("x", 1, channels, size + 2), w), constant(last)))


def far_terms(terms: int, rows: int) -> Graph:
    """A product as the gradient of weights has it: rows of its broadcast factor are neighbors, and terms far apart."""
    return graph(ops.node("matmul", transpose(value("a", terms, rows), 1, 0), value("b", terms, 50)))


def graphs() -> Iterator[tuple[str, Graph]]:
    yield "many pixels", of_weights(1, 24, 40, 29)
    yield "several images", of_weights(3, 17, 20, 18)
    yield "few pixels", of_weights(1, 70, 75, 5)
    yield "weights", forward(100, 75, 5)
    yield "flipped weights", of_operand(100, 75, 5)
    yield "large result", graph(ops.node("matmul", value("a", 1700, 7), value("b", 7, 403)))
    yield "far terms", far_terms(70, 400)
    yield "large factor", graph(ops.node("matmul", value("a", 5, 301), value("b", 301, 1030)))


CASES = dict(graphs())


def schedules(g: Graph) -> list[Contract]:
    """Contractions of two values that a run computes or is given."""
    found = [s for k in program_of(g, target("x86_64_avx2").device).kernels for s in (k.schedule, *k.schedule.steps)]
    return [s for s in found if isinstance(s, Contract) and s.l_mode != "packed" and s.s.value.space != "weights"]


def test_results_and_bits_on_several_threads(tmp_path: Path) -> None:
    hold_on_threads(CASES, tmp_path)


def test_parts_pass_over_tasks_and_columns_are_joined() -> None:
    (pixels,) = schedules(CASES["many pixels"])
    assert pixels.l_mode == "direct" and pixels.together > 1
    assert pixels.scratch_bytes == 4 * pixels.together * pixels.waiting
    (few,) = schedules(CASES["few pixels"])
    assert few.l_mode == "gathered" and few.n_extent == 70 * 9 and few.blocks is not None and few.blocks.stride is None
    for name in ("weights", "flipped weights"):
        (of,) = schedules(CASES[name])
        assert of.l_mode == "gathered" and of.together > 0, name
        assert of.blocks is not None and of.blocks.step == 1 and len(of.blocks.inner) >= 1, name
        assert of.panel_floats < of.width * of.k_extent // 2, name


def test_large_results_are_written_row_after_row() -> None:
    """A tile's rows are whole before the next tile's begin; a result that caches hold has other tasks."""
    (large,) = schedules(CASES["large result"])
    assert (large.tile_chunk, large.panel_first) == (1, False)
    (small,) = schedules(graph(ops.node("matmul", value("a", 100, 7), value("b", 7, 403))))
    assert small.tile_chunk > 1


@pytest.mark.parametrize(("columns", "asks"), [(1030, True), (330, False)])
def test_the_next_panel_of_a_large_factor_is_asked_for(tmp_path: Path, columns: int, asks: bool) -> None:
    """Rows far apart, of more than near caches hold: no hardware asks for the next panel."""
    one = graph(ops.node("matmul", value("a", 5, 301), value("b", 301, columns)))
    write_graphs({"one": one}, tmp_path, target("x86_64_avx2").device)
    text = "".join(p.read_text() for p in tmp_path.rglob("*.c"))
    assert ("ec_prefetch_far(" in text.replace("ec_prefetch_far(const", "")) == asks


@pytest.mark.parametrize(
    ("terms", "rows", "asks"), [(70, 400, True), (70, 250, False), (20, 1200, False), (40, 300, False)],
    ids=["far", "near", "few terms", "in the first cache"],
)  # fmt: skip
def test_terms_far_apart_are_asked_for(tmp_path: Path, terms: int, rows: int, asks: bool) -> None:
    """Terms of the broadcast factor a quarter of a page apart or more, in a sum that is long enough."""
    write_graphs({"one": far_terms(terms, rows)}, tmp_path, target("x86_64_avx512").device)
    text = "".join(p.read_text() for p in tmp_path.rglob("*.c"))
    assert (f"ec_prefetch(s + k0 * {rows} + {8 * rows})" in text) == asks
    assert ("ec_prefetch(s" in text) == asks


@pytest.mark.parametrize(
    ("tasks", "of_panel", "cache", "together"),
    [(90, 1, 1 << 20, 90), (90, 1, 40_000, 10), (90, 4, 40_000, 8), (90, 20, 40_000, 10), (9, 1, 0, 0)],
)
def test_tasks_of_a_pass(tasks: int, of_panel: int, cache: int, together: int) -> None:
    """As many as have room, and whole panels of them where these have room."""
    assert tasks_of_pass(1000, tasks, of_panel, cache) == together

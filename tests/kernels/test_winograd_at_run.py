"""Weights that a run transforms for Winograd's method: where it is taken, how much memory, and what mistakes do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from chance import RANDOM
from compiled import Compiled, compile_graphs, program_of, target
from small_graphs import conv, graph, pad, relu, transpose, value, weights
from winograd_cases import image, of_input, winograds_at_run

from edgec.emit.views import winograd_transforms, winograd_weights
from edgec.fuse import plan
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.graph import Graph, Node
from edgec.schedule.build import schedule
from edgec.schedule.contract.cook_toom import PAIRS, Toom
from edgec.schedule.contract.parts import TERMS
from edgec.schedule.contract.winograd import Winograd, cycles_of
from edgec.schedule.contract.winograd_weights import SHARE, part_of, vector_cycles
from edgec.schedule.options import ScheduleOptions
from edgec.schedule.text import read_program, write_program

FORMS = [Toom(n - r + 1, r) for n in PAIRS for r in (2, 3, 5) if n - r + 1 >= 2]
AVX2 = "x86_64_avx2"


def found(g: Graph, device: str = AVX2, numeric: str = "reassociates") -> list[Winograd]:
    program = schedule(plan(g), target(device).device, ScheduleOptions(numeric=numeric))  # type: ignore[arg-type]
    schedules = (s.schedule for k in program.kernels for s in k.steps)
    return [s for s in schedules if isinstance(s, Winograd)]


def same(c: int, o: int, h: int, w: int, given: Node | None = None, **attributes: int) -> Graph:
    kernel = given if given is not None else value("w", o, c // attributes.get("groups", 1), 3, 3)
    return graph(relu(conv(pad(image(c, h, w), 1, 1), kernel, **attributes)))


@pytest.mark.parametrize("toom", FORMS, ids=str)
def test_the_transform_by_pairs_is_the_matrix(toom: Toom) -> None:
    taps = RANDOM.standard_normal(toom.taps)
    named = {X.load(("tap", i), (), "f32"): float(t) for i, t in enumerate(taps)}
    got = [number(e, named) for e in winograd_transforms.of_taps(toom, list(named))]
    np.testing.assert_allclose(got, toom.of_taps @ taps, rtol=1e-6, atol=1e-7 * np.abs(taps).sum())


def number(e: Expr, named: dict[Expr, float]) -> float:
    """The value of sums and products of named numbers."""
    if e in named:
        return named[e]
    if e.op == "const":
        return float(e.value)
    left, right = (number(a, named) for a in e.args)
    return {"add": left + right, "sub": left - right, "mul": left * right}[e.op]


def test_it_is_taken_where_it_pays() -> None:
    (large,) = found(same(64, 64, 28, 28))
    assert large.at_run is not None and large.packed is None and not large.tables
    assert not found(same(4, 4, 28, 28)) and not found(same(64, 64, 2, 1))
    assert not found(same(64, 64, 28, 28), numeric="exact")
    assert not found(same(64, 64, 28, 28, groups=2)) and not found(same(64, 64, 28, 28, stride=2))
    (constant,) = found(same(64, 64, 28, 28, weights(64, 64, 3, 3)))
    assert constant.at_run is None


def test_weights_of_few_pixels_cost_more_than_they_save() -> None:
    """By weights that lie along lanes, which nothing else packs."""
    lying = transpose(value("w", 3, 3, 256, 256), 3, 2, 0, 1)
    few, many = (graph(relu(conv(pad(image(256, n, n), 1, 1), lying))) for n in (4, 28))
    assert not found(few) and found(many)


def test_the_price_has_the_weights_of_every_block() -> None:
    device = target(AVX2).device
    (at_run,) = found(same(48, 48, 56, 56))
    assert at_run.at_run is not None and at_run.blocks > 1
    tooms = [side.toom for side in at_run.sides]
    each = at_run.k_extent * 6 * vector_cycles(at_run.at_run, tooms, device)
    once = replace(at_run, block=at_run.tiles)
    saved = cycles_of(at_run, device) - cycles_of(once, device)
    assert saved == pytest.approx((at_run.blocks - 1) * each)


@pytest.mark.parametrize("terms", [1, 7, 8, 33, 512, 2048])
def test_parts_stay_in_the_cache(terms: int) -> None:
    device = target(AVX2).device
    for points, width in ((16, 16), (36, 16), (36, 48)):
        part = part_of(terms, points, width, device)
        assert 1 <= part <= min(terms, TERMS + 8)
        assert part <= 8 or 4 * points * width * (part - 8) <= device.l2_bytes // SHARE


def test_scratch_is_a_part_of_a_panel() -> None:
    """However many weights there are: 9.4 MB here, of which all that is transformed would be 38 MB."""
    (w,) = found(same(512, 512, 14, 14))
    assert w.at_run is not None and w.at_run.part < 512
    assert w.scratch_bytes < 6 << 20


def test_flipped_weights_of_a_gradient() -> None:
    (w,) = found(graph(relu(of_input(value("y", 1, 128, 16, 16), value("w", 64, 128, 3, 3), image(64, 14, 14)))))
    assert w.at_run is not None and w.at_run.turned == (True, True) and not w.at_run.joined
    (w,) = found(same(64, 64, 28, 28))
    assert w.at_run is not None and w.at_run.turned == (False, False) and w.at_run.joined


def test_a_saved_program_comes_back() -> None:
    program = program_of(same(64, 64, 28, 28), target(AVX2).device)
    written = write_program(program)
    assert write_program(read_program(written.text, written.arrays)).text == written.text


def test_a_mistake_shows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Taps in the wrong order, and points of a pair."""
    name = "given of 1 300->24 7x7"
    network = dict(winograds_at_run())[name]
    inputs = {str(n.attributes["name"]): RANDOM.standard_normal(n.type.shape).astype("f4") for n in network.inputs}
    right = answer(network, inputs, tmp_path / "right")

    def wrong(toom: Toom, g: list[Expr]) -> list[Expr]:
        rows = winograd_transforms.of_taps(toom, g)
        return [rows[0], rows[2], rows[1], *rows[3:]]

    mistakes: list[tuple[str, Callable[[Toom, list[Expr]], list[Expr]]]] = [
        ("pairs", wrong),
        ("taps", lambda toom, g: winograd_transforms.of_taps(toom, g[::-1])),
    ]
    for folder, mistake in mistakes:
        monkeypatch.setattr(winograd_weights, "of_taps", mistake)
        assert np.abs(answer(network, inputs, tmp_path / folder) - right).max() > 1e-2 * np.abs(right).max()


def answer(network: Graph, inputs: dict[str, np.ndarray], folder: Path) -> np.ndarray:
    folder.mkdir()
    (made,) = compile_graphs({"it": network}, folder, threads=1).values()
    assert isinstance(made, Compiled)
    (found,) = made(inputs).values()
    return found

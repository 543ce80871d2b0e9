"""Long sums of floats are added up in parts, so that what they round off does not grow with their length."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from pathlib import Path

import numpy as np
import pytest
from compiled import compile_graphs, program_of, target
from small_graphs import conv, doubled, graph, total, transpose, value

from edgec import ops
from edgec.emit.views import winograd as winograd_view
from edgec.ir import evaluate
from edgec.ir import expr as X
from edgec.ir.graph import Graph, Node, constant
from edgec.schedule import row
from edgec.schedule.added import Added
from edgec.schedule.contract import cheapest, contract
from edgec.schedule.contract.parts import LONG, TERMS, even_parts, parts_of_long
from edgec.schedule.contract.winograd import Winograd

#: Rounding of a float, and how many of them a sum of terms of one sign may be off.
ROUNDING, MOST = 2.0**-24, 8.0


def weights(*shape: int) -> Node:
    """Of one sign, so that what is rounded off adds up."""
    return constant(np.random.default_rng(prod(shape)).uniform(0.5, 1.5, shape).astype(np.float32))


def between(channels: int, height: int, width: int, taps: Node, stride: int) -> Graph:
    """A convolution whose operand and result have channels last, as other convolutions are beside it."""
    x = conv(value("x", 1, 3, height, width), weights(channels, 3, 1, 1))
    return graph(conv(conv(x, taps, stride), weights(5, taps.type.shape[0], 1, 1)))


def long_sums() -> Iterator[tuple[str, Graph]]:
    for m, k, n in ((3, 8192, 20), (1, 9001, 33), (17, 30000, 21)):
        yield f"constant {m}x{k}x{n}", graph(ops.node("matmul", value("a", m, k), weights(k, n)))
    yield "both read", graph(ops.node("matmul", value("a", 40, 6000), value("b", 6000, 48)))
    turned = transpose(value("b", 20, 6000), 1, 0)
    yield "both read by rows", graph(ops.node("matmul", value("a", 40, 6000), turned))
    yield "rows of images", graph(conv(value("x", 1, 900, 6, 9), weights(24, 900, 3, 3), stride=2))
    yield "channels", between(2500, 6, 9, weights(24, 2500, 3, 3), 2)
    yield "rows of taps", between(40, 66, 13, weights(24, 40, 60, 5), 2)
    yield "one row", graph(total(value("x", 1, 4000037), 1))
    yield "rows apart", graph(total(value("x", 1, 8001, 2, 104), 1, 3))
    yield "long rows apart", graph(total(value("x", 1, 3, 2, 300007), 1, 3))
    yield "fewer products", between(2400, 16, 16, weights(64, 2400, 3, 3), 1)


CASES = dict(long_sums())


def errors(folder: Path, cases: dict[str, Graph] = CASES) -> dict[str, float]:
    """Largest error of every case relative to the result, in roundings of a float."""
    random, found = np.random.default_rng(3), {}
    for name, compiled in compile_graphs(cases, folder).items():
        assert not isinstance(compiled, Exception)
        given = {
            str(n.attributes["name"]): random.uniform(0.5, 1.5, n.type.shape).astype(np.float32)
            for n in cases[name].inputs
        }
        exact = evaluate.run(doubled(cases[name]), {k: v.astype(np.float64) for k, v in given.items()})
        got = compiled(given)
        found[name] = max(float(np.abs(got[k] / v - 1).max()) / ROUNDING for k, v in exact.items())
    return found


def test_long_sums_round_off_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A third of what one chain of additions rounds off, or less; of fewer products, transforms round off more."""
    found = errors(tmp_path)
    (once := tmp_path / "in one chain").mkdir()
    for module in (cheapest, winograd_view, row):
        monkeypatch.setattr(module, "parts_of_long", lambda extents: None)
    chains = errors(once)
    for name, error in found.items():
        least = 1.3 if name == "fewer products" else 3.0
        assert error <= MOST and error * least < chains[name], (name, error, chains[name])


def test_sums_of_few_results_round_off_little(tmp_path: Path) -> None:
    """Lanes lie along the terms: a chain is a part of them even without parts of the sum."""
    few = {f"few {k}": graph(ops.node("matmul", value("a", 17, k), weights(k, 5))) for k in (20000, 9001)}
    assert all(error <= MOST for error in errors(tmp_path, few).values())


def test_the_cases_have_the_kernels_they_are_about() -> None:
    device, found = target("host").device, set[str]()
    for g in CASES.values():
        for kernel in program_of(g, device).kernels:
            for schedule in (kernel.schedule, *kernel.schedule.steps):
                if isinstance(schedule, Winograd) and parts_of_long([schedule.k_extent]):
                    found.add("winograd")
                elif isinstance(schedule, contract.Contract) and schedule.long is not None:
                    found.add(schedule.l_mode)
                elif isinstance(schedule, row.Row) and schedule.parts is not None:
                    found.add(f"row cut at loop {schedule.parts.split} of {len(schedule.walk) + 1}")
    rows = {"row cut at loop 0 of 1", "row cut at loop 0 of 2", "row cut at loop 1 of 2"}
    assert found == {"winograd", "direct", "gathered", "packed", *rows}


@pytest.mark.parametrize("extents", [(60007,), (1501, 104), (3, 30007), (3, 16000), (2, 801, 40)])
def test_every_term_of_a_row_is_added_once_and_in_a_short_chain(extents: tuple[int, ...]) -> None:
    loops = tuple(X.var(f"i{k}", n) for k, n in enumerate(extents))
    parts = parts_of_long([*extents[:-1], -(-extents[-1] // 16)])
    assert parts is not None
    chains = Added.on_lanes(loops, X.const(1.0, "f32"), 16, parts).chains
    assert np.array_equal(np.sort(chains[chains >= 0]), np.arange(prod(extents)))
    assert chains.shape[1] <= 2 * TERMS  # a part may go on in the next iteration of loops around it
    ordered = np.sort(np.where(chains < 0, prod(extents), chains), axis=1)
    assert np.array_equal(ordered[:, 0], chains.min(axis=1, where=chains >= 0, initial=prod(extents)))


def test_parts_are_even_and_no_longer_than_asked() -> None:
    for extents in ((8192,), (3, 3, 900), (15, 5, 40), (257,), (2, 1000003), (600, 3, 3), (7, 11, 13, 17)):
        parts = even_parts(extents, TERMS)
        inside = prod(extents[parts.split + 1 :])
        assert parts.rounds * inside <= TERMS or (parts.rounds == 1 and inside > TERMS)
        assert (
            (parts.rounds + 1) * inside > TERMS
            or parts.rounds == extents[parts.split]
            or parts.rounds * 2 > TERMS // inside
        )
    assert parts_of_long([LONG - 1]) is None and parts_of_long([2, LONG]) is not None

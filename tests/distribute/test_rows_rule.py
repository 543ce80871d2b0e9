"""Rows of a value alone: what they need is what numpy says, for every operator and for networks."""

from __future__ import annotations

import numpy as np
import pytest
from convnet import convnet
from small_graphs import arrays, clip, conv, graph, mean, pad, pool, silu, softmax, transpose, value, weights

from edgec.distribute.rows import Indivisible, Span, needed, rows_of, spans_for, whole_tiles
from edgec.execute.executor import run_graph
from edgec.frontend.source import import_graph, read
from edgec.ir.graph import Graph, Node
from edgec.ops import node


def x(rows: int = 11) -> Node:
    return value("x", 1, 4, rows, 9)


NETWORKS = {
    "window": conv(x(), weights(6, 4, 3, 3)),
    "stride": conv(x(), weights(6, 4, 3, 3), stride=2),
    "dilation": conv(x(), weights(6, 4, 3, 3), dilation=2),
    "padded": conv(pad(x(), 0, 0, 1, 1), weights(6, 4, 3, 3)),
    "padded to one side": conv(pad(x(), (0, 0), (0, 0), (2, 0), (0, 1)), weights(6, 4, 3, 2), stride=2),
    "depthwise": conv(pad(x(), 0, 0, 1, 1), weights(4, 1, 3, 3), groups=4),
    "pool": pool(x(), "max", (3, 3), stride=2),
    "activation": silu(clip(x())),
    "by the row": node("add", x(), weights(1, 1, 11, 1)),
    "channels reduced": softmax(x(), 1),
    "columns reduced": node("sub", x(), mean(x(), 3)),
    "rows reduced": node("sub", x(), mean(x(), 2)),
    "residual": node("add", x(), conv(pad(x(), 0, 0, 1, 1), weights(4, 4, 3, 3))),
    "joined": node("concat", x(), conv(pad(x(), 0, 0, 1, 1), weights(2, 4, 3, 3)), axis=1),
    "cut": node("slice", x(), starts=(0, 0, 1, 0), steps=(1, 1, 2, 1), shape=(1, 4, 5, 9)),
    "turned": node("slice", x(), starts=(0, 0, 10, 0), steps=(1, 1, -1, 1), shape=(1, 4, 11, 9)),
    "transposed": transpose(transpose(conv(x(), weights(6, 4, 3, 3)), 0, 2, 3, 1), 0, 3, 1, 2),
    "two deep": conv(pad(conv(pad(x(), 0, 0, 1, 1), weights(5, 4, 3, 3), 2), 0, 0, 1, 1), weights(6, 5, 3, 3)),
}


def agrees(g: Graph, result: Node, span: Span) -> None:
    """Computes the rows alone from the rows that they need, and holds them against those of the whole."""
    given = arrays(g, 3)
    part, taken = rows_of(g, result, span, "rows")
    cut = {}
    for name, array in given.items():
        if name in taken:
            own = taken[name]
            cut[name] = array if own is None else np.take(array, range(own.begin, own.end), own.axis)
    whole = run_graph(Graph(g.inputs, (("y", result),)), given)["y"]
    wanted = np.take(whole, range(span.begin, span.end), span.axis)
    assert np.allclose(run_graph(part, cut)["rows"], wanted, rtol=1e-5, atol=1e-5)  # numpy sums in another order


@pytest.mark.parametrize("name", NETWORKS)
def test_rows_alone_are_those_of_the_whole(name: str) -> None:
    result = NETWORKS[name]
    rows = result.type.shape[2]
    assert rows >= 4
    for begin, end in ((0, rows), (0, 2), (2, rows), (1, 3), (rows - 1, rows)):
        agrees(graph(result), result, Span(2, begin, end))


def test_a_window_gives_a_halo_and_a_loop_none() -> None:
    assert needed(NETWORKS["window"], Span(2, 3, 5)) == (Span(2, 3, 7), None)
    assert needed(NETWORKS["stride"], Span(2, 1, 3)) == (Span(2, 2, 7), None)
    assert needed(clip(x()), Span(2, 3, 5))[0] == Span(2, 3, 5)
    assert spans_for(graph(NETWORKS["rows reduced"]), NETWORKS["rows reduced"], Span(2, 3, 5))[x()] is None


def test_what_depends_on_its_place_is_refused() -> None:
    places = node("add", x(), node("broadcast", node("iota", shape=(11, 1), axis=0, dtype="f32"), shape=(1, 4, 11, 9)))
    agrees(graph(places), places, Span(2, 3, 5))  # positions are computed whole, and a part of them is read
    tall = node("concat", x(), x(), axis=2)
    with pytest.raises(Indivisible, match="concat"):
        rows_of(graph(tall), tall, Span(2, 3, 5), "rows")


def test_rows_of_a_network() -> None:
    g = import_graph(read(convnet().SerializeToString()), {})
    features = dict(g.outputs)["features"]
    for begin, end in ((0, 5), (5, 10), (3, 4)):
        agrees(g, features, Span(2, begin, end))


def test_the_comparison_sees_a_wrong_halo(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mistake is planted: a row is read that is one too late."""
    import edgec.distribute.rows as rows

    true = rows.cut
    moved = node("add", x(), weights(1, 1, 11, 1))
    monkeypatch.setattr(rows, "cut", lambda n, s: true(n, Span(s.axis, s.begin + 1, s.end + 1)))
    with pytest.raises(AssertionError):
        agrees(graph(moved), moved, Span(2, 3, 5))


def test_rows_in_tiles_begin_and_end_with_one() -> None:
    """The last tile of 10 rows has the rows 6 to 9: who needs row 9 computes it in a tile of four."""
    for begin, end, wanted in ((0, 3, (0, 4)), (3, 5, (0, 8)), (4, 8, (4, 8)), (8, 10, (4, 10)), (9, 10, (4, 10))):
        assert whole_tiles(Span(2, begin, end), 4, 10) == Span(2, *wanted)
    assert whole_tiles(Span(2, 1, 2), 4, 3) == Span(2, 0, 3)

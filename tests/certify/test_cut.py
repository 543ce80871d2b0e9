"""Parts of a box: cuts at choices, what linear conditions leave of them, and small linear programs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import small_graphs as g
from bounded import box, network
from chance import RANDOM

from edgec.certify import attack, conditions, cut, search, sides
from edgec.certify.bounds import Bounds
from edgec.certify.properties import Case, Clause
from edgec.certify.ranges import Range, within
from edgec.certify.simplex import solved
from edgec.certify.verdict import Verdict
from edgec.execute.executor import run_graph
from edgec.ir.graph import Graph
from edgec.ir.registry import node
from edgec.progress import silent

Arrays = tuple[np.ndarray, ...]


def _programs(count: int) -> Arrays:
    values, slopes = RANDOM.normal(0.2, 1, (count, 6)), RANDOM.standard_normal((count, 6, 4))
    low = RANDOM.standard_normal((count, 4))
    return values - (slopes * low[:, None]).sum(2), slopes, low, low + RANDOM.uniform(0, 2, (count, 4))


def test_a_program_ends_with_a_proof_or_a_point() -> None:
    """Both sides of the program are sound, and where none is decided early they are equal."""
    values, slopes, low, high = _programs(300)
    values[0, 1:], values[1] = -np.inf, -np.inf
    weights, points = solved(values, slopes, low, high)
    assert (weights >= 0).all() and np.allclose(weights.sum(1), 1) and (weights[0, 1:] == 0).all()
    assert (points >= low).all() and (points <= high).all()
    slope = np.einsum("pc,pce->pe", weights, slopes)
    proof = (weights * np.where(weights > 0, values, 0)).sum(1) + np.minimum(slope * low, slope * high).sum(1)
    point = (values + np.einsum("pce,pe->pc", slopes, points)).max(1)
    proof, point = proof[2:], point[2:]
    assert ((proof > 0) | (point < 0) | (np.abs(point - proof) < 1e-8)).all()
    assert (proof > 0).any() and (point < 0).any() and (proof <= point + 1e-9).all()


def _lost(shrunk: Callable[..., Arrays]) -> int:
    """Points of boxes that meet all conditions and are outside what is left of them."""
    least, slopes = RANDOM.uniform(-1.5, -0.2, (300, 3)), RANDOM.standard_normal((300, 3, 4))
    low = RANDOM.standard_normal((300, 4))
    high = low + RANDOM.uniform(0, 2, (300, 4))
    first, last, is_empty = shrunk(least, slopes, low, high)
    assert (first >= low).all() and (last <= high).all() and (last - first < high - low).any()
    lost = 0
    for _ in range(400):
        x = low + (high - low) * RANDOM.random(low.shape)
        away = np.where(slopes > 0, (x - low)[:, None], (x - high)[:, None])
        is_met = ((least + (slopes * away).sum(2)) <= 0).all(1)
        lost += int((is_met & (is_empty | (x < first).any(1) | (x > last).any(1))).sum())
    return lost


def test_what_is_left_of_a_box_has_every_input_that_meets_the_conditions() -> None:
    assert not _lost(conditions.shrunk)


def test_boxes_that_are_shrunk_too_far_are_found() -> None:
    """A planted mistake: conditions are taken to be a little less low than they are."""
    assert _lost(lambda least, *given: conditions.shrunk(0.9 * least, *given))


def test_nothing_is_cut_off_by_what_is_not_known() -> None:
    least, slopes = np.array([[np.nan], [-np.inf], [-1.0]]), np.ones((3, 1, 2))
    slopes[2, 0, 0] = np.inf
    low, high = np.zeros((3, 2)), np.ones((3, 2))
    first, last, is_empty = conditions.shrunk(least, slopes, low, high)
    assert (first == low).all() and (last == high).all() and not is_empty.any()


def test_a_range_without_the_side_that_was_taken_is_empty() -> None:
    own = Range(np.array([[-2.0, -1.0], [-2.0, 1.0]]), np.array([[-1.0, 2.0], [1.0, 2.0]]), np.zeros((1, 1)))
    found, is_empty = within(own, np.array([0.0, 0.0]), np.array([np.inf, np.inf]))
    assert is_empty.tolist() == [True, False]
    assert found.low.tolist() == [[-2.0, -1.0], [0.0, 1.0]] and found.high.tolist() == own.high.tolist()


def _folded() -> tuple[Graph, Callable[[float], Case]]:
    """A network of many bends, and the property that no output is at most a limit."""
    h = g.relu(node("add", node("matmul", g.value("x", 1, 3), g.weights(3, 16)), g.weights(16)))
    h = g.relu(node("add", node("matmul", h, g.weights(16, 16, scale=0.4)), g.weights(16, scale=0.4)))
    graph = g.graph(node("matmul", h, g.weights(16, 1)))

    def case(limit: float) -> Case:
        clause = Clause({"y0": np.ones((1, 1, 1))}, np.array([limit]))
        return Case({"x": -np.ones((1, 3))}, {"x": np.ones((1, 3))}, (clause,))

    return graph, case


def _least(graph: Graph) -> float:
    """The least output of many inputs, about."""
    net = network(graph)
    found = attack.attack
    low, high = -20.0, 20.0
    while high - low > 1e-3:
        middle = (low + high) / 2
        clause = Clause({"y0": np.ones((1, 1, 1))}, np.array([middle]))
        case = Case({"x": -np.ones((1, 3))}, {"x": np.ones((1, 3))}, (clause,))
        spec = search.Spec.of(case.clauses)
        is_met = found(net, case, spec, lambda x: run_graph(graph, x), np.random.default_rng(0)) is not None
        low, high = (low, middle) if is_met else (middle, high)
    return high


def _proved(graph: Graph, case: Case, monkeypatch: pytest.MonkeyPatch, seconds: float = 10.0) -> Verdict:
    """The verdict of bounds alone: no violation is searched."""
    with monkeypatch.context() as m:
        m.setattr(search, "attack", lambda *given, **more: None)
        m.setattr(cut.Cut, "_violated", lambda *given: None)
        return search.decide(network(graph), case, lambda x: run_graph(graph, x), seconds, silent)


def test_parts_are_cut_at_choices_where_few_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = 0
    take = cut.Cut._take

    def counted(self: cut.Cut, bounds: Bounds, open: cut._Open, box: Arrays, choice: np.ndarray, these: np.ndarray,
                parts: list[Arrays]) -> None:  # fmt: skip
        nonlocal taken
        taken += len(these)
        take(self, bounds, open, box, choice, these, parts)

    monkeypatch.setattr(cut.Cut, "_take", counted)
    cases = [(graph, case(_least(graph) - 0.02)) for graph, case in (_folded() for _ in range(6))]
    # Attacks may miss the least output of one, whose property does not hold then.
    assert sum(_proved(*given, monkeypatch, 3.0).status == "holds" for given in cases) >= 4 and taken
    monkeypatch.setattr(cut, "FEW", -1)
    taken = 0
    assert sum(_proved(*given, monkeypatch, 3.0).status == "holds" for given in cases) >= 4 and not taken


def test_nothing_is_proved_that_is_not_so(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, case = _folded()
    assert _proved(graph, case(_least(graph) + 1e-3), monkeypatch, 1.0).status != "holds"


def test_a_side_that_is_the_other_one_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted mistake: the condition of a side is that of the other side."""
    graph, case = _folded()
    right = sides.Sides.condition
    wrong = lambda self, bounds, boxes, site, element, side: right(  # noqa: E731
        self, bounds, boxes, site, element, -side
    )
    monkeypatch.setattr(sides.Sides, "condition", wrong)
    assert _proved(graph, case(_least(graph) + 1e-2), monkeypatch, 5.0).status == "holds"


def test_sides_that_are_taken_hold_for_the_inputs_that_are_on_them() -> None:
    """Conditions of both sides of an element are met by an input on that side."""
    graph, _ = _folded()
    net = network(graph)
    found, (n,) = sides.Sides(net), net.inputs.values()
    whole = box(net, {"x": np.zeros((1, 3))}, 1.0)
    bounds = net.bounds(whole)
    x = RANDOM.uniform(-1, 1, (200, 1, 3))
    points = net.bounds(type(whole)({n: x}, {n: x}), tighten=False)
    own = found.found(points, np.repeat(found.none(), 200, 0))
    open = np.flatnonzero(found.found(bounds, found.none())[0] == 0)
    for element in open:
        (site,), (at,) = found.place(np.array([element]))
        for side in (1, -1):
            least, slopes = found.condition(bounds, np.zeros(1, int), int(site), np.array([at]), np.array([side * 1.0]))
            corner = np.where(slopes[0] > 0, -1.0, 1.0)
            value = least[0] + ((x.reshape(200, 3) - corner) * slopes[0]).sum(1)
            assert (value[own[:, element] == side] <= 1e-12).all()


def test_violations_at_the_ends_of_inputs_are_found() -> None:
    """The sum of five inputs is greatest at a corner, where few of those drawn alone are."""
    share = RANDOM.random(4000)
    drawn = attack._drawn(RANDOM, share, (5,))
    assert (drawn.sum(1) == 5).sum() > 4 and ((drawn > 0) & (drawn < 1)).all(1).sum() > 200

"""The order of additions that schedules tell, and that of the compiled code, which its sums reveal.

Of terms that are 1 but for one 2^60 and one -2^60, a sum loses those ones that meet the great number before the two
cancel: it tells how many terms are below the addition at which two terms meet, and so the tree of additions (Xie et
al., "FPRev: revealing floating-point summation", 2024).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import small_graphs as g
from bounded import box, network_of
from chance import RANDOM
from compiled import Compiled, compile_graphs

from edgec.certify.rounding import terms_of_sum
from edgec.execute.executor import run_graph
from edgec.ir.graph import Graph, Node, constant
from edgec.ir.registry import node
from edgec.schedule.added import Added
from edgec.schedule.contract.contract import Contract
from edgec.schedule.map import Map
from edgec.schedule.order import Order, is_sum, orders_of
from edgec.schedule.row import Row
from edgec.schedule.sweep import Sweep
from edgec.schedule.window import Window

F = np.float32
GREAT = 2.0**60


def _ones(*shape: int) -> Node:
    return constant(np.ones(shape, F))


def _conv(x: Node, w: Node, stride: int = 1, dilation: int = 1, groups: int = 1) -> Node:
    rank = x.type.rank - 2
    return node("conv", x, w, strides=(stride,) * rank, dilations=(dilation,) * rank, groups=groups)


def _padded(x: Node) -> Node:
    edge = (0, 0) + (1,) * (x.type.rank - 2)
    return node("pad", x, before=edge, after=edge)


def _pooled(x: Node) -> Node:
    return node("pool", x, combine="add", kernel=(3, 2), strides=(2, 1), dilations=(1, 1))


#: Graphs with one sum each, of every schedule and of several shapes.
SUMS: dict[str, Callable[[], Node]] = {
    "product": lambda: node("matmul", g.value("x", 5, 37), _ones(37, 40)),
    "product of a row": lambda: node("matmul", g.value("x", 1, 64), _ones(64, 7)),
    "long product": lambda: node("matmul", g.value("x", 3, 1601), _ones(1601, 20)),
    "weights first": lambda: node("matmul", _ones(9, 33), g.value("x", 33, 12)),
    "bias and a bend": lambda: g.relu(node("add", node("matmul", g.value("x", 4, 30), _ones(30, 16)), _ones(16))),
    "convolution": lambda: _conv(_padded(g.value("x", 1, 5, 9, 8)), _ones(16, 5, 3, 3), 2),
    "long convolution": lambda: _conv(g.value("x", 1, 100, 4, 5), _ones(16, 100, 3, 3), 2),
    "of one channel": lambda: _conv(_padded(g.value("x", 1, 1, 12, 9)), _ones(16, 1, 5, 2)),
    "dilated": lambda: _conv(g.value("x", 1, 6, 11), _ones(16, 6, 3), 1, 3),
    "in groups": lambda: _conv(g.value("x", 1, 8, 6, 6), _ones(16, 2, 2, 2), 1, 1, 4),
    "depthwise": lambda: _conv(_padded(g.value("x", 1, 24, 10, 9)), _ones(24, 1, 3, 3), 1, 1, 24),
    "depthwise and narrow": lambda: _conv(g.value("x", 1, 3, 7, 9), _ones(3, 1, 2, 3), 2, 1, 3),
    "channels last": lambda: _conv(node("transpose", g.value("x", 1, 7, 6, 12), perm=(0, 3, 1, 2)),
                                   _ones(8, 12, 2, 3)),
    "largest of sums": lambda: node("pool", _conv(g.value("x", 1, 6, 12, 12), _ones(16, 6, 3, 3), 3), combine="max",
                                    kernel=(2, 2), strides=(2, 2), dilations=(1, 1)),
    "taps of large windows": lambda: _conv(node("transpose", g.value("x", 1, 40, 23, 24), perm=(0, 3, 1, 2)),
                                           _ones(24, 1, 38, 21), groups=24),
    "mean of windows": lambda: _pooled(g.value("x", 1, 20, 9, 9)),
    "sum of rows": lambda: node("reduce", g.value("x", 4, 77), combine="add", axes=(1,)),
    "sum of columns": lambda: node("reduce", g.value("x", 41, 6), combine="add", axes=(0,)),
    "sum of planes": lambda: node("reduce", g.value("x", 1, 3, 20, 17), combine="add", axes=(2, 3)),
    "sum of an inner axis": lambda: node("reduce", g.value("x", 5, 23, 6), combine="add", axes=(1,)),
    "sum in numbers": lambda: node("reduce", g.value("x", 2, 300, 3), combine="add", axes=(1,)),
    "sum apart": lambda: node("reduce", g.value("x", 5, 4, 23), combine="add", axes=(0, 2)),
}  # fmt: skip
#: Schedules whose order is not told: any is counted there.
ANY = {"in groups"}


@cache
def _compiled(folder: Path) -> dict[str, Compiled]:
    found = compile_graphs({name: g.graph(make()) for name, make in SUMS.items()}, folder)
    return {name: c for name, c in found.items() if isinstance(c, Compiled)}


def _below(o: Order, i: int, j: int, t: int) -> float:
    """Is a term below the addition at which two others meet: 1, 0, or a half where the order says nothing of it?"""
    (a, p), (b, q), (c, r) = (tuple(int(v[0]) for v in np.nonzero(o.chains == k)) for k in (i, j, t))
    if a == b:
        return float(c == a and r <= max(p, q))
    return float(c <= max(a, b)) if o.in_turn else 1.0 if c in (a, b) else 0.5


def _faults(name: str, made: Compiled, tries: int = 12) -> list[str]:
    """Pairs of terms that meet elsewhere in the code than the schedule says."""
    (n,) = (n for n in made.program.graph.nodes() if is_sum(n))
    o = orders_of(made.program.kernels, made.program.views).get(n)
    if o is None or not o.is_known:
        return [] if name in ANY else [f"{name}: no order is told"]
    (x,) = made.program.graph.inputs
    k = next(k for k, a in enumerate(n.args) if not a.is_const)
    terms = int((o.chains >= 0).sum())
    place = 0 if "largest" in name else int(RANDOM.integers(0, n.type.elements))
    operand = Graph((x,), (("y", n.args[k]),))
    numbers = _through(operand, np.arange(1, x.type.elements + 1, dtype=F).reshape(x.type.shape))
    term = terms_of_sum(n, k, {j: np.ones(a.type.shape) for j, a in enumerate(n.args) if j != k})
    assert term is not None
    at = [int(term(t, numbers[None], numbers[None])[0].reshape(-1)[place]) - 1 for t in range(terms)]
    inside = [t for t in range(terms) if at[t] >= 0]  # the others are padding
    found = []
    for turn in range(tries):
        chains = [c for c in (set(row) & set(inside) for row in o.chains.tolist()) if len(c) > 1]
        among = sorted(chains[RANDOM.integers(0, len(chains))]) if turn % 2 else inside
        i, j = RANDOM.choice(among, 2, replace=False).tolist()
        values = np.zeros(x.type.elements, F)
        values[[at[t] for t in inside]] = 1
        values[at[i]], values[at[j]] = GREAT, -GREAT
        y = float(made({str(x.attributes["name"]): values.reshape(x.type.shape)})["y0"].reshape(-1)[place])
        below = np.array([_below(o, i, j, t) for t in inside])
        lost = len(inside) + ("bias" in name) - y
        if not (below == 1).sum() <= lost <= (below > 0).sum():
            found.append(f"{name}: terms {i} and {j} meet below {lost:g} terms, not {(below == 1).sum()}")
    return found


def _through(graph: Graph, x: np.ndarray) -> np.ndarray:
    """The operand of a sum where the input of the network has these numbers, with zeros for padding."""
    (n,), (_, y) = graph.inputs, graph.outputs[0]
    found = x if y is n else run_graph(graph, {str(n.attributes["name"]): x})["y"]
    return np.asarray(found, np.float64)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("orders")


@pytest.mark.parametrize("name", SUMS)
def test_code_adds_in_the_order_that_schedules_tell(name: str, folder: Path) -> None:
    assert _faults(name, _compiled(folder)[name]) == []


def _reversed(way: Added) -> Added:
    """The same chains, each from its end on."""
    return replace(way, chains=way.chains[:, ::-1])


def _shorter(way: Added) -> Added:
    """Each chain as two."""
    chains = np.pad(way.chains, ((0, 0), (0, way.chains.shape[1] % 2)), constant_values=-1)
    return replace(way, chains=chains.reshape(2 * len(chains), -1))


@pytest.mark.parametrize("wrong", [_reversed, _shorter])
@pytest.mark.parametrize(
    ("names", "schedule"),
    [
        (("product", "convolution", "long product"), Contract),
        (("sum of rows", "sum of planes"), Row),
        (("depthwise", "mean of windows"), Window),
        (("sum in numbers",), Map),
        (("taps of large windows",), Sweep),
    ],
)
def test_a_wrong_order_is_found(
    names: tuple[str, ...],
    schedule: type,
    wrong: Callable[[Added], Added],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    programs = _compiled(folder)
    right = schedule.added.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(schedule, "added", property(lambda self: tuple(map(wrong, right(self)))))
    made = {name: [s.schedule for k in programs[name].program.kernels for s in k.steps] for name in names}
    scheduled = [name for name in names if any(isinstance(s, schedule) for s in made[name])]  # by vectors of the host
    assert scheduled
    for name in scheduled:
        assert _faults(name, programs[name])


def _outside(made: Compiled, inputs: list[np.ndarray]) -> float:
    """The distance by which sums of these inputs leave their bounds, in widths of these."""
    net, away = network_of(made), -np.inf
    for x in inputs:
        seen = net.bounds(box(net, {"x": x}, 0.0), tighten=False).seen[net.outputs["y0"]]
        low, high = seen.low[0], seen.high[0]
        y = made({"x": x})["y0"].astype(np.float64)
        away = max(away, float((np.maximum(low - y, y - high) / (high - low)).max()))
    return away


def _cancelling(shape: tuple[int, ...]) -> np.ndarray:
    """Numbers of many magnitudes, half of which take the others away again."""
    x = (10.0 ** RANDOM.uniform(-6, 6, shape) * RANDOM.choice([-1, 1], shape)).reshape(-1)
    place = RANDOM.permutation(x.size)
    half = x.size // 2
    x[place[half : 2 * half]] = -x[place[:half]]
    return x.reshape(shape).astype(F)


@pytest.mark.parametrize("name", SUMS)
def test_sums_that_cancel_stay_inside(name: str, folder: Path) -> None:
    made = _compiled(folder)[name]
    shape = made.program.graph.inputs[0].type.shape
    assert _outside(made, [_cancelling(shape) for _ in range(12)]) <= 0


def test_an_order_that_is_not_that_of_the_code_leaves_bounds(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between a great number and its opposite each small one is lost; side by side the two would lose none."""
    made = _compiled(folder)["product"]
    x = np.full((5, 37), 0.4 * 2.0**-23, F)
    x[:, 0], x[:, -1] = 1, -1
    assert -0.5 < _outside(made, [x]) <= 0
    right = Added.one_by_one
    first = np.concatenate([[0, 36], np.arange(1, 36)])
    monkeypatch.setattr(Added, "one_by_one", staticmethod(lambda *a: replace(right(*a), chains=first[None])))
    assert _outside(made, [x]) > 0

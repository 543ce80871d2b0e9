"""Updates: a part of a value replaced, in place where the value is a state, at a position known at run time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from chance import RANDOM
from compiled import Compiled, compile_graphs, program_of, target
from sanitized import ADDRESS, THREAD, run_sanitized

from edgec import ops
from edgec.errors import ModelError
from edgec.execute.executor import run_graph, run_plan, run_program
from edgec.frontend.states import describe
from edgec.frontend.values import Value, concat, constant, emit, iota, select, size
from edgec.fuse import plan
from edgec.ir import expr as X
from edgec.ir.expr import Extent
from edgec.ir.graph import Graph, Node, placeholder
from edgec.ir.sizes import Dimension
from edgec.ir.types import Type

Arrays = dict[str, np.ndarray]
CONTEXT, CHUNK, HEADS, SIZE, WIDTH = 29, 5, 2, 8, 16
PAST = X.size("past", 0, CONTEXT - CHUNK)


def _weights(*shape: int) -> Value:
    return constant(RANDOM.standard_normal(shape).astype(np.float32) * 0.3)


def _input(name: str, *shape: Extent) -> Value:
    return Value(placeholder(name, Type("f32", shape)))


def _graph(inputs: list[Value], outputs: dict[str, Value], states: dict[str, str]) -> Graph:
    past = placeholder("past", Type("i64", ()))
    metadata = describe({name: (new, np.zeros(1, np.float32)) for name, new in states.items()})
    given = (past, *(v.node for v in inputs))
    return Graph(given, tuple((k, v.node) for k, v in outputs.items()), metadata=metadata, sizes=((PAST, past),))


def attention(count: Extent) -> Graph:
    """Attention over a cache of keys and values, in which ``count`` new ones are written first."""
    x, keys, values = _input("x", count, WIDTH), _input("k", HEADS, SIZE, CONTEXT), _input("v", HEADS, CONTEXT, SIZE)
    q, k, v = ((x @ _weights(WIDTH, HEADS * SIZE)).reshape(count, HEADS, SIZE).transpose(1, 0, 2) for _ in range(3))
    keys = emit("update", keys, k.swap(1, 2), starts=(0, 0, PAST))
    values = emit("update", values, v, starts=(0, PAST, 0))
    seen = X.plain(PAST + count)
    scores = q @ keys.part(2, 0, seen)
    scores = select(iota(seen, 2, 3) > size(PAST) + iota(count, 1, 3), -1e9, scores)
    e = emit("exp", scores - scores.reduce("max", [2]))
    y = (e / e.sum([2])) @ values.part(1, 0, seen)
    outputs = {"y": y.transpose(1, 0, 2).reshape(count, HEADS * SIZE), "k_new": keys, "v_new": values}
    return _graph([x, _input("k", HEADS, SIZE, CONTEXT), _input("v", HEADS, CONTEXT, SIZE)], outputs,
                  {"k": "k_new", "v": "v_new"})  # fmt: skip


def rows(kind: str) -> Graph:
    """Rows of a state that are replaced while something else wants the state, or the row."""
    x, s = _input("x", 2, WIDTH), _input("s", CONTEXT, WIDTH)
    if kind == "of itself":
        new = s.part(0, 3, 5) * x
    elif kind == "an input":
        new = x
    else:
        new = x @ _weights(WIDTH, WIDTH)
    t = emit("update", s, new, starts=(PAST, 0))
    outputs = {"t": t, "y": t @ _weights(WIDTH, 7)}
    if kind == "read before":
        outputs["z"] = s @ _weights(WIDTH, 3)
    elif kind == "an output":
        outputs["z"] = new
    elif kind == "twice":
        outputs["t"] = t = emit("update", t, new * 2, starts=(0, 0))
        outputs["y"] = t.reduce("add", [0])
    elif kind == "in a concat":
        outputs["z"] = concat([new, t, new], 0)
    elif kind == "from what it replaces":
        inner = emit("update", s * new.reduce("add", [0]), new, starts=(PAST, 0))
        outputs["t"], outputs["y"] = inner, inner.reduce("max", [1])
    return _graph([x, s], outputs, {"s": "t"})


KINDS = ("plain", "an input", "of itself", "read before", "an output", "twice", "in a concat", "from what it replaces")
GRAPHS = {
    "one token": attention(1),
    "several tokens": attention(Dimension("n", 1, CHUNK).extent),
    **{kind: rows(kind) for kind in KINDS},
}


def given(graph: Graph, past: int, count: int = 3) -> Arrays:
    def array(n: Node) -> np.ndarray:
        shape = [e if isinstance(e, int) else count for e in n.type.shape]
        return np.asarray(RANDOM.standard_normal(shape), np.float32) if n.type.dtype == "f32" else np.array(past)

    return {n.attributes["name"]: array(n) for n in graph.inputs}


def close(name: str, got: Arrays, want: Arrays) -> None:
    for port, array in want.items():
        assert np.abs(got[port] - array).max(initial=0) <= 1e-5 * np.abs(array).max(initial=1e-30), (name, port)


@pytest.mark.parametrize("fuse", [True, False])
def test_in_place_and_apart(fuse: bool, tmp_path: Path) -> None:
    """At the first position, in the middle and at the last, alone and on three threads."""
    where = target("host")
    made = compile_graphs(GRAPHS, tmp_path, fuse, where.flags, where.device, threads=3)
    for name, network in made.items():
        assert isinstance(network, Compiled), (name, network)
        for past, count in ((0, 1), (7, 3), (CONTEXT - CHUNK, CHUNK)):
            fed = given(GRAPHS[name], past, count)
            want = run_graph(GRAPHS[name], fed)
            for threads in (None, 3):
                close(name, network(fed, threads), want)
                close(name, network(fed, threads, in_place=True), want)


def test_every_stage_in_numpy() -> None:
    for name, graph in GRAPHS.items():
        fed = given(graph, 11)
        want = run_graph(graph, fed)
        close(name, run_plan(plan(graph), fed), want)
        close(name, run_program(program_of(graph), fed), want)


@pytest.mark.parametrize("sanitizer", [ADDRESS, THREAD])
def test_stays_inside_and_does_not_race(sanitizer: list[str], tmp_path: Path) -> None:
    graphs = {name: GRAPHS[name] for name in ("one token", "plain", "twice")}
    fed = {name: given(graph, CONTEXT - CHUNK) for name, graph in graphs.items()}
    threads = 3 if sanitizer is THREAD else 1
    got = run_sanitized(graphs, fed, tmp_path, target("host"), sanitizer, threads, in_place=True)
    for name, outputs in got.items():
        close(name, outputs, run_graph(graphs[name], fed[name]))


def test_new_values_are_computed_where_they_belong() -> None:
    """The only kernels beside those of the rest copy a state to itself, which costs nothing in place."""
    written = program_of(GRAPHS["one token"], target("x86_64_avx512").device)
    outputs = {b for _, b, _ in written.outputs}
    by = {b.name: [k for k in written.kernels if k.writes is b] for b in outputs}
    assert [k.template for k in by["k_new"]] == ["map", "contract"]
    assert [k.template for k in by["v_new"]] == ["map", "rows"]
    assert not any(k.writes.space == "arena" and "update" in k.names for k in written.kernels)


def test_few_queries_are_no_block_of_them() -> None:
    """The kernel of attention computes whole blocks of queries: not for 1 to 64 of them, but for 64 and for 1 to 65."""
    kinds = {}
    for low, high in ((1, 64), (64, 64), (1, 65)):
        count = Dimension("n", low, high).extent if low < high else high
        q, k, v = _input("q", 2, count, 16), _input("k", 2, 200, 16), _input("v", 2, 200, 16)
        e = emit("exp", (s := q @ k.swap(1, 2)) - s.reduce("max", [2]))
        y = (e / e.sum([2])) @ v
        graph = Graph((q.node, k.node, v.node), (("y", y.node),))
        kinds[low, high] = "attention" in {block.kind for block in plan(graph).blocks}
    assert kinds == {(1, 64): False, (64, 64): True, (1, 65): True}


@pytest.mark.parametrize(("starts", "shape"), [((0, 4), (2, 2)), ((-1, 0), (2, 2)), ((0, 0), (4, 2)), ((0,), (2,))])
def test_refused(starts: tuple[int, ...], shape: tuple[int, ...]) -> None:
    whole, part = (placeholder("x", Type("f32", s)) for s in ((3, 5), shape))
    with pytest.raises(ModelError, match="part"):
        ops.node("update", whole, part, starts=starts)

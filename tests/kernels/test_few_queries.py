"""Attention of few queries over many keys: groups of heads, narrow keys and values, parts of the keys on threads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from chance import RANDOM
from compiled import Compiled, compile_graphs, program_of, target
from sanitized import ADDRESS, THREAD, run_sanitized

from edgec.execute.executor import run_graph, run_plan, run_program
from edgec.frontend.values import Value, emit, iota, select, size
from edgec.fuse import plan
from edgec.ir import expr as X
from edgec.ir.graph import Graph, placeholder
from edgec.ir.sizes import Dimension
from edgec.ir.types import DTYPES, Type
from edgec.schedule.attention import few_queries

Arrays = dict[str, np.ndarray]
#: Stored type, key heads, heads of a group, features, most tokens of a run, most keys.
CASES = {
    "one head": ("f32", 1, 1, 16, 3, 700),
    "groups of three": ("f32", 2, 3, 20, 5, 530),
    "groups of five": ("f32", 1, 5, 8, 7, 300),
    "groups of eight": ("f32", 2, 8, 16, 9, 600),
    "one token": ("f32", 3, 2, 40, 1, 1100),
    "halves": ("f16", 2, 3, 16, 4, 600),
    "bytes": ("i8", 2, 4, 20, 4, 900),
    "bytes of one head": ("i8", 1, 1, 100, 2, 270),
}


def attention(
    dtype: str, heads: int, group: int, features: int, tokens: int, keys: int, order: tuple[int, ...] = (2, 0, 1, 3)
) -> Graph:
    """Causal attention of the last tokens among ``past`` others; bytes have a scale for each key and each value.

    The result has head, head of a group, token and feature in some ``order``.
    """
    past = X.size("past", 0, keys - tokens)
    count = Dimension("tokens", 1, tokens).extent if tokens > 1 else 1
    seen = X.plain(past + count)

    def given(name: str, kind: str, *shape: X.Extent) -> Value:
        return Value(placeholder(name, Type(kind, shape)))

    q = given("q", "f32", heads, group, count, features)
    k, v = given("k", dtype, heads, features, keys), given("v", dtype, heads, keys, features)
    inputs = [q, k, v]
    scores = (q @ k.part(2, 0, seen).cast("f32").unsqueeze(1)) * 0.3
    if dtype == "i8":
        inputs += [given(f"{name}_scale", "f32", heads, 1, keys) for name in ("k", "v")]
        scores = scores * inputs[3].part(2, 0, seen).unsqueeze(1)
    scores = select(iota(seen, 3, 4) > size(past) + iota(count, 2, 4), float("-inf"), scores)
    e = emit("exp", scores - scores.reduce("max", [3]))
    shares = e / e.sum([3])
    if dtype == "i8":
        shares = shares * inputs[4].part(2, 0, seen).unsqueeze(1)
    y = (shares @ v.part(1, 0, seen).cast("f32").unsqueeze(1)).transpose(*order)
    if order[0] == 2:
        y = y.reshape(count, heads * group * features)
    number = placeholder("past", Type("i64", ()))
    return Graph((number, *(i.node for i in inputs)), (("y", y.node),), sizes=((past, number),))


GRAPHS = {name: attention(*case) for name, case in CASES.items()}


def drawn(name: str, past: int, count: int) -> Arrays:
    found: Arrays = {"past": np.array(past)}
    for node in GRAPHS[name].inputs[1:]:
        shape = [n if isinstance(n, int) else count for n in node.type.shape]
        if node.type.dtype == "i8":
            found[node.attributes["name"]] = RANDOM.integers(-127, 128, shape).astype(np.int8)
        else:
            values = RANDOM.standard_normal(shape)
            scaled = values / 127 if str(node.attributes["name"]).endswith("_scale") else values
            found[node.attributes["name"]] = scaled.astype(DTYPES[node.type.dtype])
    return found


def runs(name: str) -> Iterator[tuple[int, int]]:
    """(past, tokens): the first and the last position, around the end of a block of keys, with few and most tokens."""
    _, _, _, _, tokens, keys = CASES[name]
    for past in (0, few_queries.KEY_BLOCK - 2, few_queries.KEY_BLOCK + 3, keys - tokens):
        for count in sorted({1, tokens}):
            if past + tokens <= keys:
                yield past, count


def close(got: np.ndarray, want: np.ndarray) -> None:
    assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max()


def reference(name: str, fed: Arrays) -> np.ndarray:
    """From the definition, in fp64, of the keys that there are."""
    dtype, heads, group, features, _, _ = CASES[name]
    past, count = int(fed["past"]), fed["q"].shape[2]
    q, k, v = (fed[x].astype(np.float64) for x in "qkv")
    if dtype == "i8":
        k, v = k * fed["k_scale"], v * fed["v_scale"].swapaxes(1, 2)
    y = np.zeros((count, heads, group, features))
    for t in range(count):
        end = past + t + 1
        s = np.einsum("hgf,hfn->hgn", q[:, :, t], k[:, :, :end]) * 0.3
        e = np.exp(s - s.max(-1, keepdims=True))
        y[t] = np.einsum("hgn,hnf->hgf", e / e.sum(-1, keepdims=True), v[:, :end])
    return y.reshape(count, -1)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Compiled]:
    where = target("host")
    made = compile_graphs(GRAPHS, tmp_path_factory.mktemp("few"), True, where.flags, where.device, threads=3)
    assert all(isinstance(network, Compiled) for network in made.values()), made
    return made  # type: ignore[return-value]


@pytest.mark.parametrize("name", CASES)
def test_any_number_of_keys_and_threads(name: str, compiled: dict[str, Compiled]) -> None:
    """Two and three threads give the bits of one."""
    for past, count in runs(name):
        fed = drawn(name, past, count)
        alone = compiled[name](fed)["y"]
        close(alone, reference(name, fed))
        for threads in (2, 3):
            assert np.array_equal(compiled[name](fed, threads)["y"], alone), (past, count, threads)


@pytest.mark.parametrize("name", CASES)
def test_one_kernel_reads_what_is_stored(name: str) -> None:
    """No copy of keys or values is in memory, neither widened nor multiplied by their scales."""
    program = program_of(GRAPHS[name])
    assert "few_queries" in [k.template for k in program.kernels]
    *_, tokens, keys = CASES[name]
    stored = [b for k in program.kernels for b in k.operands if b.space == "arena" and not b.name.startswith("scratch")]
    assert all(b.elements <= tokens * max(keys, 1 << 10) for b in stored), [(b.name, b.elements) for b in stored]


@pytest.mark.parametrize("order", [(2, 0, 1, 3), (0, 2, 3, 1), (2, 1, 3, 0)])
def test_lanes_of_results_run_along_features(order: tuple[int, ...]) -> None:
    """Heads that are neighbors in the result have keys of their own: no lanes run along them."""
    program = program_of(attention("f32", 3, 4, 20, 5, 530, order))
    (found,) = (s.schedule for k in program.kernels for s in k.steps if isinstance(s.schedule, few_queries.FewQueries))
    assert found.d.value.extent == 20 and found.d in X.free_variables(found.value) - X.free_variables(found.key)
    assert sorted(v.value.extent for v in found.loops if isinstance(v.value.extent, int)) == [3]
    assert len(found.rows) == 2 and found.n.value.extent is not found.d.value.extent


def test_every_stage_in_numpy() -> None:
    for name in ("groups of three", "bytes"):
        fed = drawn(name, 40, 3)
        want = run_graph(GRAPHS[name], fed)["y"]
        close(want, reference(name, fed))
        close(run_plan(plan(GRAPHS[name]), fed)["y"], want)
        close(run_program(program_of(GRAPHS[name]), fed)["y"], want)


@pytest.mark.parametrize("sanitizer", [ADDRESS, THREAD])
def test_stays_inside_and_does_not_race(sanitizer: list[str], tmp_path: Path) -> None:
    graphs = {name: GRAPHS[name] for name in ("groups of three", "bytes", "one token")}
    fed = {name: drawn(name, CASES[name][5] - CASES[name][4], CASES[name][4]) for name in graphs}
    got = run_sanitized(graphs, fed, tmp_path, target("host"), sanitizer, 3 if sanitizer is THREAD else 1)
    for name, outputs in got.items():
        close(outputs["y"], reference(name, fed[name]))

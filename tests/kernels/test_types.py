"""Every element type in compiled code: cast to every other, reinterpreted, and moved."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from compiled import Compiled, compile_graphs

from edgec import ops
from edgec.errors import ModelError
from edgec.ir import evaluate
from edgec.ir.graph import Graph, Node, constant, placeholder
from edgec.ir.types import DTYPES, FLOATS, STORED, Type, bits, plain

NARROW = sorted(STORED | {"f16", "bf16"})


def values(dtype: str) -> np.ndarray:
    """256 elements: every code of a byte, or numbers that the narrow types can and cannot hold."""
    kind = DTYPES[dtype]
    if dtype == "bool":
        return np.arange(256) % 3 == 0
    if bits(dtype) < 8:
        return (np.arange(256, dtype=np.uint8) % 2 ** bits(dtype)).view(kind)
    if kind.itemsize == 1:
        return np.arange(256, dtype=np.uint8).view(kind)
    random = np.random.default_rng(1)
    if dtype in FLOATS:
        return np.concatenate([random.standard_normal(128), random.integers(-8, 8, 128)]).astype(kind)
    return np.arange(256).astype(kind) - kind.type(128 if dtype[0] == "i" else 0)


def held(source: str, target: str, x: np.ndarray) -> np.ndarray:
    """The elements whose cast means something: finite ones, where the target is an integer."""
    wide = x.astype(np.float64)
    if target in FLOATS or target == "bool":
        return np.ones(x.shape, bool)
    low = 0 if target[0] in "ub" else -(2.0**31)
    return np.isfinite(wide) & (np.trunc(wide) >= low) & (wide < 2.0**31)


def same(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return (plain(got) == plain(want)) | ((got != got) & (want != want))


def test_casts_between_all_types(tmp_path: Path) -> None:
    pairs = [(a, b) for a, b in product(DTYPES, DTYPES) if a != b and (a in NARROW or b in NARROW)]
    graphs, given, wanted = {}, {}, {}
    for source in DTYPES:
        x = placeholder("x", Type(source, (256,)))
        targets = [b for a, b in pairs if a == source]
        graphs[source] = Graph((x,), tuple((b, ops.node("cast", x, to=b)) for b in targets))
        given[source] = {"x": values(source)}
        wanted[source] = evaluate.run(graphs[source], given[source])
    compiled = compile_graphs(graphs, tmp_path)
    for source, target in pairs:
        net = compiled[source]
        assert isinstance(net, Compiled)
        x = given[source]["x"]
        got, want = net(given[source])[target], wanted[source][target]
        wrong = ~same(got, want) & held(source, target, x)
        assert not wrong.any(), f"{source} {x[wrong][0]!r} to {target}: {got[wrong][0]!r}, not {want[wrong][0]!r}"


def test_bits_of_all_types(tmp_path: Path) -> None:
    graphs, given = {}, {}
    for source in DTYPES:
        x = placeholder("x", Type(source, (256,)))
        targets = [b for b in DTYPES if b not in (source, "bool") and bits(b) == bits(source)]
        graphs[source] = Graph((x,), tuple((b, ops.node("bitcast", x, to=b)) for b in targets))
        given[source] = {"x": values(source)}
    for source, net in compile_graphs(graphs, tmp_path).items():
        assert isinstance(net, Compiled)
        want = evaluate.run(graphs[source], given[source])
        for target, got in net(given[source]).items():
            assert same(got, want[target]).all(), f"{source} as {target}"
            assert same(want[target], plain(given[source]["x"]).view(DTYPES[target])).all() or bits(source) < 8


def moved(x: Node) -> Node:
    """Through every kind of movement, and a choice."""
    kind = DTYPES[x.type.dtype]
    y = ops.node("transpose", ops.node("reshape", x, shape=(16, 16)), perm=(1, 0))
    y = ops.node("pad", y, before=(1, 0), after=(0, 2), value=1)
    y = ops.node("concat", y, constant(np.ones((17, 1)).astype(kind)), axis=1)
    y = ops.node("gather", y, constant(np.array([3, 0, 16, 5])), axis=0)
    upside_down = ops.node("slice", y, starts=(3, 0), steps=(-1, 1), shape=(4, 19))
    return ops.node("select", constant(np.arange(19) % 2 == 0), y, upside_down)


def test_movement_of_all_types(tmp_path: Path) -> None:
    graphs, given = {}, {}
    for dtype in NARROW:
        x = placeholder("x", Type(dtype, (256,)))
        graphs[dtype] = Graph((x,), (("y", moved(x)),))
        given[dtype] = {"x": values(dtype)}
    for dtype, net in compile_graphs(graphs, tmp_path).items():
        assert isinstance(net, Compiled)
        want = evaluate.run(graphs[dtype], given[dtype])["y"]
        assert same(net(given[dtype])["y"], want).all(), dtype


def test_stored_types_have_no_arithmetic() -> None:
    x = placeholder("x", Type("f8e5m2", (4,)))
    with pytest.raises(ModelError, match="f8e5m2"):
        ops.node("add", x, x)
    with pytest.raises(ModelError, match="f8e5m2"):
        ops.node("reduce", x, combine="max", axes=(0,))
    with pytest.raises(ModelError, match="f8e5m2"):
        ops.node("argsort", x, axis=0)
    with pytest.raises(ModelError, match="bits"):
        ops.node("bitcast", x, to="i16")

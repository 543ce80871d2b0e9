"""Operators refuse operands that do not fit: each case differs in one thing from operands that are taken.

`test_every_refusal_is_reached` looks whether every `raise` of a definition has a case.
"""

from __future__ import annotations

import ast
import traceback
from pathlib import Path
from typing import Any

import pytest

import edgec
from edgec import ops
from edgec.errors import ModelError
from edgec.ir.expr import size
from edgec.ir.graph import placeholder
from edgec.ir.types import Type
from edgec.ops.contraction import transposed_conv as transposed

N = size("n", 1, 8)
OPS = Path(edgec.__file__).parent / "ops"

#: An operator, its attributes, the types of operands that it takes, and changes: an operand by its number, None for
#: one less, or an attribute by its name.
Change = dict[Any, Any]
CASES: list[tuple[str, dict[str, Any], list[str], list[Change]]] = [
    (
        "attention_statistics",
        {},
        ["f32 2 5 8", "f32 2 7 8", "f32 1 5 7"],
        [
            {1: "f32 2 7 9"},
            {1: "f32 3 7 8"},
            {1: "f32 8"},
            {1: "f16 2 7 8"},
            {2: "f32 2 5 6"},
            {2: "f32 5 7"},
            {2: "f64 1 5 7"},
            {0: "f32 2 0 8", 2: "f32 1 1 7"},
            {3: "f32 1 5 7"},
        ],
    ),
    (
        "attention_gradients",
        {},
        ["f32 2 5 8", "f32 2 7 8", "f32 2 7 3", "f32 2 5 3", "f32 2 5", "f32 20", "f32 2 1 7"],
        [
            {1: "f32 2 7 9"},
            {2: "f32 2 6 3"},
            {3: "f32 2 5 4"},
            {4: "f32 2 4"},
            {5: "f32 21"},
            {6: "f32 2 2 7"},
            {0: "f16 2 5 8"},
            {2: "f32 2 7 0", 3: "f32 2 5 0"},
            {2: "f32 7"},
            {7: "f32 2 1 7"},
        ],
    ),
    ("random", {"shape": (3,)}, ["i32"], [{0: "i64"}, {0: "i32 1"}]),
    ("matmul", {}, ["f32 2 3", "f32 3 4"], [{1: "f32 4 3"}, {0: "f32 3"}, {1: "f32 3"}]),
    (
        "conv",
        {"strides": (1,), "dilations": (1,), "groups": 2},
        ["f32 1 4 9", "f32 6 2 3"],
        [
            {0: "f32 1 6 9"},
            {1: "f32 5 2 3"},
            {"groups": 1},
        ],
    ),
    ("branch", {}, ["bool", "f32 2", "f32 2"], [{0: "i32"}, {0: "bool 2"}, {1: "f32 3"}, {2: "f64 2"}]),
    (
        "dequantize",
        {"axis": 0, "block": 4},
        ["i8 8 3", "f32 2 3", "i8 2 1"],
        [
            {0: "f32 8 3"},
            {0: "bool 8 3"},
            {1: "i32 2 3"},
            {1: "f32 3 3"},
            {1: "f32 1 3"},
            {1: "f32 2 2"},
            {1: "f32 2"},
            {2: "i8 1 1"},
            {2: "i8 2 2"},
            {2: "i8 2"},
            {"block": 3},
        ],
    ),
    (
        "add",
        {},
        ["f32 2 3", "f32 1 3"],
        [
            {1: "f32 2 2"},
            {1: "f64 1 3"},
            {1: None},
            {2: "f32 3"},
            {0: "i4 2 3", 1: "i4 1 3"},
        ],
    ),
    ("select", {}, ["bool 2", "f32 2", "f32 2"], [{1: "f64 2"}, {2: "f32 3"}, {2: None}]),
    ("mulshift", {}, ["i32 2", "i32 2", "i32"], [{0: "i64 2", 1: "i64 2", 2: "i64"}]),
    ("atan", {}, ["f32 2"], [{0: "i64 2"}, {0: "bool 2"}]),
    ("bitcast", {"to": "i32"}, ["f32 2"], [{0: "f64 2"}, {"to": "i16"}]),
    ("gather", {"axis": 0}, ["f32 3 2", "i64 4"], [{0: "f32 0 2"}]),
    ("gather_elements", {"axis": 1}, ["f32 3 2", "i64 3 7"], [{1: "i64 4 7"}, {1: "i64 3"}, {0: "f32 3 0"}]),
    ("gather_nd", {"batch": 1}, ["f32 2 3 4", "i64 2 5 2"], [{1: "i64 2 5 3"}, {1: "i64 3 5 2"}, {0: "f32 2 3 0"}]),
    ("reshape", {"shape": (6,)}, ["f32 2 3"], [{"shape": (5,)}, {"shape": (6, 2)}]),
    (
        "transpose",
        {"perm": (1, 0)},
        ["f32 2 3"],
        [{"perm": (0, 0)}, {"perm": (0,)}, {"perm": (0, 1, 2)}, {"perm": (1, 2)}],
    ),
    ("broadcast", {"shape": (2, 3)}, ["f32 3"], [{"shape": (2, 1)}, {"shape": (2,)}, {0: "f32 2"}, {0: "f32 1 2 3"}]),
    (
        "slice",
        {"starts": (1,), "steps": (2,), "shape": (3,)},
        ["f32 6"],
        [
            {"starts": (2,)},
            {"starts": (-1,)},
            {"steps": (3,)},
            {"shape": (4,)},
            {0: "f32 5"},
            {"steps": (-1,)},
        ],
    ),
    ("slice", {"starts": (5,), "steps": (-2,), "shape": (3,)}, ["f32 6"], [{"starts": (6,)}, {"starts": (3,)}]),
    ("concat", {"axis": 0}, ["f32 2 3", "f32 4 3"], [{1: "f32 4 2"}, {1: "f32 3"}, {1: "f32 4 3 1"}]),
    (
        "update",
        {"starts": (1, 0)},
        ["f32 4 3", "f32 3 2"],
        [
            {1: "f64 3 2"},
            {1: "f32 3"},
            {"starts": (2, 0)},
            {"starts": (-1, 0)},
            {"starts": (1, 2)},
            {1: "f32 4 2"},
        ],
    ),
    (
        "windows",
        {"kernel": (2,), "strides": (1,), "dilations": (1,), "columns": 6, "before": (0,), "places": (4,)},
        ["f32 1 3 5"],
        [
            {"columns": 5},
            {0: "f32 1 3 5 5"},
            {0: "f32 1 4 5"},
        ],
    ),
    (
        "collective",
        {"kind": "sum", "ranks": 2},
        ["f32 3"],
        [{"kind": "mean"}, {0: "bool 3"}, {0: "f8e4m3fn 3"}, {0: N}],
    ),
    ("collective", {"kind": "gather", "ranks": 2}, ["bool 3"], [{0: N}, {"kind": "sum"}]),
    ("prefix", {"combine": "add", "axis": 0}, ["f32 3"], [{0: "bool 3"}, {0: "i4 3"}]),
    ("reduce", {"combine": "add", "axes": (0,)}, ["f32 3"], [{"combine": "mean"}, {0: "i4 3"}]),
    (
        "scatter_elements",
        {"axis": 0, "combine": "add"},
        ["f32 3 4", "i64 5 4", "f32 5 4"],
        [
            {1: "i64 4 4"},
            {1: "i64 5 5", 2: "f32 5 5"},
            {2: "f64 5 4"},
            {"combine": "mean"},
            {0: "i4 3 4", 2: "i4 5 4"},
            {1: "i64 5", 2: "f32 5"},
        ],
    ),
    (
        "scatter_nd",
        {},
        ["f32 3 4", "i64 5 1", "f32 5 4"],
        [
            {1: "i64 5 2"},
            {1: "i64 5 3"},
            {2: "f32 5 3"},
            {2: "f32 4 4"},
            {1: "i64"},
            {2: "i32 5 4"},
            {"combine": "mean"},
        ],
    ),
    ("compact", {}, ["bool 3 2"], [{0: "u8 3 2"}]),
    (
        "non_max_suppression",
        {"most": 4},
        ["f32 1 4 4", "f32 1 2 4", "i64", "f32 1", "f32"],
        [
            {0: "f32 1 4 5"},
            {0: "f32 4 4"},
            {1: "f32 2 4"},
            {1: "f32 2 2 4"},
            {1: "f32 1 2 5"},
            {0: "f16 1 4 4"},
            {1: "f64 1 2 4"},
            {3: "f64 1"},
            {4: "f64"},
            {2: "i32"},
            {2: "i64 2"},
            {3: "f32 2"},
            {4: "f32 2"},
            {"most": 5},
            {"most": -1},
        ],
    ),
    ("argsort", {"axis": 1, "count": 3}, ["f32 2 3"], [{"count": 4}, {"count": -1}, {0: "i4 2 3"}]),
    ("argsort", {"axis": 0}, [f"i8 {2**32 - 1}"], [{0: f"i8 {2**32}"}]),
    ("argsort_rows", {}, ["f32 2 3"], [{0: "f32 2"}, {0: "f32 2 3 1"}, {0: "i4 2 3"}]),
    (
        "pairwise_coupling",
        {"classes": 3},
        ["f32 5 3"],
        [{0: "f32 5 2"}, {0: "f16 5 3"}, {0: "f32 3"}],
    ),
    (
        "descend",
        {"depth": 3},
        ["f32 5 2", "i32 3", "f32 7", "i32 7 4"],
        [
            {0: "f32 5"},
            {1: "i32 3 1"},
            {2: "f32 7 1"},
            {3: "i32 7 3"},
            {3: "i32 6 4"},
            {0: "f16 5 2", 2: "f16 7"},
            {2: "f64 7"},
            {1: "i64 3"},
            {3: "i64 7 4"},
        ],
    ),
    (
        "recurrence",
        {"kind": "lstm", "activations": (("sigmoid", 1.0, 0.0), ("tanh", 1.0, 0.0), ("tanh", 1.0, 0.0))},
        ["f32 4 2 8", "f32 8", "f32 1 2 32", "f32 2 2", "f32 2 2"],
        [
            {0: "f32 4 2 9"},
            {0: "f32 2 8"},
            {1: "f32 7"},
            {1: "f64 8"},
            {2: "f32 2 2 32"},
            {3: "f32 2 3"},
            {4: "f64 2 2"},
            {4: None},
        ],
    ),
]


def made(op: str, attributes: dict[str, Any], operands: list[str], change: Change) -> None:
    types: list[Any] = [*operands]
    for key in (k for k in change if isinstance(k, int)):
        types[key : key + 1] = [] if change[key] is None else [change[key]]
    nodes = []
    for k, text in enumerate(types):
        dtype, *extents = ("f32", N) if text is N else text.split()
        shape = tuple(n if n is N else int(n) for n in extents)
        nodes.append(placeholder(f"x{k}", Type(dtype, shape)))
    attributes = attributes | {k: v for k, v in change.items() if isinstance(k, str)}
    ops.node(op, *nodes, **attributes)


def refused(case: tuple[str, dict[str, Any], list[str], list[Change]]) -> set[tuple[str, int]]:
    """The places of the package that refuse the changes of a case: each has to be refused."""
    op, attributes, operands, changes = case
    made(op, attributes, operands, {})
    found = set()
    for change in changes:
        with pytest.raises(ModelError) as caught:
            made(op, attributes, operands, change)
            pytest.fail(f"{op} takes {change}")
        last = traceback.extract_tb(caught.tb)[-1]
        found.add((Path(last.filename).name, last.lineno or 0))
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} {case[2]}")
def test_what_differs_in_one_thing_is_refused(case: tuple[str, dict[str, Any], list[str], list[Change]]) -> None:
    assert refused(case)


def raises() -> set[tuple[str, int]]:
    """Every place where a definition refuses its operands: no derivative, no graph of others, and nothing that runs."""
    found = set()
    for path in OPS.glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for function in (n for n in tree.body if isinstance(n, ast.FunctionDef)):
            if any(ast.unparse(a.annotation) == "Node" for a in function.args.args if a.annotation):
                continue
            inner = [n for n in ast.walk(function) if isinstance(n, ast.FunctionDef) and n.name == "compute"]
            running = {n for f in inner for n in ast.walk(f)}
            of = [n for n in ast.walk(function) if isinstance(n, ast.Raise) and n not in running]
            found |= {(path.name, n.lineno) for n in of}
    return found


@pytest.mark.parametrize(("channels", "groups", "fits"), [(4, 2, True), (6, 2, False), (4, 3, False)])
def test_transposed_convolutions(channels: int, groups: int, fits: bool) -> None:
    x, w = placeholder("x", Type("f32", (1, channels, 5))), placeholder("w", Type("f32", (4, 3, 2)))
    if fits:
        assert transposed(x, w, (1,), (1,), groups, (6,)).type.shape == (1, 6, 6)
    else:
        with pytest.raises(ModelError, match="transposed convolution of"):
            transposed(x, w, (1,), (1,), groups, (6,))


def test_every_refusal_is_reached() -> None:
    reached = set().union(*map(refused, CASES))
    assert not raises() - reached
    assert len(raises()) > 35

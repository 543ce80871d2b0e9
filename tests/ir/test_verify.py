"""The verifier accepts good graphs, and refuses one bad graph per invariant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from edgec.ir.expr import size
from edgec.ir.graph import Array, Graph, Node, constant, intern, placeholder
from edgec.ir.types import Type
from edgec.ir.verify import INVARIANTS, VerifyError, verify
from edgec.ops import node

F32 = Type("f32", (2, 3))
X = placeholder("x", F32)


def raw(op: str, args: tuple[Node, ...], type: Type, **attrs: Any) -> Node:
    """A node as no operator would make it."""
    return intern(op, args, attrs, type)


def result(y: Node) -> Graph:
    return Graph((X,), (("y", y),), origin={y: ("/block/Conv_3",)})


def reads_itself() -> Graph:
    loop = Node()
    loop.op, loop.attrs, loop.type, loop._key = "neg", (), F32, "0" * 24
    loop.args = (loop,)
    return result(loop)


BAD: dict[str, Callable[[], Graph]] = {
    "has_outputs": lambda: Graph((X,), ()),
    "outputs_are_named_once": lambda: Graph((X,), (("y", X), ("y", node("neg", X)))),
    "inputs_are_inputs": lambda: Graph((X, node("neg", X)), (("y", X),)),
    "inputs_are_named_once": lambda: Graph((X, placeholder("x", Type("f32", (1,)))), (("y", X),)),
    "arguments_come_first": reads_itself,
    "inputs_are_declared": lambda: Graph((), (("y", node("neg", X)),)),
    "operators_are_known": lambda: result(raw("negate", (X,), F32)),
    "dtypes_are_known": lambda: result(raw("neg", (X,), Type("f128", (2, 3)))),
    "extents_are_counts": lambda: result(raw("neg", (X,), Type("f32", (2, -3)))),
    "sizes_are_scalars": lambda: Graph((), (("y", node("iota", shape=(size("n", 0, 4),), axis=0)),)),
    "demands_are_truth_values": lambda: Graph((X,), (("y", X),), demands=(("no", X),)),
    "attributes_are_plain": lambda: result(raw("transpose", (X,), Type("f32", (3, 2)), perm=[1, 0])),
    "constants_match_their_type": lambda: result(raw("const", (), F32, value=Array(np.zeros(6, np.float32)))),
    "types_follow_from_formulas": lambda: result(raw("neg", (X,), Type("f32", (3, 2)))),
}


def test_every_invariant_has_a_bad_graph() -> None:
    assert list(BAD) == [invariant.__name__ for invariant in INVARIANTS]


@pytest.mark.parametrize("invariant", BAD)
def test_a_bad_graph_is_refused_by_its_invariant(invariant: str) -> None:
    with pytest.raises(VerifyError) as caught:
        verify(BAD[invariant]())
    assert invariant in caught.value.message


def test_the_error_names_the_node_and_its_origin() -> None:
    with pytest.raises(VerifyError, match=r"neg \w{8} from '/block/Conv_3': the type is f32\[3,2\]"):
        verify(BAD["types_follow_from_formulas"]())


def test_an_operator_that_refuses_its_operands_is_told() -> None:
    bad = raw("matmul", (X, X), F32)
    with pytest.raises(VerifyError, match="cannot multiply"):
        verify(result(bad))


def test_good_graphs_pass() -> None:
    w = constant(np.ones((3, 4), np.float32))
    verify(result(node("matmul", X, w)))
    verify(Graph((X, placeholder("unused", F32)), (("y", X), ("z", X))))
    verify(Graph((), (("y", node("iota", shape=(2, 0), axis=1)),)))

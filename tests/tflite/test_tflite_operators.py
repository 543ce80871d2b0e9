"""Every operator and element type beside the interpreter: as numpy means it, and all of them in compiled C."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import tflite_matrix
from small_tflite import File, options
from tflite_cases import CASES, KINDS

import edgec
from edgec import ops, pipeline
from edgec.check.compare import compare
from edgec.check.litert import LitertReference
from edgec.execute.samples import random_inputs
from edgec.frontend.tflite import import_tflite, parse, supported
from edgec.ir import evaluate
from edgec.ir.graph import Graph, Node, placeholder, rewrite
from edgec.options import resolve

#: Quantized operators that the kernels compute in another way than by their formula: a result may be one step off.
ROUNDED_OTHERWISE = {
    "LEAKY_RELU", "PRELU", "MEAN", "DIV", "L2_NORMALIZATION", "RESIZE_BILINEAR", "SQUARED_DIFFERENCE", "SOFTMAX",
    "LOGISTIC", "TANH", "HARD_SWISH", "ELU", "LOG_SOFTMAX", "SUM",
}  # fmt: skip
TOLERANCE = 1e-5
#: Those of this project: other tests register more.
SHIPPED = frozenset(supported())


@cache
def imported(name: str) -> Graph:
    return import_tflite(parse(CASES[name]))


@cache
def expected(name: str) -> list[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]]:
    reference = LitertReference(parse(CASES[name]))
    return [(inputs, reference.run(inputs)) for inputs in (random_inputs(imported(name), seed) for seed in range(3))]


def agree(name: str, got: dict[str, np.ndarray], want: dict[str, np.ndarray]) -> None:
    steps = 1 if name.split("-")[0] in ROUNDED_OTHERWISE else 0
    for output, value in want.items():
        difference = compare(output, got[output], value)
        limit = steps if value.dtype.kind in "iu" else TOLERANCE * np.abs(value).max(initial=0)
        assert difference.max_abs <= limit, f"{name}: {difference}"


@pytest.mark.parametrize("name", CASES)
def test_meaning(name: str) -> None:
    graph = imported(name)
    for inputs, want in expected(name):
        agree(name, evaluate.run(graph, inputs), want)


@pytest.mark.parametrize("kind", ["f32", "i8", "u8"])
def test_compiled(kind: str, tmp_path: Path) -> None:
    """All operators of an element type as one network."""
    names = [n for n in CASES if kind == next((k for k in ("i8", "u8") if f"-{k}" in n), "f32")]
    built = edgec.build(together(names), tmp_path / "net", start="simplify")  # type: ignore[arg-type]
    for seed in range(3):
        inputs = {f"{n}/{x}": a for n in names for x, a in expected(n)[seed][0].items()}
        got = built.network.run(inputs)
        for n in names:
            want = expected(n)[seed][1]
            agree(n, {output: got[f"{n}/{output}"] for output in want}, want)


def together(names: list[str]) -> Graph:
    """The graphs of several models as one; inputs and outputs have the model's name before theirs."""
    inputs: list[Node] = []
    outputs: list[tuple[str, Node]] = []
    for name in names:

        def renamed(node: Node, args: tuple[Node, ...], name: str = name) -> Node:
            if node.op == "input":
                return placeholder(f"{name}/{node.attributes['name']}", node.type)
            return node if not args else ops.node(node.op, *args, **node.attributes)

        graph = rewrite(imported(name), renamed)
        inputs += graph.inputs
        outputs += [(f"{name}/{output}", node) for output, node in graph.outputs]
    return Graph(tuple(inputs), tuple(outputs))


def test_what_is_not_tried_here() -> None:
    """Operators that other tests cover, and those that the interpreter has no kernel of its own for."""
    tried = {name.split("-")[0] for name in CASES}
    assert SHIPPED - tried == {
        "ASSIGN_VARIABLE", "CALL_ONCE", "READ_VARIABLE", "VAR_HANDLE", "SVDF", "UNIDIRECTIONAL_SEQUENCE_LSTM",
        "Convolution2DTransposeBias", "COMPLEX_ABS", "IMAG", "REAL", "RFFT2D",
        "MaxPoolingWithArgmax2D", "MaxUnpooling2D", "CALL", "IF", "WHILE",
    }  # fmt: skip


def residual(kind: str) -> bytes:
    """Two convolutions, the operand added to the second: what mobile networks repeat."""
    f = File()
    dtype, scale, zero = KINDS[kind]
    told = {} if scale is None else {"scale": scale, "zero": zero}
    weights = {"scale": 0.02} if kind == "i8" else {}
    random = np.random.default_rng(3)
    values = [f.main.input(dtype, (1, 8, 8, 4), "x", **told)]
    for k in range(2):
        w = random.integers(-90, 90, (4, 3, 3, 4)) if kind == "i8" else random.standard_normal((4, 3, 3, 4))
        kernel = f.main.const(w, "i8" if kind == "i8" else "f32", **weights)
        bias = f.main.const(random.integers(-9, 9, 4), "i32" if kind == "i8" else "f32")
        values.append(f.main.tensor(dtype, (1, 8, 8, 4), f"conv{k}", **told))
        f.main.op("CONV_2D", [values[-2], kernel, bias], [values[-1]], options("Conv2D", strideH=1, strideW=1))
    values.append(f.main.tensor(dtype, (1, 8, 8, 4), "sum", **told))
    f.main.op("ADD", [values[0], values[-2]], [values[-1]], options("Add", fusedActivationFunction=1))
    values.append(f.main.tensor(dtype, (1, 8, 8, 4), "y", **told))
    kernel = f.main.const(np.ones((1, 3, 3, 4)), "i8" if kind == "i8" else "f32", **weights)
    bias = f.main.const(np.zeros(4), "i32" if kind == "i8" else "f32")
    depthwise = options("DepthwiseConv2D", strideH=1, strideW=1, depthMultiplier=1)
    f.main.op("DEPTHWISE_CONV_2D", [values[-2], kernel, bias], [values[-1]], depthwise)
    f.main.output(values[-1])
    return f.content()


@pytest.mark.parametrize("kind", ["f32", "i8"])
def test_kernels_of_mobile_networks(kind: str) -> None:
    """One kernel a convolution, the sum inside one; memory holds the network's own type, and nothing is transposed."""
    run = pipeline.run(parse(residual(kind)), pipeline.Context(resolve({})), until="fuse")
    blocks = run["fuse"].blocks
    assert sum(any(n.op == "conv" for n in b.nodes) for b in blocks) == 3
    moved = [b for b in blocks if not any(n.op == "conv" for n in b.nodes)]
    assert {n.op for b in moved for n in b.nodes} <= {"transpose", "copy"}  # the input, brought inside its padding
    assert len(moved) <= 1
    assert {b.output.type.dtype for b in blocks} == {KINDS[kind][0]}


def test_the_page_of_operators_is_up_to_date() -> None:
    assert tflite_matrix.PAGE.read_text(encoding="utf-8") == tflite_matrix.text(), (
        "run python tests/tflite/tflite_matrix.py"
    )

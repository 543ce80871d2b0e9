"""Models that must be refused. The whole message is the expectation: where, what, and what to do about it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from refused_models import ABSENT, RELU, branches, damaged, function, recurrent, refusal, with_weights
from small_models import model, node, tensor_input, weights

STRUCTURE: dict[str, tuple[onnx.ModelProto, str]] = {
    "no nodes": (
        model([], outputs=["x"]),
        "model: the graph has no nodes\n  hint: export the model again",
    ),
    "no outputs": (
        model([node("Relu", ["x"], ["y"])], outputs=[]),
        "model: the graph has no outputs\n  hint: export the model again",
    ),
    "old operator set": (
        model([node("Relu", ["x"], ["y"], name="n")], opset=5),
        (
            "model: 1 operator of the model is not supported\n"
            "  Relu, used by 'n': it meant something else in operator set 5; upgrade with "
            "onnx.version_converter.convert_version(model, 17)"
        ),
    ),
    "undefined tensor": (
        model([node("Add", ["x", "z"], ["y"], name="plus")]),
        (
            "node 'plus' (Add): operand 'z' is neither an input nor a weight, and computed by no node\n"
            "  hint: the file is damaged, or was cut out of a larger model"
        ),
    ),
    "output nobody computes": (
        model([node("Relu", ["x"], ["z"])]),
        "model: output 'y' is computed by no node\n  hint: the file is damaged",
    ),
    "two outputs of one name": (
        model([node("SequenceConstruct", ["x"], ["s"]), node("Abs", ["x"], ["s[0]"])], outputs=["s", "s[0]"]),
        (
            "model: outputs share a name: 's[0]', 's[0]'\n"
            "  hint: an output that is a sequence becomes the outputs NAME[0], NAME[1], ..."
        ),
    ),
    "circle": (
        model([node("Add", ["x", "b"], ["y"], name="first"), node("Relu", ["y"], ["b"], name="second")]),
        "model: the nodes 'first', 'second' run in a circle",
    ),
    "computed twice": (
        model([node("Relu", ["x"], ["y"], name="one"), node("Abs", ["x"], ["y"], name="two")]),
        "node 'two' (Abs): tensor 'y' is computed twice\n  hint: every tensor of an ONNX graph has one origin",
    ),
    "two inputs of one name": (
        model([node("Relu", ["x"], ["y"])], [tensor_input("x", [1]), tensor_input("x", [1])]),
        "model: two inputs are called 'x'",
    ),
    "two initializers of one name": (
        model([node("Add", ["x", "w"], ["y"])], initializers=[weights("w", [1.0]), weights("w", [2.0])]),
        "model: two initializers are called 'w'",
    ),
    "attribute that does not exist": (
        model([node("Relu", ["x"], ["y"], name="r", alpha=3.0)]),
        (
            "node 'r' (Relu): not a valid ONNX node: Unrecognized attribute: alpha for operator Relu\n"
            "  hint: export the model again"
        ),
    ),
    "attribute that is missing": (
        model([node("Concat", ["x"], ["y"], name="c")]),
        (
            "node 'c' (Concat): not a valid ONNX node: Required attribute 'axis' is missing.\n"
            "  hint: export the model again"
        ),
    ),
    "operator set not declared": (
        model([node("Thing", ["x"], ["y"], name="t", domain="my")]),
        (
            "node 't' (Thing): the model does not say which version of operator set 'my' it uses\n"
            "  hint: add it to opset_import"
        ),
    ),
    "function that calls itself": (
        model(
            [node("F", ["x"], ["y"], domain="my", name="call")],
            domains=["my"],
            functions=[function("F", node("F", ["a"], ["b"], domain="my"))],
        ),
        "node 'call/b' (F): function 'F' calls itself\n  hint: ONNX has no recursion",
    ),
    "positions beside the tensor": (
        with_weights("GatherElements", np.zeros((2, 4), np.int64)),
        "node 'n' (GatherElements): positions i64[2,4] do not fit f32[2,3]",
    ),
    "more batches than there are": (
        with_weights("GatherND", np.zeros((5, 1), np.int64), batch_dims=1),
        "node 'n' (GatherND): positions i64[5,1] do not fit f32[2,3]",
    ),
    "positions in nothing": (
        model(
            [node("Gather", ["x", "w"], ["y"], name="n")],
            [tensor_input("x", [0, 3])],
            initializers=[weights("w", np.zeros((), np.int64))],
        ),
        "node 'n' (Gather): index 0 .. 0 is outside a dimension of 0",
    ),
    "positions that data give in nothing": (
        model(
            [node("Gather", ["x", "i"], ["y"], name="n")],
            [tensor_input("x", [0, 3]), tensor_input("i", [2], TensorProto.INT64)],
        ),
        "node 'n' (Gather): i64[2] positions in f32[0,3], which has no elements",
    ),
    **{
        f"{op} of nothing": (
            model([node(op, ["x"], ["y"], name="n", kernel_shape=[0, 2])], [tensor_input("x", [1, 1, 4, 4])]),
            (
                f"node 'n' ({op}): kernel [0, 2] has no elements\n"
                "  hint: a window has at least one along every dimension"
            ),
        )
        for op in ("MaxPool", "AveragePool", "LpPool")
    },
    "bias of another cell": (
        recurrent("GRU", 15, (1, 16)),
        ("node 'n' (GRU): the biases B f32[1,16] do not fit\n  hint: GRU of 5 units and 1 direction(s) takes [1, 30]"),
    ),
    "bias that is too long": (
        recurrent("LSTM", 20, (1, 41)),
        (
            "node 'n' (LSTM): the biases B f32[1,41] do not fit\n"
            "  hint: LSTM of 5 units and 1 direction(s) takes [1, 40]"
        ),
    ),
    "weights of another cell": (
        recurrent("RNN", 15, (1, 10)),
        (
            "node 'n' (RNN): the weights W f32[1,15,3] do not fit\n"
            "  hint: RNN of 5 units and 1 direction(s) takes [1, 5, 3]"
        ),
    ),
    "products of two types": (
        with_weights("MatMul", np.ones((3, 4), np.int64)),
        "node 'n' (MatMul): operands of different types: f32, i64",
    ),
    "function that is given too little": (
        model(
            [node("F", [""], ["y"], domain="my", name="call")],
            domains=["my"],
            functions=[function("F", node("Add", ["a", "a"], ["b"], name="plus"))],
        ),
        "node 'call/plus' (Add): operand 0 is missing\n  hint: export the model again",
    ),
}

OPERANDS: dict[str, tuple[onnx.ModelProto, str]] = {
    "every unsupported operator at once": (
        model(
            [
                node("CastMap", ["x"], ["a"], name="map", domain="ai.onnx.ml"),
                node("Fused", ["a"], ["b"], name="fused", domain="com.microsoft"),
                node("Nonsense", ["b"], ["y"], name="one"),
                node("Nonsense", ["b"], ["y2"], name="two"),
                node("Nonsense", ["b"], ["unused"], name="three"),
            ],
            outputs=["y", "y2"],
            domains=["com.microsoft", "ai.onnx.ml"],
        ),
        (
            "model: 3 operators of the model are not supported\n"
            "  ai.onnx.ml::CastMap, used by 'map': it takes strings or maps, which are not supported; do this step in "
            "your own code\n"
            "  com.microsoft::Fused, used by 'fused': lower it yourself: "
            '@onnx("Fused", domain="com.microsoft") in a Python file, its folder by --ops\n'
            "  Nonsense, used by 'one', 'two', 'three': ONNX has no such operator"
        ),
    ),
    "complex input": (
        model([node("Identity", ["x"], ["y"])], [tensor_input("x", [1], TensorProto.COMPLEX64)]),
        "model: input 'x': element type complex64 is not supported\n  hint: numbers and booleans are",
    ),
    "sequence input": (
        model([node("Identity", ["x"], ["y"])], [helper.make_tensor_sequence_value_info("x", 1, None)]),
        "model: the model leaves open how many tensors the sequence 'x' has\n"
        "  hint: give the shape of each: --shape x[0]=1,...",
    ),
    "place outside a sequence": (
        model(
            [node("SequenceConstruct", ["x", "x"], ["s"]), node("SequenceAt", ["s", "k"], ["y"], name="n")],
            initializers=[weights("k", np.array(2))],
        ),
        "node 'n' (SequenceAt): position 2 is outside a sequence of 2",
    ),
    "sequence where a tensor is meant": (
        model([node("SequenceConstruct", ["x", "x"], ["s"]), node("Relu", ["s"], ["y"], name="n")]),
        "node 'n' (Relu): operand 0 is a sequence, not a tensor",
    ),
    "element of nothing": (
        model([node("Optional", [], ["o"], type=ABSENT), node("OptionalGetElement", ["o"], ["y"], name="n")]),
        "node 'n' (OptionalGetElement): an optional value that is not there has no element",
    ),
    "cast to a complex number": (
        model([node("Cast", ["x"], ["y"], name="c", to=TensorProto.COMPLEX64)], opset=19),
        "node 'c' (Cast): element type complex64 is not supported\n  hint: numbers and booleans are",
    ),
    "matrices that do not fit": (
        with_weights("MatMul", np.zeros((4, 5), np.float32)),
        "node 'n' (MatMul): cannot multiply matrices of shapes (2, 3) and (4, 5)",
    ),
    "shapes that do not broadcast": (
        with_weights("Add", np.zeros((4, 5), np.float32)),
        "node 'n' (Add): shapes (2, 3), (4, 5) do not broadcast",
    ),
    "operands of two types": (
        with_weights("Add", np.zeros(3, np.int32)),
        "node 'n' (Add): operands of different types: f32, i32",
    ),
    "reshape to another size": (
        with_weights("Reshape", np.array([4, 2])),
        "node 'n' (Reshape): cannot reshape (2, 3) to (4, 2)",
    ),
    "axis outside": (
        model([node("Softmax", ["x"], ["y"], name="n", axis=2)]),
        "node 'n' (Softmax): axis 2 is outside a tensor of 2 dimensions",
    ),
    "index outside": (
        with_weights("Gather", np.array([0, 7])),
        "node 'n' (Gather): index 0 .. 7 is outside a dimension of 2",
    ),
    "channels that do not fit": (
        model(
            [node("Conv", ["x", "w"], ["y"], name="n")],
            [tensor_input("x", [1, 3, 8, 8])],
            initializers=[weights("w", np.zeros((4, 5, 3, 3), np.float32))],
        ),
        "node 'n' (Conv): convolution of 3 channels by weights (4, 5, 3, 3) in 1 groups",
    ),
    "more than there are": (
        model([node("TopK", ["x", "k"], ["y", "i"], name="n")], initializers=[weights("k", np.array([5]))]),
        "node 'n' (TopK): k is 5, but the dimension has only 3",
    ),
    "fewer than none": (
        model([node("TopK", ["x", "k"], ["y", "i"], name="n")], initializers=[weights("k", np.array([-1]))]),
        "node 'n' (TopK): the first -1 of 3 elements",
    ),
    "updates that do not fit": (
        model(
            [node("ScatterElements", ["x", "i", "u"], ["y"], name="n", axis=1)],
            initializers=[weights("i", np.zeros((3, 1), np.int64)), weights("u", np.zeros((3, 1), np.float32))],
        ),
        "node 'n' (ScatterElements): updates f32[3,1] at positions i64[3,1] do not fit f32[2,3]",
    ),
    "updates of the wrong depth": (
        model(
            [node("ScatterND", ["x", "i", "u"], ["y"], name="n")],
            initializers=[weights("i", np.zeros((4, 3), np.int64)), weights("u", np.zeros(4, np.float32))],
        ),
        "node 'n' (ScatterND): updates f32[4] at positions i64[4,3] do not fit f32[2,3]",
    ),
    "training": (
        model(
            [node("Dropout", ["x", "ratio", "training"], ["y"], name="n")],
            initializers=[weights("ratio", np.float32(1)), weights("training", np.array(True))],
        ),
        "node 'n' (Dropout): a dropout of 1 of the elements\n  hint: a ratio is from 0 to below 1",
    ),
    "shape that is an input": (
        model(
            [node("Reshape", ["x", "s"], ["y"], name="n")],
            [tensor_input("x", [2, 3]), tensor_input("s", [1], TensorProto.INT64)],
        ),
        (
            "node 'n' (Reshape): operand 1 must be known at build time, but depends on the model's input 's'\n"
            "  hint: say what to build the model for: --value s=..."
        ),
    ),
    "shape that data decide": (
        model(
            [node("Cast", ["x"], ["s"], to=TensorProto.INT64), node("Reshape", ["x", "s"], ["y"], name="n")],
            [tensor_input("x", [3])],
        ),
        (
            "node 'n' (Reshape): operand 1 must be known at build time, but depends on the model's input 'x'\n"
            "  hint: shapes may follow how much NonZero, Compress, Unique or NonMaxSuppression find, but nothing else "
            "that is computed from data: give this one a fixed size before exporting"
        ),
    ),
    "branches of different kinds": (
        branches(),
        (
            "node 'choose' (If): its branches give f32[2] and bool[2], and data decides which\n"
            "  hint: give the condition at build time with --value"
        ),
    ),
    "result that is too large": (
        with_weights("Expand", np.array([2**30, 2**20, 1, 1])),
        (
            "node 'n' (Expand): a tensor of shape [1073741824, 1048576, 2, 3] is too large\n"
            "  hint: check the shapes of the inputs"
        ),
    ),
    "input that is too large": (
        model([node("Relu", ["x"], ["y"])], [tensor_input("x", [2**30, 2**30])]),
        "model: input 'x' has the impossible shape [1073741824, 1073741824]",
    ),
    "weights of another size": (
        model([node("Add", ["x", "w"], ["y"])], initializers=[damaged([7, 5])]),
        (
            "model: tensor 'w' of shape [7, 5] has data of another size or type: "
            "cannot reshape array of size 20 into shape (7,5)\n  hint: the file is damaged"
        ),
    ),
    "weights of a negative size": (
        model([node("Add", ["x", "w"], ["y"])], initializers=[damaged([-1, 5])]),
        "model: tensor 'w' has the impossible shape [-1, 5]\n  hint: the file is damaged",
    ),
    "a name made to harm": (
        model(
            [node("MatMul", ["x", "w"], ["y"], name='evil\n*/ system("rm")\x1b[31m')],
            initializers=[weights("w", np.zeros((4, 5), np.float32))],
        ),
        "node 'evil\\n* / system(\"rm\")\\x1b[31m' (MatMul): cannot multiply matrices of shapes (2, 3) and (4, 5)",
    ),
}


@pytest.mark.parametrize("case", STRUCTURE)
def test_structure(case: str) -> None:
    source, message = STRUCTURE[case]
    assert refusal(source) == message


@pytest.mark.parametrize("case", OPERANDS)
def test_operands(case: str) -> None:
    source, message = OPERANDS[case]
    assert refusal(source) == message


def test_new_operator_set() -> None:
    newest = onnx.defs.onnx_opset_version()
    source = onnx.ModelProto()
    source.CopyFrom(RELU)
    source.opset_import[0].version = newest + 1
    assert refusal(source) == (
        f"model: the model uses operator set {newest + 1}, newer than {newest}, the newest one known here\n"
        f"  hint: export it with opset_version={newest} or less, or install a newer onnx package"
    )

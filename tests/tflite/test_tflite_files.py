"""Files that are damaged, from elsewhere, or beyond what is supported: one clear error each, and nothing written."""

from __future__ import annotations

import builtins
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_tflite import File, options
from tflite_cases import CASES

import edgec
from edgec.errors import EdgecError, ModelError, ToolchainError, UsageError
from edgec.frontend.tflite import import_tflite, parse, reader

package = pytest.importorskip("tflite")
GOOD = CASES["CONV_2D-i8-same"]


def network(op: str = "RELU", custom: bytes = b"") -> bytes:
    f = File()
    x, y = f.main.input("f32", (2, 3), "x"), f.main.tensor("f32", (2, 3), "y")
    f.main.op(op, [x], [y], custom=custom)
    f.main.output(y)
    return f.content()


def changed(edit: Any) -> bytes:
    """The good file with one number overwritten; ``edit`` gives its place and new bytes."""
    content = bytearray(GOOD)
    place, new = edit(package.Model.GetRootAs(content, 0))
    content[place : place + len(new)] = new
    return bytes(content)


def field(table: Any, offset: int) -> int:
    return int(table._tab.Offset(offset) + table._tab.Pos)


def vector(table: Any, offset: int) -> int:
    return int(table._tab.Vector(table._tab.Offset(offset)))


I32 = struct.Struct("<i").pack
U32 = struct.Struct("<I").pack

DAMAGED = {
    "an operand that does not exist": (
        lambda m: (vector(m.Subgraphs(0).Operators(0), 6), I32(99)), "operands of operator 0 .*are tensors",
    ),
    "a negative operand": (
        lambda m: (vector(m.Subgraphs(0).Operators(0), 6), I32(-7)), "operands of operator 0 .*are tensors",
    ),
    "a result that does not exist": (
        lambda m: (vector(m.Subgraphs(0).Operators(0), 8), I32(99)), "results of operator 0 .*are tensors",
    ),
    "an input that does not exist": (lambda m: (vector(m.Subgraphs(0), 6), I32(1000)), "inputs are tensors"),
    "a negative shape": (lambda m: (vector(m.Subgraphs(0).Tensors(0), 4), I32(-4)), "impossible shape"),
    "an absurd shape": (
        lambda m: (vector(m.Subgraphs(0).Tensors(0), 4), I32(2**31 - 1) * 2), "impossible shape",
    ),
    "a buffer that does not exist": (lambda m: (field(m.Subgraphs(0).Tensors(1), 8), U32(77)), "lies in buffer 77"),
    "weights of another size": (
        lambda m: (vector(m.Subgraphs(0).Tensors(1), 4), I32(6)), "bytes of data instead of",
    ),
    "absurdly many operators": (
        lambda m: (vector(m.Subgraphs(0), 10) - 4, U32(2**32 - 1)), "tables are longer than the file",
    ),
    "an absurdly long shape": (
        lambda m: (vector(m.Subgraphs(0).Tensors(0), 4) - 4, U32(2**31)), "tables are longer than the file",
    ),
    "an offset behind the end": (lambda m: (0, U32(2**31)), "damaged"),
    "a scale that is no number": (
        lambda m: (vector(m.Subgraphs(0).Tensors(0).Quantization(), 8), struct.pack("<f", np.nan)), "scale or a zero",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", DAMAGED)
def test_damaged(what: str) -> None:
    edit, message = DAMAGED[what]
    with pytest.raises(ModelError, match=message):
        import_tflite(parse(changed(edit)))


def test_another_version() -> None:
    f = File()
    f.main.output(f.main.input("f32", (1,)))
    with pytest.raises(ModelError, match="format version 2; 3 is supported"):
        parse(f.content(version=2))


def test_a_network_of_nothing() -> None:
    with pytest.raises(ModelError, match="holds no network"):
        parse(File().content())


@pytest.mark.parametrize("kept", [8, 20, 100, 0.3, 0.6, 0.9, 0.99])
def test_cut_off(kept: float) -> None:
    with pytest.raises(ModelError):
        import_tflite(parse(GOOD[: int(kept * len(GOOD)) if kept < 1 else int(kept)]))


def test_any_byte() -> None:
    """Whatever single bytes are changed to, the answer is a network or an error for the user."""
    dice = random.Random(0)
    for _ in range(400):
        content = bytearray(GOOD)
        for _ in range(dice.choice([1, 2, 5])):
            content[dice.randrange(8, len(content))] = dice.choice([0, 1, 127, 128, 255, dice.randrange(256)])
        try:
            import_tflite(parse(bytes(content)))
        except EdgecError as error:
            assert str(error)


def test_unsupported_operators_are_named_together(tmp_path: Path) -> None:
    f = File()
    values = [f.main.input("f32", (2, 3), "x")]
    for k, op in enumerate(["MyOwn", "RELU", "WHERE", "MyOwn"]):
        values.append(f.main.tensor("f32", (2, 3), f"y{k}"))
        f.main.op(op, values[-2:-1], values[-1:])
    f.main.output(values[-1])
    path = tmp_path / "net.tflite"
    path.write_bytes(f.content())
    with pytest.raises(ModelError) as found:
        edgec.build(path, tmp_path / "out")
    text = str(found.value)
    assert "2 operators of the model are not supported" in text
    assert "MyOwn, used by 'y0', 'y3'" in text and "WHERE, used by 'y2': the size of its result" in text
    assert not (tmp_path / "out").exists()


def test_an_operator_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "doubled.py").write_text(
        "from edgec.frontend.tflite import tflite\n\n\n"
        '@tflite("Doubled")\ndef doubled(call):\n    return call[0] * float(call.operator.custom_options[0])\n'
    )
    graph = edgec.load(network("Doubled", b"\x02"), operators=[tmp_path]).graph
    assert [n.op for n in graph.operations()] == ["mul"]


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "tflite":
            raise ImportError
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ToolchainError, match=r"pip install 'edgec\[tflite\]'"):
        parse(GOOD)
    assert reader.is_tflite(GOOD)


def test_shapes_and_values() -> None:
    content = network()
    graph = edgec.load(content, shapes={"x": (5, 3)}).graph
    assert graph.inputs[0].type.shape == (5, 3) and graph.outputs[0][1].type.shape == (5, 3)
    assert edgec.load(content, values={"x": np.zeros((2, 3))}).graph.inputs == ()
    assert edgec.load(content, values={"x": 1.5}).graph.outputs[0][1].value.tolist() == [[1.5] * 3] * 2
    with pytest.raises(UsageError, match="'z', which the model does not have"):
        edgec.load(content, shapes={"z": (1,)})
    with pytest.raises(UsageError, match=r"shape \[2, 3\], not \[5\]"):
        edgec.load(content, shapes={"x": (5,)})


def test_a_type_that_is_not_what_the_file_says() -> None:
    f = File()
    x, y = f.main.input("f32", (2,), "x"), f.main.tensor("i32", (2,), "y")
    f.main.op("RELU", [x], [y])
    f.main.output(y)
    with pytest.raises(ModelError, match="the result is f32, and the file declares i32"):
        import_tflite(parse(f.content()))


def test_names_that_come_twice() -> None:
    f = File()
    a, b, y = f.main.input("f32", (2,), "x"), f.main.input("f32", (2,), "x"), f.main.tensor("f32", (2,), "x")
    f.main.op("ADD", [a, b], [y], options("Add"))
    f.main.output(y, y)
    graph = import_tflite(parse(f.content()))
    assert [n.attributes["name"] for n in graph.inputs] == ["x", "x_1"]
    assert [name for name, _ in graph.outputs] == ["x", "x_1"]

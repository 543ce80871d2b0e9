"""Expressions as text: what is written reads back to the very same object, and what is wrong is refused where it is."""

from __future__ import annotations

from typing import Any

import pytest

from edgec.errors import ModelError
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.records.expressions import ExpressionWriter, parts, renumbered
from edgec.ir.records.read_expressions import ExpressionReader
from edgec.ir.records.tokens import Tokens


def slot(tokens: Tokens) -> tuple[Any, str | None]:
    """Buffers of loads are words, of floats; names in quotes have no type."""
    token = tokens.next()
    return (token.text, "f32") if token.kind == "word" else (token.text.strip('"'), None)


def read(text: str, reader: ExpressionReader | None = None) -> Expr:
    tokens = Tokens(text)
    found = (reader or ExpressionReader(slot)).read(tokens)
    assert tokens.now.kind == "end"
    return found


I, N, M = X.var("i", 8), X.size("n", 2, 9), X.fresh(5)
x = X.load("x", (I,), "f32")


def f32(number: float) -> Expr:
    return X.const(number, "f32")


def b(name: str) -> Expr:
    return X.load(name, (), "bool")


TEXTS: dict[str, Expr] = {
    "3": X.const(3),
    "-3": X.const(-3),
    "1.5": f32(1.5),
    "-inf": f32(float("-inf")),
    "7:i8": X.const(7, "i8"),
    "2:f32": f32(2.0),
    "2.5e-3:f64": X.const(2.5e-3, "f64"),
    "True": X.const(True, "bool"),
    "False": X.const(False, "bool"),
    "i:8": I,
    "n:2..9": N,
    "load[]": X.load("load", (), "f32"),
    "x[i:8] + 1.0": x + 1.0,
    "(x[i:8] + 1.0) * 2.0": (x + 1.0) * 2.0,
    "x[i:8] + 1.0 * 2.0": x + f32(1.0) * f32(2.0),
    "x[i:8] - 1.0 - 2.0": (x - 1.0) - 2.0,
    "x[i:8] - (1.0 - x[i])": x - (f32(1.0) - x),
    "i:8 // 3": X.raw_call("floordiv", (I, X.const(3)), "i64"),
    "i:8 % 3": X.raw_call("floormod", (I, X.const(3)), "i64"),
    "x[i:8] / 2.0": X.raw_call("div", (x, f32(2.0)), "f32"),
    "exp(x[i:8])": X.call("exp", x),
    "max(x[i:8], 0.0)": X.call("max", x, f32(0.0)),
    "i32(x[i:8])": X.cast(x, "i32"),
    "bits_as_u32(x[i:8])": X.bitcast(x, "u32"),
    "select(x[i:8] < 0.0, 1.0, x[i])": X.select(X.call("lt", x, f32(0.0)), 1.0, x),
    '"y"[i:8, 2]:i8': X.load("y", (I, X.const(2)), "i8"),
    "x[i:8]:i16": X.load("x", (I,), "i16"),
    "sum(i:8 | x[i])": X.reduce("add", (I,), x),
    "maximum(i:8, j:3 | x[i])": X.reduce("max", (I, X.var("j", 3)), x),
    "sum(| x[i:8])": X.reduce("add", (), x),
    "x[i:8] < 1.0 and x[i] > 0.0": X.raw_call("and", (X.call("lt", x, f32(1.0)), X.call("gt", x, f32(0.0))), "bool"),
    'load["or":4]': X.load("load", (X.var("or", 4),), "f32"),
    "x[i:(n:2..9 * 2)]": X.load("x", (X.var("i", N * 2),), "f32"),
}


@pytest.mark.parametrize("text", TEXTS)
def test_texts_of_expressions(text: str) -> None:
    assert read(text) is TEXTS[text]


EVERY = [
    *TEXTS.values(),
    X.reduce("mul", (M,), X.load("x", (M,), "f32")),
    f32(float("nan")),
    X.raw_call("or", (X.raw_call("and", (b("a"), b("b")), "bool"), b("c")), "bool"),
    X.raw_call("and", (X.raw_call("or", (b("a"), b("b")), "bool"), b("c")), "bool"),
    X.raw_call("eq", (X.raw_call("lt", (x, f32(1.0)), "bool"), b("c")), "bool"),
    X.raw_call("lt", (x + 1.0, x * 2.0), "bool"),
    X.raw_call("mul", (x, X.raw_call("mul", (x, x), "f32")), "f32"),
]


@pytest.mark.parametrize("e", EVERY, ids=X.show)
def test_what_is_written_reads_back(e: Expr) -> None:
    def written(value: Any) -> str:
        return str(value)

    writer = ExpressionWriter(written, renumbered(X.walk(e)))
    defined = [writer.define(p) for p in parts([e], {})]
    reader = ExpressionReader(slot)
    for text in defined:
        reader.define(Tokens(text))
    assert read(writer.text(e).replace("y[", '"y"['), reader) is e


def test_what_was_mentioned_has_a_name() -> None:
    reader = ExpressionReader(slot)
    reader.define(Tokens("$0 = `x[i:8] + x[t1:5]`"))
    found = read("$0 * x[i]", reader)
    assert X.free_variables(found) == {I, X.var("t000000001", 5)}
    other = read("x[i:9] + x[i]", reader)  # mentioned anew
    assert X.free_variables(other) == {X.var("i", 9)}
    with pytest.raises(ModelError, match="defined twice"):
        reader.define(Tokens("$0 = `1`"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected an expression and found the end"),
        ("x[i]", "i has no extent"),
        ("$1", r"\$1 is not defined"),
        ("300:i8", "300 is no i8"),
        ("-129:i8", "-129 is no i8"),
        ("1.5:i64", "1.5 is no i64"),
        ("nan:i8", "is no i8"),
        ("-1:u8", "-1 is no u8"),
        ("2:bool", "2 is no bool"),
        ("3:f33", "'f33' is no element type"),
        ("x[1.0]", "an index is no whole number"),
        ('"y"[1]', "a load without an element type"),
        ("x[1", "expected"),
        ("x[1 2]", "expected"),
        ("(1", r"expected '\)'"),
        ("exp(1.0, 2.0)", "exp takes 1 operands and has 2"),
        ("max(1.0)", "max takes 2 operands and has 1"),
        ("select(True, 1.0)", "select takes 3"),
        ("max(1.0, 2)", "max does not take f32, i64"),
        ("1.0 + 2", "add does not take f32, i64"),
        ("select(1.0, 1.0, 2.0)", "select does not take f32"),
        ("select(True, 1.0, 2)", "select does not take"),
        ("nothing(1.0)", "no function 'nothing'"),
        ("i32(1.0, 2.0)", "no function 'i32'"),
        ("bits_as_i32()", "no function"),
        ("None", "expected a name and found None"),
        ("i:1", "the loop i runs once"),
        ("n:5..5", "no range of a size: 5..5"),
        ("n:6..5", "no range of a size"),
        ("i:-2", "-2 is no extent"),
        ("i:1.5", "1.5 is no extent"),
        (f"i:{2**62}", "is no extent"),
        ("i:(x[2])", "no formula of sizes"),
        ("i:(1.5)", "no formula of sizes"),
        ("i:(j:3)", "no formula of sizes"),
        ("t10000001:4", "as high a number"),
        ('"a b":4', "no name of a variable"),
        ("sum(i:8 x[i])", "expected"),
        ("sum(x[2])", "expected|has no extent"),
        ("1 < 2 < 3", "assert|end"),
        ("(" * 101 + "1" + ")" * 101, "nests too deep"),
        ("x[i:8] +", "expected an expression"),
        ("sum(i:8 | x[i]", r"expected '\)'"),
    ],
)
def test_what_is_refused(text: str, said: str) -> None:
    with pytest.raises((ModelError, AssertionError), match=said):
        read(text)


def test_the_largest_that_is_taken() -> None:
    assert read(f"i:{2**62 - 1}").value.extent == 2**62 - 1 and read("i:0").value.extent == 0
    assert read("t10000000:4").value.name == "t010000000"
    assert read("(" * 99 + "1" + ")" * 99) is X.const(1)
    assert read("n:0..1").value.high == 1

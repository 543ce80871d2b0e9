"""Texts of plans and programs that somebody changed: they are refused with the number of the line, never executed."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from chance import RANDOM
from saved_cases import made
from small_graphs import graph, relu, value, weights

from edgec import ops
from edgec.device.load import load_device
from edgec.errors import EdgecError, ModelError
from edgec.execute.invariants import verify_plan, verify_program
from edgec.fuse.text import read_plan, write_plan
from edgec.ir.graph import MODEL_SHA256
from edgec.ir.records.writer import Written
from edgec.ir.text import parse, show
from edgec.ir.verify import verify
from edgec.schedule.build import schedule
from edgec.schedule.text import read_program, write_program

TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|\w+|[^\w\s]|\s+')
#: What takes the place of other tokens, next to those of the texts themselves.
STRANGE = (
    "9" * 30, "9" * 5000, "1e999", "-1", "-", "inf", "nan", "None", "`", "((((",
    "(" * 3000, "[" * 3000, "`" + "(" * 3000,
    "$0", "$9", "%0", "7%0", "load", "t999999999:4", "i0:0", "x:1..3", "x:3..1", "{", "set(", "graph0", "Graph(",
    "procedure(", "__import__", "Plan(", "f32[", "@abc", '"\\ud800"', "2:bool", "300:u8", "1.5:i8", "\x00", "\u00e9",
)  # fmt: skip


def texts(device: str = "x86_64_avx512") -> tuple[Written, Written]:
    """A convolution and a product with what follows them, as a plan and as a program."""
    x = value("x", 1, 3, 12, 12)
    pads = {"before": (0, 0, 1, 1), "after": (0, 0, 1, 1), "value": 0}
    conv = ops.node(
        "conv", ops.node("pad", x, **pads), weights(16, 3, 3, 3), strides=(1, 1), dilations=(1, 1), groups=1
    )
    flat = ops.node("reshape", relu(conv), shape=(1, 16 * 144))
    order = ops.node("argsort", value("z", 2, 8), axis=1, descending=False)
    found = made(graph(ops.node("matmul", flat, weights(16 * 144, 10)), order), load_device(device))
    assert found is not None
    return write_plan(found[0]), write_program(found[1])


PLAN, PROGRAM = texts()

#: What is replaced in the text of the program, by what, and what is said then.
CHANGED = {
    "class": ("= Kernel(", "= os_system(", "not defined, and no class"),
    "class of another kind": ("= Kernel(", "= View(", "View has no field"),
    "field": ("schedule=", "scheduled=", "has no field scheduled"),
    "type": ("lanes=16", 'lanes="16"', "lanes of .* cannot hold"),
    "truth": ("lanes=16", "lanes=True", "lanes of .* cannot hold"),
    "missing": ('space="input", ', "", "lacks space"),
    "name": ('name="b1"', 'name="b1[0]; abort()"', "is no buffer"),
    "space": ('space="input"', 'space="stack"', "is no buffer"),
    "word": ('l_mode="packed"', 'l_mode="*/"', "is no plain word"),
    "expression": ("address=`", "address=`$77 + ", r"\$77 is not defined"),
    "variable": ("address=`", "address=`zz + ", "zz has no extent"),
    "operand": ("address=`", "address=`1.5 + ", "add does not take"),
    "name of a variable": ("address=`", 'address=`"i; abort()":4 + ', "no name of a variable"),
    "name of a slot": ("address=`", 'address=`"i; abort()"[]:i64 + ', "is no name"),
    "function": ("address=`", "address=`abort(1) + ", "no function 'abort'"),
    "number": ("address=`", f"address=`{'9' * 100} + ", "expected a number"),
    "fresh": ("address=`", "address=`t99999999:4 + ", "as high a number"),
    "deep": ("address=`", f"address=`{'(' * 1000}", "nests too deep"),
    "node": ("output=%", "output=3%", "is not defined"),
    "array": (" @", " @0", "not at hand"),
    "kernels": ("\n  kernels=(", "\n  kernels=(1, ", "kernels of Program cannot hold"),
}


@pytest.mark.parametrize("name", CHANGED)
def test_changes_are_refused(name: str) -> None:
    old, new, message = CHANGED[name]
    head, found, rest = PROGRAM.text.rpartition(old) if name == "array" else PROGRAM.text.partition(old)
    assert found, old
    with pytest.raises(ModelError, match=message) as raised:
        read_program(head + new + rest, PROGRAM.arrays)
    line = int(str(raised.value.where).removeprefix("line "))
    assert abs(line - 1 - head.count("\n")) <= 25  # a record is refused where it begins


#: Texts of graphs whose words would end in C: what is replaced, by what, and what is said then.
WORDS = {
    "combine": ('combine="max"', 'combine="max(a); abort();//"', "no plain word"),
    "combine of another kind": ('combine="max"', 'combine="most"', "nothing is combined by 'most'"),
    "hash": (f'"{"0" * 64}"', '"0\\"\\n#x"', "hash of the model"),
}


@pytest.mark.parametrize("name", WORDS)
def test_words_of_a_graph_reach_no_code(name: str) -> None:
    """Attributes and the hash of the model became C as they were, from `edgec build --from simplify FILE`."""
    old, new, message = WORDS[name]
    pooled = ops.node("pool", value("x", 1, 4), combine="max", kernel=(2,), strides=(2,), dilations=(1,))
    given = replace(graph(pooled), metadata={MODEL_SHA256: "0" * 64})
    text = show(given)
    assert old in text and parse(text).metadata == given.metadata
    with pytest.raises(ModelError, match=message):
        parse(text.replace(old, new))


def test_a_row_loads_its_own_reductions() -> None:
    """Another one ended in a KeyError, as did blocks of a kind that there is not in an AttributeError."""
    x = value("x", 4, 40)
    powers = ops.node("exp", ops.node("sub", x, ops.node("reduce", x, combine="max", axes=(1,))))
    shares = ops.node("div", powers, ops.node("reduce", powers, combine="add", axes=(1,)))
    found = made(graph(shares), load_device("x86_64_avx512"))
    assert found is not None
    plan, program = write_plan(found[0]), write_program(found[1])
    none, over = "none of its row", "over variables"
    for old, new, message in (
        ('("reduction", 0)', '("reduction", 7)', none),
        ('("reduction", 0)', '("x", 0)', none),
        ('reductions=(("max"', 'reductions=(("most"', "cannot hold"),
        ("loops=(`i0:4`", "loops=(`i0:4 + 1`", over),
        ("address=`i0 * 40 + row`", "address=`i0 * 40 + walk0:40`", "no loop is over"),
    ):
        assert old in program.text, program.text
        with pytest.raises(ModelError, match=message):
            read_program(program.text.replace(old, new), program.arrays)
    with pytest.raises(ModelError, match="kind of Block cannot hold"):
        read_plan(re.sub('kind="row"', 'kind="rows"', plan.text), plan.arrays)


@pytest.mark.parametrize(
    "text", ["", "Plan()", "Plan", "[" * 10**5, "graph g() -> ()\n", "$0 = `1`", "x = Plan(", "\x00"]
)
def test_what_is_no_plan(text: str) -> None:
    with pytest.raises(ModelError):
        read_plan(text, {})


def test_the_formula_of_a_block_loads_elements_of_nodes() -> None:
    head, found, rest = PLAN.text.partition("body=`")
    assert found
    with pytest.raises(ModelError, match="loads what is no element"):
        read_plan(f'{head}{found}"x"[0]:f32 + {rest}', PLAN.arrays)


@pytest.mark.parametrize("variables", ["`i0:4`, `i0:4`", "`i0:4`, `i1:9`", "`i0:4`, `0`"])
def test_the_loops_of_a_formula_are_those_of_its_result(variables: str) -> None:
    """A body over a variable that no loop had ended in a KeyError where the code was written."""
    found = made(graph(ops.node("exp", value("x", 4, 8))), load_device("x86_64_avx512"))
    assert found is not None
    plan = write_plan(found[0])
    assert "variables=(`i0:4`, `i1:8`)" in plan.text
    read_plan(plan.text, plan.arrays)
    with pytest.raises(ModelError, match=r"loops are not those|extent"):
        read_plan(plan.text.replace("variables=(`i0:4`, `i1:8`)", f"variables=({variables})"), plan.arrays)


def test_names_of_values_are_those_of_the_schedule() -> None:
    """A sum that was called otherwise ended in a KeyError, as did an output that no block computes."""
    x, w = value("x", 4, 8), weights(8, 4)
    found = made(graph(ops.node("neg", ops.node("matmul", x, w))), load_device("x86_64_avx512"))
    assert found is not None
    program = write_program(found[1])
    assert '"accumulator"' in program.text
    read_program(program.text, program.arrays)
    with pytest.raises(ModelError, match="loads what no schedule names"):
        read_program(program.text.replace('"accumulator"', '"accumulators"'), program.arrays)
    plan = replace(found[0], outputs=(("y", w),))
    with pytest.raises(ModelError, match="no block computes the output 'y'"):
        schedule(plan, load_device("x86_64_avx512"))


def mutated(text: str) -> str:
    """The text with some tokens cut, replaced, moved, doubled or turned into other numbers."""
    tokens = TOKEN.findall(text)
    for _ in range(RANDOM.integers(1, 4)):
        at, other = (int(k) for k in RANDOM.integers(0, len(tokens), 2))
        change = RANDOM.integers(0, 6)
        if change == 0:
            del tokens[at : at + int(RANDOM.integers(1, 40))]
        elif change == 1:
            tokens[at] = STRANGE[RANDOM.integers(0, len(STRANGE))]
        elif change == 2:
            tokens.insert(at, STRANGE[RANDOM.integers(0, len(STRANGE))])
        elif change == 3:
            tokens[at] = tokens[other]
        elif change == 4:
            tokens[at:at] = tokens[other : other + 40]
        else:
            tokens = tokens[: at + 1]
        tokens = tokens or ["x"]
    return "".join(tokens)


def test_damaged_texts_are_read_or_refused() -> None:
    """No other error than those that users can meet, here or where stages are verified."""
    refused = 0
    for _ in range(400):
        try:
            plan = read_plan(mutated(PLAN.text), PLAN.arrays)
            verify(plan.graph)
            verify_plan(plan)
        except EdgecError:
            refused += 1
        try:
            program = read_program(mutated(PROGRAM.text), PROGRAM.arrays)
            verify(program.graph)
            verify_program(program)
        except EdgecError:
            refused += 1
    assert refused > 400


def test_texts_that_are_whole_are_read() -> None:
    plan, program = read_plan(PLAN.text, PLAN.arrays), read_program(PROGRAM.text, PROGRAM.arrays)
    assert len(plan.blocks) and len(program.kernels)
    weights_read = [b for b in program.offsets if b.data is not None]
    assert weights_read and all(isinstance(b.data, np.ndarray) for b in weights_read)

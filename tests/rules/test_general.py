"""Proofs of changes for all values and sizes: which rules have one, and that planted mistakes have none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.rules.unproved import REASONS
from edgec.ir.graph import constant
from edgec.ops import node
from edgec.rewrite import Change, load_rules, rule_on
from edgec.rewrite.general import General, prove_general
from edgec.rewrite.sample import extent, extents, given, positions_in
from edgec.rewrite.shape import as_number

pytest.importorskip("z3")
CHANGES = [r for r in load_rules() if isinstance(r, Change)]
KNOWN = json.loads(
    (Path(__file__).resolve().parents[2] / "benchmarks" / "rules" / "rules.json").read_text(encoding="utf-8")
)["rules"]
PROVED = [r for r in CHANGES if KNOWN[r.name]["identity"]]


@pytest.mark.parametrize("rule", PROVED, ids=lambda r: r.name)
def test_the_change_is_proved_as_the_page_says(rule: Change) -> None:
    assert str(prove_general(rule)) == KNOWN[rule.name]["identity"]


def test_every_other_rule_has_a_reason() -> None:
    assert set(REASONS) == {name for name, entry in KNOWN.items() if entry["identity"] is None}


def test_most_changes_are_proved() -> None:
    assert len(PROVED) >= 40
    assert sum(", every size, " in KNOWN[r.name]["identity"] for r in PROVED) >= 30


def transposed(random: Any) -> Any:
    turned = node("transpose", given("x", *extents(random, 3)), perm=(1, 2, 0))
    yield node("transpose", turned, perm=(1, 2, 0))


def sliced(random: Any) -> Any:
    x = given("x", extent(random, 8, 9))
    yield node("slice", node("slice", x, starts=(1,), steps=(2,), shape=(3,)), starts=(1,), steps=(1,), shape=(2,))


def multiplied(random: Any) -> Any:
    (k,) = extents(random, 1)
    yield node("matmul", given("x", k, k), given("y", k, k))


def greatest_opposite(random: Any) -> Any:
    yield node("reduce", node("neg", given("x", *extents(random, 2))), combine="max", axes=(1,))


def padded(random: Any) -> Any:
    around = node("pad", given("x", *extents(random, 1)), before=(1,), after=(2,), value=1.0)
    yield node("reduce", around, combine="add", axes=(0,))


def joined(random: Any) -> Any:
    a, b = extents(random, 2)
    yield node("concat", given("x", a), given("y", b), axis=0)


def flattened(random: Any) -> Any:
    a, b, c = extents(random, 3)
    yield node("reduce", node("reshape", given("x", a, b, c), shape=(a, b * c)), combine="add", axes=(1,))


def chosen(random: Any) -> Any:
    x, y, c = given("x", 3), given("y", 3), given("c", 3, dtype="bool")
    yield node("select", c, node("exp", x), node("exp", y))


def added(random: Any) -> Any:
    a, b = extents(random, 2)
    yield node("add", given("x", a, b), given("y", a, 1))


def right_transposition(n: Any) -> Any:
    return node("transpose", *n.args[0].args, perm=(2, 0, 1))


def wrong_transposition(n: Any) -> Any:
    x = n.args[0].args[0]
    return node("reshape", node("transpose", x, perm=(2, 1, 0)), shape=n.type.shape)


def wrong_slice(n: Any) -> Any:
    return node("slice", *n.args[0].args, starts=(2,), steps=(2,), shape=(2,))


def right_slice(n: Any) -> Any:
    return node("slice", *n.args[0].args, starts=(3,), steps=(2,), shape=(2,))


def first_sums(n: Any) -> Any:
    (x,) = n.args[0].args
    return node("reduce", node("reduce", x, combine="add", axes=(1,)), combine="max", axes=(2,))


def all_sums(n: Any) -> Any:
    (x,) = n.args[0].args
    return node("reshape", node("reduce", x, combine="add", axes=(1, 2)), shape=n.type.shape)


def wrong_only_for_one(n: Any) -> Any:
    """Right, but for one column, where it forgets an operand."""
    return n.args[0] if n.type.shape[1] == 1 else node("add", *n.args[::-1])


def diagonal(random: Any) -> Any:
    yield node("matmul", given("x", *extents(random, 1), 2), constant(np.array([[3.0, 0.0], [0.0, 5.0]])))


def scales(*values: float) -> Any:
    return lambda n: node("mul", n.args[0], constant(np.array(values)))


def last_total(random: Any) -> Any:
    a, b = extents(random, 2)
    running = node("prefix", given("x", a, b + 1), combine="add", axis=1, exclusive=random.choice([False, True]))
    yield node("slice", running, starts=(0, b), steps=(1, 1), shape=(a, 1))


def total(n: Any) -> Any:
    """Right for running sums that take in the element itself; exclusive ones lack the last element."""
    return node("reduce", *n.args[0].args, combine="add", axes=(1,))


def total_before(n: Any) -> Any:
    (running,) = n.args
    if not running.attributes["exclusive"]:
        return total(n)
    (x,) = running.args
    a, b = x.type.shape
    before = node("slice", x, starts=(0, 0), steps=(1, 1), shape=(a, b - 1))
    return node("reduce", before, combine="add", axes=(1,))


def rounded(factor: float) -> Any:
    def examples(random: Any) -> Any:
        whole = node("cast", given("q", *extents(random, 1), dtype="i8"), to="f64")
        yield node("round", node("mul", whole, constant(np.array(factor))))

    return examples


def truths(random: Any) -> Any:
    number = node("cast", given("c", *extents(random, 1), dtype="bool"), to="f32")
    yield node("lt", number, constant(np.float32(random.choice([0.5, 1.0]))))


def opposite(n: Any) -> Any:
    return node("not", *n.args[0].args)


def repeated(random: Any) -> Any:
    a, b = extents(random, 2)
    yield node("reduce", node("broadcast", given("x", a, 1), shape=(a, b + 1)), combine="add", axes=(1,))


def so_often(more: int) -> Any:
    def change(n: Any) -> Any:
        (wide,) = n.args
        return node("mul", *wide.args, as_number(wide.type.shape[1] + more, "f64"))

    return change


def picked_twice(random: Any) -> Any:
    a, b, c = extents(random, 3)
    inner = node("gather", given("x", a), positions_in(random, a, b), axis=0)
    yield node("gather", inner, positions_in(random, b, c), axis=0)


def padded_twice(random: Any) -> Any:
    inner = node("pad", given("x", *extents(random, 1)), before=(1,), after=(2,), value=1.0)
    yield node("pad", inner, before=(3,), after=(0,), value=1.0)


def padded_once(before: int, value: float) -> Any:
    return lambda n: node("pad", *n.args[0].args, before=(before,), after=(6 - before,), value=value)


CASES: dict[str, tuple[Any, Any, bool]] = {
    "transpose": (transposed, right_transposition, True),
    "transpose, wrongly": (transposed, wrong_transposition, False),
    "slice": (sliced, right_slice, True),
    "slice, wrong start": (sliced, wrong_slice, False),
    "product": (multiplied, lambda n: node("matmul", *n.args[::-1]), False),
    "greatest": (greatest_opposite, lambda n: node("neg", node("reduce", *n.args[0].args, combine="min", axes=(1,))),
                 True),
    "greatest, not turned": (
        greatest_opposite, lambda n: node("neg", node("reduce", *n.args[0].args, combine="max", axes=(1,))), False),
    "padding by ones": (padded, lambda n: node("reduce", *n.args[0].args, combine="add", axes=(0,)), False),
    "parts": (joined, lambda n: node("concat", *n.args[::-1], axis=0), False),
    "sums": (flattened, all_sums, True),
    "sums, some": (flattened, first_sums, False),
    "choice": (chosen, lambda n: node("exp", node("select", n.args[0], *n.args[1].args, *n.args[2].args)), True),
    "choice, turned": (chosen, lambda n: node("exp", node("select", n.args[0], *n.args[2].args, *n.args[1].args)),
                       False),
    "one column": (added, wrong_only_for_one, False),
    "diagonal": (diagonal, scales(3.0, 5.0), True),
    "diagonal, turned": (diagonal, scales(5.0, 3.0), False),
    "last of a running sum": (last_total, total_before, True),
    "last of a running sum, of an exclusive one too": (last_total, total, False),
    "rounded integers": (rounded(3.0), lambda n: n.args[0], True),
    "rounded halves of integers": (rounded(0.5), lambda n: n.args[0], False),
    "truth as a number": (truths, opposite, True),
    "truth as a number, as it is": (truths, lambda n: n.args[0].args[0], False),
    "sum of what is repeated": (repeated, so_often(0), True),
    "sum of what is repeated, once more": (repeated, so_often(1), False),
    "positions of positions": (
        picked_twice, lambda n: node("gather", n.args[0].args[0], node("gather", n.args[0].args[1], n.args[1], axis=0),
                                     axis=0), True),
    "the first positions alone": (picked_twice, lambda n: node("gather", n.args[0].args[0], n.args[1], axis=0), False),
    "paddings": (padded_twice, padded_once(4, 1.0), True),
    "paddings, other sides": (padded_twice, padded_once(3, 1.0), False),
    "paddings, another value": (padded_twice, padded_once(4, 2.0), False),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_planted_mistake_has_no_proof(case: str) -> None:
    examples, change, is_right = CASES[case]

    @rule_on(next(iter(examples(__import__("random").Random(0)))).op, family="mine", numeric="reassociates",
             examples=examples)  # fmt: skip
    def planted(n, view):  # type: ignore[no-untyped-def]
        """A rule that may be wrong."""
        return change(n)

    assert isinstance(prove_general(planted), General) == is_right

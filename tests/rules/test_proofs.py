"""Every rule is proved; a wrong one is refused with a counterexample."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgec.errors import EdgecError, UsageError
from edgec.resources import data_folder
from edgec.rewrite import Change, Equation, Rule, RuleError, load_rules, rules_in
from edgec.rewrite.prove import INSTANCES, prove
from edgec.rewrite.term import COMMUTATIVE

RULES = rules_in(data_folder("rewrite_rules"))


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
def test_the_rule_holds(rule: Rule) -> None:
    proof = prove(rule)
    assert proof.instances >= INSTANCES
    assert proof.improved


def test_every_file_of_laws_has_some_and_their_names_differ() -> None:
    files = {p.name for p in data_folder("rewrite_rules").glob("*.py")}
    assert {Path(r.source.rpartition(":")[0]).name for r in RULES} == files
    assert len({r.name for r in RULES}) == len(RULES)
    assert any(isinstance(r, Equation) for r in RULES) and any(isinstance(r, Change) for r in RULES)


def test_what_is_matched_in_either_order_is_proved_to_commute() -> None:
    """The matcher swaps operands of these functions; a rule of its own says that it may."""
    proved = set()
    for r in RULES:
        if isinstance(r, Equation) and r.left.op == r.right.op and len(r.left.args) == 2:
            (a, b), (c, d) = r.left.args, r.right.args
            if a.op == b.op == "variable" and (a.name, b.name) == (d.name, c.name):
                proved.add(r.left.op)
    assert proved == COMMUTATIVE


HEAD = "from edgec.rewrite import *\nfrom edgec.rewrite.sample import given\nfrom edgec.ops import node\n\n"


def write(folder: Path, text: str) -> Path:
    (folder / "mine.py").write_text(HEAD + text, encoding="utf-8")
    return folder


REFUSED = {
    "wrong": (
        '@rule("mine")\ndef difference_commutes(a, b):\n    """a - b = b - a."""\n    return -(a - b) + 0, a - b\n',
        r"'difference_commutes' is wrong(.|\n)*is not sub(.|\n)*left .* right ",
    ),
    "nearly right": (
        '@rule("mine", dtypes="float")\ndef vanish(x):\n'
        '    """x - x = 0, but not for infinities."""\n    return x - x, 0\n',
        r"'vanish' is wrong",
    ),
    "not exact": (
        '@rule("mine", dtypes="float")\ndef regroup(x, a, b):\n'
        '    """(x+a)+b = x+(a+b)."""\n    return (x + a) + b, x + (a + b)\n',
        "'regroup' is wrong",
    ),
    "wrong for integers": (
        '@rule("mine", numeric="reassociates")\ndef reciprocal(x, y):\n'
        '    """x/y = x*(1/y)."""\n    return x / y, x * (1 / y)\n',
        "'reciprocal' is wrong",
    ),
    "ignores the order of operands": (
        '@rule("mine", numeric="reassociates")\ndef minuend(x):\n    """x - 0 = -x."""\n    return x - 0, -x\n',
        "'minuend' is wrong",
    ),
    "good for nothing": (
        '@rule("mine", numeric="reassociates", dtypes="float")\ndef turn(a, b):\n'
        '    """max(a, b) = -min(-a, -b)."""\n    return maximum(a, b), -minimum(-a, -b)\n',
        "never makes anything cheaper",
    ),
    "never applies": (
        '@rule("mine", where=lambda x: "not today")\ndef rest(x):\n    """x * 1 = x."""\n    return x * 1, x\n',
        "no instance passes the guard",
    ),
    "a wrong change": (
        "def squares(random):\n    yield node('transpose', given('x', 2, 2), perm=(1, 0))\n\n"
        '@rule_on("transpose", family="mine", examples=squares)\ndef forget(n, view):\n'
        '    """A transpose of a square does nothing."""\n    return n.args[0]\n',
        r"'forget' is wrong: transpose\(x, perm=\(1, 0\)\)",
    ),
    "a change of type": (
        "def rows(random):\n    yield node('reshape', given('x', 2, 3), shape=(6, 1, 1))\n\n"
        '@rule_on("reshape", family="mine", examples=rows)\ndef halve(n, view):\n'
        '    """A reshape is a cast."""\n    return node("cast", n, to="f32")\n',
        r"turns f64\[6,1,1\] into f32",
    ),
    "a change that refuses its example": (
        "def rows(random):\n    yield node('neg', given('x', 2))\n\n"
        '@rule_on("neg", family="mine", examples=rows)\ndef shy(n, view):\n'
        '    """Nothing."""\n    return "not this one"\n',
        "does not apply to its instance: not this one",
    ),
    "a change that builds nonsense": (
        "def rows(random):\n    yield node('neg', given('x', 2))\n\n"
        '@rule_on("neg", family="mine", examples=rows)\ndef broken(n, view):\n    """Nothing."""\n'
        '    return node("matmul", n, n)\n',
        r"'broken' fails: cannot multiply",
    ),
    "no words": ('@rule("mine")\ndef silent(x):\n    return x * 1, x\n', "needs a docstring"),
    "nothing to the left": ('@rule("mine")\ndef empty(x):\n    """x = x + 0."""\n    return x, x + 0\n', "left side"),
    "a broken file": ("1 / 0\n", "ZeroDivisionError"),
    "a taken name": (
        '@rule("mine")\ndef multiply_by_one(x):\n    """x * 1 = x."""\n    return x * 1, x\n',
        "'multiply_by_one' is also in",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_law_is_refused(case: str, tmp_path: Path) -> None:
    text, message = REFUSED[case]
    with pytest.raises(EdgecError, match=message) as caught:
        load_rules([write(tmp_path, text)])
    assert isinstance(caught.value, (RuleError, UsageError))
    assert "mine.py" in str(caught.value)


def test_a_counterexample_shows_both_sides_and_the_inputs(tmp_path: Path) -> None:
    text, _ = REFUSED["wrong"]
    with pytest.raises(RuleError) as caught:
        load_rules([write(tmp_path, text)])
    lines = str(caught.value).splitlines()
    assert "is not" in lines[1]
    assert lines[-1].strip().startswith("left")


def test_a_good_law_of_a_user_is_added(tmp_path: Path) -> None:
    text = (
        '@rule("mine", numeric="reassociates", dtypes="float")\ndef complement(x):\n'
        '    """1 - sigmoid(-x) = sigmoid(x)."""\n    return 1 - sigmoid(-x), sigmoid(x)\n'
    )
    names = [r.name for r in load_rules([write(tmp_path, text)])]
    assert names[-1] == "complement"
    assert len(names) == len(RULES) + 1


def test_files_that_begin_with_an_underscore_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "_notes.py").write_text("1 / 0\n", encoding="utf-8")
    assert len(load_rules([tmp_path])) == len(RULES)


def test_a_folder_that_is_missing_is_told() -> None:
    with pytest.raises(UsageError, match="no such folder"):
        load_rules(["/nowhere/at/all"])

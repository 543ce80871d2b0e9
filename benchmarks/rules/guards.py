"""Clauses of guards, taken away one at a time, and instances that tell whether that is noticed."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

from benchmarks.rules.near import neighbors
from edgec.errors import EdgecError
from edgec.ir.evaluate import run
from edgec.ir.graph import Node, topological
from edgec.ir.types import DTYPES
from edgec.resources import data_folder
from edgec.rewrite import Rule, RuleError, rules_in
from edgec.rewrite.load import _rules_of
from edgec.rewrite.prove import Instance, _compare, _graph, instances_of
from edgec.rewrite.sample import values

#: Instances of a rule, and neighbors of each, among which a clause is looked for that makes a difference.
INSTANCES, NEIGHBORS = 40, 150
#: Instances of other rules on which a rule is tried too.
OTHERS = 1000

FOLDER = data_folder("rewrite_rules")
RULES = {rule.name: rule for rule in rules_in(FOLDER)}


@dataclass(frozen=True)
class Clause:
    """One condition of a refusal: its file, the function it is in, its text, and the file's source without it."""

    file: Path
    function: str
    line: int
    text: str
    source: str

    def __str__(self) -> str:
        return f"{self.file.stem}.{self.function}: {self.text}"


def clauses(file: Path) -> Iterator[Clause]:
    """Every condition under which a function of the file refuses: ``if a or b: return "why"`` has two."""
    text = file.read_text(encoding="utf-8")
    tree = ast.parse(text)
    for function in tree.body:
        if not isinstance(function, ast.FunctionDef):
            continue
        for statement in ast.walk(function):
            if isinstance(statement, ast.If) and _refuses(statement.body[0]):
                for condition in _parts(statement.test):
                    yield _without(file, text, function.name, condition, "False")


def _refuses(statement: ast.stmt) -> bool:
    """Does it return a sentence, or None, as a helper does?"""
    if not isinstance(statement, ast.Return):
        return False
    value = statement.value
    return value is None or isinstance(value, ast.JoinedStr) or (
        isinstance(value, ast.Constant) and (value.value is None or isinstance(value.value, str))
    )  # fmt: skip


def _parts(condition: ast.expr) -> list[ast.expr]:
    if isinstance(condition, ast.BoolOp) and isinstance(condition.op, ast.Or):
        return [part for value in condition.values for part in _parts(value)]
    return [condition]


def _without(file: Path, text: str, function: str, condition: ast.expr, instead: str) -> Clause:
    lines = text.splitlines(keepends=True)
    first, last = condition.lineno - 1, (condition.end_lineno or condition.lineno) - 1
    head = lines[first].encode()[: condition.col_offset].decode()
    tail = lines[last].encode()[condition.end_col_offset or 0 :].decode()
    source = "".join([*lines[:first], f"{head}{instead}{tail}", *lines[last + 1 :]])
    return Clause(file, function, condition.lineno, " ".join(ast.unparse(condition).split()), source)


def touched(clause: Clause) -> list[str]:
    """Names of the rules whose functions reach the clause's."""
    tree = ast.parse(clause.file.read_text(encoding="utf-8"))
    functions = {f.name: f for f in tree.body if isinstance(f, ast.FunctionDef)}
    uses = {name: {n.id for n in ast.walk(f) if isinstance(n, ast.Name)} for name, f in functions.items()}
    found, before = {clause.function}, set()
    while found != before:
        before = set(found)
        found |= {name for name, used in uses.items() if used & found}
    return [name for name in functions if name in found and name in RULES]


@cache
def instances(name: str) -> tuple[Node, ...]:
    """Distinct instances of a rule, those first that it was made for, then their neighbors and other rules' nodes."""
    rule, random = RULES[name], Random(f"near {name}")
    own = list(dict.fromkeys(instances_of(rule, random)))[:INSTANCES]
    near = [m for n in own for m in neighbors(n, random, NEIGHBORS)]
    pool = [n for n in everything() if n.op in rule.ops]
    random.shuffle(pool)
    return tuple(dict.fromkeys(n for n in (*own, *near, *pool[:OTHERS]) if n.op in rule.ops))


@cache
def everything() -> tuple[Node, ...]:
    """The nodes of some instances of every rule."""
    found: dict[Node, None] = {}
    for rule in RULES.values():
        for k, node in enumerate(instances_of(rule, Random(f"some {rule.name}"))):
            found.update(dict.fromkeys(topological([node])))
            if k == 5:
                break
    return tuple(found)


def proposed(rule: Rule, node: Node) -> list[Node]:
    """The proposals of a rule for a node."""
    return [p for p in rule.propose(node, Instance(node)) if isinstance(p, Node)]


@cache
def refused(name: str) -> tuple[Node, ...]:
    """The instances that a rule leaves as they are."""
    found = []
    for node in instances(name):
        try:
            if not proposed(RULES[name], node):
                found.append(node)
        except Exception:  # nothing is proposed where types do not fit, or numpy cannot fold the constants
            continue
    return tuple(found)


def wrong(rule: Rule, node: Node, replacement: Node) -> str | None:
    """The first line of a counterexample; None where the rule is right, or the graph itself cannot be executed."""
    if replacement.type != node.type:
        return f"{node.type} becomes {replacement.type}"
    if any(m.type.dtype not in DTYPES for m in topological([node])):
        return None
    inputs = {n.attributes["name"]: n.type for n in topological([node]) if n.op == "input"}
    try:
        run(_graph(node), {name: values(Random(0), type, False) for name, type in inputs.items()})
    except Exception:  # numpy cannot do it either: it is no instance of anything
        return None
    try:
        _compare(rule, node, replacement, Random(0))
    except RuleError as error:
        return error.message.partition("\n")[0]
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def without(clause: Clause, folder: Path) -> Sequence[Rule]:
    """The rules that the clause guards, without it."""
    path = folder / clause.file.name
    path.write_text(clause.source, encoding="utf-8")
    names = touched(clause)
    return [r for r in _rules_of(path) if r.name in names]


@dataclass
class Verdict:
    """What became of a rule without a clause: a counterexample, or instances that it then changes, all rightly."""

    counterexample: str | None = None
    widened: int = 0


def tried(clause: Clause, folder: Path) -> Verdict:
    verdict = Verdict()
    for rule in without(clause, folder):
        for node in refused(rule.name):
            try:
                replacements = proposed(rule, node)
            except EdgecError:
                continue
            except Exception as error:
                return Verdict(f"{type(error).__name__}: {error}")
            verdict.widened += bool(replacements)
            for replacement in replacements[:2]:
                found = wrong(rule, node, replacement)
                if found is not None:
                    return Verdict(found)
    return verdict

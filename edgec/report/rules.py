"""Rules as records and tables: which there are, what one says, and how each is proved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.markup import escape

from edgec.errors import UsageError
from edgec.report.record import Record, head
from edgec.report.terminal import pairs, table
from edgec.rewrite import Change, Equation, Rule
from edgec.rewrite.families import origin_of
from edgec.rewrite.general import General, prove_general
from edgec.rewrite.identity import prove_identity
from edgec.rewrite.prove import Proof, prove
from edgec.text import counted, did_you_mean, printable


def statement(rule: Rule) -> str:
    """The equation of a rule, or what it says in words."""
    return str(rule) if isinstance(rule, Equation) else rule.summary


def described(rule: Rule) -> Record:
    """Everything that a rule says of itself."""
    guarded = isinstance(rule, Equation) and rule.where is not None
    return {
        "name": rule.name,
        "family": rule.family,
        "kind": "equation" if isinstance(rule, Equation) else "change",
        "statement": statement(rule),
        "summary": rule.summary,
        "numeric": rule.numeric,
        "operators": sorted(rule.ops) if len(rule.ops) < 10 else ["every element-wise operator"],
        "types": rule.dtypes if isinstance(rule, Equation) else "any",
        "guarded": guarded,
        "origin": origin_of(rule),
        "file": Path(rule.source.rpartition(":")[0]).name,
    }


def listed(rules: Iterable[Rule]) -> Record:
    return {**head("rules list"), "rules": [described(r) for r in rules]}


def shown(rules: Sequence[Rule], name: str) -> Record:
    """One rule and its proof; raises UsageError when there is none of that name."""
    found = next((r for r in rules if r.name == name), None)
    if found is None:
        hint = did_you_mean(name, [r.name for r in rules], "edgec rules list names them all", most=3, cutoff=0.4)
        raise UsageError(f"there is no rule called '{printable(name)}'", hint=hint)
    return {**head("rules show"), "rule": {**described(found), "proof": proof(prove(found))}}


def proved(rules: Iterable[Rule]) -> Record:
    """Every rule with its proof; RuleError with a counterexample for the first that is wrong."""
    return {**head("rules prove"), "rules": [{"name": r.name, "proof": proof(prove(r))} for r in rules]}


def proof(found: Proof) -> Record:
    """Instances a rule is proved on, those it makes cheaper, and the identity behind it, if a prover finds one."""
    rule = found.rule
    identity = prove_identity(rule) if isinstance(rule, Equation) else general(rule)
    return {
        "instances": found.instances,
        "cheaper": found.improved,
        "identity": None if identity is None else str(identity),
    }


def general(rule: Rule) -> General | None:
    """The proof of a change for all values, where there is one."""
    proved = prove_general(rule) if isinstance(rule, Change) else None
    return proved if isinstance(proved, General) else None


# ---- drawn for a terminal


def draw_list(record: Record) -> RenderableType:
    drawn = table("rule", "family", "numeric", "says")
    for r in record["rules"]:
        drawn.add_row(escape(r["name"]), escape(r["family"]), r["numeric"], escape(r["summary"]))
    return Group(drawn, "", f"{counted(len(record['rules']), 'rule')}")


def draw_one(record: Record) -> RenderableType:
    r = record["rule"]
    p = r["proof"]
    identity = p["identity"] or "no proof for all values, or the extra [prove] is not installed"
    return pairs(
        [
            ("rule", escape(r["name"])),
            ("says", escape(r["summary"])),
            ("form", escape(r["statement"])),
            ("family", escape(f"{r['family']} ({r['origin']})")),
            ("numeric", r["numeric"]),
            ("operators", escape(" ".join(r["operators"]))),
            ("types", r["types"]),
            ("guarded", "yes" if r["guarded"] else "no"),
            ("file", escape(r["file"])),
            ("proof", f"{p['instances']} instances, cheaper in {p['cheaper']}"),
            ("identity", escape(identity)),
        ]
    )


def draw_proofs(record: Record) -> RenderableType:
    drawn = table("rule", ">instances", ">cheaper in", "identity")
    for r in record["rules"]:
        p = r["proof"]
        drawn.add_row(escape(r["name"]), str(p["instances"]), str(p["cheaper"]), escape(p["identity"] or "-"))
    return Group(drawn, "", f"{counted(len(record['rules']), 'rule')}, all proved")

"""The page of all rewrite rules, docs/results/rules.md, and rules.json with the proof and measurements of each.

    python -m benchmarks.rules.catalog                      # prove every rule again and write the page
    python -m benchmarks.rules.catalog --folder networks    # and measure the gain of each on networks

Identities need the extra ``prove`` (z3 and sympy). What was measured before is kept where no networks are given.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import ROOT
from benchmarks.networks import catalog as networks
from benchmarks.rules import guards
from benchmarks.rules.simplify import shortened
from benchmarks.rules.unproved import REASONS
from edgec.frontend.onnx import import_model
from edgec.report import rules as rule_records
from edgec.rewrite import Rule, load_rules, simplify
from edgec.rewrite.families import origin_of
from edgec.rewrite.prove import prove

PAGE, DATA = ROOT / "docs" / "results" / "rules.md", ROOT / "benchmarks" / "rules" / "rules.json"
Found = dict[str, Any]


def proofs(rules: Sequence[Rule]) -> dict[str, Found]:
    return {r.name: {"statement": rule_records.statement(r), **rule_records.proof(prove(r))} for r in rules}


def benefits(found: Sequence[networks.Network]) -> dict[str, Found]:
    """By rule: the number of networks that use it, the number of steps, and their total gain."""
    used: dict[str, Found] = {}
    for network in found:
        shapes = dict(network.shapes)
        if network.inputs is not None:
            with np.load(network.inputs) as arrays:
                shapes.update({name: arrays[name].shape for name in arrays.files})
        _, applied = simplify(import_model(network.path, shapes))
        for name in sorted({a.rule for a in applied}):
            mine = [a.gain for a in applied if a.rule == name]
            entry = used.setdefault(name, {"networks": 0, "steps": 0, "flops": 0, "bytes": 0, "operators": 0})
            entry["networks"] += 1
            entry["steps"] += len(mine)
            for what in ("flops", "bytes", "operators"):
                entry[what] += sum(getattr(gain, what) for gain in mine)
        print(f"{network.name}: {len(applied)} steps", flush=True)
    return used


def conditions() -> dict[str, int]:
    """Conditions of guards: all, those found necessary, those found to refuse only what would be right, the others."""
    every = {str(c) for file in guards.FOLDER.glob("*.py") for c in guards.clauses(file)}
    listed = (ROOT / "tests" / "rules" / "harmless_clauses.txt").read_text(encoding="utf-8").splitlines()
    economy = sum("\t" in line for line in listed)
    return {
        "clauses": len(every), "bite": len(every) - len(listed),
        "economy": economy, "unreached": len(listed) - economy,
    }  # fmt: skip


def page(rules: Sequence[Rule], data: Mapping[str, Any]) -> str:
    """The Markdown page; everything in it is in the rules themselves or in ``data``."""
    about, measured = data["rules"], data["networks"]
    proved = [about[r.name]["identity"] for r in rules if about[r.name]["identity"] is not None]
    fixed = sum(", fixed sizes, " in p for p in proved)
    sizes = sum(", every size, " in p for p in proved)
    levels = {level: sum(r.numeric == level for r in rules) for level in ("exact", "reassociates", "approximates")}
    used = sum("benefit" in about[r.name] for r in rules)
    parts = [
        _HEAD.format(
            rules=len(rules), identities=len(proved) - fixed - sizes, sizes=sizes, fixed=fixed, proved=len(proved),
            tested=len(rules) - len(proved), used=used, networks=len(measured),
            names="those of docs/results/simplification.md", **levels, **conditions(),
        )
    ]  # fmt: skip
    for family in sorted({r.family for r in rules}):
        mine = [r for r in rules if r.family == family]
        rows = [_row(r, about[r.name]) for r in mine]
        heads = ["rule", "statement", "numeric", "instances", "proof", "used", "gain"]
        table = "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows))
        parts.append(f"## {family}\n\n{len(mine)} rules. Source: {origin_of(mine[0])}.\n\n{table}\n")
    rows = [f"| `{r.name}` | {REASONS[r.name]} |" for r in rules if about[r.name]["identity"] is None]
    parts.insert(1, "\n".join(["## Without a proof for all values", "", "| rule | why |", "| --- | --- |", *rows, ""]))
    return "\n".join(parts)


def _row(rule: Rule, about: Found) -> list[str]:
    benefit = about.get("benefit")
    gained = ""
    if benefit:
        units = (("flops", "FLOPs"), ("bytes", "bytes"), ("operators", "operators"))
        gained = ", ".join(f"{_signed(benefit[what])} {unit}" for what, unit in units if benefit[what])
    used = f"{benefit['steps']} in {benefit['networks']}" if benefit else ""
    says = rule.summary.replace("|", "\\|")
    identity = about["identity"] or ""
    return [f"`{rule.name}`", says, rule.numeric, str(about["instances"]), identity, used, gained]


def _signed(number: int) -> str:
    return shortened(number) if number >= 0 else f"-{shortened(-number)}"


_HEAD = """\
# Rewrite rules

Written by `python -m benchmarks.rules.catalog`. {rules} rules: {exact} keep every bit, {reassociates} reassociate,
{approximates} approximate.

{proved} rules are proved for all values, {tested} are tested on instances alone; none is assumed:

* **Instances**: both sides are evaluated on generated graphs of sizes 1 to 4 with broadcasting, for all element types
  that the rule claims, with values chosen to break almost-correct rules. An exact rule has to keep every bit, NaN and
  signs of zeros included; the others agree up to rounding. On some instance the rule must reduce the cost, and below
  what all other rules achieve.
* **Guards** (`tests/rules/test_guards.py`): each condition under which a rule refuses is taken away, and neighbors of
  the instances tell whether the rule is then wrong. Of {clauses} conditions {bite} are needed: without each of them
  there is a counterexample. Without {economy} others the rule stays right on every neighbor (they refuse what gains
  nothing), and {unreached} are reached by no neighbor yet; `tests/rules/harmless_clauses.txt` names both.
* **Identity**: {identities} rules are scalar identities that z3 or sympy proves for all values, under the conditions
  that the identity needs. Tests compare these conditions with the cases that the guard of the rule accepts.
* **Every size**: {sizes} changes of graphs are proved for all values and all sizes that their examples leave open (from
  1 to 32768; a few dimensions of some examples are numbers). The code of the rule runs on graphs of open sizes, and
  z3 compares an element of both sides, at an open index, sums term by term. A *form* is one choice of permutation,
  function, operators and rank; every form that the examples can draw is proved, other ranks and forms are not. Where
  the code tells sizes of 1 or equal sizes apart these are cases of their own; that it gives the proved right side is
  tried at 12 sizes of each. *Every value* keeps each bit; *reals* is equality in real arithmetic.
* **Fixed sizes**: {fixed} more are proved in the same way for all values, but in some or all of their forms at the
  sizes of the examples only. Constants of up to 16 elements that the examples write out are what they are there.

*Used* is the number of times a rule was applied in {networks} networks
({names}), and *gain* the total that its steps saved there:
{used} rules are used. The others wait for networks that need them. A step that pays only together with others gains 0;
one that saves FLOPs may cost bytes.
"""


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--folder", type=Path, action="append", default=[], help="networks to measure: every .onnx in it")
    p.add_argument("--no-download", action="store_true", help="take the wheels that are there")
    p.add_argument("--cache", type=Path, help="where wheels and what is made of them are kept")
    options = p.parse_args()
    rules = load_rules()
    before = json.loads(DATA.read_text(encoding="utf-8")) if DATA.exists() else {"rules": {}, "networks": []}
    about, measured = proofs(rules), before["networks"]
    if options.folder:
        trained = (*networks.TRAINED, *networks.QUANTIZED)
        found, _ = networks.find(options.folder, (), not options.no_download, options.cache, trained)
        used, measured = benefits(found), [n.name for n in found]
    else:
        used = {name: entry["benefit"] for name, entry in before["rules"].items() if "benefit" in entry}
    for name, entry in about.items():
        if name in used:
            entry["benefit"] = used[name]
    data = {"networks": measured, "rules": about}
    DATA.write_text(json.dumps(data, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    PAGE.write_text(page(rules, data), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)}: {len(rules)} rules")


if __name__ == "__main__":
    main()

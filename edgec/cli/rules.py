"""`edgec rules`: the rules that models are rewritten by."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from edgec.cli.command import Answer, CommandGroup, command

app = typer.Typer(cls=CommandGroup, help="Rules that models are rewritten by.", no_args_is_help=True)

RuleFolders = Annotated[
    Optional[list[Path]], typer.Option("--rules", metavar="DIR", help="Folder of rewrite rules of your own.")
]


@command(app, "list")
def list_rules(rules: RuleFolders = None) -> Answer:
    """List every rule: its family, what it does to numbers, what it says."""
    from edgec.report import rules as rules_report
    from edgec.rewrite.load import load_rules

    return Answer(rules_report.listed(load_rules(rules or ())), rules_report.draw_list)


@command(app, "show")
def show_rule(
    name: Annotated[str, typer.Argument(metavar="RULE", help="Name of a rule.")],
    rules: RuleFolders = None,
) -> Answer:
    """Show one rule and how it is proved."""
    from edgec.report import rules as rules_report
    from edgec.rewrite.load import load_rules

    return Answer(rules_report.shown(load_rules(rules or ()), name), rules_report.draw_one)


@command(app, "prove")
def prove_rules(
    names: Annotated[
        Optional[list[str]], typer.Argument(metavar="[RULE...]", help="Names of rules; all of them by default.")
    ] = None,
    rules: RuleFolders = None,
) -> Answer:
    """Prove rules on generated instances, and their scalar identities where z3 and sympy are installed."""
    from edgec.report import rules as rules_report
    from edgec.rewrite.load import load_rules

    known = load_rules(rules or ())
    chosen = [r for r in known if not names or r.name in names]
    for name in names or ():
        if name not in {r.name for r in known}:
            rules_report.shown(known, name)  # says what there is instead
    return Answer(rules_report.proved(chosen), rules_report.draw_proofs)

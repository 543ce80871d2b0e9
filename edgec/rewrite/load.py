"""Finding rules: every file of the shipped folder, and of folders a user adds."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from edgec import files
from edgec.errors import UsageError
from edgec.resources import data_folder
from edgec.rewrite.prove import prove
from edgec.rewrite.rule import Rule


def load_rules(folders: Iterable[Path | str] = ()) -> tuple[Rule, ...]:
    """The shipped rules and those in ``folders``, in the order of files and, inside a file, of writing.

    Rules from ``folders`` are proved before they are used: RuleError with a counterexample for a wrong one. Raises
    UsageError for a folder that does not exist, a file that does not load, or a name that is taken.
    """
    rules = list(_shipped())
    for folder in folders:
        for r in rules_in(Path(folder)):
            prove(r)
            rules.append(r)
    taken: dict[str, Rule] = {}
    for r in rules:
        if r.name in taken:
            hint = "give one of them another name"
            raise UsageError(f"the rule '{r.name}' is also in {taken[r.name].source}", hint=hint, where=r.source)
        taken[r.name] = r
    return tuple(rules)


@lru_cache(maxsize=1)
def _shipped() -> tuple[Rule, ...]:
    return tuple(rules_in(data_folder("rewrite_rules")))


def rules_in(folder: Path) -> list[Rule]:
    """The rules in the files of one folder, unproved; in the order of ``order.txt``, then of names.

    Files that begin with an underscore are left out.
    """
    listed = _listed(files.folder(folder, "rules"))
    modules = [file for file in folder.glob("*.py") if not file.name.startswith("_")]
    found: list[Rule] = []
    for file in sorted(modules, key=lambda f: (listed.get(f.stem, len(listed)), f.name)):
        found += _rules_of(file)
    return found


def _listed(folder: Path) -> dict[str, int]:
    """The places of the files that ``order.txt`` lists, one name a line: of rules that fit, the first is applied."""
    order = folder / "order.txt"
    names = order.read_text(encoding="utf-8").split() if order.is_file() else []
    return {name: k for k, name in enumerate(names)}


def _rules_of(file: Path) -> list[Rule]:
    spec = importlib.util.spec_from_file_location(f"edgec_rules_{file.stem}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever a user's file does wrong, the file is what to name
        raise UsageError(f"the rules do not load: {type(error).__name__}: {error}", where=str(file)) from error
    return list(dict.fromkeys(r for r in vars(module).values() if isinstance(r, Rule)))

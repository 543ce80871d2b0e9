"""Evidence on a built folder: the record, and its drawing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgec.report.record import Record, head

if TYPE_CHECKING:
    from rich.console import RenderableType

    from edgec.check.evidence import Evidence


def record(found: Evidence, folder: Path, files: Sequence[Path]) -> Record:
    """The record of `edgec evidence`."""
    from edgec.check.evidence import by_function

    functions = [
        {
            "file": file, "function": name, "operations": found.work.get(name, (None, None))[0],
            "bytes": found.work.get(name, (None, None))[1],
            "loops": [{"line": loop.line, "bound": loop.bound, "form": loop.form} for loop in own],
        }
        for (file, name), own in by_function(found.loops).items()
    ]  # fmt: skip
    rules = found.rules
    return {
        **head("evidence"), "ok": not found.unbounded, "folder": str(folder), "files": [str(path) for path in files],
        "functions": functions, "loops": len(found.loops), "unbounded": len(found.unbounded),
        "misra": [{"file": f, "rules": dict(own)} for f, own in rules.items()] if rules is not None else None,
        "checker": found.checker,
    }  # fmt: skip


def drawn(found: Record) -> RenderableType:
    """Counts, loops without a bound, and the files."""
    from rich.markup import escape

    lines = [f"{found['loops']} loops, {found['unbounded']} of them without a bound"]
    for function in found["functions"]:
        open_at = [str(loop["line"]) for loop in function["loops"] if loop["bound"] is None]
        if open_at:
            lines.append(f"  {function['file']}, {function['function']}: line {', '.join(open_at)}")
    if found["misra"] is None:
        lines.append(f"rules of MISRA C are not counted: {found['checker']}")
    else:
        rules = {rule for file in found["misra"] for rule in file["rules"]}
        places = sum(count for file in found["misra"] for count in file["rules"].values())
        lines.append(f"{len(rules)} rules of MISRA C:2012 broken in {places} places, by {found['checker']}")
    lines.append("written: " + ", ".join(found["files"]))
    return escape("\n".join(lines)) + "\n"

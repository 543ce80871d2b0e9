"""The page of the walk: docs/results/targets.md, from its rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import onnxruntime

import edgec
from benchmarks.targets.cells import ARITHMETIC, KINDS, SHAPES, cells

Row = Mapping[str, Any]
HEAD = """\
# Every target

A small classifier of color pictures, built for every device with every app, in fp32 and int8 (calibrated on eight
pictures), with its height and width fixed and open. A cell is

- **ran**: the code, or the app's own program, ran here, and its answer is onnxruntime's: in this process, under
  qemu, Node.js, Chromium, PoCL, or with CUDA kernels in emulation;
- **validated**: what was built was examined by a tool of the target, but nothing here runs it;
- **built**: compiled for the target's instruction set, and nothing here runs it ([boards](../guide/boards.md) has the
  compilers; those of ESP32 are not Espressif's);
- **refused**: edgec says in words why this is not offered.

Wrong answers and other errors are listed in full.
"""
VERDICTS = ("ran", "validated", "built", "refused", "wrong", "error")
BROKEN = ("wrong", "error")
_SIGN = {"ran": "R", "validated": "V", "built": "B", "refused": "-", "wrong": "**wrong**", "error": "**error**"}


def text(rows: Iterable[Row]) -> str:
    """The whole page, in Markdown."""
    found = {row["name"]: row for row in rows}
    parts = [HEAD.rstrip(), _counts(found), _table(found), _ways(found), _refusals(found), _broken(found)]
    return "\n\n".join([*parts, _provenance(found)]) + "\n"


def _counts(found: Mapping[str, Row]) -> str:
    lines = [f"| app | cells | {' | '.join(VERDICTS)} |", "|---|" + "---|" * (len(VERDICTS) + 1)]
    for kind in (*KINDS, "all"):
        own = [r for n, r in found.items() if kind in ("all", n.split()[1])]
        if not own:
            continue
        counts = Counter(r["verdict"] for r in own)
        lines.append(f"| {kind} | {len(own)} | {' | '.join(str(counts[v] or '') for v in VERDICTS)} |")
    return "## By app\n\n" + "\n".join(lines)


def _table(found: Mapping[str, Row]) -> str:
    """A line a device; in a cell, a letter each for fp32 fixed, fp32 open, int8 fixed, int8 open."""
    kinds = [kind for kind in KINDS if any(n.split()[1] == kind for n in found)]
    lines = [f"| device | {' | '.join(kinds)} |", "|---|" + "---|" * len(kinds)]
    for device in dict.fromkeys(n.split()[0] for n in found):
        groups = []
        for kind in kinds:
            names = [f"{device} {kind} {a} {s}" for a in ARITHMETIC for s in SHAPES]
            signs = [_SIGN[found[n]["verdict"]] if n in found else "?" for n in names]
            groups.append("-" if set(signs) == {"-"} else " ".join(signs))
        lines.append(f"| {device} | {' | '.join(groups)} |")
    note = "Letters: fp32 fixed, fp32 open, int8 fixed, int8 open; R ran, V validated, B built, - refused."
    if missing := len(cells()) - len(found.keys() & {c.name for c in cells()}):
        note += f"\nNot walked yet: {missing} cells of apps and devices that are new."
    return f"## By device\n\n{note}\n\n" + "\n".join(lines)


def _ways(found: Mapping[str, Row]) -> str:
    counts = Counter((r["verdict"], r["how"].partition(";")[0]) for r in found.values() if r["verdict"] in VERDICTS[:3])
    lines = ["| verdict | by | cells |", "|---|---|---|"]
    lines += [f"| {verdict} | {_cell(how)} | {n} |" for (verdict, how), n in counts.most_common()]
    return "## How it was seen\n\n" + "\n".join(lines)


def _refusals(found: Mapping[str, Row]) -> str:
    """Messages with their names left out, by count, each with an example."""
    groups: dict[str, list[str]] = {}
    for name, row in found.items():
        if row["verdict"] == "refused":
            groups.setdefault(re.sub(r"'[^']*'|is \w+$", "'..'", row["how"].partition("(hint")[0]), []).append(name)
    lines = ["| cells | message of one | its cell |", "|---|---|---|"]
    for names in sorted(groups.values(), key=len, reverse=True):
        lines.append(f"| {len(names)} | {_cell(found[names[0]]['how'])} | {names[0]} |")
    return "## Refused\n\n" + "\n".join(lines)


def _broken(found: Mapping[str, Row]) -> str:
    lines = [
        f"| {name} | {row['verdict']} | {_cell(row.get('error') or row['how'])} |"
        for name, row in found.items()
        if row["verdict"] in BROKEN
    ]
    if not lines:
        return "## Wrong, or an error\n\nNone."
    return "## Wrong, or an error\n\n| cell | verdict | message |\n|---|---|---|\n" + "\n".join(lines)


def _cell(message: str) -> str:
    names = re.sub(r"(?<![\w.])/\S*/", "", message)  # paths of files without their folders
    return names.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")[:300]


def _provenance(found: Mapping[str, Row]) -> str:
    dates: Sequence[str] = sorted({r["date"] for r in found.values()})
    commits = Counter(str(r.get("commit") or "unknown") for r in found.values())
    states = ", ".join(f"{n} cells of commit {c}" for c, n in commits.most_common())
    emulators = "".join(sorted(f" {name}." for name in {r.get("emulator") for r in found.values()} if name))
    between = " to ".join(dict.fromkeys([dates[0], dates[-1]])) if dates else "no date"
    return (
        f"## Provenance\n\n{between}; edgec {edgec.__version__}, onnxruntime {onnxruntime.__version__}; "
        f"{len(found)} cells:\n{states}.{emulators}\n\n"
        "```sh\npython -m benchmarks.targets --write docs/results/targets.md\n```"
    )

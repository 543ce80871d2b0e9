"""The page of what was planted and found, docs/results/trust.md, from the rows of the runs before.

    python -m benchmarks.trust.planted
    python -m benchmarks.trust.covering && python -m benchmarks.trust.mutation --count 200
    python -m benchmarks.trust.page --write docs/results/trust.md

Proofs are counted in benchmarks/rules/rules.json, which `benchmarks.rules.catalog` writes. Where there are no rows of a
run, the page keeps what it says of it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from math import sqrt
from pathlib import Path
from typing import Any

from benchmarks import ROOT
from benchmarks.alone import Row, read_rows
from benchmarks.table import markdown
from benchmarks.trust.cases import CASES
from benchmarks.trust.covering import default_folder, record_of, test_files, tree
from benchmarks.trust.equivalent import REASONS
from benchmarks.trust.mutants import everywhere
from benchmarks.trust.mutation import KILLED, LIVED, SEED, UNREACHED
from benchmarks.trust.mutation import ROWS as MUTANTS
from benchmarks.trust.planted import NO_FAULTS
from benchmarks.trust.planted import ROWS as PLANTED
from benchmarks.trust.survivors import KINDS, key, read

RULES = ROOT / "benchmarks" / "rules" / "rules.json"
#: Folders whose mutants are counted together: the first two parts of a path.
PARTS = 2
FAULTS, MISTAKES = "Faults planted in built networks", "Mistakes planted in edgec"


def page(
    planted: Mapping[str, Row],
    mutants: Sequence[Row],
    rules: Mapping[str, Any],
    recorded: tuple[int, int] | None = None,
    reasons: Mapping[str, tuple[str, str]] | None = None,
) -> str:
    """The Markdown page of rows by name of planted faults, rows of mutants, and rules by name.

    ``recorded`` are the numbers of test files whose lines are known, and of all; ``reasons`` are those of `survivors`.
    """
    parts = ["# Trust\n", "Written by `python -m benchmarks.trust.page`, from rows of the commands named below.\n"]
    found = _mutation(mutants, recorded, reasons or {})
    return "\n".join([*parts, *_planted(planted), *found, *_proofs(rules), *_elsewhere()])


def sampled(rows: Mapping[str, Row], order: Iterable[str]) -> dict[str, Row]:
    """The rows of a fair sample: those at the beginning of the drawn ``order`` of all mutants, without a gap.

    Others were tried for their files alone, or are no mutants by the rules of today.
    """
    return {name: rows[name] for name in takewhile(rows.__contains__, order)}


def kept(text: str, before: str, titles: Sequence[str]) -> str:
    """The page with the sections of these titles as they were ``before``, where they were."""
    old, new = ({part.partition("\n")[0]: part for part in t.split("\n## ")} for t in (before, text))
    return "\n## ".join(old.get(title, part) if title in titles else part for title, part in new.items())


def _planted(rows: Mapping[str, Row]) -> Iterable[str]:
    faults = [r for r in rows.values() if "kind" in r and r["verdict"] not in NO_FAULTS]
    as_they_are = [r for r in rows.values() if "kind" not in r]
    found = Counter(r["verdict"] for r in faults)
    yield f"## {FAULTS}\n"
    yield (
        "`python -m benchmarks.trust.planted` changes the C of a built network, its weights or its results, compiles "
        "it and asks `edgec check`. A fault counts if it shows on inputs that the check does not draw.\n"
    )
    yield (
        f"Of {len(faults)} faults in {len({r['network'] for r in faults})} networks {found['found']} are found, "
        f"{found['proves nothing']} are called unproven (`proves nothing`) and {found['missed']} are missed. Of "
        f"{len(as_they_are)} networks without a fault {sum(r['verdict'] == 'false alarm' for r in as_they_are)} raise "
        "an alarm.\n"
    )
    table = []
    for case in CASES:
        mine = Counter(r["verdict"] for r in faults if r["network"] == case.name)
        table.append([case.name, *(str(mine[v]) for v in ("found", "proves nothing", "missed"))])
    yield markdown(["network", "found", "unproven", "missed"], table) + "\n"
    late = [[r["network"], _code(str(r.get("fault", "")))] for r in faults if r["verdict"] == "missed"]
    if late:
        yield "Those missed:\n"
        yield markdown(["network", "fault"], late, text_columns=2) + "\n"


def _mutation(
    rows: Sequence[Row], recorded: tuple[int, int] | None, reasons: Mapping[str, tuple[str, str]]
) -> Iterable[str]:
    found = Counter(r["verdict"] for r in rows)
    yield f"## {MISTAKES}\n"
    yield (
        "`python -m benchmarks.trust.mutation` puts one small mistake at a time into a copy and runs tests for some "
        "seconds, not the whole suite: those that execute its line, where `python -m benchmarks.trust.covering` "
        "noted them before, and of test files without such notes the nearest, by imports and by rare words that they "
        "share with the function; first those whose names share words with it. A mistake is killed if one of them "
        "fails that passes without it. So the share is a lower bound.\n"
    )
    yield "Places whose mistakes change no result by their form are left out:\n"
    yield "\n".join(f"* {text}" for text in REASONS.values()) + "\n"
    if not rows:
        yield "No mutant was tried.\n"
        return
    low, high = interval(found[KILLED], len(rows))
    share = f"{found[KILLED] / len(rows):.0%}, with 95 % confidence from {low:.0%} to {high:.0%}"
    yield (
        f"Of {len(rows)} mutants, drawn from all, {found[KILLED]} are killed ({share}), "
        f"{found[LIVED]} live, and {found[UNREACHED]} are in lines that no recorded test executes. The goal of 90 % is "
        f"{'met' if found[KILLED] >= 0.9 * len(rows) else 'missed'}.\n"
    )
    if recorded is not None and recorded[0] < recorded[1]:
        known, every = recorded
        yield f"Lines of {known} of {every} test files were noted; of the others, the nearest were run.\n"
    folders: dict[str, Counter[str]] = {}
    for r in rows:
        folders.setdefault("/".join(r["file"].split("/")[:-1][:PARTS]), Counter())[r["verdict"]] += 1
    table = [[f"`{f}`", *(str(c[v]) for v in (KILLED, LIVED, UNREACHED))] for f, c in sorted(folders.items())]
    yield markdown(["folder", "killed", "live", "not executed"], table) + "\n"
    yield from _survivors([r for r in rows if r["verdict"] != KILLED], reasons)


def _survivors(rows: Sequence[Row], reasons: Mapping[str, tuple[str, str]]) -> Iterable[str]:
    """Those that live, with the reasons that were noted."""
    known = [(r, *reasons.get(key(str(r["name"])), ("", ""))) for r in sorted(rows, key=lambda r: str(r["name"]))]
    counts = Counter(kind for _, kind, _ in known)
    yield f"Why {len(rows)} live, after a look at each:\n"
    told = [f"* {counts[kind]}: {text} (`{kind}`)" for kind, text in KINDS.items() if counts[kind]]
    yield "\n".join([*told, *([f"* {counts['']}: nobody looked yet"] if counts[""] else [])]) + "\n"
    table = [[_code(r["name"]), kind, why] for r, kind, why in known]
    yield markdown(["place and mistake", "kind", "reason"], table, text_columns=3) + "\n"


def interval(count: int, of: int) -> tuple[float, float]:
    """Wilson's interval of 95 % for a share that was counted in a sample."""
    z, p = 1.96, count / of
    middle, half = p + z * z / (2 * of), z * sqrt(p * (1 - p) / of + z * z / (4 * of * of))
    return (middle - half) / (1 + z * z / of), (middle + half) / (1 + z * z / of)


def _proofs(rules: Mapping[str, Any]) -> Iterable[str]:
    proved = Counter(r["identity"].split(",")[0] for r in rules.values() if r["identity"])
    few = sum(r["identity"] is None and r["instances"] < 60 for r in rules.values())
    yield "## Rewrite rules\n"
    kinds = ", ".join(f"{n} by {kind}" for kind, n in proved.most_common())
    yield (
        f"Of {len(rules)} rules {sum(proved.values())} are proved for all values ({kinds}), and "
        f"{len(rules) - sum(proved.values())} are tested on instances, {few} of them on fewer than 60. "
        "[The page of rules](rules.md) says it for each.\n"
    )


def _elsewhere() -> Iterable[str]:
    yield "## Hostile input\n"
    yield "Counts of mutated files, graphs and messages and findings are on [the page of robustness](robustness.md).\n"


def _code(text: str) -> str:
    return "`" + text.replace("|", "\\|").replace("`", "'")[:160] + "`"


def main(arguments: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--cache", type=Path, default=default_folder())
    p.add_argument("--seed", type=int, default=SEED, help="that of the sample of mutants")
    p.add_argument("--write", type=Path, metavar="PAGE", help="where the page goes; it is printed otherwise")
    options = p.parse_args(arguments)
    rules = json.loads(RULES.read_text(encoding="utf-8"))["rules"]
    planted, mutants = (read_rows(options.cache / name) for name in (PLANTED, MUTANTS))
    if mutants:
        mutants = sampled(mutants, (m.name for m in everywhere(tree(options.cache), options.seed)))
    copy = tree(options.cache)
    known = [f for f in test_files(copy) if record_of(options.cache, f).is_file()]
    text = page(planted, list(mutants.values()), rules, (len(known), len(test_files(copy))), read())
    if options.write is not None and options.write.is_file():
        missing = [title for title, rows in ((FAULTS, planted), (MISTAKES, mutants)) if not rows]
        text = kept(text, options.write.read_text(encoding="utf-8"), missing)
    if options.write is None:
        print(text)
    else:
        options.write.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

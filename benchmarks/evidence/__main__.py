"""Evidence for the embedded app: the bounds of its loops, and the rules of MISRA C that its code breaks.

    python -m benchmarks.evidence [--write docs/results/evidence.md]

The digits network is built for a Cortex-M4. The exit code is 1 where a loop of the network has no bound.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import edgec
from edgec.check import evidence
from edgec.check.loops import Loop
from edgec.resources import data_folder

DEVICE, NAME = "mps2_an386", "digits"
HEAD = """\
# Evidence for the embedded app

Two things that a safety case, or a bound of the execution time, asks of generated C: are all loops bounded, and which
rules of MISRA C:2012 does it break? Both for the digits network, built for a Cortex-M4 by `--app embedded`.
"""
LOOPS = """\
`edgec evidence DIR` writes them for any build ([shipping](../guide/shipping.md#evidence-for-safety-cases)): each loop
with its file, line, function and bound, those of headers that the network calls included. The bound is the most
iterations of one entry: exact for `constant` loops; for `share`, all tasks, which one thread has; for `lanes`, one a
vector of a single lane. `tests/check/test_evidence.py` counts the iterations of a running network beside them.
No loop of the network depends on data. The loops of `embedded/main.c` and `ec_board.c` read files and arguments: they
belong to the program around the network, and have no bounds here.
"""
MISRA = """\
By the addon of cppcheck, for the network and the program (`cppcheck --addon=misra`), each place once. The addon checks
what it can decide; it is no proof of compliance, and deviations have to be judged by whoever takes the code over.
"""


def main(arguments: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--write", type=Path, metavar="PAGE", help="write the page")
    options = p.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "net"
        model = data_folder("apps") / "digits" / "digits.onnx"
        edgec.build(model, folder, name=NAME, device=DEVICE, app="embedded", compile=False)
        found = evidence.evidence(folder, misra=options.write is not None)
        if options.write:
            if found.rules is None:
                p.error(found.checker)
            options.write.write_text(page(found.loops, found.rules), encoding="utf-8")
    print(f"{len(found.loops)} loops, {len(found.unbounded)} of them without a bound")
    return int(bool(found.unbounded))


def page(found: Sequence[Loop], rules: Mapping[str, Counter[str]]) -> str:
    """The page of loops and rules, in Markdown."""
    forms = Counter(loop.form for loop in found)
    lines = ["| form | loops | largest bound |", "|---|---|---|"]
    for form, count in forms.most_common():
        bounds = [loop.bound for loop in found if loop.form == form and loop.bound is not None]
        lines.append(f"| {form} | {count} | {max(bounds, default='none')} |")
    every = sorted({rule for own in rules.values() for rule in own}, key=lambda r: [int(n) for n in r.split(".")])
    totals = {rule: sum(own[rule] for own in rules.values()) for rule in every}
    table = [f"| rule | {' | '.join(f'`{file}`' for file in rules)} | all |", "|---|" + "---|" * (len(rules) + 1)]
    for rule in every:
        table.append(f"| {rule} | {' | '.join(str(own[rule] or '') for own in rules.values())} | {totals[rule]} |")
    table.append(f"| all | {' | '.join(str(own.total()) for own in rules.values())} | {sum(totals.values())} |")
    version = subprocess.run(["cppcheck", "--version"], capture_output=True, text=True, check=False).stdout.strip()
    return "\n".join([
        HEAD, "## Loops\n", LOOPS, *lines, "\n## MISRA C\n", MISRA, *table,
            f"\n## Provenance\n\nedgec {edgec.__version__}, {version}.\n",
            "```sh\npython -m benchmarks.evidence --write docs/results/evidence.md\n```\n",
    ])  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())

"""Every model that edgec must support, compared with onnxruntime on real inputs: one table.

    python -m benchmarks.accuracy.coverage [NAME ...]

A relative error is the largest difference over the largest value of an output. Decisions are what the model is for:
the class, the token, whether a window holds speech. Models that are not here are listed below the table: trained ones
are looked for where EDGEC_MODELS says (else in ../shared/models), those of wheels in the cache of `networks.wheels`
(EDGEC_DOWNLOAD=1 fetches them).
"""

from __future__ import annotations

import sys
import traceback
from fnmatch import fnmatch

from benchmarks.accuracy import cover_images, cover_made, cover_sound, cover_text  # noqa: F401  (they register)
from benchmarks.accuracy.cover import CASES, Missing, Row


def line(row: Row) -> str:
    decisions = f"{row.same} of {row.decisions} ({row.what})" if row.decisions else "-"
    verdict = "ok" if row.ok else "**not within the bound**"
    return f"| {row.model} | {row.compared} | {row.error:.1e} | {row.bound:.0e} | {decisions} | {verdict} |"


def main(names: list[str]) -> int:
    """Print the table; gives the number of models that fail."""
    failed, absent = 0, []
    print("| model | compared | worst error | bound | equal decisions | |\n|---|---|---|---|---|---|", flush=True)
    for name, run in CASES.items():
        if names and not any(fnmatch(name, pattern) for pattern in names):
            continue
        try:
            row = run()
        except Missing as reason:
            absent.append(f"{name}: {reason}")
            continue
        except Exception as error:
            failed += 1
            print(f"| {name} | **{type(error).__name__}: {str(error).splitlines()[0]}** | | | | |", flush=True)
            traceback.print_exc()
            continue
        failed += not row.ok
        print(line(row), flush=True)
    print("".join(f"\nnot here: {reason}" for reason in absent))
    return failed


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 100))

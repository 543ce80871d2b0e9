"""Write docs/support.md: which ONNX operators are supported, as the ONNX project's own tests find it.

Run from the project's root: ``python tests/onnx/matrix.py``.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from pathlib import Path

import onnx

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1])]

from node_tests import Outcome, cases, operator
from node_tests_in_c import batches, outcomes

from edgec.frontend.call import refused, supported
from edgec.frontend.model import NEWEST_OPSET, OLDEST_OPSET

PAGE = Path(__file__).resolve().parents[2] / "docs" / "support.md"

_HEAD = """# Supported ONNX operators

Operator sets {oldest} to {newest} of the default domain. This page is written by `tests/onnx/matrix.py`, which runs
the node tests of the onnx package ({version}) through the whole pipeline and the C compiler:
{passed} of {total} pass, {refused} are refused with a message that says why, {failed} give a wrong result.

What a test feeds as an input but an operator has to know at build time (the new shape of Reshape, the axes of
ReduceSum) is given at build time, as `--value NAME=...` does on the command line.

An operator that the standard itself defines by other operators (the column says "body") is lowered through that
definition. Not supported anywhere: strings, sequences, optional values, training, and operators
whose result has a size that depends on the data.

| operator | lowering | passed | refused | why refused |
|---|---|---:|---:|---|
"""


def text() -> str:
    """The whole page."""
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    reasons: dict[str, Counter[str]] = defaultdict(Counter)
    results: dict[str, Outcome] = {}
    for names in batches():
        results |= outcomes(names)
    for case in cases().values():
        name = operator(case)
        result = results[case.name]
        rows[name][result.status] += 1
        if result.status == "refused":
            reasons[name][_short(result.reason)] += 1
    own = {name for domain, name in supported() if not domain}
    explained = {name: why for (domain, name), why in refused().items() if not domain}
    for name in own | set(explained):
        rows.setdefault(name, Counter())
    total = sum((c for c in rows.values()), Counter())
    lines = []
    for name in sorted(rows, key=str.lower):
        lowering = "yes" if name in own else "no" if name in explained or not rows[name]["passed"] else "body"
        why = explained.get(name) or "; ".join(sorted(reasons[name])[:3])
        lines.append(f"| {name} | {lowering} | {rows[name]['passed']} | {rows[name]['refused']} | {why} |")
    head = _HEAD.format(
        oldest=OLDEST_OPSET, newest=NEWEST_OPSET, version=onnx.__version__, total=len(cases()),
        passed=total["passed"], refused=total["refused"], failed=total["failed"],
    )  # fmt: skip
    return head + "\n".join(lines) + "\n"


def _short(reason: str) -> str:
    """A reason that fits a table: without the names of the test's own tensors."""
    if "\n" in reason:
        reason = reason.split("\n")[1].split(": ", 1)[1]
    if "element type" in reason:
        kind = reason.split("element type ")[1].split()[0]
        family = "".join(c for c in kind if c.isalpha() or c == "8")
        return "element types " + ("float8" if family.startswith("float8") else "of 4 bits or fewer, strings")
    words = reason.split("'")
    return reason if len(words) < 3 else f"{words[0].strip()} {words[-1].strip()}"


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")

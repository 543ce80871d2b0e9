"""Write docs/guide/support.md: which ONNX operators are supported, as the ONNX project's own tests find it.

Run from the project's root: ``PYTHONPATH=.:tests python tests/onnx/matrix.py``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from textwrap import fill

import onnx
from node_tests import SUITES, Outcome, cases, operator, proto
from node_tests_in_c import all_outcomes
from onnx.backend.test.case.test_case import TestCase

from edgec.frontend.onnx.call import refused, supported
from edgec.frontend.onnx.model import FIRST_COMPLETE_OPSET, NEWEST_OPSET

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "support.md"

_HEAD = """# Supported ONNX operators

Operator sets {oldest} to {newest} of the default domain, and older ones as far as the operators had the same meaning.
Written by `tests/onnx/matrix.py`, which runs the tests of the onnx package ({version}) through the whole pipeline and
the C compiler. Every refusal is an error message with its reason.

{suites}

{refused}Of {drawn} tests the results are random, and those in the package one draw of numpy's: type and shape are
compared, and whether the operator may give each element. `tests/onnx/test_random_numbers.py` has the distributions.

Inputs that an operator needs at build time (the new shape of Reshape, the axes of ReduceSum) are given at build time,
as with `--value NAME=...` on the command line. Lists of tensors and optional values are resolved at import: an input
that is a list becomes numbered inputs, `x[0]`, `x[1]`, ...

## Strings, random numbers, pictures and gradients

A tensor of strings `[..]` is an array of bytes (u8) `[.., width]`, zero behind the end of each string: in C as
`strncpy` writes them, in numpy as `array.astype("S16").view(numpy.uint8)`. The width of an input is the last number of
its shape, `--shape words=4,16`; that of a result follows from those of its operands. Operators that move elements,
Equal, StringConcat, StringSplit, StringNormalizer, RegexFullMatch (RE2's syntax, as a table of at most 2000 states),
and LabelEncoder, OneHotEncoder and TfIdfVectorizer take strings; the labels of classifiers are numbers. Letters beyond
ASCII have no upper and lower case: where a case is changed or ignored, a run with one ends in an error. Words end at
the blanks of ASCII.

Random numbers (RandomUniform, RandomNormal, Bernoulli, Multinomial, Dropout in training mode) are a function of the
seed, the place of the element and the state `random_step`, which numbers the runs: the caller passes 0 at first and
`random_step_out` from then on, so that a run can be repeated. Nodes with the same seed draw the same numbers.

ImageDecoder decodes pictures that are constants of the model when it is built, with Pillow (`edgec[pictures]`). Where
the bytes are an input of the model, `--shape NAME=HEIGHT,WIDTH,3` makes the decoded pixels the input, as cameras give
them and as `edgec samples` makes them of files.

Gradient (`ai.onnx.preview.training`) is differentiated when the model is read. The part of the model between `xs`, `zs`
and `y` is the function, whether `xs` are inputs, weights or values in between.

## Operators beyond the standard

Of `com.microsoft`, each compared with onnxruntime (`tests/onnx/test_contrib*.py`): {microsoft}.

These are all that onnxruntime's optimizer and quantizers write on CPUs, as far as 190 variants of ten small networks
show (optimization levels, dynamic and static quantization in both formats, weights of 4 and 8 bits, the optimizer for
transformers). Layouts for one kind of hardware (`com.microsoft.nchwc`, NhwcFusedConv) and loops that generate text
(BeamSearch, GreedySearch, Sampling) are refused.

Of `ai.onnx.ml`: {ml}. Of `ai.onnx.preview.training`: {training}.

## Operators of the standard

`body` in the second column: the standard defines the operator by other operators, and it is lowered through that
definition.

| operator | lowering | passed | refused | why refused |
|---|---|---:|---:|---|
"""


def text() -> str:
    """The whole page."""
    results = {suite: all_outcomes(suite) for suite in ("node", *SUITES)}
    head = _HEAD.format(
        oldest=FIRST_COMPLETE_OPSET, newest=NEWEST_OPSET, version=onnx.__version__,
        suites=_suites(results), refused=_reasons(results), drawn=sum(map(_is_random, cases().values())),
        microsoft=_listed("com.microsoft"), ml=_listed("ai.onnx.ml"), training=_listed("ai.onnx.preview.training"),
    )  # fmt: skip
    return _filled(head) + "\n".join(_operators(results["node"])) + "\n"


def _suites(results: dict[str, dict[str, Outcome]]) -> str:
    lines = ["| suite | tests | passed | refused | wrong |", "|---|---:|---:|---:|---:|"]
    for suite, found in results.items():
        n = Counter(o.status for o in found.values())
        lines.append(f"| {suite} | {len(found)} | {n['passed']} | {n['refused']} | {n['failed']} |")
    return "\n".join(lines)


def _reasons(results: dict[str, dict[str, Outcome]]) -> str:
    """Number of tests that each reason prevents; nothing where none is refused."""
    count: Counter[str] = Counter()
    for found in results.values():
        count.update(short(o.reason) for o in found.values() if o.status == "refused")
    rows = [f"| {reason} | {n} |" for reason, n in sorted(count.items(), key=lambda item: (-item[1], item[0]))]
    return "\n".join(["| refused because | tests |", "|---|---:|", *rows, "", ""]) if rows else ""


def _is_random(case: TestCase) -> bool:
    nodes = {n.op_type for n in proto(case).graph.node}
    return bool(nodes & {"Bernoulli", "RandomUniformLike"}) or (
        "training_dropout" in case.name and "zero" not in case.name
    )


def _listed(domain: str) -> str:
    return ", ".join(name for d, name in supported() if d == domain)


def _filled(page: str) -> str:
    """Long lines of prose in lines of the page's width."""
    return "\n".join(line if line.startswith("|") else fill(line, 120) for line in page.split("\n"))


def _operators(results: dict[str, Outcome]) -> list[str]:
    """One row an operator of the default domain, and of others that have node tests."""
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    reasons: dict[str, set[str]] = defaultdict(set)
    for case in cases().values():
        name, result = operator(case), results[case.name]
        rows[name][result.status] += 1
        if result.status == "refused":
            reasons[name].add(short(result.reason))
    own = {name for domain, name in supported() if domain != "com.microsoft"}
    explained = {name: why for (domain, name), why in refused().items() if not domain}
    for name in {name for domain, name in supported() if not domain} | set(explained):
        rows.setdefault(name, Counter())
    lines = []
    for name in sorted(rows, key=str.lower):
        lowering = "yes" if name in own else "no" if name in explained or not rows[name]["passed"] else "body"
        why = explained.get(name) or "; ".join(sorted(reasons[name])[:3])
        lines.append(f"| {name} | {lowering} | {rows[name]['passed']} | {rows[name]['refused']} | {why} |")
    return lines


def short(reason: str) -> str:
    """A reason that fits a table: without the names of the test's own tensors."""
    if "\n" in reason:
        reason = reason.split("\n")[1].split(": ", 1)[1]
    if "element type string" in reason:
        return "strings are not supported; do this step in your own code"
    words = reason.split("'")
    return reason if len(words) < 3 else f"{words[0].strip()} {words[-1].strip()}"


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")

"""Special values through every operator, compiled, beside onnxruntime.

`python -m benchmarks.robustness.special --write` runs all and writes docs/results/special-values.md. What an operator
is tried with are the ONNX project's own node tests and the recipes of `tests/random`, with elements of one operand
replaced by one special value, and then elements of all operands by all of them.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

from benchmarks import ROOT
from benchmarks.robustness.special_reasons import REASONS, reason
from edgec import files
from edgec.errors import EdgecError
from edgec.ir.graph import Graph
from edgec.ir.sizes import outputs_alone, outputs_apart
from edgec.rewrite import simplify

for _place in ("", "random", "onnx"):
    sys.path.insert(0, str(ROOT / "tests" / _place))

import node_tests  # noqa: E402
import onnx_recipes  # noqa: E402, F401
from compiled import Compiled, compile_graphs  # noqa: E402
from onnx_graphs import RECIPES, Maker  # noqa: E402
from onnx_reference import Rejected  # noqa: E402
from onnx_stages import imported as imported_drawn  # noqa: E402

Arrays = Mapping[str, np.ndarray]
#: Values that floats are replaced by, by the name of their column.
FLOATS = {
    "NaN": np.nan, "+inf": np.inf, "-inf": -np.inf, "+0": 0.0, "-0": -0.0, "denormal": 1e-40, "-denormal": -1e-40,
}  # fmt: skip
#: Integers: the ends of their type, and a little outside of what small tensors have.
INTEGERS = ("least", "greatest", "-100", "100")
COLUMNS = (*FLOATS, *INTEGERS, "mixed")
#: Recipes are drawn so often, and so many cases share a compiler run.
DRAWS, BATCH = 3, 100
PAGE = ROOT / "docs" / "results" / "special-values.md"


@dataclass(frozen=True)
class Case:
    """One node with its operands: the model for onnxruntime, and what edgec imports."""

    name: str
    operator: str
    model: onnx.ModelProto
    graph: Graph
    feeds: Arrays
    fixed: Arrays


@dataclass(frozen=True)
class Row:
    """One run: ``wrong`` says in a word how the results differ, ``told`` with which numbers."""

    operator: str
    case: str
    column: str
    wrong: str = ""
    told: str = ""


# ---- cases


def operators() -> dict[str, list[str]]:
    """The names of all cases by operator."""
    found: dict[str, list[str]] = {}
    for name, case in sorted(node_tests.cases().items()):
        if "_expanded" not in name and "training" not in name:
            found.setdefault(node_tests.operator(case), []).append(name)
    for domain, operator in sorted(RECIPES):
        known = found.setdefault(f"{domain}.{operator}" if domain else operator, [])
        known += [f"{domain}/{operator}/{k}" for k in range(DRAWS)]
    return found


def case_of(operator: str, name: str) -> Case | None:
    """The case of a name; None where its operands are no tensors, or edgec or onnxruntime refuses it as it is."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _drawn(operator, name) if "/" in name else _node_test(operator, name)
    except (EdgecError, Rejected):
        return None


def _node_test(operator: str, name: str) -> Case | None:
    case = node_tests.loaded(node_tests.cases()[name])
    inputs = (case.data_sets or [((), ())])[0][0]
    names = [i.name for i in node_tests.proto(case).graph.input]
    if any(isinstance(v, list) or v is None for v in inputs) or len(names) != len(inputs):
        return None
    graph, given = node_tests.imported(case, inputs)
    arrays = dict(zip(names, map(node_tests.array, inputs)))
    fixed = {n: a for n, a in arrays.items() if n not in given}
    return Case(name, operator, node_tests.proto(case), graph, given, fixed)


def _drawn(operator: str, name: str) -> Case | None:
    domain, plain, number = name.split("/")
    for attempt in range(20):
        random = np.random.default_rng([zlib.crc32(name.encode()), attempt])
        maker = Maker(random)
        maker.domain = domain
        try:
            RECIPES[domain, plain](maker, plain)
        except (Rejected, onnx.defs.SchemaError):
            continue
        drawn = maker.finish()
        if drawn.feeds and not drawn.open:
            return Case(f"{plain}-{number}", operator, drawn.proto(), imported_drawn(drawn), drawn.feeds, {})
    return None


def variants(case: Case) -> Iterator[tuple[str, Arrays]]:
    """The operands of a case with special values, and the column each belongs to."""
    random = np.random.default_rng(zlib.crc32(case.name.encode()))
    for name, array in case.feeds.items():
        for column, value in _values(array.dtype).items():
            yield column, {**case.feeds, name: _replaced(random, array, [value])}
    for _ in range(2):
        yield "mixed", {n: _replaced(random, a, list(_values(a.dtype).values())) for n, a in case.feeds.items()}


def _values(dtype: np.dtype[Any]) -> dict[str, Any]:
    if dtype.kind == "f":
        return {**FLOATS, **({"denormal": 1e-7, "-denormal": -1e-7} if dtype.itemsize == 2 else {})}
    if dtype.kind in "iu" and np.dtype(dtype) in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16):
        limits = np.iinfo(dtype)
        all_ = dict(zip(INTEGERS, (int(limits.min), int(limits.max), -100, 100)))
        return {n: v for n, v in all_.items() if limits.min <= v <= limits.max}
    return {}


def _replaced(random: np.random.Generator, array: np.ndarray, values: Sequence[Any]) -> np.ndarray:
    """A third of the elements, and at least one, replaced."""
    if not values or not array.size:
        return array
    changed = array.copy().reshape(-1)
    places = random.permutation(changed.size)[: max(1, changed.size // 3)]
    changed[places] = np.asarray(random.choice(np.asarray(values, array.dtype), len(places)), array.dtype)
    return changed.reshape(array.shape)


# ---- comparison


def difference(got: np.ndarray, want: np.ndarray) -> tuple[str, str]:
    """The difference of two results, in a word and in numbers; two empty texts where they agree."""
    if want.dtype == np.uint8 and got.dtype.itemsize == 1:  # floats of 8 bits, as onnxruntime hands them out
        got = got.view(np.uint8)
    if got.shape != want.shape or got.dtype != want.dtype:
        return "shape", f"{got.dtype}{list(got.shape)} for {want.dtype}{list(want.shape)}"
    if want.dtype.kind != "f":
        return _first("integer", got != want, got, want)
    a, b = got.astype(np.float64), want.astype(np.float64)
    most = np.max(np.abs(b), initial=0.0, where=np.isfinite(b))
    allowed = {2: 2e-2, 4: 1e-4, 8: 1e-8}[want.dtype.itemsize] * most + 1e-30
    with np.errstate(all="ignore"):
        kinds = {
            "NaN": np.isnan(a) != np.isnan(b),
            "infinity": (np.isinf(a) | np.isinf(b)) & (a != b) & ~np.isnan(a) & ~np.isnan(b),
            "value": np.isfinite(a) & np.isfinite(b) & (np.abs(a - b) > allowed),
            "sign of 0": (a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b)),
        }
    return next((_first(word, wrong, got, want) for word, wrong in kinds.items() if wrong.any()), ("", ""))


def _first(word: str, wrong: np.ndarray, got: np.ndarray, want: np.ndarray) -> tuple[str, str]:
    if not wrong.any():
        return "", ""
    place = tuple(np.argwhere(wrong)[0])
    return word, f"{got[place]} for {want[place]} ({int(wrong.sum())} of {wrong.size})"


def compare(cases: Sequence[Case]) -> Iterator[Row]:
    """One row for each run of each case: one compiler run for all cases."""
    graphs = {c.name: outputs_apart(simplify(outputs_alone(c.graph))[0], c.graph) for c in cases}
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    with tempfile.TemporaryDirectory() as folder:
        built = compile_graphs(graphs, Path(folder))
        for case in cases:
            network = built[case.name]
            if isinstance(network, EdgecError):
                continue
            try:
                session = onnxruntime.InferenceSession(case.model.SerializeToString(), options)
                plain = _compared(network, session, case.feeds, case.fixed)
            except Exception:  # its exceptions have no common base; a type that it has no kernel for
                continue
            if plain[0]:  # other tests look at that
                continue
            for column, feeds in variants(case):
                yield Row(case.operator, case.name, column, *_compared(network, session, feeds, case.fixed))


def _compared(network: Compiled, session: Any, feeds: Arrays, fixed: Arrays) -> tuple[str, str]:
    try:
        want = dict(zip((o.name for o in session.get_outputs()), session.run(None, {**feeds, **fixed})))
    except Exception as error:  # as above
        want, told = None, str(error).splitlines()[0][-150:]
    try:
        got = network(feeds)
    except AssertionError as error:
        return ("status", str(error)) if want is not None or "returned" not in str(error) else ("", "")
    if want is None:
        return "accepted", told
    found = (difference(got[n], w) for n, w in want.items() if isinstance(w, np.ndarray) and n in got)
    return next((f for f in found if f[0]), ("", ""))


# ---- the page

_HEAD = """# Special values

Every operator of which onnxruntime has a kernel, compiled, at NaN, infinities, zeros of both signs, denormals, the ends
of integer types and indices far outside: {runs:,} runs of {cases:,} cases of {operators} operators, written by
`python -m benchmarks.robustness.special --write`. The cases are the ONNX project's node tests and the recipes of
`tests/random`; a third of the elements of one operand becomes one special value, then those of all operands a mixture.
onnxruntime runs without optimizations. Cases that already differ on ordinary operands are left out, as are operands
that both need at build time. A difference is a NaN or an infinity on one side alone, the sign of a zero, a number off
by more than 1e-4 of the largest (1e-8 in double, 2e-2 in half precision), another integer, or a run that onnxruntime
refuses and edgec does not ("accepted"). Runs that both end with an error agree.

{agree} operators agree everywhere. {differ:,} runs of the others differ, none of them for an unknown reason.
`tests/onnx/test_special_values.py` runs a sample.

| operator | runs | differ | how | at | the first one (here, for onnxruntime's) |
|---|---:|---:|---|---|---|
{rows}

## Why

{reasons}

## Operators that agree everywhere

{names}
"""


def page(rows: Sequence[Row]) -> str:
    runs, wrong = Counter(r.operator for r in rows), [r for r in rows if r.wrong]
    unknown = sorted({(r.operator, r.wrong) for r in wrong if reason(r.operator, r.wrong) is None})
    if unknown:
        raise SystemExit(f"differences without a reason: {unknown}")
    lines = []
    for operator, kind in sorted({(r.operator, r.wrong) for r in wrong}):
        found = [r for r in wrong if (r.operator, r.wrong) == (operator, kind)]
        columns = ", ".join(c for c in COLUMNS if c in {r.column for r in found})
        first = found[0].told if kind != "accepted" else "refused there alone"
        lines.append(f"| {operator} | {runs[operator]:,} | {len(found):,} | {kind} | {columns} | {first} |")
    agreeing = sorted(set(runs) - {r.operator for r in wrong})
    shown = {(text, kind): names for text, kind, names in REASONS}
    reasons = [f"- *{kind}* ({', '.join(names) if names else 'all'}): {text}" for (text, kind), names in shown.items()]
    return _HEAD.format(
        runs=len(rows), cases=len({(r.operator, r.case) for r in rows}), operators=len(runs), agree=len(agreeing),
        differ=len(wrong), rows="\n".join(lines), reasons="\n".join(reasons), names=", ".join(agreeing),
    )  # fmt: skip


def rows_of(names: Sequence[tuple[str, str]]) -> Iterator[Row]:
    """The rows of cases (operator, name)."""
    for first in range(0, len(names), BATCH):
        found = {c.name: c for c in (case_of(*n) for n in names[first : first + BATCH]) if c is not None}
        yield from compare(list(found.values()))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("operators", nargs="*", help="operators to run; all without any")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    given = parser.parse_args(arguments)
    known = operators()
    rows = list(rows_of([(o, n) for o in given.operators or known for n in known[o]]))
    if given.write:
        files.replace(PAGE, page(rows))
    for row in rows:
        if row.wrong and not given.write:
            print(f"{row.operator} {row.case} {row.column}: {row.wrong}: {row.told}")
    print(f"{len(rows)} runs, {sum(bool(r.wrong) for r in rows)} differ")


if __name__ == "__main__":
    main()

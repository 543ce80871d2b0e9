"""The ONNX project's own tests of single operators, and what becomes of each here."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np
from onnx import ModelProto, TensorProto, numpy_helper
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests

from edgec.errors import EdgecError
from edgec.frontend import UnknownValue, import_model
from edgec.ir import evaluate
from edgec.ir.graph import Graph
from edgec.ir.types import DTYPES, STORED, dtype_name

Arrays = Mapping[str, np.ndarray]
Execute = Callable[[Graph, Arrays], Arrays]


@dataclass(frozen=True)
class Outcome:
    """``passed``, ``refused`` (by an error that says why) or ``failed`` (a wrong result, or any other exception)."""

    status: str
    reason: str = ""


@lru_cache
def cases() -> dict[str, TestCase]:
    """Every node test of the installed onnx package, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.name: case for case in load_model_tests(kind="node")}


def operator(case: TestCase) -> str:
    """The operator a test is about; a test of its expansion into other operators counts for the operator."""
    origin = cases().get(case.name.removesuffix("_expanded").replace("_expanded_ver18", ""), case)
    nodes = proto(origin).graph.node
    named = [n.op_type for n in nodes if n.op_type.lower() in case.name.replace("_", "")]
    return str(max(named or [nodes[-1].op_type], key=len))


def proto(case: TestCase) -> ModelProto:
    assert case.model is not None
    return case.model


def array(value: Any) -> np.ndarray:
    """A value of the suite; sequences and absent optionals, whose models are refused anyway, become nothing."""
    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    return np.zeros(0) if isinstance(value, list) or value is None else np.asarray(value)


def execute(graph: Graph, inputs: Arrays) -> Arrays:
    """Run a graph; the one place that knows by what."""
    return evaluate.run(graph, inputs)


def outcome(case: TestCase, run: Execute = execute) -> Outcome:
    """Import, run and compare one test."""
    for inputs, expected in case.data_sets or ():
        try:
            graph, given = imported(case, inputs)
        except EdgecError as error:
            return Outcome("refused", error.message)
        results = run(graph, given)
        for (name, node), want in zip(graph.outputs, expected):
            wrong = difference(np.asarray(results[name]), array(want), case.rtol, case.atol)
            if wrong:
                return Outcome("failed", f"output '{name}' ({node.type}): {wrong}")
    return Outcome("passed")


def imported(case: TestCase, inputs: Sequence[Any]) -> tuple[Graph, dict[str, np.ndarray]]:
    """The graph of a test. What an operator must know at build time (a shape, axes) is given it there."""
    names = [i.name for i in proto(case).graph.input]
    given = {name: array(value) for name, value in zip(names, inputs)}
    fixed: dict[str, np.ndarray] = {}
    while True:
        shapes = {name: value.shape for name, value in given.items() if name not in fixed}
        try:
            graph = import_model(proto(case), shapes, values=fixed)
            break
        except UnknownValue as error:
            fixed |= {name: given[name] for name in error.inputs}
    rest = {n.attributes["name"]: n.type for n in graph.inputs}
    return graph, {name: given[name].astype(DTYPES[t.dtype], copy=False) for name, t in rest.items()}


def difference(got: np.ndarray, want: np.ndarray, rtol: float, atol: float) -> str | None:
    """What is wrong with a result, or None; types and shapes must agree exactly.

    The suite's tolerance is kept, but for one unit in the last place of the largest element: the expected values
    were themselves computed in the type of the result, and where terms cancel only their noise is left. Half floats
    have two: the suite rounds after every addition, edgec once a sum.
    """
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    if want.dtype == np.bool_ or np.issubdtype(want.dtype, np.integer) or dtype_name(want.dtype) in STORED:
        wrong = int(((got != want) & ((got == got) | (want == want))).sum())
        return f"{wrong} of {want.size} elements differ" if wrong else None
    wide, reference = got.astype(np.float64), want.astype(np.float64)
    largest = np.max(np.abs(reference), initial=0.0, where=np.isfinite(reference))
    eps = ml_dtypes.finfo(want.dtype).eps  # type: ignore[no-untyped-call]
    units = 2 if want.dtype.itemsize == 2 else 1
    atol = max(atol, units * float(eps) * float(largest))
    if np.allclose(wide, reference, rtol=rtol, atol=atol, equal_nan=True):
        return None
    with np.errstate(all="ignore"):
        return f"off by up to {np.nanmax(np.abs(wide - reference)):.3g} of {np.nanmax(np.abs(reference)):.3g}"

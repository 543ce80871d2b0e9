"""The ONNX project's own tests of single operators, and what becomes of each here."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import ModelProto, SequenceProto, TensorProto, ValueInfoProto, numpy_helper
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests

import edgec.differentiate  # noqa: F401  (the derivatives that models may ask for)
from edgec.errors import EdgecError
from edgec.frontend.onnx import UnknownValue, import_model
from edgec.frontend.onnx.sequences import numbered
from edgec.frontend.onnx.strings import rows_of
from edgec.frontend.states import initial, states
from edgec.ir import evaluate
from edgec.ir.graph import Graph, topological
from edgec.ir.types import DTYPES, FLOATS, STORED, dtype_name, ends

Arrays = Mapping[str, np.ndarray]
Execute = Callable[[Graph, Arrays], Arrays]


@dataclass(frozen=True)
class Outcome:
    """``passed``, ``refused`` (by an error that says why) or ``failed`` (a wrong result, or any other exception)."""

    status: str
    reason: str = ""


#: Suites of whole models beside the node tests: exported, written by hand, and networks without trained weights.
SUITES = ("simple", "pytorch-converted", "pytorch-operator", "light")
_DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"


@lru_cache
def cases(suite: str = "node") -> dict[str, TestCase]:
    """Every test of a suite of the installed onnx package, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = load_model_tests(kind="real" if suite == "light" else suite)
    return {case.name: case for case in found}


def loaded(case: TestCase) -> TestCase:
    """A test with its model and its tensors, which those of models have in files."""
    if case.model is not None:
        return case
    if case.model_dir is None:  # a network of the package: its input is a ramp, its output lies beside it
        path = _DATA / "light" / Path(str(case.url)).name
        case = replace(case, model=onnx.load(path))
        given = {t.name for t in proto(case).graph.initializer}
        inputs = [_ramp(i) for i in proto(case).graph.input if i.name not in given]
        outputs = [_tensor(path.with_name(f"{path.stem}_output_0.pb"))]
        return replace(case, data_sets=[(inputs, outputs)])
    folder = Path(case.model_dir)
    case = replace(case, model=onnx.load(folder / "model.onnx"))
    graph = proto(case).graph
    sets = sorted(folder.glob("test_data_set_*"))
    return replace(case, data_sets=[(_files(s, "input", graph.input), _files(s, "output", graph.output)) for s in sets])


def _files(folder: Path, kind: str, declared: Sequence[ValueInfoProto]) -> list[Any]:
    """The inputs or outputs of one data set, as far as there are files for them."""
    paths = [(folder / f"{kind}_{k}.pb", info) for k, info in enumerate(declared)]
    return [_read(path, info) for path, info in paths if path.exists()]


def _ramp(info: ValueInfoProto) -> np.ndarray:
    shape = [d.dim_value for d in info.type.tensor_type.shape.dim]
    return np.linspace(0, 1, int(np.prod(shape)), endpoint=False, dtype=np.float32).reshape(shape)


def _tensor(path: Path) -> np.ndarray:
    return numpy_helper.to_array(TensorProto.FromString(path.read_bytes()))


def _read(path: Path, info: ValueInfoProto) -> Any:
    kind = info.type.WhichOneof("value")
    if kind == "sequence_type":
        return numpy_helper.to_list(SequenceProto.FromString(path.read_bytes()))
    return _tensor(path)


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
    """A tensor of the suite; strings as rows of bytes."""
    found = numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)
    return rows_of(found) if found.dtype.kind in "OUS" else found


def flat(names: Sequence[str], values: Sequence[Any]) -> dict[str, np.ndarray]:
    """Tensors by the names they have here: lists become numbered tensors, absent optionals nothing."""
    found: dict[str, np.ndarray] = {}
    for name, value in zip(names, values):
        if isinstance(value, list):
            found.update((numbered(name, k), array(v)) for k, v in enumerate(value))
        elif value is not None:
            found[name] = array(value)
    return found


def compared(case: TestCase, graph: Graph, results: Arrays, expected: Sequence[Any]) -> Outcome:
    """Verdict on the results of a test."""
    wanted = flat([o.name for o in proto(case).graph.output], expected)
    kept = {loop.output for loop in states(graph)}
    outputs = [(name, node) for name, node in graph.outputs if name not in kept]
    if set(wanted) != {name for name, _ in outputs}:
        return Outcome("failed", f"outputs {[name for name, _ in outputs]} instead of {list(wanted)}")
    if draws(graph):
        inputs = flat([i.name for i in proto(case).graph.input], (case.data_sets or [((), ())])[0][0])
        return possible(case, inputs, results, wanted)
    texts = {o.name for o in proto(case).graph.output if o.type.tensor_type.elem_type == TensorProto.STRING}
    for name, node in outputs:
        got = np.asarray(results[name])
        if name in texts:
            got, wanted[name] = of_one_width(got, wanted[name])
        want = wanted[name]
        if (defined := in_range(case, want)) is not None and got.shape == want.shape:
            got, want = got[defined], want[defined]
        wrong = difference(got, want, case.rtol, case.atol)
        if wrong:
            return Outcome("failed", f"output '{name}' ({node.type}): {wrong}")
    return Outcome("passed")


def in_range(case: TestCase, want: np.ndarray) -> np.ndarray | None:
    """Mask of the floats that the integers of a cast can hold: of others the standard says nothing. None elsewhere."""
    name = dtype_name(want.dtype)
    x = array((case.data_sets or [((), ())])[0][0][0]) if operator(case) in ("Cast", "CastLike") else None
    if x is None or name in FLOATS or name == "bool" or dtype_name(x.dtype) not in FLOATS:
        return None
    low, high = ends(name)
    value = np.trunc(x.astype(np.float64))
    return (value >= low) & (value <= high)


def of_one_width(*rows: np.ndarray) -> list[np.ndarray]:
    """Rows of bytes of strings, those that are narrower with zeros behind."""
    width = max(r.shape[-1] for r in rows)
    return [np.pad(r, [(0, 0)] * (r.ndim - 1) + [(0, width - r.shape[-1])]) for r in rows]


def draws(graph: Graph) -> bool:
    """Are results random?"""
    return any(n.op == "random" for n in topological([node for _, node in graph.outputs]))


def possible(case: TestCase, inputs: Arrays, results: Arrays, wanted: Arrays) -> Outcome:
    """Verdict on random results, of which the suite has one draw of numpy's: type, shape, and for each element whether
    the operator may give it (0 or 1; what is kept of a dropout with its factor, in accord with the mask)."""
    for name, want in wanted.items():
        got = np.asarray(results[name])
        if got.dtype != want.dtype or got.shape != want.shape:
            return Outcome(
                "failed", f"output '{name}': {got.dtype}{list(got.shape)}, not {want.dtype}{list(want.shape)}"
            )
    first = np.asarray(results[next(iter(wanted))])
    if operator(case) != "Dropout":
        return Outcome("passed") if np.isin(first, (0, 1)).all() else Outcome("failed", "other elements than 0 and 1")
    kept = first != 0
    if not np.allclose(first, np.where(kept, inputs["x"] / (1 - inputs["r"]), 0), rtol=case.rtol, atol=case.atol):
        return Outcome("failed", "elements that are neither 0 nor the operand's")
    agrees = "z" not in wanted or np.array_equal(results["z"], kept)
    return Outcome("passed") if agrees else Outcome("failed", "a mask of other elements")


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
        found = compared(case, graph, run(graph, given), expected)
        if found.status != "passed":
            return found
    return Outcome("passed")


def imported(case: TestCase, inputs: Sequence[Any]) -> tuple[Graph, dict[str, np.ndarray]]:
    """The graph of a test. What an operator must know at build time (a shape, axes) is given it there."""
    weights = {t.name for t in proto(case).graph.initializer}
    names = [i.name for i in proto(case).graph.input if i.name not in weights]
    given = flat(names, inputs)
    empty: dict[str, tuple[int, ...]] = {name: () for name, v in zip(names, inputs) if isinstance(v, list) and not v}
    fixed: dict[str, np.ndarray] = {}
    while True:
        shapes = {name: value.shape for name, value in given.items() if name not in fixed} | empty
        try:
            graph = import_model(proto(case), shapes, values=fixed)
            break
        except UnknownValue as error:
            fixed |= {name: given[name] for name in error.inputs}
    rest = {n.attributes["name"]: n.type for n in graph.inputs}
    given = {**initial(graph), **given}
    return graph, {name: given[name].astype(DTYPES[t.dtype], copy=False) for name, t in rest.items()}


def difference(got: np.ndarray, want: np.ndarray, rtol: float, atol: float) -> str | None:
    """Description of the error of a result, or None; types and shapes must agree exactly.

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

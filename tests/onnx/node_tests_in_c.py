"""The ONNX project's node tests through all stages and the C compiler, many to one library."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from compiled import Compiled, compile_graphs
from node_tests import Outcome, array, cases, difference, imported

from edgec.errors import EdgecError
from edgec.frontend import ModelWarning
from edgec.ir.graph import Graph
from edgec.rewrite import simplify

#: So many compiler runs share the tests.
BATCHES = 40


def batches() -> list[list[str]]:
    """All tests, every batch with some of each kind."""
    names = sorted(cases())
    return [names[k::BATCHES] for k in range(BATCHES)]


def outcomes(names: Sequence[str]) -> dict[str, Outcome]:
    """What becomes of each test: import, simplify, fuse, schedule, emit, compile, run, compare."""
    found: dict[str, Outcome] = {}
    graphs: dict[str, Graph] = {}
    given: dict[str, dict[str, np.ndarray]] = {}
    for name in names:
        inputs, _ = (cases()[name].data_sets or [((), ())])[0]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ModelWarning)  # the suite's own models are sloppy in places
                graph, given[name] = imported(cases()[name], inputs)
            graphs[name] = simplify(graph)[0]
        except EdgecError as error:
            found[name] = Outcome("refused", error.message)
    with tempfile.TemporaryDirectory() as folder:
        for name, compiled in compile_graphs(graphs, Path(folder)).items():
            if isinstance(compiled, EdgecError):
                found[name] = Outcome("refused", compiled.message)
            else:
                found[name] = _compare(name, graphs[name], compiled, given[name])
    return found


def _compare(name: str, graph: Graph, compiled: Compiled, given: dict[str, np.ndarray]) -> Outcome:
    case = cases()[name]
    results = compiled(given)
    for (output, node), want in zip(graph.outputs, case.data_sets[0][1]):
        wrong = difference(np.asarray(results[output]), array(want), case.rtol, case.atol)
        if wrong:
            return Outcome("failed", f"output '{output}' ({node.type}): {wrong}")
    return Outcome("passed")

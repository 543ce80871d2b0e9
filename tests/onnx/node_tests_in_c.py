"""The ONNX project's node tests through all stages and the C compiler, many to one library."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from compiled import compile_graphs
from node_tests import Outcome, cases, compared, imported, loaded

from edgec.errors import EdgecError
from edgec.frontend.onnx import ModelWarning
from edgec.ir.graph import Graph
from edgec.ir.sizes import outputs_alone, outputs_apart
from edgec.rewrite import simplify

#: So many compiler runs share the tests.
BATCHES = 40


def batches() -> list[list[str]]:
    """All node tests, every batch with some of each kind."""
    names = sorted(cases())
    return [names[k::BATCHES] for k in range(BATCHES)]


def all_outcomes(suite: str) -> dict[str, Outcome]:
    """Outcome of every test of a suite; large models are compiled one by one."""
    names = sorted(cases(suite))
    chosen = {"node": batches(), "light": [[n] for n in names]}.get(suite, [names])
    return {name: outcome for batch in chosen for name, outcome in outcomes(batch, suite).items()}


def outcomes(names: Sequence[str], suite: str = "node") -> dict[str, Outcome]:
    """Outcome of each test: import, simplify, fuse, schedule, emit, compile, run, compare."""
    found: dict[str, Outcome] = {}
    graphs: dict[str, Graph] = {}
    given: dict[str, dict[str, np.ndarray]] = {}
    chosen = {name: loaded(cases(suite)[name]) for name in names}
    for name, case in chosen.items():
        inputs, _ = (case.data_sets or [((), ())])[0]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ModelWarning)  # the suites' own models are sloppy in places
                graph, given[name] = imported(case, inputs)
            graphs[name] = outputs_apart(simplify(outputs_alone(graph))[0], graph)
        except EdgecError as error:
            found[name] = Outcome("refused", error.message)
    with tempfile.TemporaryDirectory() as folder:
        for name, compiled in compile_graphs(graphs, Path(folder)).items():
            if isinstance(compiled, EdgecError):
                found[name] = Outcome("refused", compiled.message)
            else:
                expected = (chosen[name].data_sets or [((), ())])[0][1]
                found[name] = compared(chosen[name], graphs[name], compiled(given[name]), expected)
    return found

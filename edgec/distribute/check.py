"""Check of a divided network: what its workers give, beside onnxruntime on the model that it was built from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from edgec.artifact.origin import read_origin
from edgec.check.compare import Difference, compare_all, tolerance_of
from edgec.check.network import inputs_for
from edgec.check.reference import open_reference
from edgec.check.unavailable import Unavailable
from edgec.distribute.coordinator import Several
from edgec.errors import UsageError
from edgec.execute.executor import Executor, executor, run_graph
from edgec.frontend.source import read
from edgec.frontend.states import initial
from edgec.options import Settings, resolve
from edgec.pipeline import import_
from edgec.pipeline.context import Context
from edgec.pipeline.preprocessing import with_preprocessing


@dataclass(frozen=True)
class CheckedOver:
    """The worst difference of every output over all samples, from ``reference``."""

    outputs: tuple[Difference, ...]
    reference: str
    samples: int
    tolerance: float

    @property
    def ok(self) -> bool:
        """Is every output within the tolerance, and every integer equal?"""
        return all(o.within(self.tolerance) for o in self.outputs)


def check_over(
    network: Several,
    *,
    model: str | Path | None = None,
    inputs: str | Path | Mapping[str, np.ndarray] | None = None,
    samples: int = 3,
    seed: int = 0,
    tolerance: float | None = None,
) -> CheckedOver:
    """Hold a network at work against the runtime of its model, on random inputs or those given.

    ``model`` is the file that it was built from, where that is no longer in its place. Raises UsageError where there is
    none, LinkError where a worker is lost.
    """
    origin, settings = read_origin(network.folder, {})
    path = Path(model) if model is not None else origin
    if path is None or not path.exists():
        hint = "edgec check DIR --model FILE"
        raise UsageError("the model that it was built from is not there", hint=hint, where=str(network.folder))
    options = resolve(cast(Settings, settings))
    parsed, options = with_preprocessing(read(path), options)
    graph = import_(parsed, Context(options))
    sets = inputs_for(graph, inputs, samples, seed)
    reference: Executor
    try:
        session = open_reference(parsed, options.shapes, options.values)
        name, reference = session.name, session.run
    except Unavailable:
        name, reference = "the graph in numpy", executor(run_graph, graph)
    worst: dict[str, Difference] = {}
    for arrays in sets:
        network.reset()
        arrays = {**arrays, **initial(graph)}
        got = network.run({p.onnx_name: arrays[p.onnx_name] for p in network.inputs if p.onnx_name in arrays})
        want = reference(arrays)
        for found in compare_all(got, {name: want[name] for name in got if name in want}):
            held = worst.get(found.name)
            if held is None or (found.max_rel, found.mismatches or 0) > (held.max_rel, held.mismatches or 0):
                worst[found.name] = found
    bound = tolerance if tolerance is not None else tolerance_of(graph, options.device.precision)
    return CheckedOver(tuple(worst.values()), name, len(sets), bound)

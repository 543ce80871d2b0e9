"""Check of a divided network: what its workers give, beside onnxruntime on the model that it was built from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np

from edgec.artifact.origin import read_origin
from edgec.check.compare import Difference, quantized_outputs, tolerance_of
from edgec.check.judge import Judge
from edgec.check.network import compressed_of, cost_of, farther, inputs_for
from edgec.check.reference import open_reference
from edgec.check.reference_error import error_by_rounding
from edgec.check.unavailable import Unavailable
from edgec.distribute.coordinator import Several
from edgec.errors import UsageError
from edgec.execute.executor import Executor, executor, run_graph
from edgec.frontend.source import read
from edgec.frontend.states import initial
from edgec.options import Settings, resolve
from edgec.pipeline import import_, run
from edgec.pipeline.context import Context
from edgec.pipeline.preprocessing import with_preprocessing


@dataclass(frozen=True)
class CheckedOver:
    """The worst difference of every output over all samples, from ``reference``.

    Of a compressed network that is its compressed graph, and ``compression`` has the distance of that from the floats
    of ``floats``, which fails nothing.
    """

    outputs: tuple[Difference, ...]
    reference: str
    samples: int
    tolerance: float
    compression: tuple[Difference, ...] = ()
    floats: str = ""

    @property
    def ok(self) -> bool:
        """Is every output within the tolerance, or as near as rounding lets it be, and every integer equal?"""
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
    device = network.manifest.workers[0].device  # which the network was compressed for
    options = resolve(cast(Settings, {**settings, "device": device}))
    parsed, options = with_preprocessing(read(path), options)
    graph = import_(parsed, Context(options))
    sets = [{**arrays, **initial(graph)} for arrays in inputs_for(graph, inputs, samples, seed)]
    reference: Executor
    try:
        session = open_reference(parsed, options.shapes, options.values, graph)
        name, reference = session.name, session.run
    except Unavailable:
        name, reference = "the graph in numpy", executor(run_graph, graph)
    wanted = held = [reference(arrays) for arrays in sets]
    bound = tolerance if tolerance is not None else tolerance_of(graph, options.device.precision)
    smaller = None
    if tolerance is None and (options.quantize != "float" or options.prune is not None):
        smaller = compressed_of(run(parsed, Context(options), until="compress"))
    own = None
    if smaller is not None:
        held, own = [smaller[1](arrays) for arrays in sets], partial(error_by_rounding, smaller[0])
    computed = smaller[0] if smaller is not None else graph
    judge = Judge(computed, bound, 0.0, quantized_outputs(computed), is_usual=tolerance is None, own_error=own)
    worst: dict[str, Difference] = {}
    for arrays, want in zip(sets, held):
        network.reset()
        got = network.run({p.onnx_name: arrays[p.onnx_name] for p in network.inputs if p.onnx_name in arrays})
        for found in judge.differences(got, {name: want[name] for name in got if name in want}, arrays):
            if found.name not in worst or farther(found, worst[found.name], judge):
                worst[found.name] = found
    outputs = tuple(worst.values())
    if smaller is None:
        return CheckedOver(outputs, name, len(sets), bound)
    return CheckedOver(outputs, "the compressed graph", len(sets), bound, cost_of(held, wanted), name)

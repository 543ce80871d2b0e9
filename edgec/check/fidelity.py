"""The cost of compression: a compiled network beside its reference, on the data that it was calibrated with."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import numpy as np

from edgec.artifact.network import Network
from edgec.build import Built
from edgec.check.network import reference_for
from edgec.compress.calibrate import RANDOM, labels, samples
from edgec.device.compilers import runs_here

#: Samples that are run at most.
MOST = 32


@dataclass(frozen=True)
class Fidelity:
    """Figures over ``samples`` inputs, which are ``drawn`` where there are no real ones.

    ``rms`` is the error of the first output, by root mean squares, over the reference. ``agrees`` is the fraction of
    samples with the same largest element, ``accuracy`` and ``reference_accuracy`` those with that of the label; None
    where the output is no list of classes, or there are no labels.
    """

    reference: str
    samples: int
    drawn: bool
    rms: float
    agrees: float | None
    accuracy: float | None
    reference_accuracy: float | None


def fidelity(built: Built) -> Fidelity | None:
    """Run both; None for a network that was not compressed or does not run here, or with states or open dimensions."""
    found, graph, source = built.stages.compressed, built.stages.graph, built.options.calibrate
    runs = built.compiler is not None and runs_here(built.options.device, built.compiler)
    if found is None or found.report is None or not runs or built.program.parts:
        return None
    is_fixed = all(n.type.is_fixed for n in graph.inputs)
    if built.program.states or not is_fixed:
        return None
    sets = [dict(s) for s in islice(samples(source, graph), MOST)]
    known = labels(source, graph)[: len(sets)]
    name, reference = reference_for(built, [])
    with Network(built.folder, built.options.threads) as network:
        run = network.executor()
        output = graph.outputs[0][0]
        got = [np.asarray(run(s)[output], np.float64).reshape(-1) for s in sets]
    want = [np.asarray(reference(s)[output], np.float64).reshape(-1) for s in sets]
    far = sum(float(np.square(a - b).sum()) for a, b in zip(got, want))
    whole = sum(float(np.square(b).sum()) for b in want)
    rms = float(np.sqrt(far / whole)) if whole else float(np.sqrt(far))
    shape = graph.outputs[0][1].type.shape
    if want[0].size < 2 or want[0].size != shape[-1]:
        return Fidelity(name, len(sets), str(source) == RANDOM, rms, None, None, None)
    mine, theirs = [int(a.argmax()) for a in got], [int(b.argmax()) for b in want]
    agrees = float(np.mean([a == b for a, b in zip(mine, theirs)]))
    scores: list[float | None] = [None, None]
    if known and all(np.size(k) == 1 for k in known):
        truth = [int(np.asarray(k).reshape(())) for k in known]
        scores = [float(np.mean([a == t for a, t in zip(found, truth)])) for found in (mine, theirs)]
    return Fidelity(name, len(sets), str(source) == RANDOM, rms, agrees, *scores)

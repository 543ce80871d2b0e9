"""A network for one sample as one for a batch: the same graph with more rows, or each sample by itself.

Exporters write the sizes of the sample that they saw into constants: Reshape to [1, 197, 192], say. With more samples
such a file has no meaning, or another one, where a dimension of -1 takes in the samples and they meet in an attention.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np

from edgec.differentiate.unrolled import unrolled
from edgec.errors import ModelError, UsageError
from edgec.execute.samples import random_inputs
from edgec.frontend.onnx.model import Model
from edgec.frontend.onnx.trainable import with_batch
from edgec.ir.evaluate import run
from edgec.ir.graph import Graph, Node
from edgec.pipeline.micro_batches import portion
from edgec.text import printable

#: Difference of answers over the largest that rounding explains, where the same operators compute more rows.
ROUNDING = 1e-3

#: The graph of a model whose inputs have these shapes.
Importer = Callable[[Model, Mapping[str, tuple[int, ...]]], Graph]


@dataclass(frozen=True)
class OneByOne:
    """The reason why a network takes one sample a run, and the node or output that it is about."""

    reason: str
    where: str | None = None

    def refusal(self, instead: str) -> UsageError:
        """The error of a training that cannot take its samples one by one; ``instead`` says what can."""
        hint = f"export the network with an open batch, or {instead}"
        return UsageError(f"the network takes one sample a run: {self.reason}", hint=hint, where=self.where)


def batched(model: Model, one: Graph, own: Collection[str | None], batch: int, graph_of: Importer) -> Graph | OneByOne:
    """The graph of ``model`` for ``batch`` samples: the first dimension of all inputs but its ``own``, which is 1 in
    the graph of ``one`` sample.

    Raises UsageError for an input whose first dimension is neither 1 nor ``batch``.
    """
    inputs = _given(one, own)
    fixed = [n for n in inputs if not n.type.rank or n.type.shape[0] not in (1, batch)]
    if fixed:
        name = printable(str(fixed[0].attributes["name"]))
        raise UsageError(
            f"input '{name}' is {fixed[0].type}, which is no batch of one", hint="leave out --batch", where="--batch"
        )
    shapes = _shapes(inputs, batch)
    try:
        found = graph_of(with_batch(model, shapes), shapes)
    except ModelError as error:
        return OneByOne(error.message, error.where)
    if any(not n.type.rank or n.type.shape[0] != batch for _, n in found.outputs[:1]):
        return OneByOne("the answers have no dimension of samples", "--batch")
    return found


def meeting(model: Model, one: Graph, own: Mapping[str, np.ndarray], graph_of: Importer) -> OneByOne | None:
    """The reason why samples of a network cannot share a run: the answer of one of two follows from the other.

    Proved on the graph of two samples, or tried with random inputs where there is no proof. None where samples do not
    meet, and for files of several samples. ``own`` are the trained weights.
    """
    inputs = _given(one, own)
    if any(not n.type.rank or n.type.shape[0] != 1 for n in inputs):
        return None
    shapes = _shapes(inputs, 2)
    try:
        two = graph_of(with_batch(model, shapes), shapes)
    except ModelError as error:
        return OneByOne(error.message, error.where)
    if portion(unrolled(two), own, 2) is not None:
        return None
    names = [str(n.attributes["name"]) for n in inputs]
    samples = [{k: v for k, v in random_inputs(one, seed, greatest=True).items() if k in names} for seed in (0, 1)]
    output, _ = one.outputs[0]
    alone = np.concatenate([run(one, {**own, **sample})[output] for sample in samples])
    together = run(two, {**own, **{k: np.concatenate([sample[k] for sample in samples]) for k in names}})[output]
    largest = np.abs(alone[np.isfinite(alone)]).max(initial=0.0)  # logarithms of random data are partly no numbers
    if together.shape == alone.shape and np.allclose(together, alone, 0.0, ROUNDING * largest, equal_nan=True):
        return None
    return OneByOne("the answers of a sample follow from others of its batch", printable(output))


def _given(graph: Graph, own: Collection[str | None]) -> list[Node]:
    """The inputs that samples are given by."""
    return [n for n in graph.inputs if n.attributes["name"] not in own]


def _shapes(inputs: Collection[Node], batch: int) -> dict[str, tuple[int, ...]]:
    return {str(n.attributes["name"]): (batch, *map(int, n.type.shape[1:])) for n in inputs}

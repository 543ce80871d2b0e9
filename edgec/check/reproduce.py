"""Small models cut out of a large one: the nodes under suspicion, with the values that came to them as inputs."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper

from edgec import pipeline
from edgec.artifact.folder import publish
from edgec.artifact.names import LOCK
from edgec.check.compare import Difference, compare_all, worst
from edgec.errors import EdgecError
from edgec.files import npz
from edgec.frontend.onnx.model import Model, read, tensor
from edgec.frontend.onnx.support import label_of
from edgec.frontend.onnx.validate import needs
from edgec.pipeline.context import Context
from edgec.version import __version__

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Cut:
    """A model of a few nodes, arrays for its inputs and what its outputs should be."""

    labels: tuple[str, ...]
    model: onnx.ModelProto
    inputs: dict[str, np.ndarray]
    expected: dict[str, np.ndarray]


def nodes_of(proto: onnx.ModelProto, origins: Iterable[str]) -> list[int]:
    """Places in the main graph of the nodes behind origins; those inside functions stand for the caller."""
    wanted = set(origins)
    found = []
    for k, node in enumerate(proto.graph.node):
        label = label_of(node)
        if label in wanted or any(o.startswith(f"{label}/") for o in wanted):
            found.append(k)
    return found


def cut(model: Model, places: Collection[int], tensors: Arrays) -> Cut | None:
    """The nodes at ``places`` as a model of their own; None where a value they need is not known."""
    graph = model.proto.graph
    nodes = [graph.node[k] for k in sorted(places)]
    inside = {o for n in nodes for o in n.output if o}
    weights = {t.name: t for t in graph.initializer}
    wanted = list(dict.fromkeys(name for n in nodes for name in needs(n) if name not in inside))
    # What exporters write as Constant nodes belongs to the node that reads it.
    written = {name: array for name in wanted if (array := _constant(graph.node, name)) is not None}
    constants = {**{n: tensor(weights[n], model.folder) for n in wanted if n in weights}, **written}
    inputs = {name: np.asarray(tensors[name]) for name in wanted if name not in constants and name in tensors}
    if len(inputs) + len(constants) < len(wanted) or not nodes:
        return None
    used_outside = {o.name for o in graph.output} | {
        name for k, n in enumerate(graph.node) if k not in places for name in needs(n)
    }
    expected = {o: np.asarray(tensors[o]) for n in nodes for o in n.output if o in used_outside and o in tensors}
    if not expected:
        return None
    built = helper.make_graph(
        nodes, "reproducer",
        [_info(name, array) for name, array in inputs.items()],
        [_info(name, array) for name, array in expected.items()],
        [_initializer(name, array) for name, array in constants.items()],
    )  # fmt: skip
    proto = helper.make_model(
        built, opset_imports=list(model.proto.opset_import), functions=list(model.proto.functions),
        ir_version=model.proto.ir_version, producer_name="edgec",
    )  # fmt: skip
    return Cut(tuple(map(label_of, nodes)), proto, inputs, expected)


def _constant(nodes: Iterable[NodeProto], name: str) -> np.ndarray | None:
    for node in nodes:
        if node.op_type == "Constant" and name in node.output:
            for a in node.attribute:
                if a.name == "value":
                    return tensor(a.t)
    return None


def _info(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def _initializer(name: str, array: np.ndarray) -> TensorProto:
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor(name, kind, array.shape, np.ascontiguousarray(array).tobytes(), raw=True)


def error_of(piece: Cut, context: Context, stage: str) -> Difference:
    """Error of a cut when it is built up to ``stage`` and executed there."""
    alone = Context(replace(context.options, shapes={}, dims={}, values={}))
    run = pipeline.run(read(piece.model), alone, until=stage)
    step = run.steps[-1]
    return worst(compare_all(step.stage.executor(step.value, alone)(piece.inputs), piece.expected))


def smallest(pieces: Iterable[Cut], context: Context, stage: str, tolerance: float) -> tuple[Cut, Difference] | None:
    """The first piece that is wrong by itself at ``stage``."""
    for piece in pieces:
        try:
            found = error_of(piece, context, stage)
        except EdgecError:
            continue  # it does not build alone: shapes it needs are computed elsewhere
        if not found.within(tolerance):
            return piece, found
    return None


def neighborhoods(model: Model, places: Sequence[int], tensors: Arrays, reach: int) -> Iterable[Cut]:
    """Every node alone, then every node with the ones before it, up to ``reach`` steps."""
    nodes = model.proto.graph.node
    producer = {o: k for k, n in enumerate(nodes) for o in n.output if o}
    for steps in range(reach + 1):
        for place in places:
            chosen = {place}
            for _ in range(steps):
                chosen |= {producer[t] for k in chosen for t in needs(nodes[k]) if t in producer}
            piece = cut(model, chosen, tensors) if not steps or len(chosen) > 1 else None
            if piece is not None:
                yield piece


def write(piece: Cut, stage: str, tolerance: float, folder: Path) -> None:
    """Write a cut as ONNX, with its inputs and what it should give."""
    text = (
        f"# A reproducer\n\nThe nodes {', '.join(f'`{label}`' for label in piece.labels)}, cut out of a larger model: "
        f"after the stage `{stage}` their result is wrong by more than {tolerance:g}.\n\n"
        "```\nedgec check reproducer.onnx --inputs inputs.npz\n```\n\n"
        "`expected.npz` holds what the reference computes.\n"
    )
    files = {
        "reproducer.onnx": piece.model.SerializeToString(),
        "inputs.npz": npz(piece.inputs),
        "expected.npz": npz(piece.expected),
        "README.md": text.encode(),
    }
    lock = {"edgec": __version__, "name": "reproducer", "reproduces": list(piece.labels), "files": sorted(files)}
    publish({**files, LOCK: (json.dumps(lock, indent=1) + "\n").encode()}, folder)

"""Low-rank adapters of an ONNX model (LoRA, Hu et al. 2021): beside each product with a matrix W, one with B A.

Names are those of PEFT: the matrices of a module's weight are ``MODULE.lora_A.weight`` [rank, inputs], drawn at random,
and ``MODULE.lora_B.weight`` [outputs, rank], which begin as zero: the model computes what it did.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from edgec.errors import UsageError
from edgec.frontend.onnx.model import Model
from edgec.text import printable

DOWN, UP = ".lora_A.weight", ".lora_B.weight"


@dataclass(frozen=True)
class _Product:
    """A node that multiplies by a matrix of weights, transposed or as it is; the numbers of its inputs and outputs."""

    node: NodeProto
    module: str
    inputs: int
    outputs: int
    is_turned: bool


def with_adapters(model: Model, rank: int) -> Model:
    """The model with adapters of ``rank`` beside its matrices; a matrix that several nodes read has one.

    Raises UsageError for a model without such matrices, and for one that has adapters already.
    """
    proto = ModelProto()
    proto.CopyFrom(model.proto)
    graph = proto.graph
    products = list(_products(graph.node, {t.name: t for t in graph.initializer}))
    if not products:
        hint = "adapters stand beside MatMul and Gemm with a matrix of 32-bit floats; --update all trains what there is"
        raise UsageError("the model has no matrix for an adapter", hint=hint, where=model.where)
    taken = {t.name for t in graph.initializer} | {name for n in graph.node for name in (*n.input, *n.output)}
    after: dict[int, list[NodeProto]] = {}
    made: dict[str, bool] = {}
    for p in products:
        down, up = p.module + DOWN, p.module + UP
        if p.module not in made:
            if down in taken or up in taken:
                hint = "merge them into the model's matrices first"
                raise UsageError(f"'{printable(p.module)}' has an adapter already", hint=hint, where=model.where)
            made[p.module] = p.is_turned
            drawn = np.random.default_rng(zlib.crc32(down.encode()))
            a = drawn.uniform(-1, 1, (rank, p.inputs)) / np.sqrt(max(p.inputs, 1))
            graph.initializer.append(numpy_helper.from_array(a.astype(np.float32), down))
            graph.initializer.append(numpy_helper.from_array(np.zeros((p.outputs, rank), np.float32), up))
        after[id(p.node)] = _beside(p, down, up, made[p.module] == p.is_turned, taken)
    nodes = [node for n in graph.node for node in (n, *after.get(id(n), ()))]
    copied = [NodeProto.FromString(n.SerializeToString()) for n in nodes]
    del graph.node[:]
    graph.node.extend(copied)
    return replace(model, proto=proto, path=None)


def _products(nodes: Iterable[NodeProto], tensors: dict[str, TensorProto]) -> Iterator[_Product]:
    """The nodes that multiply by a matrix of floats, as it is or transposed."""
    matrices = {
        name: (name, int(t.dims[0]), int(t.dims[1]), False)
        for name, t in tensors.items()
        if t.data_type == TensorProto.FLOAT and len(t.dims) == 2
    }
    for n in nodes:
        if n.op_type == "Transpose" and n.input[0] in matrices:
            name, rows, columns, is_turned = matrices[n.input[0]]
            matrices[n.output[0]] = (name, columns, rows, not is_turned)
        if n.op_type not in ("MatMul", "Gemm") or n.input[1] not in matrices or n.input[0] in matrices:
            continue
        said = {a.name: a for a in n.attribute}
        if "transA" in said and said["transA"].i:
            continue
        name, rows, columns, is_turned = matrices[n.input[1]]
        if "transB" in said and said["transB"].i:
            rows, columns, is_turned = columns, rows, not is_turned
        yield _Product(n, name.removesuffix(".weight"), rows, columns, is_turned)


def _beside(p: _Product, down: str, up: str, is_forward: bool, taken: set[str]) -> list[NodeProto]:
    """The nodes of an adapter, which a node that reads the matrix the other way round reads so too.

    The product's own result gets another name.
    """
    result = p.node.output[0]

    def fresh(wanted: str) -> str:
        name, k = f"{result}_{wanted}", 2
        while name in taken:
            name, k = f"{result}_{wanted}_{k}", k + 1
        taken.add(name)
        return name

    frozen, narrow, change = map(fresh, ("frozen", "narrow", "change"))
    turned: list[NodeProto] = []
    first, second = up, down
    if is_forward:
        first, second = fresh("lora_A"), fresh("lora_B")
        for matrix, name in ((down, first), (up, second)):
            turned.append(helper.make_node("Transpose", [matrix], [name], name=name, perm=[1, 0]))
    p.node.output[0] = frozen
    return [
        *turned,
        helper.make_node("MatMul", [p.node.input[0], first], [narrow], name=narrow),
        helper.make_node("MatMul", [narrow, second], [change], name=change),
        helper.make_node("Add", [frozen, change], [result], name=f"{change}_added"),
    ]

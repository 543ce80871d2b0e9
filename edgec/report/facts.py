"""Figures of models and graphs: operators, multiply-adds, bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import prod

from onnx import NodeProto

from edgec.errors import ModelError
from edgec.frontend.gguf.reader import GgufModel
from edgec.frontend.hugging.folder import HuggingModel
from edgec.frontend.onnx.model import domain_name, element_type
from edgec.frontend.source import Parsed
from edgec.frontend.tflite.model import TfliteModel
from edgec.ir.expr import Expr
from edgec.ir.graph import Formula, Graph, Meaning
from edgec.ir.index import upper
from edgec.ir.types import DTYPES
from edgec.ops import meaning
from edgec.text import printable


def operator_counts(model: Parsed) -> dict[str, int]:
    """The number of uses of every operator, inside subgraphs too; constants do not count."""
    counts: Counter[str] = Counter()

    def visit(nodes: Iterable[NodeProto]) -> None:
        for node in nodes:
            if node.op_type != "Constant":
                domain = domain_name(node.domain)
                counts[printable(f"{domain}::{node.op_type}" if domain else node.op_type)] += 1
            for a in node.attribute:
                for graph in (a.g, *a.graphs):
                    visit(graph.node)

    if isinstance(model, (TfliteModel, GgufModel, HuggingModel)):
        counts = model.operator_counts()
    else:
        visit(model.proto.graph.node)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def multiply_adds(derived: Meaning) -> int:
    """Multiply-adds of one formula: terms of its sums of products. A procedure has none."""
    if not isinstance(derived, Formula):
        return 0
    total = 0
    seen: set[Expr] = set()

    def visit(e: Expr, times: int) -> None:
        nonlocal total
        if e in seen:
            return
        seen.add(e)
        if e.op == "reduce":
            times *= prod(upper(v.extent) for v in e.value[1])
            if e.value[0] == "add" and e.args[0].op == "mul":
                total += times
        for a in e.args:
            if e.op != "load":
                visit(a, times)

    visit(derived.body, derived.type.elements)
    return total


def macs(graph: Graph) -> int:
    return sum(multiply_adds(meaning(n)) for n in graph.operations())


def weights_bytes(graph: Graph) -> int:
    return sum(n.type.bytes for n in graph.nodes() if n.op == "const")


def initializer_bytes(model: Parsed) -> int:
    """Bytes of the weights as the file stores them."""
    if isinstance(model, (TfliteModel, GgufModel, HuggingModel)):
        return model.weights_bytes
    total = 0
    for t in model.proto.graph.initializer:
        try:
            total += max(prod(t.dims), 0) * DTYPES[element_type(t.data_type)].itemsize
        except ModelError:  # strings and the like: there is no size to tell
            continue
    return total


def activations(graph: Graph) -> dict[str, int]:
    """Results of the operators of a graph: number of tensors, total bytes, and bytes of the largest."""
    sizes = [n.type.bytes for n in graph.operations()]
    return {"tensors": len(sizes), "bytes": sum(sizes), "largest_bytes": max(sizes, default=0)}

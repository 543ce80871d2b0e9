"""The text form of a graph: it prints, and it reads back to the identical nodes.

    graph net(x: f32[2,8]) -> (y)
    %0: f32[8] = const [1.0, 2.5, 0.0, 0.0, 0.0, 0.0, 0.0, 3.0]
    %1: f32[2,8] = mul(x, %0)                                       # /layer/Mul
    %2: f32[8,2] = transpose(%1, perm=(1, 0))
    return y=%2

A dimension that is known only at run time is a formula of sizes in braces, ``f32[1,{width * 32}]``; a line
``size width = 1..30`` before the graph gives its range, and ``size n = %4`` the node it is the value of, if one is.
``demand %5 "..."`` is a runtime assertion: a boolean that must be true for the outputs to be valid.
Names that are no identifiers stand in double quotes. A constant of more elements than are worth reading is written
as ``const @digest`` and looked up when it is read. What follows ``#`` names the ONNX nodes a node came from, and is
read back as such.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from edgec.ir.expr import Expr
from edgec.ir.graph import Array, Graph, Node
from edgec.ir.text_reader import GraphReader, elements, identifier
from edgec.ir.types import extent_text

#: Constants of up to this many elements are written out.
INLINE_ELEMENTS = 16


def numbered(graph: Graph) -> dict[Node, str]:
    """The nodes of a graph, in order, by the names that its text gives them."""
    names = {n: identifier(n.attributes["name"]) for n in graph.inputs}
    count = 0
    for n in graph.nodes():
        if n not in names:
            names[n] = f"%{count}"
            count += 1
    return names


def show(graph: Graph) -> str:
    """The text form of ``graph``."""
    names, given = numbered(graph), set(graph.inputs)
    lines = [node_line(n, names, graph.names(n)) for n in names if n not in given]
    inputs = ", ".join(f"{names[n]}: {n.type}" for n in graph.inputs)
    outputs = ", ".join(identifier(name) for name, _ in graph.outputs)
    results = ", ".join(f"{identifier(name)}={names[n]}" for name, n in graph.outputs)
    sizes = [f"size {s.value.name} = {s.value.low}..{s.value.high}" for s in _sizes_of(graph)]
    computed = [f"size {s.value.name} = {names[n]}" for s, n in graph.needed_sizes().items()]
    demands = [f"demand {names[n]} {json.dumps(message)}" for message, n in graph.demands]
    about = [f"metadata {json.dumps(k)} = {json.dumps(v)}" for k, v in graph.metadata.items()]
    head = f"graph {identifier(graph.name)}({inputs}) -> ({outputs})"
    return "\n".join([*sizes, head, *about, *lines, *computed, *demands, f"return {results}"]) + "\n"


def node_line(node: Node, names: Mapping[Node, str], origin: tuple[str, ...] = ()) -> str:
    """The line that defines a node, with the ONNX nodes it came from in a comment."""
    line = f"{names[node]}: {node.type} = {_operation(node, names)}"
    comment = ", ".join(map(_name_in_comment, origin))
    return f"{line}  # {comment}" if comment else line


def constants_of(graph: Graph) -> dict[str, Array]:
    """The constants of a graph by digest: what ``parse`` needs beside the text."""
    arrays = (n.attributes["value"] for n in graph.nodes() if n.op == "const")
    return {array.digest: array for array in arrays}


def parse(text: str, constants: Mapping[str, Array] | None = None) -> Graph:
    """The graph a text stands for; ``constants`` holds the arrays it names by digest.

    Raises ModelError with the number of the line for anything that is malformed, undefined or of another type
    than written.
    """
    return GraphReader(constants or {}).graph_of(text.splitlines())


def _sizes_of(graph: Graph) -> list[Expr]:
    found: dict[Expr, None] = {}
    for n in (*graph.inputs, *graph.nodes()):
        found.update(dict.fromkeys(n.sizes))
    return sorted(found, key=lambda s: str(s.value.name))


def _name_in_comment(name: str) -> str:
    plain = name.isprintable() and re.fullmatch(r"[^\s,\"]([^,\"]*[^\s,\"])?", name)
    return name if plain else json.dumps(name)


def _operation(node: Node, names: Mapping[Node, str]) -> str:
    if node.op == "const":
        return f"const {_array(node.attributes['value'])}"
    attributes = [f"{k}={_literal(v)}" for k, v in node.attrs]
    return f"{node.op}({', '.join([*(names[a] for a in node.args), *attributes])})"


def _array(array: Array) -> str:
    return inline(array.value) or f"@{array.digest}"


def inline(value: np.ndarray) -> str | None:
    """The elements of a small array as a list that reads back to the bit, else None."""
    if value.size <= INLINE_ELEMENTS:
        written = f"[{', '.join(map(_element, value.reshape(-1)))}]"
        if elements(written, value.dtype).tobytes() == value.tobytes():  # not so for a NaN with a payload
            return written
    return None


def _element(element: Any) -> str:
    """The shortest spelling that reads back exactly; numpy knows the shortest for narrow floats."""
    value, short = element.item(), str(element)
    if isinstance(value, float) and np.isfinite(value) and type(element)(float(short)) == element:
        return short if re.search(r"[.e]", short) else f"{short}.0"
    return _literal(value)


def _literal(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_literal, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, Expr):
        return extent_text(value)
    return json.dumps(value) if isinstance(value, str) else repr(value)

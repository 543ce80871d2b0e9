"""The writer of records: graphs first, then a paragraph for every record that others refer to, then the root.

    graph net(x: f32[2,8]) -> (y)
    ...
    return y=%3

    block0 = Block(
      output=%3,
      nodes=(%2, %3),
      meaning=Formula(type=f32[2,8], variables=(`i0:2`, `i1:8`), body=`%x[i0, i1] * 2.0 + 1.0`),
      kind="map",
    )

    Plan(graph=graph0, blocks=(block0,), aliases={}, outputs=(("y", %3),))

Fields that have their default are left out. A node is ``%`` and the name that its graph gives it, with the number of
the graph in front of it after the first one. Arrays are ``f32[64,3] @digest``, small ones ``f32[2] [1.0, 2.0]``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from enum import Enum
from typing import Any

import numpy as np

from edgec.ir import expr as X
from edgec.ir.dtypes import DTYPES, dtype_name
from edgec.ir.expr import Expr
from edgec.ir.graph import Array, Graph, Node, Procedure, topological
from edgec.ir.records.classes import Classes, is_default
from edgec.ir.records.expressions import KEYWORDS, ExpressionWriter, parts, renumbered
from edgec.ir.records.layout import Group, Layout, flat, lines, prefixed
from edgec.ir.registry import meaning
from edgec.ir.text import constants_of, inline, node_line, numbered, show
from edgec.ir.types import Type

#: Words that begin lines of graphs.
_OF_GRAPHS = frozenset({"graph", "size", "return"})


@dataclass(frozen=True)
class Written:
    """A text, and the arrays it names by digest."""

    text: str
    arrays: Mapping[str, Array]


def write(root: Any, classes: Classes) -> Written:
    """The text of a record, and the arrays that it names by digest.

    Raises TypeError for what no field of its classes can hold: a mistake in edgec.
    """
    return _Writer(root, classes).written()


def children(value: Any, classes: Classes) -> Iterator[Any]:
    """The values directly inside a record or collection."""
    if isinstance(value, Mapping):
        for pair in value.items():
            yield from pair
    elif isinstance(value, (tuple, list, frozenset)):
        yield from value
    elif _is_record(value):
        yield from (v for f in classes.fields(type(value)) if not is_default(f, v := getattr(value, f.name)))


def _is_record(value: Any) -> bool:
    return is_dataclass(value) and not isinstance(value, (type, Graph, Type, Procedure))


class _Writer:
    def __init__(self, root: Any, classes: Classes) -> None:
        self.root = root
        self.classes = classes
        self.uses: dict[int, int] = {}
        self.graphs: list[Graph] = []
        self.nodes: dict[Node, None] = {}
        self.expressions: dict[Expr, None] = {}
        self.arrays: dict[str, Array] = {}
        self.labels: dict[int, str] = {}
        lists = (v for v in children(root, classes) if isinstance(v, tuple))
        self.listed = {id(record) for items in lists for record in items if _is_record(record)}
        self.taken = {*DTYPES, *KEYWORDS, *_OF_GRAPHS, *classes.by_name, "set", "procedure"}
        self.find(root)
        self.names = self.named()
        self.writer = ExpressionWriter(self.slot, renumbered(self.expressions))
        self.paragraphs: list[str] = []

    def find(self, value: Any) -> None:
        """Collect what is reached: graphs, nodes, expressions, and how often each record is."""
        if isinstance(value, Expr):
            self.find_expression(value)
        elif isinstance(value, Graph):
            self.graphs += [value] if all(value is not g for g in self.graphs) else []
        elif isinstance(value, Node):
            self.nodes[value] = None
        elif isinstance(value, Type):
            self.find(tuple(value.shape))
        elif isinstance(value, np.ndarray):
            if inline(value) is None:
                array = Array(value)
                self.arrays[array.digest] = array
        else:
            self.uses[id(value)] = self.uses.get(id(value), 0) + 1
            if self.uses[id(value)] == 1 or not _is_record(value):
                for child in children(value, self.classes):
                    self.find(child)

    def find_expression(self, root: Expr) -> None:
        stack = [root]
        while stack:
            e = stack.pop()
            if e in self.expressions:
                continue
            self.expressions[e] = None
            stack += e.args
            if e.op == "load":
                self.find(e.value)
            elif e.op == "var" and isinstance(e.value.extent, Expr):
                stack.append(e.value.extent)

    # ---- graphs and nodes

    def named(self) -> dict[Node, str]:
        """The references of all nodes; those in no graph are named after those of the first one."""
        found: dict[Node, str] = {}
        for k, graph in enumerate(self.graphs):
            own = numbered(graph)
            for n, name in own.items():
                found.setdefault(n, f"{k or ''}%{name.removeprefix('%')}")
        own = numbered(self.graphs[0])
        self.more = list(topological((n for n in self.nodes if n not in found), known=own))
        count = len(own) - len(self.graphs[0].inputs)
        self.first = {**own, **{n: f"%{count + k}" for k, n in enumerate(self.more)}}
        return {**{n: self.first[n] for n in self.more}, **found}

    def graph_text(self) -> Iterator[str]:
        for graph in self.graphs:
            self.arrays.update((d, a) for d, a in constants_of(graph).items() if inline(a.value) is None)
            yield show(graph)
        for n in self.more:
            if n.is_const and inline(n.value) is None:
                array: Array = n.attributes["value"]
                self.arrays[array.digest] = array
        origins = (next((g.names(n) for g in self.graphs if g.names(n)), ()) for n in self.more)
        if self.more:
            yield "".join(f"{node_line(n, self.first, origin)}\n" for n, origin in zip(self.more, origins))

    # ---- records

    def written(self) -> Written:
        graphs = list(self.graph_text())
        self.paragraph(self.root)
        return Written("\n".join([*graphs, *self.paragraphs]), self.arrays)

    def paragraph(self, record: Any) -> None:
        """Write a record, behind those it refers to and the parts of its expressions."""
        expressions: dict[Expr, None] = {}
        for reference in self.inside(record, expressions):
            if id(reference) not in self.labels:
                self.paragraph(reference)
        own = [self.writer.define(part) for part in parts(expressions, self.writer.parts)]
        layout = self.record(record)
        if record is not self.root:
            self.labels[id(record)] = self.label(record)
            layout = prefixed(f"{self.labels[id(record)]} = ", layout)
        described = getattr(record, "describe", None)
        if isinstance(described, str):
            own.insert(0, f"# {json.dumps(described)[1:-1]}")
        self.paragraphs.append("\n".join([*own, *lines(layout)]) + "\n")

    def inside(self, record: Any, expressions: dict[Expr, None]) -> Iterator[Any]:
        """The records that a paragraph refers to; collects its expressions."""
        stack = list(children(record, self.classes))[::-1]
        while stack:
            value = stack.pop()
            if isinstance(value, Expr):
                expressions[value] = None
                yield from (e.value for e in X.loads(value) if self.is_paragraph(e.value))
            elif self.is_paragraph(value):
                yield value
            elif isinstance(value, Type):
                stack += value.shape[::-1]
            else:
                stack += list(children(value, self.classes))[::-1]

    def is_paragraph(self, value: Any) -> bool:
        """Is it written by itself: one of a list of the root, one that compares by identity, or one with two users?"""
        if not _is_record(value):
            return False
        return not type(value).__dataclass_params__.eq or (self.uses[id(value)] > 1 or id(value) in self.listed)

    def label(self, record: Any) -> str:
        """A name for a record: its own where that is free."""
        own = str(getattr(record, "name", ""))
        stem = own if re.fullmatch(r"[A-Za-z_]\w*", own, re.ASCII) else f"{type(record).__name__.lower()}0"
        label, count = stem, 0
        while label in self.taken:
            count += 1
            label = f"{stem.removesuffix('0')}{count}" if stem != own else f"{own}_{count}"
        self.taken.add(label)
        return label

    def slot(self, slot: Any) -> str:
        """The text of what an expression loads from."""
        if isinstance(slot, Node):
            return self.names[slot]
        if isinstance(slot, str):
            return json.dumps(slot)
        return self.labels[id(slot)] if id(slot) in self.labels else f"load({flat(self.value(slot))})"

    def record(self, record: Any) -> Layout:
        cls = type(record)
        if cls not in self.classes.names:
            raise TypeError(f"{cls} is reached by no annotation")
        items = []
        for f in self.classes.fields(cls):
            value = getattr(record, f.name)
            if not is_default(f, value):
                found = self.procedure(record, value) if isinstance(value, Procedure) else self.value(value)
                items.append(prefixed(f"{f.name}=", found))
        return Group(f"{self.classes.names[cls]}(", tuple(items), ")")

    def procedure(self, record: Any, value: Procedure) -> str:
        """A procedure is that of a node which its record holds."""
        held = (getattr(record, f.name) for f in self.classes.fields(type(record)))
        return next(f"procedure({self.names[n]})" for n in held if isinstance(n, Node) and meaning(n) is value)

    def value(self, value: Any) -> Layout:
        if id(value) in self.labels and _is_record(value):
            return self.labels[id(value)]
        if isinstance(value, Enum):
            return f"{self.classes.names[type(value)]}.{value.name}"
        if isinstance(value, (bool, type(None), int, float, np.generic)):
            return _number(value.item() if isinstance(value, np.generic) else value)
        if isinstance(value, str):
            return json.dumps(value)
        if isinstance(value, Expr):
            return f"`{self.writer.text(value)}`"
        if isinstance(value, Node):
            return self.names[value]
        if isinstance(value, Graph):
            return f"graph{next(k for k, g in enumerate(self.graphs) if g is value)}"
        if isinstance(value, np.ndarray):
            return f"{Type(dtype_name(value.dtype), value.shape)} {inline(value) or f'@{Array(value).digest}'}"
        if isinstance(value, Type):
            return f"{value.dtype}[{','.join(flat(self.value(extent)) for extent in value.shape)}]"
        return self.record(value) if _is_record(value) else self.collection(value)

    def collection(self, value: Any) -> Layout:
        if isinstance(value, Mapping):
            return Group("{", tuple(self.pair(k, v) for k, v in value.items()), "}")
        if isinstance(value, frozenset):
            return Group("set(", tuple(sorted(flat(self.value(v)) for v in value)), ")")
        if type(value) is list:
            return Group("[", tuple(self.value(v) for v in value), "]")
        if type(value) is tuple:
            return Group("(", tuple(self.value(v) for v in value), ",)" if len(value) == 1 else ")")
        raise TypeError(f"{type(value)} has no text")

    def pair(self, key: Any, value: Any) -> Layout:
        return prefixed(f"{flat(self.value(key))}: ", self.value(value))


def _number(value: float | int | bool | None) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return repr(value)

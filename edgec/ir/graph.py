"""The graph level: interned immutable nodes, graphs, and where each node came from."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b, sha256
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from edgec.ir.expr import Expr, Extent
from edgec.ir.extent import sizes
from edgec.ir.types import Type, dtype_name

#: Bytes up to which arrays are compared whole, and elements of longer ones that are compared before their digests.
_WHOLE_BYTES, _PART_ELEMENTS = 4096, 64


class Array:
    """An immutable constant tensor that compares and hashes by its content.

    Few arrays are alike: a part of the bytes tells most of them apart, and ``digest`` is computed where it does not.
    """

    __slots__ = ("_digest", "_part", "value")

    def __init__(self, value: np.ndarray) -> None:
        value = np.asarray(value, order="C")
        value.flags.writeable = False
        self.value = value
        self._digest: str | None = None
        step = 1 if value.nbytes <= _WHOLE_BYTES else value.size // _PART_ELEMENTS
        self._part = (value.dtype, value.shape, value.reshape(-1)[::step].tobytes())

    @property
    def digest(self) -> str:
        """Hash of type, shape and content."""
        if self._digest is None:
            value = self.value
            # On long arrays faster than SHA-2.
            content = blake2b(f"{value.dtype}{value.shape}".encode(), digest_size=12)
            content.update(value.reshape(-1).view(np.uint8).data if value.size else b"")
            self._digest = content.hexdigest()
        return self._digest

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Array):
            return False
        if self is other or self._part != other._part:
            return self is other
        return self.value.nbytes <= _WHOLE_BYTES or self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self._part)

    def __str__(self) -> str:
        return f"#{self.digest}"

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class Formula:
    """The expression of one element of the result: ``variables[d]`` runs over dimension d of ``type``.

    A dimension of extent 1 has the constant 0 in place of a variable. Loads name their operand by position.
    """

    type: Type
    variables: tuple[Expr, ...]
    body: Expr


#: The number of the result among the operands of a procedure.
RESULT = -1


@dataclass(frozen=True)
class Rounds:
    """The work of a procedure as ``count`` rounds, each of which all threads share: a round begins when the last ended.

    The threads have ``scratch`` bytes together.
    """

    count: Extent
    scratch: Extent


@dataclass(frozen=True, eq=False)
class Procedure:
    """An operator without a good element formula: an algorithm with its own C template.

    ``compute`` is its definition in numpy: the result from the arrays of the operands. Its template is the one that
    requires the operator's name; it reads ``sizes`` by name. The work is divided into ``tasks`` independent parts (1:
    one thread executes all), and each thread has ``scratch`` bytes of scratch memory. On a GPU, the threads of a thread
    block share ``room`` bytes for a task (None: ``scratch``). ``steps`` is the approximate number of scalar operations.
    The result may overwrite operand ``overwrites`` where nothing else reads it later. A GPU whose precision is fp16 may
    keep the ``narrow`` operands (and `RESULT`) in 16 bits; all others have the type that the operator gives them.
    Where bytes are copied (``alike``), operands and result have 16 bits all together or not at all. The template for a
    CPU computes most of its steps ``on_lanes``. Threads of a CPU that tasks are too few for may share ``rounds``.
    """

    type: Type
    compute: Callable[..., np.ndarray]
    tasks: Extent
    steps: Extent
    scratch: Extent = 0
    room: Extent | None = None
    overwrites: int | None = None
    sizes: Mapping[str, Any] = field(default_factory=dict)
    narrow: frozenset[int] = frozenset()
    alike: bool = False
    on_lanes: bool = False
    rounds: Rounds | None = None


#: The definition of an operator on operands of given types.
Meaning = Formula | Procedure


class Node:
    """One operation on tensors. Interned: equal nodes are the same object."""

    __slots__ = ("__weakref__", "_key", "args", "attrs", "op", "sizes", "type")

    op: str
    args: tuple[Node, ...]
    attrs: tuple[tuple[str, Any], ...]
    type: Type
    sizes: tuple[Expr, ...]  # the run-time sizes that its type and its attributes mention
    _key: str | None

    @property
    def key(self) -> str:
        """Hash of its content and of all that it is computed from."""
        if self._key is None:
            for node in topological([self], known=_WITH_KEY):
                content = f"{node.op}({','.join(a.key for a in node.args)}){node.attrs!r}:{node.type}"
                node._key = sha256(content.encode()).hexdigest()[:24]
        assert self._key is not None
        return self._key

    @property
    def attributes(self) -> dict[str, Any]:
        return dict(self.attrs)

    @property
    def is_const(self) -> bool:
        return self.op == "const"

    @property
    def value(self) -> np.ndarray:
        """The array of a constant."""
        array: Array = self.attributes["value"]
        return array.value

    def __repr__(self) -> str:
        return f"<{self.op} {self.key[:8]} {self.type}>"


class _WithKey:
    """The nodes whose key is computed."""

    def __contains__(self, node: object) -> bool:
        return isinstance(node, Node) and node._key is not None


_WITH_KEY = _WithKey()
_TABLE: WeakValueDictionary[Any, Node] = WeakValueDictionary()


def intern(op: str, args: tuple[Node, ...], attrs: Mapping[str, Any], type: Type) -> Node:
    """The one node with this content. Use ``edgec.ops.node`` where the type should be derived."""
    items = tuple(sorted(attrs.items()))
    # 1 and 1.0 are equal, but not the same attribute: the representation tells them apart.
    told = repr(items) if op != "const" else items[0][1]
    identity = (op, args, told, items if _is_symbolic(items) else None, type)
    found = _TABLE.get(identity)
    if found is None:
        found = Node()
        found.op, found.args, found.attrs, found.type, found._key = op, args, items, type, None
        found.sizes = _sizes_of(found)
        _TABLE[identity] = found
    return found


def _is_symbolic(value: Any) -> bool:
    return any(map(_is_symbolic, value)) if type(value) is tuple else isinstance(value, Expr)


def constant(value: np.ndarray) -> Node:
    array = Array(np.asarray(value))
    return intern("const", (), {"value": array}, Type(dtype_name(array.value.dtype), array.value.shape))


def placeholder(name: str, type: Type) -> Node:
    """An input of the graph."""
    return intern("input", (), {"name": name}, type)


#: The key of a graph's metadata for the hash of the model's file.
MODEL_SHA256 = "model SHA-256"
#: That of what the names of nodes of preprocessing begin with, and no others.
PREPROCESSING = "preprocessing"
#: That of the names of files that weights lie in, one a line, which the hash goes over too.
MODEL_FILES = "model files"
#: How the keys begin that tell of inputs and outputs of strings; then the name.
STRINGS = "strings "
#: The key for the state that numbers the runs, of networks with random numbers.
RANDOM_STEP = "random numbers"
#: Dimensions that are open in the model and fixed in the graph, as NAME=EXTENT, one a line.
FIXED_DIMENSIONS = "fixed dimensions"
#: Those of a part of a model: the hash of the whole, the names of other parts, one a line, and why nodes are in none.
WHOLE_SHA256, OTHER_PARTS, LEFT_OUT = "whole model SHA-256", "other parts", "left out"
#: All of these, which no model's own metadata can give.
OF_MODEL = frozenset({PREPROCESSING, MODEL_SHA256, MODEL_FILES, FIXED_DIMENSIONS, WHOLE_SHA256, OTHER_PARTS, LEFT_OUT})


@dataclass(frozen=True)
class Graph:
    """Inputs and named outputs; its nodes are those that the outputs are computed from.

    ``origin`` maps a node to the names of the ONNX nodes that it came from, so that messages can name these. ``sizes``
    are the run-time sizes that the graph computes (others are dimensions of its inputs), each with the scalar node that
    is its value. ``demands`` are the runtime assertions: a message, and a scalar boolean that must be true for the
    outputs to be valid.
    """

    inputs: tuple[Node, ...]
    outputs: tuple[tuple[str, Node], ...]
    name: str = "net"
    origin: Mapping[Node, tuple[str, ...]] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    sizes: tuple[tuple[Expr, Node], ...] = ()
    demands: tuple[tuple[str, Node], ...] = ()

    def nodes(self) -> list[Node]:
        """Every node the outputs need, arguments and sizes first, in a deterministic order."""
        return list(self._nodes)

    @cached_property
    def _nodes(self) -> tuple[Node, ...]:
        return tuple(topological((node for _, node in (*self.outputs, *self.demands)), dict(self.sizes)))

    def needed_sizes(self) -> dict[Expr, Node]:
        """The computed sizes that the outputs need."""
        known = set(self.nodes())
        return {s: n for s, n in self.sizes if n in known}

    def results(self) -> set[Node]:
        """The nodes whose values must be in memory after a run: outputs, computed sizes and demands."""
        return {n for _, n in (*self.outputs, *self.demands)} | set(self.needed_sizes().values())

    def operations(self) -> list[Node]:
        """The nodes that compute: neither inputs nor constants."""
        return [n for n in self.nodes() if n.op not in ("input", "const")]

    def users(self) -> dict[Node, list[Node]]:
        result: dict[Node, list[Node]] = {n: [] for n in self.nodes()}
        for n in result:
            for a in dict.fromkeys(n.args):
                result[a].append(n)
        return result

    def names(self, node: Node) -> tuple[str, ...]:
        return self.origin.get(node, ())


def _sizes_of(node: Node) -> tuple[Expr, ...]:
    found: dict[Expr, None] = {}
    stack: list[Any] = [node.type.shape, *(v for _, v in node.attrs)]
    while stack:
        value = stack.pop()
        if type(value) is tuple:
            stack.extend(value)
        elif isinstance(value, Expr):
            found.update(dict.fromkeys(sizes(value)))
    return tuple(found)


def topological(
    outputs: Iterable[Node], computed: Mapping[Expr, Node] = {}, known: Container[Node] = ()
) -> Iterator[Node]:
    """Nodes with everything they need before them; ``computed`` are sizes that nodes of the graph are the value of.

    What is ``known`` is left out, with everything it needs.
    """
    seen: set[Node] = set()
    stack = [(n, False) for n in reversed(list(outputs))]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            yield node
        elif node not in seen and node not in known:
            seen.add(node)
            stack.append((node, True))
            stack.extend((a, False) for a in reversed(node.args) if a not in seen)
            if computed:
                stack.extend((computed[s], False) for s in node.sizes if s in computed and computed[s] not in seen)


def rewrite(graph: Graph, change: Callable[[Node, tuple[Node, ...]], Node], within: bool = False) -> Graph:
    """Rebuild the graph bottom-up: ``change(old, new_args)`` gives each node's replacement, inputs and constants
    included. Origins follow, ``within`` also to the operators of which a replacement is made. This is the one way to
    make a graph from another, node by node."""
    new: dict[Node, Node] = {}
    made: set[Node] = set()
    origin: dict[Node, tuple[str, ...]] = {}
    for node in graph.nodes():
        replacement = change(node, tuple(new[a] for a in node.args))
        new[node] = replacement
        parts = [n for n in topological([replacement], known=made) if n.args] if within else []
        made.add(replacement)
        for part in dict.fromkeys((*parts, replacement)) if node in graph.origin else ():
            merged = dict.fromkeys((*origin.get(part, ()), *graph.origin[node]))
            origin[part] = tuple(merged)
    kept = {**{n: names for n, names in graph.origin.items() if n not in new}, **origin}
    # What an input is replaced with may be computed from it, as its rounding is.
    inputs = [new[n] if n in new else change(n, ()) for n in graph.inputs]
    return replace(
        graph,
        inputs=tuple(m if m.op == "input" else n for n, m in zip(graph.inputs, inputs)),
        outputs=tuple((name, new[n]) for name, n in graph.outputs),
        origin=kept,
        sizes=tuple((s, new[n]) for s, n in graph.sizes if n in new),
        demands=tuple((message, new[n]) for message, n in graph.demands),
    )

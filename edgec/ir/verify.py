"""The invariants of a graph: a table, checked between stages. A failure is a mistake in the compiler, not the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from edgec.errors import InternalError, ModelError
from edgec.ir.expr import Expr, free_variables
from edgec.ir.graph import Array, Graph, Node
from edgec.ir.index import bounds, is_static
from edgec.ir.registry import is_operator, node
from edgec.ir.sizes import dimensions
from edgec.ir.types import DTYPES, Type, dtype_name

Found = Iterable[tuple["Node | None", str]]


class VerifyError(InternalError):
    """A stage left a graph that breaks an invariant."""


def verify(graph: Graph) -> None:
    """Check every invariant; raises VerifyError for the first that does not hold, with the node and its origin."""
    for invariant in INVARIANTS:
        for broken, message in invariant(graph):
            where = describe(graph, broken) if broken is not None else f"graph '{graph.name}'"
            hint = "this is a mistake in edgec: please report it with the model"
            raise VerifyError(f"{message} ({invariant.__name__})", hint=hint, where=where)


def describe(graph: Graph, node: Node) -> str:
    """A node as messages name it: by the ONNX nodes it came from where there are any."""
    names = ", ".join(graph.names(node))
    return f"{node.op} {node.key[:8]}" + (f" from '{names}'" if names else "")


# Each invariant yields the nodes that break it (None for the graph as a whole), with what is wrong.


def has_outputs(graph: Graph) -> Found:
    if not graph.outputs:
        yield None, "the graph has no outputs"


def outputs_are_named_once(graph: Graph) -> Found:
    seen: set[str] = set()
    for name, n in graph.outputs:
        if name in seen:
            yield n, f"two outputs are called '{name}'"
        seen.add(name)


def inputs_are_inputs(graph: Graph) -> Found:
    for n in graph.inputs:
        if n.op != "input":
            yield n, "an input of the graph is computed"


def inputs_are_named_once(graph: Graph) -> Found:
    seen: set[str] = set()
    for n in graph.inputs:
        name = n.attributes.get("name")
        if name in seen:
            yield n, f"two inputs are called '{name}'"
        seen.add(str(name))


def arguments_come_first(graph: Graph) -> Found:
    """Holds by construction of interned nodes: a node that reads itself could only be made by changing one."""
    seen: set[Node] = set()
    for n in graph.nodes():
        if not seen.issuperset(n.args):
            yield n, "a node needs its own result"
        seen.add(n)


def inputs_are_declared(graph: Graph) -> Found:
    declared = set(graph.inputs)
    for n in graph.nodes():
        if n.op == "input" and n not in declared:
            name = n.attributes.get("name")
            yield n, f"the outputs need the input '{name}', which the graph does not declare"


def operators_are_known(graph: Graph) -> Found:
    for n in graph.nodes():
        if n.op not in ("input", "const") and not is_operator(n.op):
            yield n, f"there is no core operator '{n.op}'"


def dtypes_are_known(graph: Graph) -> Found:
    for n in (*graph.inputs, *graph.nodes()):
        if n.type.dtype not in DTYPES:
            yield n, f"there is no element type '{n.type.dtype}'"


def extents_are_counts(graph: Graph) -> Found:
    for n in (*graph.inputs, *graph.nodes()):
        if not all(_is_count(extent) for extent in n.type.shape):
            yield n, f"the shape {n.type.shape} is not made of whole numbers from 0 on"


def _is_count(extent: Any) -> bool:
    if isinstance(extent, Expr):
        return is_static(extent) and not free_variables(extent) and bounds(extent)[0] >= 0
    return type(extent) is int and extent >= 0


def sizes_are_scalars(graph: Graph) -> Found:
    """A size that the graph computes is one whole number, and so are those the caller gives."""
    given = set(dimensions(n.type for n in graph.inputs))
    computed = dict(graph.sizes)
    for s, n in graph.sizes:
        if n.type != Type("i64", ()) or s in given:
            yield n, f"the size {s} is computed as {n.type}"
    for n in (*graph.inputs, *graph.nodes()):
        for s in n.sizes:
            if s not in given and s not in computed:
                yield n, f"nothing says what the size {s} is"


def demands_are_truth_values(graph: Graph) -> Found:
    for _, n in graph.demands:
        if n.type != Type("bool", ()):
            yield n, f"a demand is {n.type}, not one truth value"


def attributes_are_plain(graph: Graph) -> Found:
    """Numbers, strings and tuples of them: what prints and reads back, and hashes the same everywhere."""
    for n in graph.operations():
        for key, value in n.attrs:
            if not _is_plain(value):
                yield n, f"the attribute {key} is a {type(value).__name__}"


def _is_plain(value: Any) -> bool:
    if type(value) is tuple:
        return all(map(_is_plain, value))
    return value is None or type(value) in (bool, int, float, str) or (isinstance(value, Expr) and is_static(value))


def constants_match_their_type(graph: Graph) -> Found:
    for n in graph.nodes():
        if n.op == "const":
            array = n.attributes.get("value")
            if not isinstance(array, Array):
                yield n, "a constant without a value"
            elif (held := Type(dtype_name(array.value.dtype), array.value.shape)) != n.type:
                yield n, f"a constant of type {n.type} holds {held}"


def types_follow_from_formulas(graph: Graph) -> Found:
    for n in graph.operations():
        try:
            derived = node(n.op, *n.args, **n.attributes)
        except (ModelError, TypeError) as error:
            yield n, f"the operator refuses its operands: {error}"
        else:
            if derived.type != n.type:
                yield n, f"the type is {n.type}, but the formula gives {derived.type}"


#: In this order: later ones rely on earlier ones.
INVARIANTS: tuple[Callable[[Graph], Found], ...] = (
    has_outputs,
    outputs_are_named_once,
    inputs_are_inputs,
    inputs_are_named_once,
    arguments_come_first,
    inputs_are_declared,
    operators_are_known,
    dtypes_are_known,
    extents_are_counts,
    sizes_are_scalars,
    demands_are_truth_values,
    attributes_are_plain,
    constants_match_their_type,
    types_follow_from_formulas,
)

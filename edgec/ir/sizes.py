"""Run-time sizes: dimensions whose extent is known only when the network runs, and how it is read off the inputs.

A dimension ``width=32..960`` in steps of 32 is the extent ``width * 32``, where the size ``width`` runs over 1 .. 30.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from edgec.errors import ModelError
from edgec.ir import expr as X
from edgec.ir import index
from edgec.ir.expr import Expr, Extent
from edgec.ir.extent import at_sizes, extent_at, sizes
from edgec.ir.graph import Formula, Graph, Meaning, Node, Procedure, placeholder, rewrite
from edgec.ir.registry import node
from edgec.ir.types import Type

#: The value of every run-time size.
Sizes = Mapping[Expr, int]
NO_SIZES: Sizes = {}


@dataclass(frozen=True)
class Dimension:
    """A dimension of the inputs that the caller chooses: a multiple of ``step`` from ``low`` to ``high`` elements."""

    name: str
    low: int
    high: int
    step: int = 1

    @property
    def size(self) -> Expr:
        """Number of its steps, as an expression."""
        return X.size(self.name, self.low // self.step, self.high // self.step)

    @property
    def extent(self) -> Extent:
        return X.plain(self.size * self.step)

    def __str__(self) -> str:
        steps = f" in steps of {self.step}" if self.step > 1 else ""
        return f"{self.name} = {self.low}..{self.high}{steps}"


def dimensions(types: Iterable[Type]) -> dict[Expr, Dimension]:
    """The dimensions that inputs of these types leave to the caller, by size, in order of appearance.

    A size counts where it stands alone; other extents may be formulas of such sizes (``past + 1``).
    """
    found: dict[Expr, Dimension] = {}
    for type in types:
        for extent in type.shape:
            alone = _alone(extent)
            if alone is not None:
                size, step = alone
                found.setdefault(size, Dimension(size.value.name, size.value.low * step, size.value.high * step, step))
    return found


def named(type: Type, chosen: Collection[Dimension]) -> tuple[int | str, ...]:
    """A shape in words: the dimensions ``chosen`` at run time by their names, other extents as formulas."""
    names = {d.extent: d.name for d in chosen}
    return tuple(e if isinstance(e, int) else names.get(e, str(e)) for e in type.shape)


def _alone(extent: Extent) -> tuple[Expr, int] | None:
    """(size, step) of an extent that is a multiple of one size."""
    if not isinstance(extent, Expr):
        return None
    terms, c = index.linear(extent)
    found = list(terms.items())
    return found[0] if len(found) == 1 and not c and found[0][0].op == "size" else None


def read_sizes(name: str, type: Type, shape: Sequence[int], known: dict[Expr, int]) -> None:
    """Add the sizes that an input of ``shape`` gives to ``known``.

    Raises ModelError when the shape does not fit the type, its ranges, or a size that another input has given.
    """
    wrong = ModelError(f"input '{name}' has shape {list(shape)}, expected {type}")
    if len(shape) != len(type.shape):
        raise wrong
    for given, extent in zip(shape, type.shape):
        if not isinstance(extent, Expr):
            if given != extent:
                raise wrong
            continue
        if _alone(extent) is None:  # a formula of sizes that other dimensions give
            if all(s in known for s in sizes(extent)) and extent_at(extent, known) != given:
                raise wrong
            continue
        ((size, dimension),) = dimensions([Type(type.dtype, (extent,))]).items()
        if given % dimension.step or not dimension.low <= given <= dimension.high:
            raise ModelError(f"input '{name}' has shape {list(shape)}, which is outside {dimension}")
        if known.setdefault(size, given // dimension.step) != given // dimension.step:
            was = known[size] * dimension.step
            raise ModelError(f"dimension '{dimension.name}' is {was} and, in input '{name}', {given}")


def shape_at(shape: Iterable[Extent], known: Sizes) -> tuple[int, ...]:
    return tuple(extent_at(extent, known) for extent in shape)


def formula_at(formula: Formula, known: Sizes) -> Formula:
    """The formula for given sizes."""
    if not known:
        return formula
    type = Type(formula.type.dtype, shape_at(formula.type.shape, known))
    return Formula(type, tuple(at_sizes(v, known) for v in formula.variables), at_sizes(formula.body, known))


def sizes_of(meaning: Meaning) -> list[Expr]:
    """The run-time sizes that decide the shape or the elements of a result."""
    found = [*meaning.type.shape, meaning.body] if isinstance(meaning, Formula) else [*meaning.type.shape]
    if isinstance(meaning, Procedure):
        found += [meaning.tasks, meaning.scratch, *meaning.sizes.values()]
    return list(dict.fromkeys(s for e in found if isinstance(e, Expr) for s in sizes(e)))


def outputs_alone(graph: Graph) -> Graph:
    """The graph with what it computes for itself (sizes, demands) as outputs too: for what looks at outputs alone."""
    sizes = tuple((f"size {s.value.name}", n) for s, n in graph.needed_sizes().items())
    return replace(graph, outputs=(*graph.outputs, *sizes, *graph.demands), sizes=(), demands=())


def outputs_apart(graph: Graph, before: Graph) -> Graph:
    """Undo ``outputs_alone``, which made what ``graph`` came from out of ``before``."""
    count = len(before.outputs)
    nodes = [n for _, n in graph.outputs[count:]]
    computed = list(zip(before.needed_sizes(), nodes))
    known = {size: int(n.value.reshape(())) for size, n in computed if n.is_const}
    sizes = tuple((size, n) for size, n in computed if size not in known)
    demands = tuple((message, n) for (message, _), n in zip(before.demands, nodes[len(computed) :]))
    graph = replace(graph, outputs=graph.outputs[:count], sizes=sizes, demands=demands)
    return with_known_sizes(graph, known) if known else graph


def with_known_sizes(graph: Graph, known: Sizes) -> Graph:
    """The graph for given values of some sizes: those chosen for a run, or computed ones that are always the same."""
    numbers = {size: X.const(value) for size, value in known.items()}

    def at(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(at(v) for v in value)
        return X.plain(X.substitute(value, numbers)) if isinstance(value, Expr) else value

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        if old.op == "input":
            return placeholder(old.attributes["name"], Type(old.type.dtype, at(old.type.shape)))
        return old if old.op == "const" else node(old.op, *args, **{name: at(value) for name, value in old.attrs})

    return rewrite(graph, change)

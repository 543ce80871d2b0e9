"""The registry of core operators, and the vocabulary that their definitions are written in.

Operators register when their modules in `edgec.ops` are imported, which importing `edgec` does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from inspect import signature
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from edgec.errors import ModelError
from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.extent import extent_at
from edgec.ir.graph import Formula, Meaning, Node, Procedure, intern
from edgec.ir.types import STORED, Type


@dataclass(frozen=True)
class Tensor:
    """An operand as a definition sees it: a type, and elements that can be loaded by index."""

    slot: int
    type: Type

    @property
    def shape(self) -> Any:
        """The extents; those known only at run time are formulas of sizes, which calculate and compare like numbers."""
        return self.type.shape

    @property
    def dtype(self) -> str:
        return self.type.dtype

    @property
    def rank(self) -> int:
        return len(self.type.shape)

    def __getitem__(self, index: Any) -> Expr:
        index = index if isinstance(index, tuple) else (index,)
        assert len(index) == self.rank, f"{len(index)} indices for rank {self.rank}"
        # A dimension of extent 1 has only index 0, whatever variable walks over it.
        fixed = (0 if extent == 1 else i for i, extent in zip(index, self.shape))
        return X.load(self.slot, fixed, self.dtype)


Definition = Callable[..., Meaning]
_OPERATORS: dict[str, Definition] = {}
_PROCEDURES: set[str] = set()

#: The gradient for operand ``k`` of a node, ``(node, gradient of its result, k)``; None where it is zero everywhere.
Adjoint = Callable[[Node, Node, int], "Node | None"]
_ADJOINTS: dict[str, Adjoint] = {}


def op(definition: Callable[..., Formula]) -> Callable[..., Formula]:
    """Register a core operator under the name of its defining function (a trailing underscore is dropped)."""
    return register(definition.__name__.rstrip("_"), definition)


def register(name: str, definition: Callable[..., Formula]) -> Callable[..., Formula]:
    _OPERATORS[name] = definition
    _PROCEDURES.discard(name)
    return definition


def procedure(definition: Callable[..., Procedure]) -> Callable[..., Procedure]:
    """Register an operator without an element formula, under the name of its defining function."""
    name = definition.__name__.rstrip("_")
    _OPERATORS[name] = definition
    _PROCEDURES.add(name)
    return definition


def adjoint(*names: str) -> Callable[[Adjoint], Adjoint]:
    """Register the derivative of operators: the graph that makes gradients of operands from one of the result."""

    def registered(definition: Adjoint) -> Adjoint:
        _ADJOINTS.update(dict.fromkeys(names, definition))
        return definition

    return registered


def adjoint_of(name: str) -> Adjoint | None:
    return _ADJOINTS.get(name)


def is_operator(name: str) -> bool:
    return name in _OPERATORS


def is_procedure(name: str) -> bool:
    return name in _PROCEDURES


def operators() -> dict[str, Definition]:
    return dict(sorted(_OPERATORS.items()))


def compute(shape: Sequence[Extent], body: Callable[..., Expr]) -> Formula:
    """The tensor of ``shape`` whose element at (i0, i1, ...) is ``body(i0, i1, ...)``."""
    variables = tuple(X.var(f"i{d}", extent) for d, extent in enumerate(shape))
    result = body(*variables)
    return Formula(Type(result.dtype, tuple(s if isinstance(s, Expr) else int(s) for s in shape)), variables, result)


def over(*extents: Extent) -> tuple[Expr, ...]:
    """Variables to reduce over."""
    return tuple(X.fresh(extent) for extent in extents)


def reduce_over(combine: str, variables: Sequence[Expr], body: Expr) -> Expr:
    if combine not in X.COMBINES:
        raise ModelError(f"nothing is combined by '{combine}'", hint=f"but by {', '.join(X.COMBINES)}")
    if body.dtype in STORED:
        raise ModelError(f"a reduction of {body.dtype}", hint="cast to a wider type, compute, cast back")
    return X.reduce(combine, variables, body)


@lru_cache(maxsize=100_000)
def _derive(op: str, types: tuple[Type, ...], attrs: tuple[tuple[str, Any], ...]) -> Meaning:
    definition = _OPERATORS[op]
    return definition(*(Tensor(k, t) for k, t in enumerate(types)), **dict(attrs))


#: By node: every operand of a large concatenation asks what its reader means, and types of all operands are the key.
_MEANINGS: WeakKeyDictionary[Node, Meaning] = WeakKeyDictionary()


def meaning(node: Node) -> Meaning:
    """The element formula of a node (loads in it name the node's arguments by position), or its procedure."""
    found = _MEANINGS.get(node)
    if found is None:
        found = _MEANINGS[node] = _derive(node.op, tuple(a.type for a in node.args), node.attrs)
    return found


def procedure_at(node: Node, known: Mapping[Expr, int]) -> Procedure:
    """The procedure of a node for given run-time sizes."""

    def settled(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple([settled(v) for v in value])
        return extent_at(value, known) if isinstance(value, Expr) else value

    types = tuple(Type(a.type.dtype, settled(a.type.shape)) for a in node.args)
    found = _derive(node.op, types, tuple((name, settled(value)) for name, value in node.attrs))
    assert isinstance(found, Procedure), f"{node.op} is no procedure"
    return found


def formula(node: Node) -> Formula:
    """The element formula of a node that is no procedure."""
    found = meaning(node)
    assert isinstance(found, Formula), f"{node.op} is a procedure"
    return found


def node(op: str, *args: Node, **attrs: Any) -> Node:
    """A node whose type is derived from the operator's meaning.

    Raises ModelError when the operator refuses the types of its operands.
    """
    if op not in _OPERATORS:
        raise ModelError(f"no core operator '{op}'")
    attrs = {**_defaults(_OPERATORS[op]), **{name: _plain(value) for name, value in attrs.items()}}
    derived = _derive(op, tuple(a.type for a in args), tuple(sorted(attrs.items())))
    return intern(op, args, attrs, derived.type)


@cache
def _defaults(definition: Definition) -> dict[str, Any]:
    """Attributes that are not given are written down all the same, so that there is one spelling of each node."""
    parameters = signature(definition).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is not p.empty}


def _plain(value: Any) -> Any:
    """Attributes are Python's own numbers and tuples, so that equal ones print and hash alike."""
    if isinstance(value, (tuple, list, range)):
        return tuple([_plain(v) for v in value])
    if isinstance(value, Expr):
        return X.plain(value)
    return value.item() if isinstance(value, np.generic) else value

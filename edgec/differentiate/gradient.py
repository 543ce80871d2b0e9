"""Reverse mode: the gradients of one value by others, as a graph of core operators.

Every node hands the gradient of its result on to its operands, last node first; what several nodes hand to one is
added. Element-wise operators take the formulas of the table of functions, all others the adjoint that stands beside
their definition (``edgec.ops``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from edgec.differentiate.attention import Blocks, attention_back, attention_of
from edgec.differentiate.composites import composite
from edgec.differentiate.elementwise import elementwise
from edgec.errors import ModelError
from edgec.ir.functions import FUNCTIONS
from edgec.ir.graph import Node, topological
from edgec.ir.registry import adjoint_of
from edgec.ir.types import FLOATS, STORED
from edgec.ops.graphs import added, full

Origin = Mapping[Node, tuple[str, ...]]
_UNNAMED: Origin = {}


@dataclass(frozen=True)
class Cut:
    """A step from an operand of ``node`` to its result that no gradient passes, and why."""

    node: Node
    operand: int
    reason: str


def gradients(
    result: Node,
    by: Sequence[Node],
    *,
    seed: Node | None = None,
    origin: Origin = _UNNAMED,
    through: Collection[str] = (),
    blocks: Blocks | None = None,
) -> tuple[Node | None, ...]:
    """d sum(result * seed) / d each of ``by``; None where nothing depends on it but by way of what ``cut_paths`` tells.

    Operators named in ``through`` hand their gradient on as it is, as if they changed nothing: the straight-through
    estimator of Bengio et al. (2013), for ``round``. With ``blocks`` the scores of attention are computed again, a
    block at a time, rather than kept.

    Raises ModelError for a result that is no float, a seed of another type, and an operator without a derivative, with
    the names that ``origin`` has for it.
    """
    if not _is_real(result):
        raise ModelError(f"derivatives of {result.type.dtype}", hint="only floats of 16 bits and more have them")
    if seed is not None and seed.type != result.type:
        raise ModelError(f"a seed of {seed.type} for a result of {result.type}")
    order = list(topological([result]))
    reached = _reached(order, by, through)
    received: dict[Node, list[Node]] = {n: [] for n in reached}
    if result in reached:
        received[result].append(full(1, result.type.dtype, result.type.shape) if seed is None else seed)
    totals: dict[Node, Node] = {}
    for n in reversed(order):
        if n not in reached or not received[n]:
            continue
        totals[n] = added(received.pop(n))
        attention = attention_of(n, reached, blocks) if blocks is not None else None
        if attention is not None and blocks is not None:
            for operand, share in attention_back(n, totals[n], attention, blocks):
                if operand in reached:
                    received[operand].append(share)
            continue
        whole = composite(n, totals[n])
        if whole is not None:
            operand, part = whole
            if operand in reached:
                received[operand].append(part)
            continue
        for k, a in enumerate(n.args):
            if a not in reached or (n.op not in through and blocked(n, k) is not None):
                continue
            handed = totals[n] if n.op in through else _handed(n, totals[n], k, origin)
            if handed is not None:
                assert handed.type == a.type, f"{n.op}: a gradient of {handed.type} for {a.type}"
                received[a].append(handed)
    return tuple(totals.get(b) for b in by)


def cut_paths(result: Node, by: Sequence[Node]) -> tuple[Cut, ...]:
    """The steps on the way from ``by`` to ``result`` that no gradient passes, in the order of computation."""
    dependent = set(by)
    found = []
    for n in topological([result]):
        below = [k for k, a in enumerate(n.args) if a in dependent]
        if below:
            dependent.add(n)
            found += [Cut(n, k, reason) for k in below if (reason := blocked(n, k)) is not None]
    return tuple(found)


def blocked(n: Node, k: int) -> str | None:
    """Why no gradient passes from the result of a node to operand ``k``, if that is so whatever their values are."""
    if not _is_real(n):
        return f"its result is {n.type.dtype}"
    if not _is_real(n.args[k]):
        return f"its operand is {n.args[k].type.dtype}"
    formulas = FUNCTIONS[n.op].derivatives if n.op in FUNCTIONS else ()
    return "it is constant between its steps" if formulas and formulas[k] == "0" else None


def _is_real(n: Node) -> bool:
    return n.type.dtype in FLOATS and n.type.dtype not in STORED


def _reached(order: Sequence[Node], by: Sequence[Node], through: Collection[str]) -> set[Node]:
    """The nodes that a gradient has to pass, or to end at."""
    found = {b for b in by if _is_real(b)}
    for n in order:
        if any(a in found and (n.op in through or blocked(n, k) is None) for k, a in enumerate(n.args)):
            found.add(n)
    return found


def _handed(n: Node, g: Node, k: int, origin: Origin) -> Node | None:
    """Share of operand ``k`` of a node in the gradient ``g`` of its result."""
    if n.op in FUNCTIONS:
        return elementwise(n, g, k)
    adjoint, where = adjoint_of(n.op), ", ".join(origin.get(n, ())) or None
    if adjoint is None:
        hint = "train what comes after it, or state it with @adjoint (docs/extend/add-an-operator.md)"
        raise ModelError(f"'{n.op}' has no derivative", hint=hint, where=where)
    try:
        return adjoint(n, g, k)
    except ModelError as error:
        raise ModelError(error.message, hint=error.hint or "train what comes after it", where=where) from None

"""Rounds of a scan that do not depend on one another, computed at once: every operator has one dimension more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from edgec.frontend.values import Value, emit
from edgec.ir.expr import Extent
from edgec.ir.functions import FUNCTIONS
from edgec.ir.graph import Node, topological


class Apart(Exception):
    """An operator that is computed round by round."""


def all_rounds(result: Node, slices: Mapping[Node, Value]) -> Value:
    """The values of ``result`` in all rounds, along a dimension in front of its own.

    ``slices`` are what one round is given, and the same in all rounds, also in front. Raises Apart.
    """
    (rounds,) = {v.shape[0] for v in slices.values()}
    found = dict(slices)
    for node in topological([result], known=frozenset(slices)):
        if any(a in found for a in node.args):
            found[node] = _Round(node, found, rounds).in_all
    return found[result] if result in found else Value(result).unsqueeze(0).broadcast(rounds, *result.type.shape)


class _Round:
    """One operator of a round, some of whose operands are ``found`` for all rounds."""

    def __init__(self, node: Node, found: Mapping[Node, Value], rounds: Extent) -> None:
        self.node, self.found, self.rounds = node, found, rounds
        self.attributes = node.attributes

    @property
    def in_all(self) -> Value:
        rule = _aligned if self.node.op in FUNCTIONS else _RULES.get(self.node.op)
        if rule is None:
            raise Apart
        return rule(self)

    def aligned(self, operand: Node) -> Value:
        """An operand in all rounds, whose other dimensions broadcast against those of the result."""
        if operand not in self.found:
            return Value(operand)
        x = self.found[operand]
        return x.reshape(self.rounds, *(1,) * (self.node.type.rank - operand.type.rank), *operand.type.shape)

    def emitted(self, operands: Iterable[Value], **changed: object) -> Value:
        """The operator on operands that have one dimension more."""
        return emit(self.node.op, *operands, **{**self.attributes, **changed})


def _aligned(r: _Round) -> Value:
    return r.emitted(r.aligned(a) for a in r.node.args)


def _shaped(r: _Round) -> Value:
    return r.emitted((r.aligned(a) for a in r.node.args), shape=(r.rounds, *r.node.type.shape))


def _reshaped(r: _Round) -> Value:
    return r.found[r.node.args[0]].reshape(r.rounds, *r.node.type.shape)


def _transposed(r: _Round) -> Value:
    return r.emitted([r.found[r.node.args[0]]], perm=(0, *(p + 1 for p in r.attributes["perm"])))


def _sliced(r: _Round) -> Value:
    starts, steps = r.attributes["starts"], r.attributes["steps"]
    shape = (r.rounds, *r.node.type.shape)
    return r.emitted([r.found[r.node.args[0]]], starts=(0, *starts), steps=(1, *steps), shape=shape)


def _padded(r: _Round) -> Value:
    before, after = r.attributes["before"], r.attributes["after"]
    return r.emitted([r.found[r.node.args[0]]], before=(0, *before), after=(0, *after))


def _joined(r: _Round) -> Value:
    same = (Value(a).unsqueeze(0).broadcast(r.rounds, *a.type.shape) if a not in r.found else None for a in r.node.args)
    parts = (r.found[a] if part is None else part for a, part in zip(r.node.args, same))
    return r.emitted(parts, axis=r.attributes["axis"] + 1)


def _reduced(r: _Round) -> Value:
    return r.emitted([r.found[r.node.args[0]]], axes=tuple(a + 1 for a in r.attributes["axes"]))


def _pooled(r: _Round) -> Value:
    return r.emitted([r.found[r.node.args[0]]])


def _gathered(r: _Round) -> Value:
    x, positions = r.node.args
    axis = r.attributes["axis"]
    if positions not in r.found:
        return r.emitted([r.found[x], Value(positions)], axis=axis + 1)
    if x in r.found:
        raise Apart
    taken = r.emitted([Value(x), r.found[positions]])
    return taken.transpose(axis, *(d for d in range(taken.rank) if d != axis))


#: Rules by operator, beside those of scalar functions.
_RULES: dict[str, Callable[[_Round], Value]] = {
    "cast": _pooled, "bitcast": _pooled, "pool": _pooled, "matmul": _aligned, "broadcast": _shaped,
    "reshape": _reshaped, "transpose": _transposed, "slice": _sliced, "pad": _padded, "concat": _joined,
    "reduce": _reduced, "gather": _gathered,
}  # fmt: skip

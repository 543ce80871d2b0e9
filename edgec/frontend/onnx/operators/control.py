"""Control flow: loops are unrolled, and what only data decides becomes branches that are chosen at run time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgec.errors import ModelError
from edgec.frontend.onnx.branches import chosen, differ_in_rank
from edgec.frontend.onnx.call import Call, UnknownValue, onnx
from edgec.frontend.onnx.sequences import Item, values_of
from edgec.frontend.onnx.together import Apart, all_rounds
from edgec.frontend.symbolic import decided, known_elements
from edgec.frontend.values import Value, concat, constant, full, normalize_axis
from edgec.ir.expr import Expr
from edgec.ir.graph import Node, placeholder, topological
from edgec.ir.index import upper
from edgec.ir.types import Type
from edgec.text import printable

#: A loop of more rounds would make a program nobody wants to compile.
_MAX_ROUNDS = 4096


@onnx("If")
def if_(call: Call) -> list[Item]:
    """A known condition lowers one branch alone; else there are both, and run time skips the kernels of the other."""
    assert call.inline is not None
    known = decided(call[0])
    if known is not None:
        return call.inline(call.required("then_branch" if known else "else_branch"))
    sides: dict[bool, list[Item]] = {}
    for name, truth in (("then_branch", True), ("else_branch", False)):
        try:
            sides[truth] = call.inline(call.required(name), when=call[0] if truth else ~call[0])
        except ModelError as error:
            reason = error
    if len(sides) == 2:
        kept = _passes_on(call) if differ_in_rank(sides[True], sides[False]) else None
        if kept is None:
            return chosen(call, call[0], sides[True], sides[False])
        reason = call.error("its results have another rank than those of the other, which passes its operands on")
        del sides[not kept]
    if not sides:
        raise reason
    # Exporters put one branch for every shape or rate into a model: for these inputs only one of them makes sense.
    ((truth, side),) = sides.items()
    assert call.demand is not None
    call.warn(f"the {'else' if truth else 'then'} branch does not fit these inputs ({reason.message})")
    call.demand(call[0] if truth else ~call[0], "the inputs ask for the branch that does not fit their shapes")
    return side


def _passes_on(call: Call) -> bool | None:
    """The truth for which a node If computes nothing but passes values on, where the other branch computes; or None."""
    computes = {
        truth: any(n.op_type not in ("Identity", "Constant") for n in call.required(name).node)
        for name, truth in (("then_branch", True), ("else_branch", False))
    }
    return None if computes[True] == computes[False] else computes[False]


@onnx("Loop")
def loop(call: Call) -> list[Item]:
    """Unrolled: to the known number of rounds, or to a bound, and run time skips the rounds that are not wanted.

    What every round gives is stacked; where data decides about the number of rounds, so many slices are kept of it.
    """
    assert call.inline is not None
    body, trips = call.required("body"), call.optional(0)
    most, is_exact = _most_rounds(call, trips)
    asked = call.optional(1)
    condition: Value = constant(np.asarray(True)) if asked is None else asked.reshape()
    going = condition if trips is None else condition & (trips.reshape() > 0)
    state: list[Item] = [v for v in call.inputs[2:] if v is not None]
    collected: list[list[Value]] = [[] for _ in range(len(body.output) - 1 - len(state))]
    count, k = constant(np.asarray(0, np.int64)), 0
    while _is_possible(going) and (most is None or k < most):
        if k == _MAX_ROUNDS:
            raise call.error(f"a loop of more than {_MAX_ROUNDS} rounds is not unrolled")
        is_open = decided(going) is None
        if is_open and most is None:
            inputs = tuple(n.attributes["name"] for n in topological([going.node]) if n.op == "input")
            values = " ".join(f"--value {printable(name)}=..." for name in inputs)
            raise UnknownValue(
                "whether the loop goes on depends on the inputs of the model",
                inputs=inputs,
                hint=f"say how many rounds it takes at most: --loop NODE=16; or what to build the model for: {values}",
                where=call.label,
            )
        results = call.inline(
            body, [constant(np.asarray(k, np.int64)), going, *state], f"[{k}]", going if is_open else None
        )
        again, new, series = results[0], results[1 : 1 + len(state)], results[1 + len(state) :]
        assert isinstance(again, Value)
        if is_open:
            new = chosen(call, going, new, state)
            series = chosen(call, going, series, [_nothing(v) for v in series])
        state = new
        _collect(call, collected, series)
        count = count + going.cast("i64")
        k += 1
        going = going & again.reshape()
        going = going if trips is None else going & (trips.reshape() > k)
    if _is_possible(going) and not is_exact:
        assert call.demand is not None
        call.demand(~going, f"a loop would take more than {most} rounds")
    if not all(collected):
        raise call.error("a loop of no rounds has results of unknown shape")
    stacked = [_stacked(series, 0) for series in collected]
    return [*state, *(call.counted(series, count) if isinstance(series, Value) else series for series in stacked)]


def _most_rounds(call: Call, trips: Value | None) -> tuple[int | None, bool]:
    """Largest number of iterations, as far as it is known; and whether no run can exceed it."""
    known = None if trips is None else known_elements(trips)
    if known is not None and upper(known[0]) <= _MAX_ROUNDS:
        return upper(known[0]), True
    return call.rounds, False  # exporters of conditional loops write the greatest number there is


def _is_possible(going: Value) -> bool:
    """Can the truth value be true?"""
    return decided(going) is not False


def _nothing(item: Item) -> Item:
    """Placeholder for the result of an iteration that is not executed."""
    return full(item.shape, 0, item.dtype) if isinstance(item, Value) else item


def _collect(call: Call, collected: list[list[Value]], results: list[Item]) -> None:
    """Add what one round gives to the series that are stacked at the end."""
    for series, value in zip(collected, results):
        if not isinstance(value, Value):
            raise call.error("a loop cannot stack sequences of tensors")
        series.append(value)


@onnx("Scan")
def scan(call: Call) -> list[Item]:
    """All rounds at once where they do not depend on one another; else one copy of the body for every slice."""
    operands = call.operands
    count = call.required("num_scan_inputs")
    if not 1 <= count <= len(operands):
        raise call.error(f"{count} of {len(operands)} operands cannot be scanned")
    if call.opset < 9:
        return _scan_of_batches(call, operands, count)
    axes = call.attribute("scan_input_axes") or [0] * count
    backwards = _directions(call, "scan_input_directions", count)
    given = call.attribute("scan_output_axes")
    stacked: list[Item] = []
    together = _together(call, operands, count, axes, backwards)
    if together is not None:
        state = operands[: len(operands) - count]
        turned = _directions(call, "scan_output_directions", len(together))
        for k, series in enumerate(together):
            axis = normalize_axis((given or [0] * len(together))[k], series.rank)
            inner = range(1, series.rank)
            flipped = series.flip(0) if turned[k] else series
            stacked.append(flipped.transpose(*inner[:axis], 0, *inner[axis:]))
        return [*state, *stacked]
    state, rounds = _scanned(call, operands, count, axes, backwards, "")
    turned = _directions(call, "scan_output_directions", len(rounds))
    for k, values in enumerate(rounds):
        values = values[::-1] if turned[k] else values
        stacked.append(_stacked(values, normalize_axis((given or [0] * len(rounds))[k], values[0].rank + 1)))
    return [*state, *stacked]


def _together(
    call: Call, operands: list[Value], count: int, axes: Sequence[int], backwards: Sequence[int]
) -> list[Value] | None:
    """The series that a scan stacks, rounds in front, where no round depends on the one before; else None."""
    assert call.inline is not None
    state, scanned = operands[: len(operands) - count], operands[len(operands) - count :]
    slices: dict[Node, Value] = {}
    for k, (v, given, is_turned) in enumerate(zip(scanned, axes, backwards)):
        axis = normalize_axis(given, v.rank)
        front = v.transpose(axis, *(d for d in range(v.rank) if d != axis))
        one = placeholder(f"slice {k} of {call.label}", Type(v.dtype, front.shape[1:]))
        slices[one] = front.flip(0) if is_turned else front
    if len({v.shape[0] for v in slices.values()}) != 1 or 0 in (v.shape[0] for v in slices.values()):
        return None
    try:
        found = call.inline(call.required("body"), [*state, *map(Value, slices)], pure=True)
        if not all(isinstance(v, Value) for v in found):
            return None
        results = values_of(found)
        if any(new.node is not old.node for new, old in zip(results, state)):
            return None
        return [all_rounds(v.node, slices) for v in results[len(state) :]]
    except (ModelError, Apart):
        return None


def _directions(call: Call, name: str, count: int) -> list[int]:
    """For each operand or result of a scan: 1 where it is walked backwards."""
    given = call.attribute(name)
    found = [0] * count if given is None else list(given)
    if len(found) != count or not set(found) <= {0, 1}:
        raise call.error(f"{name} {found} for {count} tensors", "there is a 0 or a 1 for each")
    return found


def _scan_of_batches(call: Call, operands: list[Value], count: int) -> list[Item]:
    """Operator set 8: every operand has a batch dimension, and each of its entries is scanned by itself."""
    if call.item(0) is not None:
        raise call.error("a scan of sequences of several lengths is not supported", "export with opset_version=11")
    backwards = _directions(call, "directions", count)
    results: list[list[Value]] = []
    for b in range(operands[0].shape[0]):
        own = [v.part(0, b, b + 1).squeeze(0) for v in operands]
        state, series = _scanned(call, own, count, [0] * count, backwards, f"[{b}]")
        results.append([*state, *(_stacked(values, 0) for values in series)])
    if not results:
        raise call.error("a scan of no batches has results of unknown shape")
    return [_stacked([batch[k] for batch in results], 0) for k in range(len(results[0]))]


def _scanned(
    call: Call, operands: list[Value], count: int, axes: Sequence[int], backwards: Sequence[int], suffix: str
) -> tuple[list[Value], list[list[Value]]]:
    """The state after the last round, and what every round adds to each of the stacked results."""
    assert call.inline is not None
    body = call.required("body")
    state, scanned = operands[: len(operands) - count], operands[len(operands) - count :]
    axes = [normalize_axis(a, v.rank) for a, v in zip(axes, scanned)]
    rounds = scanned[0].shape[axes[0]]
    if isinstance(rounds, Expr):
        raise call.error("a scan over a dimension of open length", "build it for one length with --shape")
    if rounds > _MAX_ROUNDS:
        raise call.error(f"a scan of more than {_MAX_ROUNDS} rounds is not unrolled")
    collected: list[list[Value]] = [[] for _ in range(len(body.output) - len(state))]
    for k in range(rounds):
        places = [rounds - 1 - k if b else k for b in backwards]
        slices = [v.part(a, p, p + 1).squeeze(a) for v, a, p in zip(scanned, axes, places)]
        results = values_of(call.inline(body, [*state, *slices], f"{suffix}[{k}]"))
        state = results[: len(state)]
        _collect(call, collected, [*results[len(state) :]])
    if not all(collected):
        raise call.error("a scan of no rounds has results of unknown shape")
    return state, collected


def _stacked(values: Sequence[Value], axis: int) -> Value:
    return concat([v.unsqueeze(axis) for v in values], axis)

"""Control flow that is decided at build time: branches are chosen, loops unrolled."""

from __future__ import annotations

import numpy as np

from edgec.errors import ModelError
from edgec.frontend.branches import chosen
from edgec.frontend.call import Call, onnx
from edgec.frontend.values import Value, computed, concat, constant, normalize_axis

#: A loop of more rounds would make a program nobody wants to compile.
_MAX_ROUNDS = 4096


@onnx("If")
def if_(call: Call) -> list[Value]:
    """A known condition lowers one branch alone; else there are both, and run time skips the kernels of the other."""
    assert call.inline is not None
    known = computed(call[0])
    if known is not None:
        return call.inline(call.required("then_branch" if known.reshape(-1)[0] else "else_branch"))
    sides: dict[bool, list[Value]] = {}
    for name, truth in (("then_branch", True), ("else_branch", False)):
        try:
            sides[truth] = call.inline(call.required(name))
        except ModelError as error:
            reason = error
    if len(sides) == 2:
        return chosen(call, call[0], sides[True], sides[False])
    if not sides:
        raise reason
    # Exporters put one branch for every shape or rate into a model: for these inputs only one of them makes sense.
    ((truth, side),) = sides.items()
    assert call.demand is not None
    call.warn(f"the {'else' if truth else 'then'} branch does not fit these inputs ({reason.message})")
    call.demand(call[0] if truth else ~call[0], "the inputs ask for the branch that does not fit their shapes")
    return side


@onnx("Loop")
def loop(call: Call) -> list[Value]:
    """The number of rounds must be known: from the trip count, or from a condition that constants decide."""
    assert call.inline is not None
    body = call.required("body")
    rounds = int(call.constant(0).reshape(-1)[0]) if call.optional(0) is not None else _MAX_ROUNDS + 1
    going = call.optional(1) is None or bool(call.constant(1).reshape(-1)[0])
    state = [v for v in call.inputs[2:] if v is not None]
    condition = constant(np.asarray(going))
    collected: list[list[Value]] = [[] for _ in range(len(body.output) - 1 - len(state))]
    k = 0
    while going and k < rounds:
        if k == _MAX_ROUNDS:
            raise call.error(f"a loop of more than {_MAX_ROUNDS} rounds is not unrolled")
        results = call.inline(body, [constant(np.asarray(k, np.int64)), condition, *state], f"[{k}]")
        condition, state = results[0], results[1 : 1 + len(state)]
        for series, value in zip(collected, results[1 + len(state) :]):
            series.append(value)
        decided = computed(condition)
        if decided is None:
            raise call.error(
                "whether the loop goes on depends on the inputs of the model",
                "export it with a fixed number of rounds",
            )
        going = bool(decided.reshape(-1)[0])
        k += 1
    if not all(collected):
        raise call.error("a loop of no rounds has results of unknown shape")
    return [*state, *(concat([v.unsqueeze(0) for v in series], 0) for series in collected)]


@onnx("Scan")
def scan(call: Call) -> list[Value]:
    """Unrolled: one copy of the body for every slice of the scanned inputs."""
    assert call.inline is not None
    body, count = call.required("body"), call.required("num_scan_inputs")
    if call.opset < 9:
        raise call.error("Scan of operator set 8 is not supported", "export the model with opset_version=11 or more")
    operands = call.operands
    state, scanned = operands[: len(operands) - count], operands[len(operands) - count :]
    outputs = len(body.output) - len(state)
    axes = [normalize_axis(a, v.rank) for a, v in zip(call.attribute("scan_input_axes") or [0] * count, scanned)]
    backwards = call.attribute("scan_input_directions") or [0] * count
    rounds = scanned[0].shape[axes[0]]
    if rounds > _MAX_ROUNDS:
        raise call.error(f"a scan of more than {_MAX_ROUNDS} rounds is not unrolled")
    collected: list[list[Value]] = [[] for _ in range(outputs)]
    for k in range(rounds):
        places = [rounds - 1 - k if b else k for b in backwards]
        slices = [v.part(a, p, p + 1).squeeze(a) for v, a, p in zip(scanned, axes, places)]
        results = call.inline(body, [*state, *slices], f"[{k}]")
        state = results[: len(state)]
        for series, value in zip(collected, results[len(state) :]):
            series.append(value)
    stacked = []
    for k, series in enumerate(collected):
        if not series:
            raise call.error("a scan of no rounds has results of unknown shape")
        if (call.attribute("scan_output_directions") or [0] * outputs)[k]:
            series = series[::-1]
        axis = normalize_axis((call.attribute("scan_output_axes") or [0] * outputs)[k], series[0].rank + 1)
        stacked.append(concat([v.unsqueeze(axis) for v in series], axis))
    return [*state, *stacked]

"""Control flow: subgraphs in the place of their call; one of two that data chooses is a branch at run time."""

from __future__ import annotations

from collections.abc import Sequence

from edgec.errors import ModelError
from edgec.frontend.tflite.call import TfliteCall, tflite
from edgec.frontend.values import Value, computed, emit
from edgec.text import printable


@tflite("CALL")
def called(call: TfliteCall) -> list[Value]:
    return call.inline(int(call.option("subgraph")), call.inputs)


@tflite("IF")
def if_(call: TfliteCall) -> list[Value]:
    """A known condition lowers one side alone; else there are both, and run time skips the kernels of the other."""
    condition, operands = call[0].reshape(), call.inputs[1:]
    known = computed(condition)
    if known is not None:
        return _side(call, bool(known), operands)
    sides = []
    for truth in (True, False):
        before = {name: state.value for name, state in call.states.items()}
        sides.append(_side(call, truth, operands))
        for name, state in call.states.items():
            if state.value is not before.get(name) and state.value is not state.given:
                raise ModelError(
                    f"it assigns the variable '{printable(name)}' in a branch, and data decides which is taken",
                    hint="convert the model with the assignment behind the branch",
                )
    return [_either(condition, a, b) for a, b in zip(*sides, strict=True)]


@tflite("WHILE")
def while_(call: TfliteCall) -> list[Value]:
    """Unrolled: what decides about the rounds has to be known at build time."""
    values: Sequence[Value | None] = call.inputs
    while True:
        (going,) = call.inline(int(call.option("cond_subgraph_index")), values)
        known = computed(going.reshape())
        if known is None:
            raise ModelError(
                "how many rounds it takes depends on the network's inputs",
                hint="fix the inputs it depends on with --value NAME=..., or convert the model with a fixed number",
            )
        if not known:
            return [call[k] if v is None else v for k, v in enumerate(values)]
        values = call.inline(int(call.option("body_subgraph_index")), values)


def _side(call: TfliteCall, truth: bool, operands: Sequence[Value | None]) -> list[Value]:
    return call.inline(int(call.option("then_subgraph_index" if truth else "else_subgraph_index")), operands)


def _either(condition: Value, then: Value, otherwise: Value) -> Value:
    if then.node is otherwise.node:
        return then
    if then.type != otherwise.type:
        raise ModelError(
            f"its branches give {then.type} and {otherwise.type}, and data decides which",
            hint="give the condition at build time with --value",
        )
    return emit("branch", condition, then, otherwise)

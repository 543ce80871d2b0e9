"""Variables: what a network remembers between runs. See `edgec.frontend.states` for what they become."""

from __future__ import annotations

import numpy as np

from edgec.errors import ModelError
from edgec.frontend.tflite.call import State, TfliteCall, tflite
from edgec.frontend.tflite.integer import is_quantized
from edgec.frontend.tflite.model import Tensor
from edgec.frontend.values import Value, check_table, computed
from edgec.ir.types import DTYPES
from edgec.text import identifier, printable


@tflite("VAR_HANDLE")
def var_handle(call: TfliteCall) -> list[Value]:
    """A handle names its variable; it is no data."""
    call.handles[call.operator.outputs[0]] = f"{call.option('container', '')}/{call.option('shared_name', '')}"
    return []


@tflite("CALL_ONCE")
def call_once(call: TfliteCall) -> list[Value]:
    """A subgraph that runs before the first run of the network: what it assigns are initial values."""
    before = dict(call.states)
    call.inline(int(call.option("init_subgraph_index")), ())
    for name, state in call.states.items():
        if before.get(name) is state and state.value is None:
            continue
        value = None if state.value is None else computed(state.value)
        if value is None:
            raise ModelError(f"the initial value of '{printable(name)}' is not known at build time")
        state.initial, state.value = value, None
    return []


def _variable(call: TfliteCall) -> str:
    try:
        return call.handles[call.operator.inputs[0]]
    except (KeyError, IndexError):
        raise ModelError("the variable is not named by a VAR_HANDLE of this subgraph") from None


@tflite("READ_VARIABLE")
def read_variable(call: TfliteCall) -> Value:
    name = _variable(call)
    if name not in call.states:
        call.states[name] = _new(call, name, start(call.result()))
    return call.states[name].read(call.make_state)


@tflite("ASSIGN_VARIABLE")
def assign_variable(call: TfliteCall) -> list[Value]:
    name, value = _variable(call), call[1]
    if name not in call.states:
        call.states[name] = _new(call, name, start(call.tensor(1)))
    call.states[name].value, call.states[name].tensor = value, call.operator.inputs[1]
    return []


def start(tensor: Tensor) -> np.ndarray:
    """Initial value of a variable without one in the file: real zeros."""
    if tensor.dtype not in DTYPES:
        raise ModelError(f"a variable of type {tensor.dtype} is not supported")
    zero = tensor.quantized.zero if is_quantized(tensor) else 0
    check_table(*tensor.shape)
    return np.full(tensor.shape, zero, DTYPES[tensor.dtype])


def _new(call: TfliteCall, name: str, initial: np.ndarray) -> State:
    return State(state_name(call, name), initial)


def state_name(call: TfliteCall, name: str) -> str:
    """Name of the input that holds a variable: what the file calls it, as an identifier that is not taken."""
    short = identifier(name, "variable").removeprefix("state_")
    taken = {state.name for state in call.states.values()}
    k, unique = 1, f"state_{short}"
    while unique in taken:
        unique, k = f"state_{short}_{k}", k + 1
    return unique


def remembered(call: TfliteCall, k: int) -> State:
    """Operand k, a tensor that the file marks as a variable: it keeps its value between runs."""
    tensor = call.tensor(k)
    if not tensor.variable:
        raise ModelError(f"operand {k} is a state, but '{printable(tensor.name)}' is not marked as a variable")
    key = f"tensor {call.operator.inputs[k]}"
    if key not in call.states:
        call.states[key] = State(state_name(call, tensor.name), start(tensor), tensor=call.operator.inputs[k])
    return call.states[key]

"""Recurrent networks over a sequence of any length: one step after the other inside one kernel.

What the input contributes to the gates does not depend on the state: it is a matrix product over the whole sequence,
outside. A step is the product of the state with the recurrent weights, and a few functions of each element.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.errors import ModelError
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.functions import FUNCTIONS
from edgec.ir.graph import Procedure, Rounds
from edgec.ir.registry import Tensor, procedure
from edgec.ir.types import Type
from edgec.ops.cells import Activation, Cell

#: Columns of a panel of the recurrent weights: a whole number of vectors on every device.
PANEL = 32
#: Rows of the batch that share one reading of the weights.
ROWS = 4


@dataclass(frozen=True)
class Phase:
    """A product of a step and the functions of each element after it.

    The vector ``source`` times operand ``weights`` [panels, hidden, PANEL] are ``columns`` sums, which lie from
    ``column`` on. ``updates`` are the new elements by the name of their vector, over the variable ``lane``.
    """

    weights: int
    source: str
    column: int
    columns: int
    updates: tuple[tuple[str, Expr], ...]

    @property
    def panels(self) -> int:
        return -(-self.columns // PANEL)


@procedure
def recurrence(
    x: Tensor,
    bias: Tensor,
    *rest: Tensor,
    kind: str,
    activations: tuple[Activation, ...],
    clip: float = 0.0,
    reset_after: bool = False,
    coupled: bool = False,
    peepholes: bool = False,
    lengths: bool = False,
    backwards: bool = False,
) -> Procedure:
    """y [T + states, B, H]: the outputs of T steps, then the last state (hidden; for an LSTM, then the cell).

    ``x`` [T, B, gates * H] is what the input contributes, ``bias`` [gates * H] belongs to the state's product. Then
    come the weights of each product as panels [ceil(gates * H / 32), H, 32], the initial states [B, H], with
    ``peepholes`` those of an LSTM [3 * H], with ``lengths`` the steps of each sequence [B] (i64): after its end a
    sequence gives zeros and keeps its state. ``backwards`` goes from the last step to the first.
    """
    cell = Cell(kind, activations, clip, reset_after, coupled, peepholes)
    if x.rank != 3 or x.shape[2] % cell.gates:
        raise ModelError(f"gates of type {x.type} for a {kind}")
    steps, batch, width = x.shape
    hidden = width // cell.gates
    products = len(cell.products)
    expected = [
        *(Type(x.dtype, (-(-g * hidden // PANEL), hidden, PANEL)) for g in cell.products),
        *(Type(x.dtype, (batch, hidden)) for _ in range(cell.states)),
        *([Type(x.dtype, (3 * hidden,))] if peepholes else []),
        *([Type("i64", (batch,))] if lengths else []),
    ]
    if [t.type for t in rest] != expected or bias.type != Type(x.dtype, (width,)):
        raise ModelError(f"operands {[str(t.type) for t in (bias, *rest)]} of a {kind} of gates {x.type}")

    sums = sum(_panel_columns(cell, hidden))

    def compute(gates: np.ndarray, b: np.ndarray, *others: np.ndarray) -> np.ndarray:
        return _computed(cell, gates, b, others, lengths, backwards)

    return Procedure(
        Type(x.dtype, (steps + cell.states, batch, hidden)),
        compute,
        tasks=X.plain(-(-batch // ROWS)),
        steps=steps * batch * width * (2 * hidden + 8),
        on_lanes=True,
        scratch=4 * ROWS * (sums + hidden),
        # The first states, then of every step each product and what is computed from its sums.
        rounds=Rounds(X.plain(2 * products * steps + 1), X.plain(4 * batch * (sums + hidden))),
        sizes={
            "time": steps,
            "batch": batch,
            "hidden": hidden,
            "width": width,
            "rows": ROWS,
            "panel": PANEL,
            "sums": sums,
            "states": cell.states,
            # Which operands these are.
            "initial": tuple(range(2 + products, 2 + products + cell.states)),
            "ends": 1 + len(rest) if lengths else None,
            "peephole": 1 + len(rest) - lengths if peepholes else None,
            "lane": _lane(hidden),
            "phases": _phases(cell, hidden),
        },
    )


def _panel_columns(cell: Cell, hidden: int) -> list[int]:
    """Columns of every product, those that fill up the last panel included."""
    return [-(-g * hidden // PANEL) * PANEL for g in cell.products]


def _lane(hidden: int) -> Expr:
    return X.var("j", max(hidden, 2))  # one of extent 1 would be no variable


def _apply(name: str, *args: Any) -> Expr:
    return X.call(name, *(X.lift(a, "f32") for a in args))


def _phases(cell: Cell, hidden: int) -> tuple[Phase, ...]:
    """The products of a step, and the code after each: loads from the vectors x, bias, p, h, c and peephole."""
    j = _lane(hidden)

    def gates(slot: str, number: int) -> list[Expr]:
        return [X.load(slot, (j + g * hidden,), "f32") for g in range(number)]

    first = cell.products[0]
    x, bias, peepholes = gates("x", cell.gates), gates("bias", cell.gates), gates("peephole", 3)
    states = [X.load("h", (j,), "f32"), X.load("c", (j,), "f32")]
    p = [a + b for a, b in zip(gates("p", first), bias)]
    phases = []
    if len(cell.products) == 2:
        phases.append(Phase(2, "h", 0, first * hidden, (("s", cell.operand(_apply, x, p, states)),)))
        start = _panel_columns(cell, hidden)[0]
        p.append(X.load("p", (j + start,), "f32") + bias[2])
    new = cell.step(_apply, x, p, states, peepholes)
    columns = cell.products[-1] * hidden
    source, start = ("s", start) if phases else ("h", 0)
    return (*phases, Phase(2 + len(phases), source, start, columns, (("out", new[0]), *zip("hc", new))))


def _computed(
    cell: Cell, x: np.ndarray, bias: np.ndarray, rest: tuple[np.ndarray, ...], lengths: bool, backwards: bool
) -> np.ndarray:
    """The meaning, in numpy; every step of the whole batch at once."""
    steps, batch, width = x.shape
    hidden = width // cell.gates
    products = len(cell.products)
    weights = [w.transpose(1, 0, 2).reshape(hidden, -1) for w in rest[:products]]
    states = list(rest[products : products + cell.states])
    peepholes = list(rest[products + cell.states].reshape(3, hidden)) if cell.peepholes else []
    ends = rest[-1] if lengths else np.full(batch, steps)

    def apply(name: str, *args: Any) -> np.ndarray:
        result: np.ndarray = FUNCTIONS[name].numpy(
            *(np.asarray(a, x.dtype) if isinstance(a, float) else a for a in args)
        )
        return result

    def gates(values: np.ndarray) -> list[np.ndarray]:
        return [values[:, g * hidden : (g + 1) * hidden] for g in range(values.shape[1] // hidden)]

    y = np.zeros((steps + cell.states, batch, hidden), x.dtype)
    for t in reversed(range(steps)) if backwards else range(steps):
        first = cell.products[0] * hidden
        seen, p = gates(x[t]), gates((states[0] @ weights[0])[:, :first] + bias[:first])
        if products == 2:
            p += gates((cell.operand(apply, seen, p, states) @ weights[1])[:, :hidden] + bias[first:])
        alive = (t < ends)[:, None]
        new = cell.step(apply, seen, p, states, peepholes)
        states = [np.where(alive, a, b) for a, b in zip(new, states)]
        y[t] = np.where(alive, new[0], 0)
    for k, state in enumerate(states):
        y[steps + k] = state
    return y

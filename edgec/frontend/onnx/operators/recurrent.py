"""Recurrent networks: short sequences are unrolled, long and open ones are one kernel that loops.

What does not depend on the state is one matrix product over the whole sequence; a step is what is left. Unrolled, its
products are kernels like all others, which threads share; a loop does not grow with the sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace

from edgec.errors import ModelError
from edgec.frontend.onnx.baked_batch import repeated
from edgec.frontend.onnx.call import Call, onnx
from edgec.frontend.onnx.indices import require_inside
from edgec.frontend.values import Value, concat, emit, full, select
from edgec.ir.expr import Expr, Extent
from edgec.ir.graph import Node
from edgec.ir.types import extent_text
from edgec.ops.cells import Cell, activations
from edgec.ops.recurrence import PANEL

#: A longer sequence is a loop.
_UNROLLED_STEPS = 16


@onnx("RNN")
def rnn(call: Call) -> list[Value]:
    return _recurrent(call, "rnn", ["Tanh"])


@onnx("GRU")
def gru(call: Call) -> list[Value]:
    return _recurrent(call, "gru", ["Sigmoid", "Tanh"])


@onnx("LSTM")
def lstm(call: Call) -> list[Value]:
    return lstm_of(call)


#: [rows, k] times weights of one direction: the product of a sequence with W, or of a state with R.
Product = Callable[[Value], Value]


def lstm_of(call: Call, products: Sequence[tuple[Product, Product]] = ()) -> list[Value]:
    """An LSTM; ``products``, where given, compute the products with W and R of every direction."""
    return _recurrent(call, "lstm", ["Sigmoid", "Tanh", "Tanh"], products)


def _recurrent(
    call: Call, kind: str, activations: Sequence[str], products: Sequence[tuple[Product, Product]] = ()
) -> list[Value]:
    """Y [T, D, B, H] and the last states [D, B, H] of every direction (with ``layout`` 1 the batch comes first)."""
    x = call[0].transpose(1, 0, 2) if call.attribute("layout") else call[0]
    call = _in_batches(call, x.shape[1] if x.rank == 3 else 1)
    directions = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[call.attribute("direction")]
    _check(call, kind, x, len(directions))
    lengths = call.optional(4)
    if lengths is not None:
        require_inside(call, lengths, x.shape[0] + 1, 0)
    outputs, finals = [], []
    for d, backwards in enumerate(directions):
        own = products[d] if products else None
        one = _direction(call, _cell(call, kind, activations, d), d, x, backwards, own)
        y, last = one.looped() if one.is_long else one.unrolled()
        outputs.append(y.unsqueeze(1))
        finals.append(last)
    y = concat(outputs, 1)
    states = [concat([last[k].unsqueeze(0) for last in finals], 0) for k in range(len(finals[0]))]
    if call.attribute("layout"):
        return [y.transpose(2, 0, 1, 3), *(v.transpose(1, 0, 2) for v in states)]
    return [y, *states]


def _in_batches(call: Call, batch: Extent) -> Call:
    """The call with first states that are constants for a batch of one repeated over a batch that is open."""
    axis = 0 if call.attribute("layout") else 1
    states = {k: value for k in (5, 6) if (value := call.optional(k)) is not None}
    inputs = [repeated(call, k, states[k], axis, batch) if k in states else v for k, v in enumerate(call.inputs)]
    return replace(call, inputs=tuple(inputs))


_GATES = {"rnn": 1, "gru": 3, "lstm": 4}


def _check(call: Call, kind: str, x: Value, directions: int) -> None:
    """Raises ModelError where weights, biases or states are not of the shapes that the standard gives them."""
    r = call[2]
    if x.rank != 3 or r.rank != 3:
        raise call.error(f"the sequence {x.type} and the weights R {r.type} must be of three dimensions")
    (_, batch, inputs), hidden, gates = x.shape, r.shape[2], _GATES[kind]
    asked = call.attribute("hidden_size")
    if asked is not None and asked != hidden:
        raise call.error(f"hidden_size is {asked}, but the weights R {r.type} are those of {hidden}")
    state = (batch, directions, hidden) if call.attribute("layout") else (directions, batch, hidden)
    wanted = {
        1: ("the weights W", (directions, gates * hidden, inputs)),
        2: ("the weights R", (directions, gates * hidden, hidden)),
        3: ("the biases B", (directions, 2 * gates * hidden)),
        4: ("the lengths sequence_lens", (batch,)),
        5: ("the states initial_h", state),
        6: ("the states initial_c", state),
        7: ("the peepholes P", (directions, 3 * hidden)),
    }
    for k, (name, shape) in wanted.items():
        given = call.optional(k)
        if given is not None and (given.rank != len(shape) or any(n != m for n, m in zip(given.shape, shape))):
            takes = f"[{', '.join(map(extent_text, shape))}]"
            hint = f"{call.operator} of {hidden} units and {directions} direction(s) takes {takes}"
            raise call.error(f"{name} {given.type} do not fit", hint)


def _cell(call: Call, kind: str, defaults: Sequence[str], direction: int) -> Cell:
    names = call.attribute("activations") or list(defaults) * 2
    alphas, betas = call.attribute("activation_alpha") or (), call.attribute("activation_beta") or ()
    first = direction * len(defaults)
    found = activations(names, alphas, betas)
    chosen = tuple(a for a in found[first : first + len(defaults)] if a is not None)
    if len(chosen) < len(defaults):
        raise call.error(f"activations {list(names)} are not known")
    return Cell(
        kind,
        chosen,
        call.attribute("clip") or 0.0,
        bool(call.attribute("linear_before_reset")),
        bool(call.attribute("input_forget")),
        call.optional(7) is not None,
    )


def _direction(
    call: Call, cell: Cell, direction: int, x: Value, backwards: bool, products: tuple[Product, Product] | None
) -> _Direction:
    """One direction's share of W [D, G*H, I], R [D, G*H, H], B [D, 2*G*H], the states [D, B, H] and P [D, 3*H]."""

    def part(k: int) -> Value | None:
        value = call.optional(k)
        return None if value is None else value.part(0, direction, direction + 1).squeeze(0)

    w, r, both, peepholes = part(1), part(2), part(3), part(7)
    if w is None or r is None:
        raise call.error("its weights are missing")
    steps, batch, inputs = x.shape
    width, hidden = r.shape
    both = full((2 * width,), 0.0, x.dtype) if both is None else both
    rows = x.reshape(steps * batch, inputs)
    gates = (rows @ w.swap(0, 1) if products is None else products[0](rows)) + both.part(0, 0, width)
    states = []
    for k in range(5, 5 + cell.states):
        given = call.optional(k)
        if given is None:
            states.append(full((batch, hidden), 0.0, x.dtype))
            continue
        given = given.transpose(1, 0, 2) if call.attribute("layout") else given
        states.append(given.part(0, direction, direction + 1).squeeze(0))
    return _Direction(
        cell, gates.reshape(steps, batch, width), r.swap(0, 1), both.part(0, width, 2 * width), tuple(states),
        peepholes, call.optional(4), backwards, None if products is None else products[1],
    )  # fmt: skip


@dataclass(frozen=True)
class _Direction:
    """A sequence of gates [T, B, G*H] and what a step needs: weights [H, G*H], bias [G*H], states [B, H]."""

    cell: Cell
    gates: Value
    weights: Value
    bias: Value
    states: tuple[Value, ...]
    peepholes: Value | None
    lengths: Value | None
    backwards: bool
    #: Product of a state with all weights, where it is another than with ``weights``.
    product: Product | None = None

    @property
    def steps(self) -> Extent:
        steps: Extent = self.gates.shape[0]
        return steps

    @property
    def hidden(self) -> int:
        hidden: int = self.weights.shape[0]
        return hidden

    @property
    def is_long(self) -> bool:
        if isinstance(self.steps, Expr):
            return True
        # The loop computes in fp32.
        return self.steps > _UNROLLED_STEPS and self.gates.dtype != "f64"

    def columns(self) -> list[tuple[Value, Value]]:
        """Weights and bias of every product of a step."""
        found, start = [], 0
        for gates in self.cell.products:
            end = start + gates * self.hidden
            found.append((self.weights.part(1, start, end), self.bias.part(0, start, end)))
            start = end
        return found

    def split(self, x: Value) -> list[Value]:
        """[B, n*H] as n tensors [B, H]."""
        return [x.part(1, k, k + self.hidden) for k in range(0, x.shape[1], self.hidden)]

    def unrolled(self) -> tuple[Value, tuple[Value, ...]]:
        """The outputs [T, B, H] and the last states."""
        current, series = self.states, {}
        peepholes = [] if self.peepholes is None else self.split(self.peepholes.unsqueeze(0))
        places = range(int(self.steps))
        for t in reversed(places) if self.backwards else places:
            x = self.split(self.gates.part(0, t, t + 1).squeeze(0))
            (first, bias), *second = self.columns()
            p = self.split((current[0] @ first if self.product is None else self.product(current[0])) + bias)
            for weights, bias in second:
                p.append(self.cell.operand(emit, x, p, current) @ weights + bias)
            new = self.cell.step(emit, x, p, current, peepholes)
            series[t] = new[0]
            if self.lengths is not None and not _reaches(self.lengths, t):
                alive = (self.lengths.cast("i64") > t).unsqueeze(1)
                series[t] = select(alive, new[0], 0.0)
                new = tuple(select(alive, a, b) for a, b in zip(new, current))
            current = new
        if not series:
            return full((0, *current[0].shape), 0.0, current[0].dtype), current
        return concat([series[t].unsqueeze(0) for t in places], 0), current

    def looped(self) -> tuple[Value, tuple[Value, ...]]:
        """The same by the procedure ``recurrence``, in fp32."""
        dtype = self.gates.dtype
        if dtype == "f64":
            raise ModelError(
                "a sequence of open length in double precision", hint="build for one length with --shape, or use floats"
            )
        operands = [self.gates, self.bias, *(_panels(w) for w, _ in self.columns()), *self.states]
        if self.peepholes is not None:
            operands.append(self.peepholes)
        operands = [v.cast("f32") for v in operands]
        if self.lengths is not None:
            operands.append(self.lengths.cast("i64"))
        y = emit(
            "recurrence", *operands, **asdict(self.cell), lengths=self.lengths is not None, backwards=self.backwards
        ).cast(dtype)
        last = (y.part(0, self.steps + k, self.steps + k + 1).squeeze(0) for k in range(self.cell.states))
        return y.part(0, 0, self.steps), tuple(last)


def steps_of(loop: Node) -> Node:
    """Results of the procedure ``recurrence``, as graphs of its steps."""
    given = loop.attributes
    cell = Cell(**{f.name: given[f.name] for f in fields(Cell)})
    gates, bias, *rest = map(Value, loop.args)
    hidden, products = gates.shape[2] // cell.gates, len(cell.products)
    weights = [
        panels.transpose(1, 0, 2).reshape(hidden, panels.shape[0] * PANEL).part(1, 0, count * hidden)
        for panels, count in zip(rest, cell.products)
    ]
    states, rest = tuple(rest[products : products + cell.states]), rest[products + cell.states :]
    peepholes, lengths = rest[0] if cell.peepholes else None, rest[-1] if given["lengths"] else None
    one = _Direction(cell, gates, concat(weights, 1), bias, states, peepholes, lengths, bool(given["backwards"]))
    y, last = one.unrolled()
    return concat([y, *(state.unsqueeze(0) for state in last)], 0).node


def _panels(weights: Value) -> Value:
    """[H, columns] as [panels, H, PANEL], the last one filled up with zeros."""
    hidden, columns = weights.shape
    filled = weights.pad((0, 0), (0, -columns % PANEL))
    return filled.reshape(hidden, -(-columns // PANEL), PANEL).transpose(1, 0, 2)


def _reaches(lengths: Value, t: int) -> bool:
    """True if every sequence is known to be longer than t."""
    return lengths.is_const and bool((lengths.node.value > t).all())

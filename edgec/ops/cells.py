"""The cells of recurrent networks: what one step makes of the input's gates, the state's gates and the state.

Each cell is written once, over anything that adds and multiplies: tensors of the graph (an unrolled sequence),
expressions (the kernel's code) and numpy arrays (its meaning). ``apply(name, ...)`` is a scalar function of that kind.
Gates are numbered in ONNX's order. Definitions: https://onnx.ai/onnx/operators (LSTM, GRU, RNN).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Apply = Callable[..., Any]
#: A name, alpha and beta.
Activation = tuple[str, float, float]

_ACTIVATIONS: dict[str, Callable[[Apply, Any, float, float], Any]] = {
    "sigmoid": lambda f, x, a, b: f("sigmoid", x),
    "tanh": lambda f, x, a, b: f("tanh", x),
    "relu": lambda f, x, a, b: f("max", x, 0.0),
    "affine": lambda f, x, a, b: x * a + b,
    "leakyrelu": lambda f, x, a, b: f("select", f("lt", x, 0.0), x * a, x),
    "thresholdedrelu": lambda f, x, a, b: f("select", f("gt", x, a), x, 0.0),
    "scaledtanh": lambda f, x, a, b: f("tanh", x * b) * a,
    "hardsigmoid": lambda f, x, a, b: f("min", f("max", x * a + b, 0.0), 1.0),
    "elu": lambda f, x, a, b: f("select", f("lt", x, 0.0), f("expm1", x) * a, x),
    "softsign": lambda f, x, a, b: f("div", x, f("abs", x) + 1.0),
    "softplus": lambda f, x, a, b: f("log1p", f("exp", x)),
}
_ALPHA = {"leakyrelu": 0.01, "thresholdedrelu": 1.0, "hardsigmoid": 0.2, "elu": 1.0, "affine": 1.0, "scaledtanh": 1.0}
_BETA = {"hardsigmoid": 0.5, "scaledtanh": 1.0, "affine": 0.0}


def activation(name: str, alpha: float | None = None, beta: float | None = None) -> Activation | None:
    """An activation function with the standard's defaults; None when there is none of this name."""
    name = name.lower()
    if name not in _ACTIVATIONS:
        return None
    return name, _ALPHA.get(name, 1.0) if alpha is None else alpha, _BETA.get(name, 0.0) if beta is None else beta


def activations(
    names: Sequence[str], alphas: Sequence[float] = (), betas: Sequence[float] = ()
) -> list[Activation | None]:
    """Activation functions of these names; each that has an alpha or a beta takes the next of those given.

    None where there is none of a name.
    """
    next_alpha, next_beta = iter(alphas), iter(betas)
    found = []
    for name in names:
        key = name.lower()
        alpha = next(next_alpha, None) if key in _ALPHA else None
        beta = next(next_beta, None) if key in _BETA else None
        found.append(activation(name, alpha, beta))
    return found


@dataclass(frozen=True)
class Cell:
    """A kind of cell and its options; one ``kind`` is lstm, gru or rnn.

    ``clip`` bounds what goes into the gates' activations (0: it does not); ``reset_after`` is GRU's
    linear_before_reset, ``coupled`` LSTM's input_forget, ``peepholes`` whether LSTM's gates see its cell.
    """

    kind: str
    activations: tuple[Activation, ...]
    clip: float = 0.0
    reset_after: bool = False
    coupled: bool = False
    peepholes: bool = False

    @property
    def gates(self) -> int:
        return {"lstm": 4, "gru": 3, "rnn": 1}[self.kind]

    @property
    def states(self) -> int:
        return 2 if self.kind == "lstm" else 1

    @property
    def products(self) -> tuple[int, ...]:
        """Number of gates that each matmul of a step computes, in order; the first multiplies the hidden state."""
        return (2, 1) if self.kind == "gru" and not self.reset_after else (self.gates,)

    def _bounded(self, apply: Apply, k: int, x: Any) -> Any:
        name, alpha, beta = self.activations[k]
        # Gates are clipped before their activation; the cell on its way out is not (onnxruntime reads it so).
        x = apply("min", apply("max", x, -self.clip), self.clip) if self.clip and k < 2 else x
        return _ACTIVATIONS[name](apply, x, alpha, beta)

    def operand(self, apply: Apply, x: Sequence[Any], p: Sequence[Any], states: Sequence[Any]) -> Any:
        """Operand of the second matmul: the hidden state after its reset."""
        return self._bounded(apply, 0, x[1] + p[1]) * states[0]

    def step(
        self, apply: Apply, x: Sequence[Any], p: Sequence[Any], states: Sequence[Any], peepholes: Sequence[Any] = ()
    ) -> tuple[Any, ...]:
        """The new states, the output first. ``x`` and ``p``: the gates from the input and from the products."""

        def f(value: Any) -> Any:
            return self._bounded(apply, 0, value)

        def g(value: Any) -> Any:
            return self._bounded(apply, 1, value)

        if self.kind == "rnn":
            return (f(x[0] + p[0]),)
        if self.kind == "gru":
            update = f(x[0] + p[0])
            candidate = g(x[2] + f(x[1] + p[1]) * p[2] if self.reset_after else x[2] + p[2])
            return ((1.0 - update) * candidate + update * states[0],)
        cell = states[1]
        i, o, forget, c = (a + b for a, b in zip(x, p))
        i = f(i + peepholes[0] * cell if self.peepholes else i)
        if self.coupled:
            forget = 1.0 - i
        else:
            forget = f(forget + peepholes[2] * cell if self.peepholes else forget)
        new = forget * cell + i * g(c)
        o = f(o + peepholes[1] * new if self.peepholes else o)
        return o * self._bounded(apply, 2, new), new

"""Properties: sets of inputs, and what no output of theirs may be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite, prod

import numpy as np

from edgec.certify.domain import Domain
from edgec.certify.ranges import Array
from edgec.errors import UsageError
from edgec.ir.graph import Node
from edgec.ir.types import DTYPES, FLOATS, Type
from edgec.text import printable

#: Norms of a distance between inputs.
NORMS = ("inf", "2")


@dataclass(frozen=True)
class Clause:
    """Outputs that are forbidden: those with ``weights`` @ y <= ``limits``, all of them.

    ``weights`` [conditions, elements...] are by the name of the output.
    """

    weights: Mapping[str, Array]
    limits: Array

    def excess(self, outputs: Mapping[str, Array]) -> float:
        """The least limit at which all conditions would be met, less what it is: not above zero where they are."""
        count = len(self.limits)
        parts = (w.reshape(count, -1) @ outputs[n].astype(np.float64).reshape(-1) for n, w in self.weights.items())
        return float(np.max(sum(parts, np.zeros(count)) - self.limits))


@dataclass(frozen=True)
class Case:
    """A box of inputs by name, a ball in it where there is a ``radius``, and clauses none of which may be met there.

    ``goals`` are what is to be shown instead, a clause for each; they may be about values before an output.
    """

    low: Mapping[str, Array]
    high: Mapping[str, Array]
    clauses: tuple[Clause, ...]
    center: Mapping[str, Array] | None = None
    radius: float | None = None
    goals: tuple[Clause, ...] = ()

    def domain(self, inputs: Mapping[str, Node]) -> Domain:
        """The one box."""

        def boxed(values: Mapping[str, Array]) -> dict[Node, Array]:
            return {n: np.asarray(values[name], np.float64)[None] for name, n in inputs.items()}

        center = boxed(self.center) if self.center is not None else None
        return Domain(boxed(self.low), boxed(self.high), center, self.radius)


def read_number(text: str, where: str) -> float:
    """A number that is not below zero, or a fraction such as 2/255. Raises UsageError for anything else."""
    try:
        value = float(Fraction(text)) if "/" in text else float(text)
    except (ValueError, ZeroDivisionError, OverflowError):
        raise UsageError(f"'{printable(text)}' is no number", hint="write 0.01 or 2/255", where=where) from None
    if not isfinite(value) or value < 0:
        raise UsageError(f"{printable(text)} is no distance", hint="give a number that is not below zero", where=where)
    return value


def around(
    arrays: Mapping[str, Array],
    types: Mapping[str, Type],
    eps: float,
    norm: str = "inf",
    within: tuple[float, float] | None = None,
    clauses: tuple[Clause, ...] = (),
) -> Case:
    """Inputs at most ``eps`` from ``arrays``, between the numbers of ``within``.

    Raises UsageError for NaN among the arrays, and where none of the inputs near them is within.
    """
    low, high, center = {}, {}, {}
    for name, type in types.items():
        x = np.asarray(arrays[name], np.float64)
        if not np.isfinite(x).all():
            raise UsageError(f"'{printable(name)}' holds numbers that are not finite", where="--inputs")
        least, greatest = np.nextafter(x - eps, -np.inf), np.nextafter(x + eps, np.inf)
        if eps == 0:
            least, greatest = x, x
        if type.dtype not in FLOATS:
            limits = np.iinfo(DTYPES[type.dtype])
            least = np.maximum(np.ceil(x - eps), limits.min)
            greatest = np.minimum(np.floor(x + eps), limits.max)
        if within is not None:
            least, greatest = np.maximum(least, within[0]), np.minimum(greatest, within[1])
        if (least > greatest).any():
            raise UsageError(f"'{printable(name)}' is not within {within}", where="--within")
        low[name], high[name], center[name] = least, greatest, x
    ball = norm == "2"
    return Case(low, high, clauses, center if ball else None, eps * (1 + 1e-15) if ball else None)


def no_other_class(output: str, type: Type, label: int) -> tuple[Clause, ...]:
    """No element of the output may be as great as the one of the ``label``: a clause for each."""
    count = prod(type.shape)
    found = []
    for k in range(count):
        if k != label:
            weights = np.zeros((1, count))
            weights[0, label], weights[0, k] = 1, -1
            found.append(Clause({output: weights.reshape(1, *type.shape)}, np.zeros(1)))
    return tuple(found)


def first_met(clauses: Sequence[Clause], outputs: Mapping[str, Array]) -> int | None:
    """The number of a clause that these outputs meet; outputs that are no numbers meet the first."""
    if any(np.isnan(v.astype(np.float64)).any() for v in outputs.values()):
        return 0 if clauses else None
    return next((k for k, c in enumerate(clauses) if c.excess(outputs) <= 0), None)

"""The reader of .vnnlib files: bounds of inputs X_i, and linear conditions on outputs Y_j (https://www.vnnlib.org).

A file holds what must not be: a network has the property where no input in the box gives outputs that meet it. It
reads `declare-const`, `assert`, `and`, `or`, `<=`, `>=`, and sums and multiples of variables; anything else is refused.
Files may come from anybody: their size, depth and number of alternatives are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, prod
from pathlib import Path
from typing import Union

import numpy as np

from edgec.certify.properties import Case, Clause
from edgec.certify.ranges import Array
from edgec.errors import UsageError
from edgec.ir.types import Type
from edgec.text import printable
from edgec.untrusted import reason, regular

#: Bytes of a file, depth of its parentheses, and alternatives of its conditions, at most.
MOST_BYTES, MOST_DEPTH, MOST_CASES = 1 << 26, 64, 20_000
_TOKEN = re.compile(r"[()]|[^\s()]+")
_VARIABLE = re.compile(r"([XY])_(\d{1,9})\Z")

Term = Union[str, "list[Term]"]


@dataclass(frozen=True)
class Condition:
    """sum(weights[v] * v) <= limit, for variables such as X_0."""

    weights: Mapping[str, float]
    limit: float


def read(path: str | Path, inputs: Mapping[str, Type], outputs: Mapping[str, Type]) -> tuple[Case, ...]:
    """The cases of a property of a network. Raises UsageError for a file that does not read or does not fit."""
    where = printable(str(path))
    try:
        file = regular(path)
        if file.stat().st_size > MOST_BYTES:
            raise UsageError(f"more than {MOST_BYTES >> 20} MiB are no property", where=where)
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot be read: {reason(error)}", where=where) from None
    try:
        return cases(text, inputs, outputs)
    except UsageError as error:
        raise UsageError(error.message, hint=error.hint, where=where) from None


def cases(text: str, inputs: Mapping[str, Type], outputs: Mapping[str, Type]) -> tuple[Case, ...]:
    """The cases of the text of a property: one for each box of inputs."""
    declared: set[str] = set()
    alternatives: list[list[Condition]] = [[]]
    for term in _terms(text):
        if not isinstance(term, list) or not term:
            raise UsageError(f"'{_shown(term)}' is no command", hint="it is (assert ...) or (declare-const ...)")
        if term[0] in ("declare-const", "declare-fun"):
            name = term[1] if len(term) > 1 else ""
            if not isinstance(name, str) or not _VARIABLE.match(name):
                raise UsageError(f"a variable '{_shown(name)}'", hint="variables are X_0, X_1, ... and Y_0, Y_1, ...")
            declared.add(name)
        elif term[0] == "assert" and len(term) == 2:
            more = _alternatives(term[1])
            if len(alternatives) * len(more) > MOST_CASES:
                raise UsageError(f"the conditions have more than {MOST_CASES} alternatives")
            alternatives = [a + b for a in alternatives for b in more]
        elif term[0] not in ("set-logic", "check-sat", "set-info"):
            raise UsageError(f"'{_shown(term[0])}' is not read", hint="it reads declare-const and assert")
    return _gathered(alternatives, declared, inputs, outputs)


def _terms(text: str) -> Iterator[Term]:
    """The parenthesized terms of a text."""
    stack: list[list[Term]] = []
    for line in text.split("\n"):
        for token in _TOKEN.findall(line.partition(";")[0]):
            if token == "(":
                stack.append([])
                if len(stack) > MOST_DEPTH:
                    raise UsageError(f"parentheses more than {MOST_DEPTH} deep")
            elif token == ")":
                if not stack:
                    raise UsageError("a parenthesis is closed that was not opened")
                done = stack.pop()
                if not stack:
                    yield done
                else:
                    stack[-1].append(done)
            elif stack:
                stack[-1].append(token)
            else:
                raise UsageError(f"'{_shown(token)}' is outside of all parentheses")
    if stack:
        raise UsageError("a parenthesis is not closed")


def _shown(term: Term) -> str:
    return printable(term if isinstance(term, str) else "(" + " ".join(_shown(t) for t in term[:4]) + ")", 80)


def _alternatives(term: Term) -> list[list[Condition]]:
    """A condition as alternatives, each of which is a list of comparisons that all hold."""
    if not isinstance(term, list) or len(term) < 2:
        raise UsageError(f"'{_shown(term)}' is no condition")
    if term[0] == "or":
        found = [a for t in term[1:] for a in _alternatives(t)]
        if len(found) > MOST_CASES:
            raise UsageError(f"the conditions have more than {MOST_CASES} alternatives")
        return found
    if term[0] == "and":
        every: list[list[Condition]] = [[]]
        for t in term[1:]:
            more = _alternatives(t)
            if len(every) * len(more) > MOST_CASES:
                raise UsageError(f"the conditions have more than {MOST_CASES} alternatives")
            every = [a + b for a in every for b in more]
        return every
    if term[0] in ("<=", ">=") and len(term) == 3:
        (a, c), (b, d) = (_linear(t) for t in term[1:])
        sign = 1.0 if term[0] == "<=" else -1.0
        weights = {v: sign * (a.get(v, 0.0) - b.get(v, 0.0)) for v in {**a, **b}}
        return [[Condition({v: w for v, w in weights.items() if w}, sign * (d - c))]]
    raise UsageError(f"'{_shown(term[0])}' is no condition that is read", hint="it is one of and, or, <=, >=")


def _linear(term: Term) -> tuple[dict[str, float], float]:
    """A sum of multiples of variables, and a number."""
    if isinstance(term, str):
        if _VARIABLE.match(term):
            return {term: 1.0}, 0.0
        try:
            value = float(term)
        except ValueError:
            value = float("nan")
        if not isfinite(value):
            raise UsageError(f"'{_shown(term)}' is neither a number nor a variable")
        return {}, value
    if len(term) >= 2 and term[0] in ("+", "-"):
        parts = [_linear(t) for t in term[1:]]
        if term[0] == "-" and len(parts) == 1:
            parts = [({}, 0.0), *parts]
        weights, constant = dict(parts[0][0]), parts[0][1]
        sign = 1.0 if term[0] == "+" else -1.0
        for w, c in parts[1:]:
            constant += sign * c
            for v, k in w.items():
                weights[v] = weights.get(v, 0.0) + sign * k
        return weights, constant
    if len(term) == 3 and term[0] == "*":
        (a, c), (b, d) = (_linear(t) for t in term[1:])
        if not a or not b:
            return {v: w * (c if not a else d) for v, w in (a or b).items()}, c * d
    raise UsageError(f"'{_shown(term)}' is no sum of multiples of variables")


def _gathered(
    alternatives: Sequence[Sequence[Condition]],
    declared: set[str],
    inputs: Mapping[str, Type],
    outputs: Mapping[str, Type],
) -> tuple[Case, ...]:
    """Cases by their boxes, each with the clauses of all alternatives that have it."""
    sizes = {kind: sum(prod(t.shape) for t in types.values()) for kind, types in (("X", inputs), ("Y", outputs))}
    for kind, what in (("X", "inputs"), ("Y", "outputs")):
        own = {int(v[2:]) for v in declared if v[0] == kind}
        if own != set(range(sizes[kind])):
            message = f"the property is about {len(own)} {what}, and the network has {sizes[kind]}"
            raise UsageError(message, hint=f"it declares {kind}_0 to {kind}_{sizes[kind] - 1}, each element once")
    boxes: dict[bytes, tuple[Array, Array, list[Clause]]] = {}
    for conditions in alternatives:
        low, high = np.full(sizes["X"], -np.inf), np.full(sizes["X"], np.inf)
        rows = []
        for c in conditions:
            unknown = set(c.weights) - declared
            if unknown:
                raise UsageError(f"'{printable(min(unknown))}' is not declared")
            kinds = {v[0] for v in c.weights}
            if kinds == {"X"} and len(c.weights) == 1:
                ((name, w),) = c.weights.items()
                k, bound, is_exact = int(name[2:]), c.limit / w, abs(w) == 1
                if w > 0:
                    high[k] = min(high[k], bound if is_exact else np.nextafter(bound, np.inf))
                else:
                    low[k] = max(low[k], bound if is_exact else np.nextafter(bound, -np.inf))
            elif kinds == {"Y"} or not kinds:
                rows.append(c)
            else:
                hint = "inputs are in a box: (<= X_0 0.5)"
                raise UsageError("a condition on several inputs, or on inputs and outputs, is not read", hint=hint)
        if (low > high).any():  # there are no such inputs
            continue
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            k = int(np.flatnonzero(~(np.isfinite(low) & np.isfinite(high)))[0])
            raise UsageError(f"X_{k} has no bounds", hint="every input needs (<= X_0 ...) and (>= X_0 ...)")
        if not rows:
            raise UsageError("an alternative has no condition on outputs", hint="it forbids every output as it is")
        found = boxes.setdefault(low.tobytes() + high.tobytes(), (low, high, []))
        found[2].append(_clause(rows, outputs))
    return tuple(Case(_split(low, inputs), _split(high, inputs), tuple(c)) for low, high, c in boxes.values())


def _clause(rows: Sequence[Condition], outputs: Mapping[str, Type]) -> Clause:
    total = sum(prod(t.shape) for t in outputs.values())
    weights = np.zeros((len(rows), total))
    for row, c in zip(weights, rows):
        for name, w in c.weights.items():
            row[int(name[2:])] = w
    apart, start = {}, 0
    for name, type in outputs.items():
        count = prod(type.shape)
        apart[name] = weights[:, start : start + count].reshape(len(rows), *type.shape)
        start += count
    return Clause(apart, np.array([c.limit for c in rows]))


def _split(flat: Array, types: Mapping[str, Type]) -> dict[str, Array]:
    found, start = {}, 0
    for name, type in types.items():
        count = prod(type.shape)
        found[name] = flat[start : start + count].reshape(type.shape)
        start += count
    return found

"""Automata over bytes: with choices (Thompson 1968), and as tables, whose states are sets (Rabin and Scott 1959).

Where a pattern has ``^``, ``$`` or ``\\b``, a state also knows the kind of the byte before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from edgec.errors import ModelError

#: Nodes and states before an automaton is refused.
_MOST_NODES, _MOST_STATES = 20_000, 2000
#: Nodes of all states together, which take time and memory.
_MOST_WORK = 2_000_000
#: Letters of a word.
WORD = frozenset(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_")
#: What is beside a place: the beginning, the end, a letter of a word, anything else.
_BEGIN, _END, _LETTER, _OTHER = "begin", "end", "letter", "other"


@dataclass
class Automaton:
    """Nodes with edges: by bytes, and by conditions on what is beside a place (None: by none)."""

    bytes_to: list[list[tuple[frozenset[int], int]]] = field(default_factory=list)
    freely_to: list[list[tuple[str | None, int]]] = field(default_factory=list)
    sets: dict[frozenset[int], frozenset[int]] = field(default_factory=dict)

    def node(self) -> int:
        if len(self.bytes_to) >= _MOST_NODES:
            raise ModelError("the pattern is too large", hint="repeat less in it")
        self.bytes_to.append([])
        self.freely_to.append([])
        return len(self.bytes_to) - 1

    def reads(self, start: int, taken: frozenset[int], target: int) -> None:
        """An edge by the bytes of a set."""
        self.bytes_to[start].append((self.sets.setdefault(taken, taken), target))

    def ways(self, nodes: Iterable[int]) -> dict[frozenset[int], set[int]]:
        """The nodes that are reached from some by a byte of each set."""
        found: dict[frozenset[int], set[int]] = {}
        for n in nodes:
            for taken, target in self.bytes_to[n]:
                found.setdefault(taken, set()).add(target)
        return found

    def reached(self, nodes: Iterable[int], before: str, after: str) -> frozenset[int]:
        """All nodes that are reached without a byte, between what is before and what comes after."""
        seen, waiting = set(nodes), list(nodes)
        while waiting:
            for condition, target in self.freely_to[waiting.pop()]:
                if target not in seen and _holds(condition, before, after):
                    seen.add(target)
                    waiting.append(target)
        return frozenset(seen)


def _holds(condition: str | None, before: str, after: str) -> bool:
    if condition in ("^", "$"):
        return before == _BEGIN if condition == "^" else after == _END
    return condition is None or ((before == _LETTER) != (after == _LETTER)) == (condition == "b")


def _kind(byte: int) -> str:
    return _LETTER if byte in WORD else _OTHER


def table_of(a: Automaton) -> tuple[np.ndarray, np.ndarray]:
    """The automaton without choices: state 1 is a match that has ended, state 2 none; node 1 is the end."""
    is_conditional = any(condition is not None for edges in a.freely_to for condition, _ in edges)
    start = (frozenset([0]), _BEGIN)
    states: dict[tuple[frozenset[int], str], int] = {start: 0, (frozenset(), _END): 1, (frozenset(), _OTHER): 2}
    rows, matches, waiting = {1: [1] * 256, 2: [2] * 256}, {1: True, 2: False}, [start]
    alike = _alike(a.sets)
    work = 0
    while waiting:
        nodes, before = state = waiting.pop()
        ended = a.reached(nodes, before, _END)
        matches[states[state]] = 1 in ended
        row = [2] * 256
        row[0] = 1 if matches[states[state]] else 2
        ways = {kind: a.ways(a.reached(nodes, before, kind)) if is_conditional else {} for kind in (_LETTER, _OTHER)}
        ways = ways if is_conditional else dict.fromkeys(ways, a.ways(ended))
        for kind, taken_by, members in alike:
            targets = [ways[kind][taken] for taken in taken_by if taken in ways[kind]]
            following = frozenset().union(*targets)
            work += len(taken_by) + sum(map(len, targets))
            if following:
                new = (following, kind if is_conditional else _OTHER)
                if new not in states:
                    if len(states) >= _MOST_STATES:
                        raise ModelError("the pattern has too many states", hint="match it in your own code")
                    states[new] = len(states)
                    waiting.append(new)
                for byte in members:
                    row[byte] = states[new]
        rows[states[state]] = row
        work += len(ended)
        if work > _MOST_WORK:
            raise ModelError("the pattern is too large", hint="repeat less in it")
    order = range(len(states))
    return np.array([rows[k] for k in order], np.int32), np.array([matches[k] for k in order], np.bool_)


def _alike(sets: Iterable[frozenset[int]]) -> list[tuple[str, list[frozenset[int]], list[int]]]:
    """Bytes that no part of a pattern tells apart: (kind, the sets that they are in, those bytes)."""
    found: dict[tuple[str, tuple[int, ...]], list[int]] = {}
    known = list(sets)
    for byte in range(1, 256):
        found.setdefault((_kind(byte), tuple(k for k, s in enumerate(known) if byte in s)), []).append(byte)
    return [(kind, [known[k] for k in inside], members) for (kind, inside), members in found.items()]

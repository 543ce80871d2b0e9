"""Buffers that share memory: those whose bytes overlap in the arena, or that are one; states are what they renew."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace

from edgec.schedule.gpu.together import meet


def test_every_overlap_of_small_buffers() -> None:
    for start, size, other in product(range(5), (1, 2, 3), (1, 2, 3)):
        a, b = (SimpleNamespace(space="arena", bytes=n) for n in (size, other))
        a, b = Key(a), Key(b)
        program = SimpleNamespace(states={}, offsets={a: 2, b: start})
        want = bool({*range(2, 2 + size)} & {*range(start, start + other)})
        assert meet(a, b, program) == meet(b, a, program) == want  # type: ignore[arg-type]
        assert meet(a, a, program)  # type: ignore[arg-type]
        outside = Key(SimpleNamespace(space="weights", bytes=9))
        assert not meet(a, outside, program) and not meet(outside, b, program)  # type: ignore[arg-type]
        assert meet(outside, outside, program)  # type: ignore[arg-type]
        renewed = SimpleNamespace(states={b: a}, offsets=program.offsets)
        assert meet(a, b, renewed)  # type: ignore[arg-type]


class Key(SimpleNamespace):
    """A buffer by its identity."""

    def __init__(self, of: SimpleNamespace) -> None:
        super().__init__(**vars(of))

    __hash__ = object.__hash__
    __eq__ = object.__eq__

"""Names of variables that no other expression has."""

from __future__ import annotations

from itertools import count

_numbers = [count()]


def fresh_name() -> str:
    """A name that nobody has yet."""
    return _name(next(_numbers[0]))


def is_fresh(name: str) -> bool:
    """Was a name made here?"""
    return len(name) == len(_name(0)) and name[0] == "t" and name[1:].isdigit()


def reserved(number: int) -> str:
    """The fresh name of this number, out of a file; from now on nobody else gets it."""
    _numbers[0] = count(max(number + 1, next(_numbers[0])))
    return _name(number)


def _name(number: int) -> str:
    # Of one width, so that names sort as they were made: the order of terms must not depend on what ran before.
    return f"t{number:09d}"

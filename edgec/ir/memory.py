"""Memory of results for expressions, nodes and formulas, which keeps its keys and the constants in them alive.

Of an earlier model nothing is asked again, so `forget` empties all of it before the next one is read.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import _lru_cache_wrapper, lru_cache
from typing import Any, TypeVar

Result = TypeVar("Result")

_CACHES: list[_lru_cache_wrapper[Any]] = []


def remembered(most: int) -> Callable[[Callable[..., Result]], _lru_cache_wrapper[Result]]:
    """A decorator of functions whose last ``most`` results are kept, until another model is read."""

    def decorate(function: Callable[..., Result]) -> _lru_cache_wrapper[Result]:
        cached = lru_cache(maxsize=most)(function)
        _CACHES.append(cached)
        return cached

    return decorate


def forget() -> None:
    """Let go of all results, with the nodes that they keep alive."""
    for cached in _CACHES:
        cached.cache_clear()

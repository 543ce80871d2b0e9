"""Python's collector of cycles while a network is compiled."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

#: A collection after so many new objects, and an older generation after so many of the one before it.
_RARE = (50_000, 20, 100)
_lock = Lock()
_inside = 0
_before = gc.get_threshold()


@contextmanager
def rare_collections() -> Iterator[None]:
    """Look for cycles rarely: graphs are large and have few, and each look at all of them takes as long as they are.

    Thresholds are as before when the last block of all threads ends. A collector that is switched off stays off.
    """
    global _inside, _before
    with _lock:
        if not _inside:
            _before = gc.get_threshold()
            if 0 < _before[0] < _RARE[0]:
                gc.set_threshold(*_RARE)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                gc.set_threshold(*_before)

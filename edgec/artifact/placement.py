"""The device of every kernel of a built network, and the reason for it, as the lock of its folder has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Placed:
    """Operators of the model that one kernel computes, the device that runs it, and the reason for that."""

    operators: tuple[str, ...]
    kind: str
    device: str
    why: str


def placed(lock: Mapping[str, Any], level: str | None = None) -> tuple[Placed, ...]:
    """The placement in a lock; of a library for several processors, that of the ``level`` in use.

    Locks of earlier versions of edgec have none, where the build is for one device: there is one entry for all kernels.
    """
    rows = lock.get("where")
    if rows is None:
        told = f"{lock.get('kernels')} kernels"
        return (Placed((), told, level or str(lock.get("device")), "the build is for this device alone"),)
    chosen = [row for row in rows if level is None or row["device"] == level]
    return tuple(Placed(tuple(r["operators"]), r["kind"], r["device"], r["why"]) for r in chosen)


def is_placement(value: object) -> bool:
    """True for what `placed` reads."""
    return isinstance(value, list) and all(
        isinstance(row, dict)
        and all(isinstance(row.get(key), str) for key in ("kind", "device", "why"))
        and isinstance(row.get("operators"), list)
        and all(isinstance(name, str) for name in row["operators"])
        for row in value
    )

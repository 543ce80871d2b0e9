"""The device of every kernel of a built network, and the reason for it, as the lock of its folder has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Placed:
    """Operators of the model that one kernel computes, the device that runs it, and the reason for that.

    ``operators`` is empty where one entry stands for all kernels of a build for one device.
    """

    operators: tuple[str, ...]
    kind: str
    device: str
    why: str


def placed(lock: Mapping[str, Any], level: str | None = None) -> tuple[Placed, ...]:
    """The placement in a lock; one entry for all kernels where the build is for one device.

    ``level`` is the one in use, of a library for several processors.
    """
    rows = lock.get("where")
    if rows is None:
        device, why = str(lock.get("device")), "the build is for this device alone"
        if level is not None:
            device, why = level, "the best of the build's levels that runs here"
        return (Placed((), f"{lock.get('kernels')} kernels", device, why),)
    return tuple(Placed(tuple(r["operators"]), r["kind"], r["device"], r["why"]) for r in rows)


def is_placement(value: object) -> bool:
    """True for what `placed` reads."""
    return isinstance(value, list) and all(
        isinstance(row, dict)
        and all(isinstance(row.get(key), str) for key in ("kind", "device", "why"))
        and isinstance(row.get("operators"), list)
        and all(isinstance(name, str) for name in row["operators"])
        for row in value
    )

"""The option of bounds: `--bounds`, code that computes bounds of the outputs beside the outputs themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgec.device.device import Device
from edgec.errors import UsageError

_WHERE = "--bounds"


def bounds_of(given: Mapping[str, Any], device: Device, gpu: Device | None) -> bool:
    """Are bounds emitted? Raises UsageError for what they do not go with."""
    if not given["bounds"]:
        return False
    hint = "leave out --bounds"
    if gpu is not None or device.language not in ("c", "cuda"):
        raise UsageError("bounds are code in C or CUDA", hint=f"{hint}, or build for a processor", where=_WHERE)
    if given["loss"] is not None:
        raise UsageError(
            "the weights of a training change, and bounds are of those of a build", hint=hint, where=_WHERE
        )
    if given["quantize"] in ("int8", "int8-dynamic"):
        raise UsageError("bounds are written for networks of floats", hint=f"{hint}, or --quantize", where=_WHERE)
    if given["dispatch"] is not None:
        raise UsageError("bounds are written for one device", hint=f"{hint}, or --dispatch", where=_WHERE)
    if given["weights"] == "stream":
        raise UsageError("weights are not streamed through bounds", hint="give --weights file", where=_WHERE)
    return True

"""Options of language models that not every device takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgec.device.device import Device
from edgec.errors import UsageError


def check_device(given: Mapping[str, Any], device: Device, gpu: Device | None) -> None:
    """Raises UsageError for what the sessions of a GPU do not have."""
    if given["lora"] is not None and (device.is_gpu or gpu is not None):
        hint = "leave out --lora, or build for a processor: edgec device list"
        raise UsageError(f"sessions on '{(gpu or device).name}' take no adapters", hint=hint, where="--lora")


def context_of(given: int | None) -> int | None:
    """The context in tokens; raises UsageError for none."""
    if given is not None and given < 1:
        raise UsageError(f"a context of {given} tokens holds nothing", hint="give 1 or more", where="--context")
    return given

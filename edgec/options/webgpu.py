"""Options that networks for WebGPU do not take: everything there is a number of 32 bits, and the page has no limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgec.device.device import Device
from edgec.errors import UsageError


def check_words(given: Mapping[str, Any], device: Device, precision: str | None, quantize: str) -> None:
    """Raises UsageError for options that a device with memory in words of 32 bits does not take."""
    if not device.in_words:
        return
    asked = {
        f"--precision {given['precision']}": precision not in (None, "fp32") or given["precision"] == "int8",
        f"--quantize {quantize}": quantize != "float",
        f"--ram {given['ram']}": given["ram"] is not None,
    }
    for option, is_given in asked.items():
        if is_given:
            hint = f"leave out {option.split()[0]}, or build it for WebAssembly: --device wasm32"
            raise UsageError(
                f"networks for '{device.name}' are in fp32, in as much memory as they need", hint=hint, where=option
            )

"""Options of compression: what is pruned and quantized, by which data, and what it may lose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgec.compress.calibrate import RANDOM
from edgec.compress.max_loss import parsed as parsed_max_loss
from edgec.compress.prune.scheme import Scheme
from edgec.compress.prune.scheme import parsed as scheme_of
from edgec.device.device import Device
from edgec.errors import UsageError
from edgec.media.way import Data, Way, data


def vector_of(device: Device) -> Scheme:
    """The scheme of `--prune vector`: with CUDA a panel, and 16 bytes of what it is multiplied with."""
    if device.language == "cuda":
        return Scheme("block", 32, 4 if device.precision in ("fp32", "tf32") else 8)
    return Scheme("vector", device.vector_lanes)


def pruning_of(given: Mapping[str, Any], device: Device) -> tuple[Scheme | None, float | None]:
    """The scheme and the share of zeros; without a share it is what --max-loss allows."""
    text, wanted = given["prune"], given["sparsity"]
    if text is None and given["masks"] is not None:
        text = "vector"
    if text is None:
        if wanted is not None:
            raise UsageError("zeros of no kind are asked for", hint="give --prune vector with --sparsity")
        return None, None
    scheme = vector_of(device) if text == "vector" else scheme_of(text, device.vector_lanes)
    if scheme.kind == "nm" and device.language == "cuda" and device.gpu.compute_capability >= 80:
        scheme = replace(scheme, outputs=1)  # tensor cores have positions for each output
    if wanted in (None, "auto"):
        return scheme, scheme.share if scheme.of and given["max_loss"] is None else None
    try:
        share = float(wanted)
    except ValueError:
        share = 1.0
    if not 0 < share < 1:
        raise UsageError(f"'{wanted}' is no share of zeros", hint="give one between 0 and 1, or auto with --max-loss")
    if share < scheme.share - 0.01 or (scheme.kind == "nm" and share > scheme.share + 0.01):
        raise UsageError(f"'{scheme}' makes {scheme.share:.0%} zeros, not {share:.0%}", hint="leave out --sparsity")
    return scheme, share


def masks_of(given: str | Path | None, scheme: Scheme | None) -> Path | None:
    if given is None:
        return None
    if scheme is not None and scheme.kind == "channel":
        raise UsageError("masks say which weights stay, not which channels", hint="leave out --prune channel")
    if not Path(given).is_file():
        hint = "give an .npz file as --write-masks writes it"
        raise UsageError("cannot be read: there is no such file of masks", hint=hint, where=str(given))
    return Path(given)


def max_loss_of(text: str | None, precision: str, prune: Scheme | None) -> str | None:
    if text is None:
        return None
    if precision not in ("int8", "mixed") and prune is None:
        hint = "give --quantize mixed, or int8, or --prune with it"
        raise UsageError("there is nothing whose loss could be bounded", hint=hint)
    return str(parsed_max_loss(text))


def calibration_of(given: Mapping[str, Any], way: Way, quantize: str, error: float) -> Data:
    """The data to compress by: required where they decide ranges, or what a bound on the loss allows."""
    if given["calibrate"] is not None:
        return data(given["calibrate"], way)
    asked = f"--quantize {quantize}" if quantize in ("int8", "mixed") else None
    asked = "--precision mixed" if error else "--max-loss" if asked is None and given["max_loss"] is not None else asked
    if asked is not None:
        hint = (
            "give --calibrate DATA.npz, with some 100 real inputs by name (or a folder of such files); "
            "--calibrate random takes drawn ones, which cost accuracy"
        )
        raise UsageError(f"{asked} needs inputs like those that the network will see", hint=hint)
    return RANDOM

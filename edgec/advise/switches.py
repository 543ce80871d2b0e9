"""Options that are worth a try for a model on a device, one by one and together."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from edgec.device.device import Device
from edgec.options import OPTIONS, Options

#: Options that decide one thing: a switch changes one of them, and switches of two of them can be combined.
NUMBERS, ZEROS, RULES, THREADS, MEMORY, PLACE = "numbers", "zeros", "rules", "threads", "memory", "place"

#: Numbers to compute with, and what each asks of the user beside the option.
_QUANTIZED = ("int8", "int8-dynamic", "int4-weight")
_PRECISIONS_OF_CPUS = ("bf16", "fp16")
_PRECISIONS_OF_GPUS = ("fp16", "tf32", "int8", "mixed")
_ZEROS = (
    {"prune": "vector", "sparsity": 0.5},
    {"prune": "vector", "sparsity": 0.8},
    {"prune": "2:4"},
    {"prune": "channel", "sparsity": 0.3},
)
_RETRAIN = "zeros cost accuracy until the network is trained again (--retrain DATA.npz)"


@dataclass(frozen=True)
class Switch:
    """Options to be tried beside those that were given, and what they decide (``axes``)."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    axes: frozenset[str] = frozenset()
    note: str = ""

    @property
    def words(self) -> list[str]:
        """The options as the command line takes them."""
        return [w for key, value in self.settings.items() for w in (OPTIONS[key].long, str(value))]

    @property
    def name(self) -> str:
        return " ".join(self.words) or "as given"

    def __and__(self, other: Switch) -> Switch:
        """Both together; what they decide has to differ."""
        notes = dict.fromkeys(n for n in (self.note, other.note) if n)
        return Switch({**self.settings, **other.settings}, self.axes | other.axes, "; ".join(notes))


def single(options: Options, given: Mapping[str, Any], has_data: bool) -> Iterator[Switch]:
    """Switches of one option each, but for those that were given; ``has_data`` tells of calibration data.

    Whether one applies is for the build to say: it refuses in words what a device or a network has no use for.
    """

    def free(*keys: str) -> bool:
        return all(given.get(key, OPTIONS[key].default) in (None, OPTIONS[key].default) for key in keys)

    device = options.device
    if free("quantize", "precision"):
        for quantize in _QUANTIZED:
            drawn = quantize == "int8" and not has_data
            note = "ranges of drawn inputs: give --calibrate DATA.npz for real ones" if drawn else ""
            settings = {"quantize": quantize, **({"calibrate": "random"} if drawn else {})}
            yield Switch(settings, frozenset({NUMBERS}), note)
        for precision in _PRECISIONS_OF_GPUS if device.is_gpu else _PRECISIONS_OF_CPUS:
            if precision not in ("int8", "mixed") or has_data:
                yield Switch({"precision": precision}, frozenset({NUMBERS}))
    if free("threads") and not device.is_gpu:
        most = cores_of(device)
        for threads in sorted({2, most // 2, most} - {0, 1}):
            if threads <= most:
                yield Switch({"threads": threads}, frozenset({THREADS}))
    if free("numeric") and not device.is_gpu:
        yield Switch({"numeric": "approximates"}, frozenset({RULES}))
    if free("prune", "sparsity", "masks"):
        for zeros in _ZEROS:
            yield Switch(zeros, frozenset({ZEROS}), _RETRAIN)
    if free("place") and device.language == "opencl":
        yield Switch({"place": "auto"}, frozenset({PLACE}))
    if free("quantize", "precision") and has_data:
        yield Switch({"quantize": "mixed", "max_loss": "max_rel=0.02"}, frozenset({NUMBERS}))


def less_memory(switch: Switch, options: Options, needed_bytes: int) -> Iterator[Switch]:
    """On a board, the same with half and a quarter of the memory that values, inputs and outputs need."""
    if not options.device.hosted and options.ram is None and needed_bytes >= 16 << 10:
        for part in (2, 4):
            yield switch & Switch({"ram": f"{needed_bytes // part // 1024}K"}, frozenset({MEMORY}))


def cores_of(device: Device) -> int:
    """Cores that a network may use there; this machine's own are counted."""
    return len(os.sched_getaffinity(0)) if device.name == "host" and hasattr(os, "sched_getaffinity") else device.cores

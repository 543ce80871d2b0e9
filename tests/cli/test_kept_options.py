"""Drawn options and their outcomes: the values that stages see, or the refusal, as lines of ``options.txt``.

A line has the number of the first of some draws, how many are refused, and a checksum of all. ``pytest tests/cli
--update-golden`` writes the lines; look at what changed (`told`) before they are committed.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_origin

import numpy as np
import pytest
from kept_graphs import hold
from test_drawn_options import VALUES

from edgec.device.device import Device
from edgec.errors import EdgecError
from edgec.options import OPTIONS, resolve

KEPT = Path(__file__).with_name("options.txt")
EACH, TESTS = 40, 30
#: Values at the bounds of what is allowed, beside those of `VALUES`.
BOUNDS: Mapping[str, tuple[Any, ...]] = {
    "retrain_steps": (0, 1, 10**6, 10**6 + 1, 10**7, 10**7 + 1), "batch": (0, 1, 1024, 1025, 4096, 4097, 65536, 65537),
    "accumulate": (0, 1, 2, 1024, 1025, 4096, 4097, 65536, 65537), "threads": (0, 1, 2, 256, 257),
    "cores": ("0", "0-1", "0,2-3", "1023", "1024", "3-2", "any", "0-0"), "context": (0, 1, 8, -1),
    "sparsity": (0.0, 0.5, 0.99, 1.0, -0.1, 1.5, "auto", "half"), "retrain": ("data.npz", "none.npz"),
    "max_loss": ("max_rel=0", "cosine=1", "cosine=1.5", "top1_drop=100", "top1_drop=101", "max_abs=-1"),
    "precision": ("mixed:0", "mixed:1", "mixed:1e-9", "fp32", "bf16"),
    "ram": ("0", "1", "1K", "2M", "1G", "K", 512, "64k"),
    "bounds": (True, False), "profiles": (True, False), "calibrate": ("data.npz", "random"),
    "name": ("int", "a1", "1a"),
}  # fmt: skip
DEVICES = (
    "x86_64_avx2", "x86_64_avx512", "cortex_m4", "cuda_sm90", "generic_opencl", "pixel_8", "neoverse_v1", "webgpu",
    "wasm32",
)  # fmt: skip
#: Options that depend on what the machine has.
LEFT_OUT = ("device", "compiler", "devices")


def value_of(key: str, text: Any) -> Any:
    """The value of a keyword that a word of the command line comes to."""
    kind = OPTIONS[key].kind
    if get_origin(kind) is list:
        return [text]
    if kind in (int, float) and isinstance(text, str):
        return kind(text) if re.fullmatch(r"-?[\d.]+", text) else text
    return Path(text) if kind is Path else text


def drawn(seed: int) -> dict[str, Any]:
    dice = np.random.default_rng(seed)
    keys = sorted({*VALUES, *BOUNDS} & OPTIONS.keys() - {*LEFT_OUT})
    chosen = dice.choice(len(keys), int(dice.integers(1, 5)), replace=False)
    found: dict[str, Any] = {"device": DEVICES[int(dice.integers(len(DEVICES)))]}
    for key in (keys[int(k)] for k in chosen):
        values = (*BOUNDS.get(key, ()), *VALUES.get(key, ()))
        found[key] = value_of(key, values[int(dice.integers(len(values)))])
    if dice.integers(3) == 0:
        found |= {"loss": "mse"} if dice.integers(2) else {"quantize": "int8", "calibrate": "random"}
    if dice.integers(6) == 0:
        found |= {"prune": "vector", "sparsity": 0.5, "retrain": Path("data.npz")}
    return found


def plain(value: Any) -> Any:
    """Records as they print, a device by its name and precision."""
    if isinstance(value, Device):
        return f"{value.name} {value.precision}"
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, (set, frozenset)):
        return sorted(map(str, value))
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    return [plain(v) for v in value] if isinstance(value, (list, tuple)) else str(value)


def told(seed: int) -> str:
    try:
        found = resolve(drawn(seed))  # type: ignore[arg-type]
    except EdgecError as error:
        return f"{type(error).__name__}: {error.message} / {error.hint} / {error.where}"
    return f"{plain(found)} {found.room} {plain(found.way)}"


@pytest.mark.parametrize("first", range(0, EACH * TESTS, EACH))
def test_kept_options(first: int, update_golden: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("data.npz", x=np.zeros(3, np.float32))
    texts = [told(seed) for seed in range(first, first + EACH)]
    refused = sum(": " in text.partition(" / ")[0][:40] and "Error" in text[:20] for text in texts)
    hold(KEPT, [f"{first} | {refused} | {zlib.crc32(repr(texts).encode()):08x}"], update_golden)

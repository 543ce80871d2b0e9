"""Cores that settings ask for: which are taken, and what is said of those that cannot be meant."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from edgec.device.device import Device
from edgec.device.load import load_device
from edgec.errors import UsageError
from edgec.options import cores
from edgec.options.cores import MOST_CORES, asked_cores, cores_of
from edgec.untrusted import regular


def asked(device: str, gpu: str | None = None, threads: int = 1, **given: Any) -> tuple[int, ...]:
    beside: Device | None = None if gpu is None else load_device(gpu)
    return asked_cores({"cores": None, "loss": None, **given}, load_device(device), beside, threads)


def test_cores_that_are_taken() -> None:
    assert asked("neoverse_v1", cores="4-7,0", threads=4) == (0, 4, 5, 6, 7)
    assert asked("neoverse_v1", cores="any", threads=4) == () == asked("neoverse_v1", threads=4)
    assert asked("cortex_m4", cores="any") == () == asked("cuda_sm90", cores=None) == asked("arm64", "jetson")
    assert cores_of(f"{MOST_CORES - 1}") == (MOST_CORES - 1,)


@pytest.mark.parametrize(
    "device, given, said",
    [
        ("cortex_m4", {}, "an operating system, and 'cortex_m4' has none"),
        ("cuda_sm90", {}, "kernels run on the GPU 'cuda_sm90'"),
        ("neoverse_v1", {"gpu": "jetson"}, "kernels run on the GPU 'jetson'"),
        ("neoverse_v1", {"loss": "mse"}, "a training step stays where the system puts it"),
        ("neoverse_v1", {"threads": 3}, "3 threads would wait for 2 cores"),
        ("neoverse_v1", {"cores": "7-4"}, "'7-4' is no list of cores"),
        ("neoverse_v1", {"cores": f"{MOST_CORES}"}, "is no list of cores"),
        ("neoverse_v1", {"cores": "1,,2"}, "is no list of cores"),
    ],
)
def test_cores_that_cannot_be_meant(device: str, given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        asked(device, **{"cores": "0-1", **given})


def test_cores_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores.os, "cpu_count", lambda: 3)
    assert asked("host", cores="2") == (2,) and asked("neoverse_v1", cores="3") == (3,)
    with pytest.raises(UsageError, match="this machine has no core 3") as caught:
        asked("host", cores="0,3")
    assert "0-2" in str(caught.value)


def test_files_of_users_are_no_devices_or_pipes(tmp_path: Path) -> None:
    """A folder is let through: opening it says what it is."""
    (tmp_path / "file").write_text("")
    os.mkfifo(tmp_path / "pipe")
    assert regular(tmp_path / "file") == tmp_path / "file" and regular(str(tmp_path)) == tmp_path
    for path in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(OSError, match="a device, a pipe or a socket"):
            regular(path)
    with pytest.raises(FileNotFoundError):
        regular(tmp_path / "none")

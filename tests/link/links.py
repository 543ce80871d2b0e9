"""What tests of links share: the digits network, and programs that may have to be installed."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from edgec.locate import data_folder

DIGITS = data_folder("apps") / "digits" / "digits.onnx"


@cache
def _installable(package: str) -> bool:
    """Install a package of the distribution, where that is possible without asking anybody."""
    if shutil.which("apt-get") is None:
        return False
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", package]
    for _ in range(2):
        if subprocess.run(command, capture_output=True, check=False, timeout=600).returncode == 0:
            return True
        subprocess.run(["apt-get", "update", "-qq"], capture_output=True, check=False, timeout=600)
    return False


def need(program: str, *packages: str) -> str:
    """The path of a program, installed now where it is missing; skips with the command to install it otherwise."""
    if shutil.which(program) is None:
        all(_installable(package) for package in packages)
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"{program} is missing and cannot be installed here: apt install {' '.join(packages)}")
    return path


def random_picture(seed: int = 0) -> dict[str, np.ndarray]:
    from edgec import api

    random = np.random.default_rng(seed)
    types = api.load(str(DIGITS)).inputs
    return {name: random.standard_normal(type.shape).astype(np.float32) for name, type in types.items()}


def pictures(folder: Path, count: int) -> Path:
    """A file with that many samples."""
    one = random_picture()
    random = np.random.default_rng(1)
    arrays = {name: random.standard_normal((count, *a.shape)).astype(np.float32) for name, a in one.items()}
    path = folder / "samples.npz"
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return path

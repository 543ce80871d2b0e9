"""What tests of links share: the digits network and pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from needed import need

from edgec.locate import data_folder

__all__ = ["DIGITS", "need", "pictures", "random_picture"]

DIGITS = data_folder("apps") / "digits" / "digits.onnx"


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

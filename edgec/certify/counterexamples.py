"""Inputs that violate a property, as a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from edgec import files
from edgec.certify.certified import Certified


def save(found: Certified, path: Path) -> str | None:
    """The path of an .npz file of all inputs that violate, by name, one behind the other; None where there are none."""
    sets = [c.verdict.inputs for c in found.certificates if c.verdict.inputs is not None]
    if not sets:
        return None
    files.replace(path, files.npz({name: np.stack([s[name] for s in sets]) for name in sets[0]}))
    return str(path)

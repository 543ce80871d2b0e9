"""Certificates in Python: `edgec.certify`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from edgec.api import built_of, interface
from edgec.build import Buildable, Built
from edgec.certify.certified import Certified
from edgec.certify.certified import certify as certified
from edgec.options import Settings
from edgec.progress import Progress, silent

if TYPE_CHECKING:
    from typing_extensions import Unpack


@interface
def certify(
    model: Buildable | Built,
    *,
    inputs: str | Path | Mapping[str, np.ndarray] | None = None,
    eps: str | float | None = None,
    norm: str = "inf",
    within: str | tuple[float, float] | None = None,
    property: str | Path | None = None,
    output: str | None = None,
    radius: bool = False,
    against: str | None = None,
    box: str | None = None,
    limit: float | None = None,
    any_order: bool = False,
    seconds: float = 60.0,
    seed: int = 0,
    progress: Progress = silent,
    **settings: Unpack[Settings],
) -> Certified:
    """Verdicts that hold for the code that runs: for all inputs near given ones, or all of a property.

    Inputs are at most ``eps`` (a number, or a text such as "2/255") from a sample of ``inputs`` by the ``norm`` "inf"
    or "2", and between the two numbers of ``within``; the class of the sample is to stay the greatest of ``output``.
    Or a ``property`` is a .vnnlib file. Bounds count the rounding of fp32 in the order of additions that the code has,
    or with ``any_order`` in any. Where they do not decide, the box of a few inputs, or the choices of a network of
    many, are cut for ``seconds``. ``radius`` asks for the greatest distance that bounds hold for. ``box`` is
    FILE:DISTANCE in the place of ``inputs`` and ``eps``.

    ``against`` "float" asks for the difference between the outputs of the code and those of the model, as a function of
    real numbers, for all these inputs; it is to be at most ``limit``, where one is given. Raises UsageError for a
    question that does not fit the network, ModelError for operators and kernels without bounds, by name.
    """
    built = built_of(model, progress, settings)
    return certified(
        built,
        inputs,
        eps,
        norm,
        property,
        within,
        output,
        radius,
        against,
        box,
        limit,
        any_order,
        seconds,
        seed,
        progress,
    )

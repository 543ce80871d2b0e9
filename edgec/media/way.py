"""The way from a file to an input, which options say once for samples, calibration, checks and apps."""

from __future__ import annotations

from dataclasses import dataclass

from edgec.frontend.preprocessing.asked import PictureBytes
from edgec.media import pictures, sounds


@dataclass(frozen=True)
class Way:
    """Preparations of pictures and sounds, None where nothing is said, and the preprocessing inside the network.

    What the network does itself is not done to its files: they only become the bytes that it takes.
    """

    picture: pictures.Preparation | None = None
    sound: sounds.Preparation | None = None
    pre: PictureBytes | None = None

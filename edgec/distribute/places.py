"""Places of parts: a device, the link to it, and how fast that is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from edgec.errors import UsageError
from edgec.link.forms import FORMS

#: More workers than this are a slip of the finger.
MOST_WORKERS = 64


@dataclass(frozen=True)
class Speed:
    """Speed of a link, the same in both directions: bytes a second, and seconds until a message arrives."""

    bytes_per_s: float
    latency_s: float

    def seconds(self, moved: int) -> float:
        """Seconds that so many bytes occupy the link."""
        return moved / self.bytes_per_s


@dataclass(frozen=True)
class Place:
    """A worker's device by name or file, and the link that reaches it."""

    device: str
    link: str

    def __str__(self) -> str:
        return f"{self.device}@{self.link}"

    @property
    def is_here(self) -> bool:
        """Is it a process of this machine?"""
        return self.link == "local"

    @property
    def is_by_ssh(self) -> bool:
        """Is it a process of a machine that ssh reaches?"""
        return self.link.startswith("ssh:")


def places_of(texts: Sequence[str]) -> tuple[Place, ...]:
    """Places of texts ``DEVICE@LINK``; several may be equal. Raises UsageError for a text that names none."""
    if len(texts) > MOST_WORKERS:
        raise UsageError(f"{len(texts)} workers", hint=f"give at most {MOST_WORKERS}", where="--over")
    found = []
    for text in texts:
        device, at, link = text.partition("@")
        if not device or not at or not link:
            hint = f"write --over host@local; a link is one of {FORMS}"
            raise UsageError(f"'{text}' is no DEVICE@LINK", hint=hint, where="--over")
        found.append(Place(device, link))
    return tuple(found)


def speed_of(text: str) -> Speed:
    """Speed of a text such as ``1G`` or ``100M/0.5``: bits a second, and milliseconds. Raises UsageError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMG]?)(?:/(\d+(?:\.\d+)?))?", text.strip().upper())
    bits = float(found[1]) * {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9}[found[2]] if found else 0.0
    if found is None or bits < 1:
        hint = "write bits a second and milliseconds: --link-speed 100M/0.5"
        raise UsageError(f"'{text}' is no speed of a link", hint=hint, where="--link-speed")
    return Speed(bits / 8, float(found[3] or 0.2) * 1e-3)

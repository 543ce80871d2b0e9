"""The way from a file to an input, which options say once for samples, calibration, checks and apps."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Union

from edgec.media import pictures, sounds
from edgec.media.before import Before

#: Folders that are looked into for files that a user may have meant.
_MOST_FOLDERS = 1000
#: Lists folders that have files, below the one that it is entered in.
FIND = r"find . -iregex '.*\.\(bmp\|jpe?g\|png\|ppm\|webp\|wav\)' -printf '%h\n' | sort | uniq -c"


@dataclass(frozen=True)
class Way:
    """Preparations of pictures and sounds, None where nothing is said, and the preprocessing inside the network.

    What the network does itself is not done to its files: they only become the bytes that it takes.
    """

    picture: pictures.Preparation | None = None
    sound: sounds.Preparation | None = None
    pre: Before | None = None


@dataclass(frozen=True)
class Files:
    """A folder of pictures or sounds, or one of such folders, a class each, and the way to inputs."""

    path: Path
    way: Way

    def __str__(self) -> str:
        return str(self.path)

    def __fspath__(self) -> str:
        return str(self.path)


#: Inputs that the user names: a file of arrays, a folder of those, "random", or pictures or sounds.
Data = Union[str, Path, Files]


def data(given: str | Path, way: Way) -> Data:
    """A folder of pictures or sounds with the way to inputs; anything else as it was named."""
    return Files(Path(given), way) if holds_files(Path(given)) else given


def holds_files(folder: Path) -> bool:
    """True for a folder without arrays, in which or in whose folders pictures or sounds lie."""
    if not folder.is_dir() or any(folder.glob("*.npz")):
        return False
    return any(files_in(folder)) or any(any(files_in(p)) for p in folder.iterdir() if p.is_dir())


def files_in(folder: Path) -> Iterator[Path]:
    """The pictures and sounds of a folder, in no order; hidden ones are left out."""
    endings = (*pictures.ENDINGS, *sounds.ENDINGS)
    return (p for p in folder.iterdir() if p.suffix.lower() in endings and not p.name.startswith("."))


def hint_below(folder: Path) -> str:
    """The folder to name instead of one whose files lie deeper; empty where there are none."""
    if not folder.is_dir():
        return ""
    for place, inner, names in islice(os.walk(folder), _MOST_FOLDERS):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        if names and any(files_in(Path(place))):
            above = Path(place).parent
            classes = sum(any(files_in(p)) for p in above.iterdir() if p.is_dir()) if above != folder else 0
            return f"files lie deeper: name {shlex.quote(str(above if classes > 1 else place))}"
    return ""

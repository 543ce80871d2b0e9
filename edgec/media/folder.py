"""Files of a folder as arrays: a sample each, and a class each where they lie in folders of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

from edgec.errors import UsageError
from edgec.ir.expr import Expr
from edgec.ir.graph import Graph, Node
from edgec.ir.types import DTYPES
from edgec.media import pictures, sounds
from edgec.media.before import PictureBytes, SoundSamples
from edgec.media.camera import bytes_of
from edgec.media.way import FIND, Files, Way, files_in, hint_below
from edgec.progress import Progress, silent
from edgec.text import listed, printable
from edgec.untrusted import regular

#: The array of what samples are, as `edgec check --data` reads it.
LABELS = "labels"
#: Bytes of all arrays together.
MOST_BYTES = 4 << 30


@dataclass(frozen=True)
class Samples:
    """Arrays by the names of inputs, `labels` where there are classes, whose names are in order of their labels."""

    arrays: dict[str, np.ndarray]
    classes: tuple[str, ...]
    told: str


def samples(
    graph: Graph,
    folder: Path,
    way: Way = Way(),
    name: str | None = None,
    most: int | None = None,
    seed: int = 0,
    progress: Progress = silent,
) -> Samples:
    """The pictures or sounds of a folder as samples of an input, ``most`` of them drawn.

    Raises UsageError for folders without any, files that cannot be read, and inputs that are neither.
    """
    found, classes = _listed(folder)
    is_sound = found[0][0].suffix.lower() in sounds.ENDINGS
    node = _input(graph, name)
    if most is not None and most < len(found):
        kept = np.random.default_rng(seed).choice(len(found), most, replace=False)
        found = [found[k] for k in sorted(kept)]
    if is_sound:
        if way.picture is not None:
            raise UsageError("the folder has sounds", hint="say --sound rate=16000", where=pictures.OPTION)
        read, told = _sounds(node, _sound_of(way))
    else:
        if way.sound is not None:
            raise UsageError("the folder has pictures", hint="say --picture", where=sounds.OPTION)
        read, told = _pictures(node, way)
    size = int(node.type.bytes)
    if size * len(found) > MOST_BYTES:
        told = f"{len(found)} samples take {size * len(found) >> 20} MiB, and {MOST_BYTES >> 20} are the most"
        raise UsageError(
            told, hint=f"edgec samples --most {MOST_BYTES // size} draws as many as fit", where=str(folder)
        )
    stack: list[np.ndarray] = []
    for k, (path, _) in enumerate(found):
        progress("samples", path.name, k / len(found))
        stack.append(read(path))
    arrays = {str(node.attributes["name"]): np.stack(stack)}
    if classes:
        arrays[LABELS] = np.asarray([label for _, label in found], np.int64)
    return Samples(arrays, classes, told)


def arrays_of(files: Files, graph: Graph) -> dict[str, np.ndarray]:
    """The samples of a folder by the names of inputs, and `labels`; raises UsageError as `samples` does."""
    return samples(graph, files.path, files.way).arrays


def digest(files: Files) -> str:
    """Digest of all files, the classes that they are of, and the way to inputs."""
    found = sha256(repr(files.way).encode())
    for path, label in _listed(files.path)[0]:
        found.update(f"{label} ".encode() + sha256(regular(path).read_bytes()).digest())
    return found.hexdigest()


def _listed(folder: Path) -> tuple[list[tuple[Path, int]], tuple[str, ...]]:
    """Files with their labels, and the names of classes: none where files lie in the folder itself."""
    if not folder.is_dir():
        raise UsageError("this is no folder", hint="name one of pictures or of WAV files", where=printable(str(folder)))
    endings = (*pictures.ENDINGS, *sounds.ENDINGS)
    own = sorted(files_in(folder))
    inner = sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
    by_class = {p.name: sorted(files_in(p)) for p in inner}
    if own and any(by_class.values()):
        hint = "put every file into the folder of its class, or all into one folder"
        raise UsageError("files lie beside folders of files", hint=hint, where=printable(str(folder)))
    if not own and not any(by_class.values()):
        told = f"there are no files that end in {listed(endings)}"
        hint = (
            printable(hint_below(folder))
            or f"name a folder of them, or of a folder for each class; to find some: {FIND}"
        )
        raise UsageError(told, hint=hint, where=printable(str(folder)))
    empty = [printable(n) for n, files in by_class.items() if not files] if not own else []
    if empty:
        told = f"the folder of class '{empty[0]}' is empty"
        raise UsageError(told, hint="labels count folders in order of their names", where=printable(str(folder)))
    classes = () if own else tuple(by_class)
    found = [(p, 0) for p in own] or [(p, k) for k, files in enumerate(by_class.values()) for p in files]
    if len({p.suffix.lower() in sounds.ENDINGS for p, _ in found}) > 1:
        raise UsageError(
            "there are both pictures and sounds", hint="name a folder of one", where=printable(str(folder))
        )
    return found, classes


def _input(graph: Graph, name: str | None) -> Node:
    """The one input, or the one of a name; its extents are known."""
    names = [str(n.attributes["name"]) for n in graph.inputs]
    if name is None and len(names) != 1:
        hint = f"edgec samples --input {printable(names[0])} writes a file for one" if names else "choose another model"
        raise UsageError(f"the network has {len(names)} inputs", hint=hint, where="--input")
    if name is not None and name not in names:
        raise UsageError(f"there is no input '{printable(name)}'", hint=f"it has {listed(names)}", where="--input")
    node = graph.inputs[names.index(name) if name is not None else 0]
    if any(isinstance(n, Expr) for n in node.type.shape[1:]):
        shown = printable(str(node.attributes["name"]))
        told = f"input '{shown}' has open dimensions"
        raise UsageError(told, hint=f"fix them with --shape {shown}=1,3,224,224", where=shown)
    return node


def _pictures(node: Node, way: Way) -> tuple[Callable[[Path], np.ndarray], str]:
    if isinstance(way.pre, PictureBytes):
        given = way.pre
        return lambda path: bytes_of(path, given), f"{given.height} x {given.width}, {given.format}"
    shown, wanted = printable(str(node.attributes["name"])), way.picture or pictures.Preparation()
    frame = pictures.frame_of(node.type.shape, node.type.dtype, shown, wanted.layout)
    pictures.check(frame, wanted)
    how = (
        "bytes"
        if frame.is_bytes
        else f"(value / {_words(wanted.scale)} - {_words(wanted.mean)}) / {_words(wanted.std)}"
    )
    told = f"{frame.height} x {frame.width} x {frame.channels} by {wanted.fit}, {how}"
    return lambda path: pictures.read(path, frame, wanted).astype(DTYPES[node.type.dtype], copy=False), told


def _sound_of(way: Way) -> sounds.Preparation:
    """Properties that are said of sounds; their rate may be said by the network's preprocessing."""
    own = way.sound
    if not isinstance(way.pre, SoundSamples):
        return own or sounds.Preparation.parse("")
    if own is not None and own.rate != way.pre.rate:
        told = f"the network takes sounds of {way.pre.rate} Hz, not of {own.rate}"
        raise UsageError(told, hint="say one rate", where=sounds.OPTION)
    return own or sounds.Preparation(way.pre.rate)


def _sounds(node: Node, wanted: sounds.Preparation) -> tuple[Callable[[Path], np.ndarray], str]:
    shape, dtype, shown = node.type.shape, node.type.dtype, printable(str(node.attributes["name"]))
    wide = [int(n) for n in shape if isinstance(n, Expr) or n != 1]
    if len(wide) != 1 or dtype not in ("f16", "f32", "i16"):
        told = f"input '{shown}' is {dtype}{list(shape)}"
        raise UsageError(told, hint="sounds are f16, f32 or i16 with one dimension that is not 1", where=shown)
    count, inner = wide[0], tuple(shape) if len(shape) == 1 else tuple(shape[1:])
    return (
        lambda path: sounds.read(path, count, wanted, dtype == "i16").reshape(inner).astype(DTYPES[dtype], copy=False),
        f"{count} samples at {wanted.rate} Hz, {wanted.part}",
    )


def _words(numbers: tuple[float, ...]) -> str:
    return "/".join(f"{n:g}" for n in numbers)

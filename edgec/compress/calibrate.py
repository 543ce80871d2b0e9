"""Calibration data: inputs of a network that are like those it will see."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path

import numpy as np

from edgec.errors import UsageError
from edgec.execute.samples import fits, random_inputs
from edgec.ir.graph import Graph
from edgec.ir.types import DTYPES
from edgec.media import folder
from edgec.media.folder import LABELS
from edgec.media.way import Data, Files, hint_below
from edgec.text import printable
from edgec.untrusted import read_arrays, regular

Arrays = Mapping[str, np.ndarray]
#: Inputs that are drawn where there are no data.
DRAWN = 8
RANDOM = "random"


def samples(source: Data, graph: Graph) -> Iterator[Arrays]:
    """Inputs by name: of an .npz file, of every .npz in a folder, of its pictures or sounds, or drawn at "random".

    An array holds one input, or several along a dimension before the first, or along the first.

    Raises UsageError where there is nothing, or not what the network takes.
    """
    if str(source) == RANDOM:
        for seed in range(DRAWN):
            yield random_inputs(graph, seed)
        return
    for file, arrays in _stored(source, graph):
        yield from _apart(arrays, graph, file)


class CalibrationWarning(UserWarning):
    """Compression by inputs that say little about those that the network will see."""


def warn_if_drawn(source: Data, what: str) -> None:
    """A warning where ``what`` is decided on drawn inputs."""
    if str(source) == RANDOM:
        told = f"{what} on random inputs, which say nothing of real ones: give --calibrate DATA to be accurate"
        warnings.warn(told, CalibrationWarning, stacklevel=2)


def labels(source: Data, graph: Graph) -> list[np.ndarray]:
    """Labels, one a sample: the arrays `labels` stored with the inputs. Empty unless every file has them.

    Raises UsageError where there are more or fewer of them than samples.
    """
    if str(source) == RANDOM or any(n.attributes["name"] == LABELS for n in graph.inputs):
        return []
    found: list[np.ndarray] = []
    for file, arrays in _stored(source, graph):
        if LABELS not in arrays:
            return []
        here, count = arrays[LABELS], sum(1 for _ in _apart(arrays, graph, file))
        if here.shape[:1] != (count,):
            told = f"'{LABELS}' is {list(here.shape)}, and there are {count} inputs"
            raise UsageError(told, hint="give one for each of them, or none", where=str(file))
        found += list(here)
    return found


def _stored(source: Data, graph: Graph) -> Iterator[tuple[Path, Arrays]]:
    """Arrays, and the file or folder that they come from."""
    if isinstance(source, Files):
        yield source.path, folder.arrays_of(source, graph)
        return
    for file in _files(source):
        yield file, read_arrays(file)


def digest(source: Data) -> str:
    """Digest of calibration data, for the lock of a build."""
    if str(source) == RANDOM:
        return RANDOM
    if isinstance(source, Files):
        return folder.digest(source)
    return sha256(b"".join(sha256(regular(file).read_bytes()).digest() for file in _files(source))).hexdigest()


def _files(source: str | Path) -> list[Path]:
    path = Path(source)
    files = sorted(path.glob("*.npz")) if path.is_dir() else [path]
    if not files or not files[0].is_file():
        given = f"give an .npz file, a folder of them, of pictures or of WAV files, or '{RANDOM}'"
        hint = printable(hint_below(path)) or given
        raise UsageError("there are no calibration data", hint=hint, where=str(source))
    return files


def _apart(arrays: Arrays, graph: Graph, file: Path) -> Iterator[Arrays]:
    """The inputs that one file holds."""
    stacks: dict[str, np.ndarray] = {}
    for n in graph.inputs:
        name, shape = n.attributes["name"], n.type.shape
        if name not in arrays:
            hint = f"the network's inputs are {', '.join(i.attributes['name'] for i in graph.inputs)}"
            raise UsageError(f"there is no array '{name}'", hint=hint, where=str(file))
        array = arrays[name].astype(DTYPES[n.type.dtype])
        if fits(array.shape, n.type):
            stacks[name] = array[None]
        elif fits(array.shape[1:], n.type):
            stacks[name] = array
        elif (
            n.type.is_fixed
            and shape
            and array.ndim == len(shape)
            and array.shape[1:] == shape[1:]
            and array.shape[0] % shape[0] == 0
        ):
            stacks[name] = array.reshape(-1, *shape)
        else:
            told = f"'{name}' is {list(array.shape)}, and the input {list(shape)}"
            raise UsageError(
                told, hint="give arrays of that shape; a dimension before it counts samples", where=str(file)
            )
    counts = {len(stack) for stack in stacks.values()}
    if len(counts) != 1:
        hint = f"they hold {', '.join(f'{len(stack)} of {name}' for name, stack in stacks.items())}"
        raise UsageError("the arrays hold different numbers of inputs", hint=hint, where=str(file))
    if counts == {0}:
        raise UsageError("there is no input in it", hint="give a sample or more", where=str(file))
    for name, stack in stacks.items():
        if stack.dtype.kind == "f" and not np.isfinite(stack).all():
            hint = "what a network never sees tells nothing of the numbers in it: leave such samples out"
            raise UsageError(f"'{name}' holds infinities, or what is not a number", hint=hint, where=str(file))
    for k in range(counts.pop()):
        yield {name: stack[k] for name, stack in stacks.items()}

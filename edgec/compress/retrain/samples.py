"""Samples that a network is retrained on: cut, zoomed, mirrored and mixed anew in every step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from edgec.errors import UsageError
from edgec.ir.graph import Node
from edgec.ir.types import DTYPES
from edgec.text import printable
from edgec.untrusted import read_arrays

Array = np.ndarray
#: What may be done to samples at random: the last dimension reversed; two samples of a step added in shares; a part of
#: the last two dimensions enlarged to their size.
AUGMENTS = ("mirror", "mix", "zoom")
#: The least and the greatest extent of the part that is enlarged, of the sample's.
ZOOM = (0.4, 1.0)


class Samples:
    """The samples of an .npz file: an array for every input, samples along the first dimension.

    Samples may be larger than the network's inputs: each time another part of them is taken, the same one of all inputs
    of a sample.
    """

    def __init__(self, path: Path, inputs: Sequence[Node], batch: int, augments: Sequence[str] = ()) -> None:
        """Read ``path`` for steps of ``batch`` samples along the first dimension of the inputs; a batch of 1 is one
        run of the inputs, whatever their shape.

        Raises UsageError for arrays that are missing, too small or of unequal number.
        """
        self.batch, self.augments = batch, tuple(augments)
        self.types = {str(n.attributes["name"]): n.type for n in inputs}
        arrays = read_arrays(path)
        self.arrays: dict[str, Array] = {}
        for name, type in self.types.items():
            where = f"{path}, '{printable(name)}'"
            if name not in arrays:
                hint = f"the inputs are {', '.join(map(printable, self.types))}"
                raise UsageError("there is no such array", hint=hint, where=where)
            shape = tuple(int(n) for n in type.shape)
            own = self._alone(arrays[name], shape)
            if own is None:
                told = f"it is {list(arrays[name].shape)}, and the input {list(shape)}"
                raise UsageError(told, hint="the first dimension counts samples, each as large or larger", where=where)
            if own.dtype.kind == "f" and not np.isfinite(own).all():
                raise UsageError("it holds infinities, or what is not a number", hint="leave those out", where=where)
            if "mix" in augments and type.dtype != "f32":
                raise UsageError("only floats are mixed", hint="give --augment mirror, or leave it out", where=where)
            if "zoom" in augments and (type.dtype != "f32" or own.ndim < 3):
                hint = "give --augment mirror, or leave it out"
                raise UsageError("only floats of two dimensions or more are enlarged", hint=hint, where=where)
            self.arrays[name] = own
        counts = {len(a) for a in self.arrays.values()}
        if len(counts) != 1 or counts == {0}:
            hint = f"they hold {', '.join(f'{len(a)} of {name}' for name, a in self.arrays.items())}"
            raise UsageError("the arrays hold different numbers of samples, or none", hint=hint, where=str(path))
        self.count = counts.pop()

    def _alone(self, array: Array, shape: tuple[int, ...]) -> Array | None:
        """[samples, extents of one..], where every extent is that of the input or more."""
        one = shape[1:] if shape and shape[0] == self.batch else shape
        if array.ndim == len(one) + 2 and array.shape[1] == 1:
            array = array.reshape(len(array), *array.shape[2:])
        fits = array.ndim == len(one) + 1 and all(a >= b for a, b in zip(array.shape[1:], one))
        return array if fits else None

    def step(self, number: int, seed: int) -> dict[str, Array]:
        """The inputs of a step, drawn from its number: every sample comes once before one comes again."""
        parts = max(self.count // self.batch, 1)
        order = np.random.default_rng((seed, number // parts)).permutation(self.count)
        picked = np.resize(order, parts * self.batch)[number % parts * self.batch :][: self.batch]
        drawn = np.random.default_rng((seed, number, 1))
        place = drawn.random((self.batch, 8))
        sizes = drawn.uniform(*ZOOM, (self.batch, 2)) if "zoom" in self.augments else None
        flips = drawn.random(self.batch) < 0.5 if "mirror" in self.augments else np.zeros(self.batch, bool)
        share = drawn.beta(1.0, 1.0, self.batch).astype(np.float32) if "mix" in self.augments else None
        found = {}
        for name, type in self.types.items():
            shape = tuple(int(n) for n in type.shape)
            one = shape[1:] if shape and shape[0] == self.batch else shape
            made = np.empty((self.batch, *one), DTYPES[type.dtype])
            for k, i in enumerate(picked):
                whole = self.arrays[name][i]
                cut = _cut(whole, one, place[k]) if sizes is None else _enlarged(whole, one, place[k], sizes[k])
                made[k] = cut[..., ::-1] if flips[k] and cut.ndim > 1 else cut
            if share is not None:
                shares = share.reshape(-1, *[1] * len(one))
                made = made * shares + np.roll(made, 1, axis=0) * (1 - shares)
            found[name] = made.reshape(shape)
        return found


def _cut(whole: Array, extents: Sequence[int], place: Array) -> Array:
    """A part of these extents; ``place`` has shares of the room along the last dimension, the one before, ..."""
    starts = [int(u * (a - b + 1)) for u, a, b in zip(place, reversed(whole.shape), reversed(extents))]
    return whole[tuple(slice(s, s + n) for s, n in zip(reversed(starts), extents))]


def _enlarged(whole: Array, extents: Sequence[int], place: Array, size: Array) -> Array:
    """A part of ``size`` of the last two dimensions, resized to these extents: linear between the nearest elements."""
    part = _cut(whole, (*extents[:-2], *whole.shape[-2:]), np.concatenate([np.zeros(2), place[2:]]))
    for axis, share, start in zip((-1, -2), size, place):
        old, new = part.shape[axis], extents[axis]
        wide = old * share
        at = np.clip((np.arange(new) + 0.5) * (wide / new) - 0.5 + start * (old - wide), 0, old - 1)
        low = np.minimum(at.astype(np.int64), old - 1)
        weight = (at - low).astype(np.float32).reshape((-1,) + (1,) * (-1 - axis))
        a, b = np.take(part, low, axis), np.take(part, np.minimum(low + 1, old - 1), axis)
        part = a + (b - a) * weight
    return part

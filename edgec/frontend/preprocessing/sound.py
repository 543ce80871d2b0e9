"""Sounds as the features of a network's input, by ONNX operators: log-mel spectra, and their cepstral coefficients.

The transform of all frames is one convolution, whose filters are a window times cosines and sines.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from edgec.errors import UsageError
from edgec.frontend.preprocessing.nodes import Nodes
from edgec.media.before import SoundSamples

#: The most numbers that the filters of the transform have.
_MOST = 1 << 25


def sound(nodes: Nodes, x: str, given: SoundSamples, shape: tuple[int, ...], shown: str) -> str:
    """The network's input f32 [1, frames, bands] or [1, bands, frames], in its ``shape``, of samples ``x`` [1, N].

    Raises UsageError where the shape has other extents; ``shown`` is the name of the input.
    """
    is_frames_first = _is_frames_first(given, shape, shown)
    y = nodes.reshaped(x, 1, 1, 1, given.samples)
    if given.type == "i16":
        y = nodes.scaled(nodes.cast(y, TensorProto.FLOAT), np.asarray(1 / 32768))
    bins, around = given.n_fft // 2 + 1, given.n_fft // 2 if given.center else 0
    filters = nodes.constant(_transform(given)[:, None, None])
    y = nodes.apply("Conv", y, filters, strides=[1, given.hop_length], pads=[0, around, 0, around])
    parts = [nodes.rows(y, 1, k * bins, (k + 1) * bins) for k in (0, 1)]
    y = nodes.plus(*(nodes.apply("Mul", part, part) for part in parts))
    y = nodes.reshaped(nodes.apply("Sqrt", y) if given.power == 1 else y, bins, given.frames)
    y = _logarithm(nodes, nodes.apply("MatMul", nodes.constant(mel_bands(given)), y), given)
    if given.kind == "mfcc":
        y = nodes.apply("MatMul", nodes.constant(cosines(given.n_mfcc, given.n_mels)), y)
    if is_frames_first:
        y = nodes.apply("Transpose", y, perm=[1, 0])
    return nodes.reshaped(y, *shape)


def _is_frames_first(given: SoundSamples, shape: tuple[int, ...], shown: str) -> bool:
    """The order of dimensions that an input has; of as many frames as bands, it is bands first."""
    extents, own = [n for n in shape if n != 1], [given.frames, given.bands]
    if extents in ([n for n in own[::-1] if n != 1],):
        return False
    if extents in ([n for n in own if n != 1], [given.frames * given.bands]):
        return True
    told = f"input '{shown}' is {list(shape)}, and there are {given.frames} frames of {given.bands} bands"
    hint = "samples, hop_length, n_fft and center decide how many frames there are, n_mels or n_mfcc how many bands"
    raise UsageError(told, hint=hint, where="--pre")


def _transform(given: SoundSamples) -> np.ndarray:
    """Cosines, then sines, of each frequency under the window: [2 * (n_fft // 2 + 1), n_fft]."""
    bins, length = given.n_fft // 2 + 1, given.win_length or given.n_fft
    if 2 * bins * given.n_fft > _MOST:
        told = f"the transform has {2 * bins * given.n_fft:,} numbers, and {_MOST:,} are the most"
        raise UsageError(told, hint="give a smaller n_fft", where="--pre")
    turns = 2 * np.pi * np.arange(length) / length
    share = {"hann": 0.5, "hamming": 0.54, "ones": 1.0}[given.window]
    window = share - (1 - share) * np.cos(turns)
    before = (given.n_fft - length) // 2
    window = np.pad(window, (before, given.n_fft - length - before))
    angles = 2 * np.pi * (np.outer(np.arange(bins), np.arange(given.n_fft)) % given.n_fft) / given.n_fft
    return np.concatenate([np.cos(angles), np.sin(angles)]) * window


#: Of the scale of mels after Slaney: Hz of a mel below the corner, the corner, and mels that a factor of e takes above.
_STEP, _CORNER, _ABOVE = 200 / 3, 1000.0, 27 / np.log(6.4)


def _mels(hertz: np.ndarray, scale: str) -> np.ndarray:
    if scale == "htk":
        return np.asarray(2595 * np.log10(1 + hertz / 700))
    above = _CORNER / _STEP + _ABOVE * np.log(np.maximum(hertz, _CORNER) / _CORNER)
    return np.where(hertz < _CORNER, hertz / _STEP, above)


def _hertz(mels: np.ndarray, scale: str) -> np.ndarray:
    if scale == "htk":
        return np.asarray(700 * (10 ** (mels / 2595) - 1))
    corner = _CORNER / _STEP
    return np.where(mels < corner, mels * _STEP, _CORNER * np.exp((np.maximum(mels, corner) - corner) / _ABOVE))


def mel_bands(given: SoundSamples) -> np.ndarray:
    """Weights of frequencies in bands [n_mels, n_fft // 2 + 1]: triangles that rise and fall between three edges."""
    ends = _mels(np.asarray([given.fmin, given.highest]), given.mel)
    edges = _hertz(np.linspace(ends[0], ends[1], given.n_mels + 2), given.mel)
    places = np.arange(given.n_fft // 2 + 1) * given.rate / given.n_fft
    low, middle, high = (edges[k : k + given.n_mels, None] for k in range(3))
    bands = np.maximum(0, np.minimum((places - low) / (middle - low), (high - places) / (high - middle)))
    return np.asarray(bands * 2 / (high - low) if given.norm == "slaney" else bands)


def cosines(count: int, of: int) -> np.ndarray:
    """The first rows of the orthonormal cosine transform of type 2: [count, of]."""
    found = np.asarray(np.cos(np.pi * np.outer(np.arange(count), np.arange(of) + 0.5) / of) * np.sqrt(2 / of))
    found[0] /= np.sqrt(2)
    return found


def _logarithm(nodes: Nodes, y: str, given: SoundSamples) -> str:
    factor = {"db": 10 / np.log(10), "ln": 1.0, "log10": 1 / np.log(10)}[given.log]
    y = nodes.apply("Log", nodes.apply("Max", y, nodes.constant(given.amin)))
    y = nodes.scaled(y, np.asarray(factor))
    if given.top_db is None:
        return y
    loudest = nodes.apply("ReduceMax", y, keepdims=1)
    return nodes.apply("Max", y, nodes.less(loudest, np.asarray(given.top_db)))

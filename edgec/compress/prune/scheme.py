"""Schemes: which weights are kept or dropped together, so that a kernel can leave out what is dropped.

Weights are seen as [outputs, columns], a column for every input and tap. Columns are dropped for a panel of ``outputs``
neighboring outputs at once: V x 1 vector sparsity, with V the vector of the device where nothing else is said.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from edgec.errors import UsageError
from edgec.text import one_of

Array = np.ndarray
KINDS = ("vector", "vector=V", "block=VxB", "pattern=KofT", "N:M", "channel")


@dataclass(frozen=True)
class Scheme:
    """``inputs`` neighboring inputs (at one tap) go together; with ``of``, ``keep`` stay of each so many: taps of a
    kernel ("pattern") or inputs in a row ("nm")."""

    kind: str
    outputs: int = 1
    inputs: int = 1
    keep: int = 0
    of: int = 0

    @property
    def share(self) -> float:
        """Of weights that are zero in any case."""
        return 1 - self.keep / self.of if self.of else 0.0

    def __str__(self) -> str:
        return {
            "vector": f"vector={self.outputs}",
            "block": f"block={self.outputs}x{self.inputs}",
            "pattern": f"pattern={self.keep}of{self.of}",
            "nm": f"{self.keep}:{self.of}",
        }.get(self.kind, self.kind)


def parsed(text: str, lanes: int) -> Scheme:
    """A scheme as the command line has it; ``lanes`` is the width of the device's vector."""

    def numbers(pattern: str) -> tuple[int, ...] | None:
        found = re.fullmatch(pattern, text)
        return None if found is None else tuple(map(int, found.groups()))

    scheme = None
    if text in ("vector", "channel"):
        scheme = Scheme(text, lanes)
    elif (n := numbers(r"vector=(\d+)")) is not None:
        scheme = Scheme("vector", n[0])
    elif (n := numbers(r"block=(\d+)x(\d+)")) is not None:
        scheme = Scheme("block", n[0], n[1])
    elif (n := numbers(r"pattern=(\d+)of(\d+)")) is not None and n[0] < n[1]:
        scheme = Scheme("pattern", lanes, 1, *n)
    elif (n := numbers(r"(\d+):(\d+)")) is not None and n[0] < n[1]:
        scheme = Scheme("nm", lanes, 1, *n)
    if scheme is None or min(scheme.outputs, scheme.inputs) < 1 or (scheme.of and not scheme.keep):
        raise UsageError(
            f"'{text}' is no way to prune", hint=one_of(text.partition("=")[0], KINDS, ": vector=16, block=8x4")
        )
    return scheme


def fits(scheme: Scheme, taps: int) -> bool:
    """Is there anything that a scheme could leave out of kernels of so many taps?"""
    return scheme.kind != "pattern" or taps == scheme.of


def kept(scores: Array, scheme: Scheme, taps: int, sparsity: float) -> Array:
    """[panels, columns] of truth: what stays, by the scores of the columns of every panel, the greater the better.

    Columns are ordered by input, then tap. At least one column stays, so that a layer never dies.
    """
    panels, columns = scores.shape
    grid = scores.reshape(panels, columns // taps, taps)
    if scheme.kind == "pattern":
        return _patterns(grid, scheme, sparsity).reshape(panels, columns)
    if scheme.kind == "nm":
        return _of_each(grid, scheme).reshape(panels, columns)
    inputs = grid.shape[1]
    missing = -inputs % scheme.inputs
    padded = np.pad(grid, ((0, 0), (0, missing), (0, 0)))
    blocks = padded.reshape(panels, -1, scheme.inputs, taps).sum(axis=2)
    stay = _best(blocks, round(blocks.size * (1 - sparsity)))
    return stay.repeat(scheme.inputs, axis=1)[:, :inputs].reshape(panels, columns)


def _best(scores: Array, count: int) -> Array:
    """The ``count`` greatest of all, at least one."""
    order = np.argsort(-scores, axis=None, kind="stable")
    stay = np.zeros(scores.size, bool)
    stay[order[: max(count, 1)]] = True
    return stay.reshape(scores.shape)


def _patterns(grid: Array, scheme: Scheme, sparsity: float) -> Array:
    """``keep`` taps of every kernel; where more is to go, whole kernels (connectivity pruning, PatDNN)."""
    rank = np.argsort(np.argsort(-grid, axis=2, kind="stable"), axis=2)
    inside = rank < scheme.keep
    whole = min(1.0, (1 - sparsity) * scheme.of / scheme.keep)
    kernels = _best((grid * inside).sum(axis=2), round(grid.shape[0] * grid.shape[1] * whole))
    return np.asarray(inside & kernels[..., None])


def _of_each(grid: Array, scheme: Scheme) -> Array:
    """``keep`` of each ``of`` neighboring inputs."""
    panels, inputs, taps = grid.shape
    missing = -inputs % scheme.of
    padded = np.pad(grid, ((0, 0), (0, missing), (0, 0)), constant_values=-np.inf)
    groups = padded.reshape(panels, -1, scheme.of, taps)
    rank = np.argsort(np.argsort(-groups, axis=2, kind="stable"), axis=2)
    return (rank < scheme.keep).reshape(panels, -1, taps)[:, :inputs]

"""Answers of a device: files and lines that are checked before anything is made of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from edgec.errors import CheckError, LinkError
from edgec.ir.expr import Expr
from edgec.ir.index import bounds
from edgec.ir.sizes import dimensions, shape_at
from edgec.ir.types import DTYPES
from edgec.schedule.program import Program

_LONG = np.dtype(np.int64)
#: Digits of the largest number that a device can mean.
_NUMBER = "[0-9]{1,18}"


@dataclass(frozen=True)
class Ran:
    """Results of one sample on the device: outputs by name, and the nanoseconds of every run."""

    outputs: dict[str, np.ndarray]
    nanoseconds: np.ndarray


def expected_bytes(program: Program, samples: int, runs: int) -> int:
    """Size of the file of outputs: for each sample status, times, sizes, and every output at its largest."""
    sizes = len(dimensions(node.type for _, _, node in program.inputs)) + len(program.sizes)
    outputs = sum(node.type.elements * np.dtype(DTYPES[node.type.dtype]).itemsize for _, _, node in program.outputs)
    return samples * (_LONG.itemsize * (2 + runs + sizes) + outputs)


def content(path: Path, expected: int, where: str) -> bytes:
    """The file that came back. Raises LinkError where there is none, or one that is larger than ``expected`` bytes."""
    if not path.is_file():
        raise LinkError("no outputs came back, though the copy was said to succeed", where=where)
    with path.open("rb") as file:
        found = file.read(expected + 1)
    if len(found) > expected:
        raise LinkError(f"the outputs that came back are of more than {expected:,} bytes", where=where)
    return found


def sample(
    raw: bytes, place: int, program: Program, known: Mapping[Expr, int], runs: int, where: str
) -> tuple[Ran, int]:
    """Results of one sample, from ``place`` on, and the place of the next one; ``known`` are the sizes of its inputs.

    Raises LinkError for what a device that is well cannot send, CheckError where the network refused its inputs.
    """

    def take(dtype: np.dtype, count: int) -> np.ndarray:
        nonlocal place
        if place + dtype.itemsize * count > len(raw):
            raise LinkError("the outputs that came back are cut off", where=where)
        found = np.frombuffer(raw, dtype, count, place)
        place += dtype.itemsize * count
        return found

    status, counted = (int(n) for n in take(_LONG, 2))
    if status != 0:
        raise CheckError(f"the network ended with status {status} on the device", where=where)
    if counted != runs:
        raise LinkError(f"the device tells of {counted} runs, and {runs} were asked for", where=where)
    nanoseconds = take(_LONG, counted)
    if counted and nanoseconds.min() < 0:
        raise LinkError("the device tells of runs that took less than no time", where=where)
    given = [int(n) for n in take(_LONG, len(dimensions(node.type for _, _, node in program.inputs)))]
    sizes = dict(zip(program.sizes, (int(n) for n in take(_LONG, len(program.sizes)))))
    for size, found in sizes.items():
        low, high = bounds(size)
        if not low <= found <= high:
            raise LinkError(f"the device tells of a size of {found}, which is from {low} to {high}", where=where)
    if any(n < 0 for n in given):
        raise LinkError("the device tells of sizes below 0", where=where)
    outputs = {}
    for name, _, node in program.outputs:
        flat = take(np.dtype(DTYPES[node.type.dtype]), node.type.elements)
        shape = shape_at(node.type.shape, {**known, **sizes})
        if prod(shape) > len(flat) or any(n < 0 for n in shape):
            raise LinkError(f"the sizes that the device tells do not fit output '{name}'", where=where)
        outputs[name] = flat[: prod(shape)].reshape(shape).copy()
    return Ran(outputs, nanoseconds), place


def stack_bytes(said: str) -> int | None:
    """The most stack that was in use, where the board tells."""
    found = re.search(rf"^stack ({_NUMBER})\s*$", said, re.MULTILINE)
    return int(found[1]) if found is not None else None


def processor(said: str) -> str | None:
    """The level that ran, of a library for several processors."""
    found = re.search(r"^processor (\w{1,80})\s*$", said, re.MULTILINE | re.ASCII)
    return found[1] if found is not None else None


def kernel_times(said: str, where: str) -> tuple[int, ...]:
    """Nanoseconds of every kernel, which the runner prints a line each, in their order.

    A clock that was set back meanwhile gives times below 0. Raises LinkError for other lines.
    """
    found = re.findall(rf"^kernel ({_NUMBER}) (-?{_NUMBER})\s*$", said, re.MULTILINE)
    if not found or [int(number) for number, _ in found] != list(range(len(found))):
        raise LinkError("the device does not tell the times of its kernels one by one, in their order", where=where)
    return tuple(int(n) for _, n in found)

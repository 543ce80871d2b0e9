"""Apps and bindings of networks of every form, as the files that each adds to a project, or why it is refused.

A line of ``extras.txt`` has a network, an addition, its device, the number of files that it adds or changes and a
checksum of their paths and texts. ``pytest tests/golden --update-golden`` writes the lines, after a look at the files
that changed.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_graphs import graph, total, value

from edgec import ops
from edgec.device.device import Device
from edgec.device.load import load_device
from edgec.emit.apps import EXTRAS
from edgec.emit.picture import Preparation
from edgec.emit.project import files
from edgec.errors import EdgecError
from edgec.fuse import plan
from edgec.ir.expr import size
from edgec.ir.graph import Graph, constant
from edgec.ir.types import DTYPES
from edgec.schedule.build import schedule
from edgec.schedule.options import ScheduleOptions
from edgec.schedule.program import Program
from edgec.version import __version__

KEPT = Path(__file__).with_name("extras.txt")
LABELS = Preparation(labels=("one", "two & three", "four"))
SCALED = Preparation((124.0, 116.0, 104.0), (58.0, 57.0, 57.0))
PICTURE = (1, 3, 32, 48)
#: Element type and shapes of inputs, shapes of outputs, what is told of pictures, and threads.
NETWORKS: dict[str, tuple[str, tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...], Preparation, int]] = {
    "classes": ("f32", (PICTURE,), ((1, 3),), LABELS, 1),
    "classes of bytes": ("u8", ((1, 32, 48, 3),), ((1, 10),), SCALED, 2),
    "classes of signed bytes": ("i8", ((1, 16, 20, 1),), ((1, 10),), LABELS, 1),
    "gray": ("f32", ((1, 1, 16, 20),), ((10,),), Preparation((0.5,), (0.25,)), 2),
    "pair of boxes": ("f32", (PICTURE,), ((1, 40, 2), (1, 40, 4)), LABELS, 1),
    "boxes and scores": ("f32", (PICTURE,), ((1, 40, 4), (1, 40, 3)), LABELS, 2),
    "columns of boxes": ("f32", (PICTURE,), ((1, 7, 31),), LABELS, 1),
    "grid of boxes": ("f32", (PICTURE,), ((1, 31, 8),), LABELS, 1),
    "rows of boxes": ("f32", (PICTURE,), ((1, 93, 7),), LABELS, 1),
    "cells of boxes": ("f32", (PICTURE,), ((1, 8, 3, 4),), LABELS, 1),
    "flow": ("f32", (PICTURE, PICTURE), ((1, 2, 4, 6), (1, 2, 32, 48), (1, 2, 32, 48)), SCALED, 1),
    "two pictures": ("f32", (PICTURE, PICTURE), ((1, 2, 32, 47),), LABELS, 1),
    "keyword": ("f32", ((1, 1, 49, 10),), ((1, 12),), LABELS, 1),
    "keyword of bytes": ("i8", ((1, 49, 10, 1),), ((1, 12),), LABELS, 2),
    "sound": ("f32", ((1, 8000),), ((1, 3),), Preparation(labels=("yes", "no", "?"), rate=8000), 1),
    "numbers": ("f32", ((1, 8), (2, 2, 3)), ((4,), (), (1, 1, 2)), LABELS, 2),
    "wide numbers": ("f64", ((5,),), ((4,),), LABELS, 1),
    "whole numbers": ("i64", ((5, 2),), ((4,),), LABELS, 1),
    "five channels": ("f32", ((1, 5, 32, 48),), ((1, 3),), SCALED, 1),
    "colors for gray": ("f32", ((1, 1, 32, 48),), ((1, 3),), SCALED, 1),
}


def network(name: str) -> Graph:
    """Outputs of these shapes, each of all inputs; with what a quantized model tells of an input of bytes."""
    dtype, inputs, outputs, _, _ = NETWORKS[name]
    given = [value(f"x{k}", *shape, dtype=dtype) for k, shape in enumerate(inputs)]
    whole = [total(x if dtype == "f32" else ops.node("cast", x, to="f32"), *range(x.type.rank)) for x in given]
    found = whole[0]
    for other in whole[1:]:
        found = ops.node("add", found, other)
    found = ops.node("reshape", found, shape=())
    made = graph(*(ops.node("add", found, constant(np.zeros(shape, np.float32))) for shape in outputs))
    told = (
        {"quantization x0": "[0.5, 3]", "quantization y0": "[0.25, -1]"}
        if np.dtype(DTYPES[dtype]).itemsize == 1
        else {}
    )
    return replace(made, metadata={**made.metadata, **told})


def device_of(extra: str) -> Device:
    found = EXTRAS[extra]
    return load_device(found.such or {"cuda": "jetson_orin_nano"}.get(found.language, "x86_64_avx2"))


def program(made: Graph, device: Device, threads: int) -> Program:
    return schedule(plan(made, gpu=device.is_gpu), device, ScheduleOptions(threads if device.hosted else 1))


def added(made: Program, device: Device, extra: str, prepared: Preparation) -> str:
    """Number and checksum of the files that are there, or others, because of the addition."""
    try:
        without = files(made, device, "net", prepared=prepared)
        found = files(made, device, "net", beside=[extra], prepared=prepared)
    except EdgecError as error:
        return f"{error.message} / {error.hint}"
    own = {p: bytes(content) for p, content in sorted(found.items()) if without.get(p) != content}
    text = b"".join(p.encode() + content for p, content in own.items()).replace(__version__.encode(), b"VERSION")
    return f"{len(own)} | {zlib.crc32(text):08x}"


def lines(name: str) -> Iterator[str]:
    made = network(name)
    _, _, _, prepared, threads = NETWORKS[name]
    for extra in EXTRAS:
        device = device_of(extra)
        yield f"{name} | {extra} | {device.name} | {added(program(made, device, threads), device, extra, prepared)}"


def open_lines() -> Iterator[str]:
    """Of a network with an open size, and of devices that an addition is not for."""
    x = value("x", 1, size("n", 1, 9))  # type: ignore[arg-type]
    made = graph(ops.node("exp", x))
    for extra in EXTRAS:
        device = device_of(extra)
        yield f"open | {extra} | {device.name} | {added(program(made, device, 1), device, extra, LABELS)}"
        for other in ("mps2_an386", "cortex_m4", "x86_64_avx2", "android_arm64", "cuda_sm90", "webgpu", "esp32s3"):
            device = load_device(other)
            yield f"open | {extra} | {other} | {added(program(made, device, 1), device, extra, LABELS)}"


@pytest.mark.parametrize("name", [*NETWORKS, "open"])
def test_extras(name: str, update_golden: bool) -> None:
    found = [*(open_lines() if name == "open" else lines(name))]
    kept = KEPT.read_text(encoding="utf-8").splitlines() if KEPT.is_file() else []
    if update_golden:
        others = [line for line in kept if line.partition(" | ")[0] != name]
        KEPT.write_text("\n".join(sorted([*others, *found])) + "\n", encoding="utf-8")
    else:
        want = [line for line in kept if line.partition(" | ")[0] == name]
        assert want == sorted(found), "pytest tests/golden --update-golden"


def test_lines_are_of_no_other_network() -> None:
    names = {line.partition(" | ")[0] for line in KEPT.read_text(encoding="utf-8").splitlines()}
    assert names == {*NETWORKS, "open"}

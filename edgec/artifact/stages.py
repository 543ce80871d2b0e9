"""Stages as files: texts that read back, with their large constants in a folder next to them."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TypeVar

import numpy as np

from edgec import files
from edgec.compress import Compressed
from edgec.device.device import Device
from edgec.errors import ModelError, UsageError
from edgec.frontend.onnx.export import to_onnx
from edgec.fuse import Plan
from edgec.fuse.text import read_plan as parse_plan
from edgec.ir import text
from edgec.ir.graph import Array, Graph
from edgec.ir.records.writer import Written
from edgec.ir.types import CODED, DTYPES, plain
from edgec.schedule.program import Program
from edgec.schedule.text import read_program as parse_program
from edgec.schedule.text import write_program
from edgec.untrusted import read_array, reason, regular

#: The folder of constants beside the saved texts, one file each, named by digest.
CONSTANTS = "constants"
#: The first word of the line that names the layers in bf16.
BF16_LAYERS = "bf16_layers"
#: The first word of the line that names the device of a program.
DEVICE = "device"

Read = TypeVar("Read")


def show_graph(graph: Graph) -> Written:
    return Written(text.show(graph), _constants_of(graph))


def _constants_of(graph: Graph) -> dict[str, Array]:
    return {d: array for d, array in text.constants_of(graph).items() if array.value.size > text.INLINE_ELEMENTS}


def show_compressed(compressed: Compressed) -> Written:
    """The text of a compressed graph, behind a line that names the layers in bf16 where there are any."""
    layers = compressed.bf16_layers
    head = "" if layers is None else f"{BF16_LAYERS} {json.dumps(sorted(layers))}\n"
    shown = show_graph(compressed.graph)
    return Written(head + shown.text, shown.arrays)


def show_program(program: Program, device: Device) -> Written:
    """The text of a program, behind a line that names the device it is scheduled for."""
    shown = write_program(program)
    return Written(f"{DEVICE} {json.dumps(device.name)}\n\n{shown.text}", shown.arrays)


def write(folder: Path, name: str, shown: Written, graph: Graph | None = None) -> None:
    """Write the text of a stage, and an ONNX file of ``graph``; constants go to a folder next to it, once each."""
    if folder.exists() and not folder.is_dir():
        raise UsageError("not a folder", where=str(folder))
    constants = folder / CONSTANTS
    with files.writing(folder):
        constants.mkdir(parents=True, exist_ok=True)
    arrays = {**shown.arrays, **(_constants_of(graph) if graph is not None else {})}
    for digest, array in arrays.items():
        path = constants / f"{digest}.npy"
        if not path.exists():
            files.replace(path, _npy(plain(array.value)))
    if graph is not None:
        files.replace(folder / f"{Path(name).stem}.onnx", to_onnx(graph, constants).SerializeToString())
    files.replace(folder / name, shown.text)


def _npy(array: np.ndarray) -> bytes:
    content = io.BytesIO()
    np.save(content, array, allow_pickle=False)
    return content.getvalue()


def read_plan(path: Path) -> Plan:
    """The plan that fuse left; raises as ``read_compressed`` does."""
    content = _content(path)
    return _in(path, lambda: parse_plan(content, _named(content, path)))


def read_program(path: Path, devices: Collection[Device]) -> Program:
    """The program that schedule left for one of ``devices``; raises as ``read_compressed`` does."""
    content = _content(path)
    line, _, rest = content.partition("\n")
    head, _, name = line.partition(" ")
    if head != DEVICE:
        raise ModelError("not the text of a program", hint="start from what schedule saved", where=str(path))
    program = _in(path, lambda: parse_program(f"\n{rest}", _named(content, path)))
    parts = program.parts + program.levels
    others = [p.device for p in parts if p.device not in devices]
    if others or name not in [json.dumps(device.name) for device in devices]:
        raise UsageError(
            f"it is scheduled for another device: {others[0].name if others else name}",
            hint="start at schedule, or build with the options that it was saved with",
            where=str(path),
        )
    return program


def _in(path: Path, read: Callable[[], Read]) -> Read:
    """Read with the path in front of the number of the line in errors."""
    try:
        return read()
    except ModelError as error:
        raise ModelError(error.message, hint=error.hint, where=f"{path}, {error.where}") from None


def _content(path: Path) -> str:
    try:
        return regular(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the saved stage: {reason(error)}", where=str(path)) from None


def _named(content: str, path: Path) -> dict[str, Array]:
    """The constants that a text names, out of their files."""
    found = {}
    for dtype, digest in re.findall(r"\b(\w+)\[[^\]\n]*\](?: = const)? @(\w+)", content):
        found[digest] = _constant(path.parent / CONSTANTS / f"{digest}.npy", dtype)
    return found


def read_compressed(path: Path) -> Compressed:
    """The graph that import, simplify or compress left, with its layers in bf16 where there are any.

    Raises UsageError where the file is missing, ModelError where it is broken.
    """
    content = _content(path)
    layers = None
    if content.startswith(BF16_LAYERS):
        line, _, content = content.partition("\n")
        layers = _layers(line.removeprefix(BF16_LAYERS), path)
    if not content.lstrip().startswith(("graph ", "size ")) or re.search(r"^Plan\(", content, re.MULTILINE):
        raise ModelError(
            "not the text of a graph",
            hint="start from what import, simplify or compress saved with --save-stages",
            where=str(path),
        )
    graph = _in(path, lambda: text.parse(content, _named(content, path)))
    return Compressed(graph, bf16_layers=layers)


def _layers(listed: str, path: Path) -> frozenset[str]:
    try:
        names = json.loads(listed)
    except (ValueError, RecursionError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ModelError("the layers in bf16 are no list of names", hint="save the stages again", where=str(path))
    return frozenset(names)


def _constant(path: Path, dtype: str) -> Array:
    value = read_array(path)
    is_coded = dtype in CODED and value.itemsize == DTYPES[dtype].itemsize
    array = Array(value.view(DTYPES[dtype]) if is_coded else value)
    if array.digest != path.stem:
        raise ModelError("a constant is not what its name says", hint="save the stages again", where=str(path))
    return array

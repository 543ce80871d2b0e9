"""Stages as files: graphs as text that reads back, their large constants beside it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx

from edgec.compress import Compressed
from edgec.errors import ModelError, UsageError
from edgec.frontend.onnx.export import to_onnx
from edgec.ir import text
from edgec.ir.graph import Array, Graph
from edgec.ir.types import CODED, DTYPES, plain
from edgec.untrusted import read_array

#: The folder of constants beside the saved texts, one file each, named by digest.
CONSTANTS = "constants"
#: The first word of the line that names the layers in bf16.
BF16_LAYERS = "bf16_layers"


def show_graph(graph: Graph) -> str:
    return text.show(graph)


def show_compressed(compressed: Compressed) -> str:
    """The text of a compressed graph, behind a line that names the layers in bf16 where there are any."""
    layers = compressed.bf16_layers
    head = "" if layers is None else f"{BF16_LAYERS} {json.dumps(sorted(layers))}\n"
    return head + show_graph(compressed.graph)


def write(folder: Path, name: str, content: str, value: object) -> None:
    """Write the text of a stage, and of a graph an ONNX file too; constants go to a folder beside it, once each."""
    if folder.exists() and not folder.is_dir():
        raise UsageError("not a folder", where=str(folder))
    folder.mkdir(parents=True, exist_ok=True)
    graph = value if isinstance(value, Graph) else getattr(value, "graph", None)
    if isinstance(graph, Graph):
        constants = folder / CONSTANTS
        constants.mkdir(exist_ok=True)
        for digest, array in text.constants_of(graph).items():
            path = constants / f"{digest}.npy"
            if array.value.size > text.INLINE_ELEMENTS and not path.exists():
                np.save(path, plain(array.value))
        onnx.save(to_onnx(graph, constants), folder / f"{Path(name).stem}.onnx")
    (folder / name).write_text(content, encoding="utf-8")


def read_compressed(path: Path) -> Compressed:
    """The graph that import, simplify or compress left, with its layers in bf16 where there are any.

    Raises UsageError where the file is missing, ModelError where it is broken.
    """
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the saved stage: {error}", where=str(path)) from None
    layers = None
    if content.startswith(BF16_LAYERS):
        line, _, content = content.partition("\n")
        layers = _layers(line.removeprefix(BF16_LAYERS), path)
    if not content.lstrip().startswith("graph "):
        raise ModelError(
            "not the text of a graph",
            hint="start from what import, simplify or compress saved with --save-stages",
            where=str(path),
        )
    constants = {}
    for line in content.splitlines():
        head, marker, digest = line.partition(" = const @")
        if marker:
            digest = digest.split()[0]
            dtype = head.rpartition(": ")[2].partition("[")[0]
            constants[digest] = _constant(path.parent / CONSTANTS / f"{digest}.npy", dtype)
    try:
        return Compressed(text.parse(content, constants), bf16_layers=layers)
    except ModelError as error:
        raise ModelError(error.message, hint=error.hint, where=f"{path}, {error.where}") from None


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

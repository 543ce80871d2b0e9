"""Stages as files: graphs as text that reads back, their large constants beside it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from edgec.errors import ModelError, UsageError
from edgec.frontend.onnx.export import to_onnx
from edgec.ir import text
from edgec.ir.graph import Array, Graph
from edgec.ir.types import CODED, DTYPES, plain
from edgec.untrusted import read_array

#: The folder of constants beside the saved texts, one file each, named by digest.
CONSTANTS = "constants"


def show_graph(graph: Graph) -> str:
    return text.show(graph)


def write(folder: Path, name: str, content: str, value: object) -> None:
    """Write the text of a stage, and of a graph an ONNX file too; constants go to a folder beside it, once each."""
    if folder.exists() and not folder.is_dir():
        raise UsageError("not a folder", where=str(folder))
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(value, Graph):
        constants = folder / CONSTANTS
        constants.mkdir(exist_ok=True)
        for digest, array in text.constants_of(value).items():
            path = constants / f"{digest}.npy"
            if array.value.size > text.INLINE_ELEMENTS and not path.exists():
                np.save(path, plain(array.value))
        onnx.save(to_onnx(value, constants), folder / f"{Path(name).stem}.onnx")
    (folder / name).write_text(content, encoding="utf-8")


def read_graph(path: Path) -> Graph:
    """The graph that was saved; raises UsageError where the file is missing, ModelError where it is broken."""
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the saved stage: {error}", where=str(path)) from None
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
        return text.parse(content, constants)
    except ModelError as error:
        raise ModelError(error.message, hint=error.hint, where=f"{path}, {error.where}") from None


def _constant(path: Path, dtype: str) -> Array:
    value = read_array(path)
    is_coded = dtype in CODED and value.itemsize == DTYPES[dtype].itemsize
    array = Array(value.view(DTYPES[dtype]) if is_coded else value)
    if array.digest != path.stem:
        raise ModelError("a constant is not what its name says", hint="save the stages again", where=str(path))
    return array

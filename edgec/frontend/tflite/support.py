"""Unsupported operators of a model: all of them at once, before any work is done."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from edgec.frontend.onnx.call import load_operators
from edgec.frontend.tflite import call as registry
from edgec.frontend.tflite import operators as _operators  # noqa: F401  (they register)
from edgec.frontend.tflite.model import Operator, TfliteModel
from edgec.text import printable


def unsupported(model: TfliteModel, ops_folders: Iterable[str | Path] = ()) -> list[tuple[str, str, str]]:
    """(node, operator, hint) for every operator that cannot be lowered, wherever it stands in the model."""
    for folder in ops_folders:
        load_operators(folder)
    return [
        (o.label, printable(o.name), _hint(o))
        for graph in model.subgraphs
        for o in graph.operators
        if registry.lowering(o.name) is None
    ]


def _hint(operator: Operator) -> str:
    reason = registry.refused().get(operator.name)
    if reason is not None:
        return reason
    return f'lower it yourself: @tflite("{printable(operator.name)}") in a Python file, its folder by --ops'

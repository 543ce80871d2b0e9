"""Options that several verbs of the command line have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from edgec.artifact.names import is_built
from edgec.device.names import ABI_DEVICES
from edgec.errors import UsageError

#: What can be a model, for help.
KINDS = "an ONNX, TensorFlow Lite or GGUF file, or a folder of Hugging Face's"
ModelPath = Annotated[
    str, typer.Argument(metavar="[MODEL]", help=f"The model: {KINDS}; or a folder with an edgec.toml.")
]
OrBuilt = Annotated[
    str, typer.Argument(metavar="[MODEL]", help=f"The model: {KINDS}; or a folder with an edgec.toml, or of a build.")
]

Abi = Annotated[
    str,
    typer.Option("--abi", metavar="LIST", help=f"ABIs of --app android beside the device's: {', '.join(ABI_DEVICES)}."),
]
BuiltFrom = Annotated[
    Optional[Path],
    typer.Option("--model", metavar="FILE", help="Of a built folder: its model, where that is not in its place."),
]
Inputs = Annotated[
    Optional[Path], typer.Option("--inputs", metavar="FILE", help="Arrays to check with: .npz by input name, or .npy.")
]
Samples = Annotated[int, typer.Option("--samples", help="Random inputs to try.")]
Seed = Annotated[int, typer.Option("--seed", help="Where random inputs start.")]
Tolerance = Annotated[
    Optional[float],
    typer.Option(
        "--tolerance", help="Largest difference over largest value that passes, and part of integers that may differ."
    ),
]
Data = Annotated[
    Optional[Path],
    typer.Option("--data", metavar="PATH", help="Score it instead, on labelled data: .npz, or a folder."),
]
Metric = Annotated[str, typer.Option("--metric", help="What --data are scored by: top1, exact, iou, cosine.")]
Seconds = Annotated[float, typer.Option("--seconds", help="How long to time, without building.")]
Vs = Annotated[Optional[str], typer.Option("--vs", metavar="PEER", help="Of a built training: the reference is torch.")]
Steps = Annotated[int, typer.Option("--steps", help="Of a built training: steps to compare.")]


def refuse_source(source: Path | None, model: str) -> None:
    """Raises UsageError for ``--model`` beside anything but a built folder."""
    if source is not None and not is_built(model):
        raise UsageError("is for a folder that was built", hint=f"edgec build {source} -o DIR", where="--model")

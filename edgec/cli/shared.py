"""Options that several verbs of the command line have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

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

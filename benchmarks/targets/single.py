"""One cell of the walk, built and judged in a process of its own.

    python -m benchmarks.targets.single JOB.json ROW.json

``verdict`` is ran (its answers are right), validated, built, refused (in words, by edgec), or wrong; everything else
ends as an ``error``.
"""

from __future__ import annotations

import argparse
import json
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import edgec
from benchmarks.alone import Row, write
from benchmarks.targets import plain
from benchmarks.targets.network import (
    CALIBRATION,
    CANDIDATES,
    LABELS,
    RANGE,
    SIDE,
    as_read,
    clearest,
    network,
    pictures,
    write_ppm,
)
from benchmarks.targets.programs import PROGRAMS, Outcome, Sample
from edgec.check.reference import Reference
from edgec.device.load import load_device
from edgec.emit.extras import chosen
from edgec.errors import CheckError, EdgecError, LinkError, ToolchainError, UsageError
from edgec.frontend import source


def run(job: Mapping[str, Any], target: Path) -> None:
    """Build and judge one cell; its row is written to ``target``."""
    row: Row = {"verdict": "error", "how": ""}
    write(row, target)
    try:
        found = outcome(job["device"], job["app"], job["arithmetic"], job["shapes"], Path(job["folder"]))
        row = {"verdict": found.verdict, "how": found.how}
    except CheckError as problem:
        row = {"verdict": "wrong", "how": str(problem)}
    except (ToolchainError, LinkError) as problem:
        row = {"verdict": "error", "error": f"{type(problem).__name__}: {problem}"}
    except UsageError as problem:
        row = {"verdict": "refused", "how": " ".join(str(problem).split())}
    except EdgecError as problem:
        row = {"verdict": "refused", "how": f"{type(problem).__name__}: {' '.join(str(problem).split())}"}
    except Exception as problem:
        place = traceback.extract_tb(problem.__traceback__)[-1]
        row = {"verdict": "error", "error": f"{type(problem).__name__} at {place.name}:{place.lineno}: {problem}"}
    write({key: text[:600] for key, text in row.items()}, target)


def outcome(device: str, app: str, arithmetic: str, shapes: str, folder: Path) -> Outcome:
    """Build one cell in ``folder`` and see how far it comes. Raises EdgecError where it is refused or wrong."""
    facts = load_device(device)
    if app != "none":
        chosen([app], facts, "net")  # what is not offered is refused before the work
    model = folder / "colors.onnx"
    onnx.save(network(), model)
    sample = _sample(model, folder)
    sizes: dict[str, Any] = {"shapes": {"image": (1, 3, SIDE, SIDE)}}
    if shapes == "open":
        sizes = {"dims": {"rows": RANGE, "columns": RANGE}}
    settings: dict[str, Any] = {"device": device, **sizes}
    if arithmetic == "int8":
        np.savez(folder / "calibration.npz", image=as_read(pictures(CALIBRATION, 1))[:, None])
        settings |= {"quantize": "int8", "calibrate": folder / "calibration.npz"}
    out = folder / "net"
    if app == "none":
        return plain.check(model, facts, sample, settings, out)
    built = edgec.build(
        model, out, app=app, labels=LABELS, compile=app in ("web", "android", "apk"), **settings
    )  # fmt: skip
    return PROGRAMS[app](built, sample)


def _sample(model: Path, folder: Path) -> Sample:
    """The picture that the network is surest of, among some."""
    drawn = pictures(CANDIDATES, 2)
    reference = Reference(source.read(model), {}, 1, {"image": (1, 3, SIDE, SIDE)})
    scores = np.concatenate([reference.run({"image": as_read(p[None])})["scores"] for p in drawn])
    best = clearest(scores)
    write_ppm(drawn[best], folder / "picture.ppm")
    return Sample(folder / "picture.ppm", as_read(drawn[best][None]), scores[best])


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("job", type=Path)
    p.add_argument("row", type=Path)
    options = p.parse_args()
    run(json.loads(options.job.read_text(encoding="utf-8")), options.row)


if __name__ == "__main__":
    main()

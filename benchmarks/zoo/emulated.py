"""One network of the zoo on CUDA in emulation: is it right, how many kernels, what time does the planner predict?

    python -m benchmarks.zoo.emulated JOB.json ROW.json

Emulation takes a thousand times as long as a GPU, so that networks of more than ``most_macs`` are planned only.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.alone import Row, serve, write
from benchmarks.zoo.single import built_in, check
from edgec.errors import EdgecError
from edgec.report.facts import macs
from edgec.report.launches import predicted

#: The device whose kernels are emulated.
DEVICE = "cuda_sm90"


def run(job: Mapping[str, Any], target: Path) -> None:
    """Write the row after every step."""
    row: Row = {"step": "build"}
    write(row, target)
    try:
        planned = built_in(row, job, device=DEVICE, compile=False)
        seconds = [predicted(kernel, planned.options.device) for kernel in planned.program.kernels]
        row["predicted_ms"] = round(sum(seconds) * 1e3, 4)
        row["macs"] = macs(planned.stages.graph)
        if row["macs"] > job["most_macs"]:
            row["left_out"] = f"{row['macs'] / 1e6:.0f} million multiply-adds are too many to emulate"
        else:
            row["step"] = "check"
            write(row, target)
            built = built_in(row, job, device=DEVICE, compiler="emulated")
            check(built, job, row, (built.network.run,))
        row["step"] = "done"
    except EdgecError as refusal:
        row["refused" if row["step"] == "build" else "error"] = " ".join(str(refusal).split())[:600]
    except Exception as problem:
        row["error"] = f"{type(problem).__name__}: {' '.join(str(problem).split())[:400]}"
    write(row, target)


def main() -> None:
    serve(run, __doc__)


if __name__ == "__main__":
    main()

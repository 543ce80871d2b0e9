"""Mixed precision: as few kernels in floats as keep the error below what was asked for.

What the first kernels round off goes through all the others, so it is the first so many that stay in floats. How many
is found by halving, each time running the formulas of the kernels on their planned memory, where halves are halves.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np

from edgec.compress.calibrate import samples, warn_if_drawn
from edgec.errors import UsageError
from edgec.execute.executor import run_plan, run_program
from edgec.fuse import Plan
from edgec.media.way import Data
from edgec.schedule.program import Program

#: Inputs that the error is taken over.
SAMPLES = 2
#: Formulas take weights as they were; as halves they are off by about as much again as what lies in memory.
WEIGHTS = 1.5


def mixed(plan: Plan, scheduled: Callable[..., Program], error: float, calibrate: Data) -> Program:
    """The program with the fewest first blocks in floats whose outputs are within ``error`` of the largest value.

    ``scheduled`` makes a program with ``floats`` of them. Raises UsageError where even all of them are not enough.
    """
    warn_if_drawn(calibrate, "the error of mixed precision was measured")
    inputs = list(islice(samples(calibrate, plan.graph), SAMPLES))
    wanted = [run_plan(plan, given) for given in inputs]

    def measured(floats: int) -> tuple[float, Program]:
        program = scheduled(floats)
        return WEIGHTS * max(distance(run_program(program, g), w) for g, w in zip(inputs, wanted)), program

    low, high = 0, len(plan.blocks)
    found, best = measured(high)
    if found > error:
        raise UsageError(f"in floats the error is {found:.1e} already", hint="allow more: --precision mixed:ERROR")
    while low < high:
        middle = (low + high) // 2
        found, program = measured(middle)
        low, high, best = (low, middle, program) if found <= error else (middle + 1, high, best)
    return best


def distance(got: dict[str, Any], want: dict[str, Any]) -> float:
    """The largest difference over the largest value, of the output where that is most."""
    found = 0.0
    for name, w in want.items():
        if w.dtype.kind == "f" and w.size:
            most = float(np.abs(w).max()) or 1.0
            found = max(found, float(np.abs(got[name].astype(np.float64) - w).max()) / most)
    return found

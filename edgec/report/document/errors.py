"""Errors by their cause: what the compiler's code adds, which is rounding, and what compression was allowed to cost."""

from __future__ import annotations

from dataclasses import asdict

from edgec.build import Built
from edgec.check.fidelity import Fidelity
from edgec.check.network import Checked
from edgec.compress.calibrate import RANDOM
from edgec.report.record import Record


def causes(built: Built, checked: Checked | None, fidelity: Fidelity | None) -> Record | None:
    """Errors of a check apart; None where nothing was checked.

    The tolerance of rounding bounds what code may differ by from the graph that it computes. A compressed network is
    another graph than the model's, so its distance from the model is bound by ``--max-loss`` alone.
    """
    if checked is None:
        return None
    found = built.stages.compressed
    is_compressed = found is not None and found.is_changed
    names = [e.stage for e in checked.stages]
    at = names.index("compress") if is_compressed and "compress" in names else -1
    code = [e.added_rel for e in checked.stages[at + 1 :]]
    alone = [b.ok for b in checked.blocks]
    ok = checked.ok
    if at >= 0:
        ok = all(alone) if alone else max(code, default=0.0) <= checked.tolerance
    return {
        "ok": ok,
        "is_compressed": at >= 0,
        "model_rel": checked.stages[at].max_rel if at >= 0 else None,
        "code_rel": max(code, default=0.0),
        "tolerance": checked.tolerance,
        "kernels_right": sum(alone),
        "kernels_run": len(alone),
        "inputs": inputs_of(built),
        "fidelity": asdict(fidelity) if fidelity is not None else None,
    }


def inputs_of(built: Built) -> str:
    """The source of the inputs of the check: the data of ``--calibrate`` where there are any, else drawn."""
    return "random" if str(built.options.calibrate) == RANDOM else "calibration"

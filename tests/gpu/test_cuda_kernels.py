"""Every CUDA template on shapes around its edges, its kernels run on the processor, held against their formulas."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from emulated import emulate
from kernel_cases import cases
from opencl_networks import joined
from small_graphs import arrays, doubled

from edgec.device.facts import load_device
from edgec.errors import DeviceError, EdgecError
from edgec.ir import evaluate

SEED = int(np.random.SeedSequence().entropy) % 2**32  # fresh inputs every time; a failure names it
#: Of the largest value: rounding of sums, and of factors to 10 bits of mantissa, which a softmax of products enlarges.
TOLERANCE = {"fp32": 1e-5, "tf32": 1e-2, "fp16": 1e-2}
GROUPS = cases()
#: What runs on tensor cores, or hands on halves.
NARROW = ("contractions", "convolutions", "epilogues", "attentions")
#: What is one network each here: procedures are small kernels, and a network's host is most of what is compiled.
PROCEDURES = ("recurring", "scanning", "scattering", "selection", "sorting")
DEVICE = "cuda_sm90" if os.environ.get("EDGEC_TEST_GPU") else "jetson"
WHAT = [(g, "fp32") for g in sorted(GROUPS)] + [(g, p) for g in NARROW for p in ("tf32", "fp16")]
WHAT.append(("recurring", "fp16"))


@pytest.mark.parametrize(("group", "precision"), WHAT)
def test_kernels_compute_their_formulas(group: str, precision: str, tmp_path: Path) -> None:
    device = replace(load_device(DEVICE), precision=precision)
    wrong = []
    graphs = {group: joined(GROUPS[group])} if group in PROCEDURES else GROUPS[group]
    if precision != "fp32":  # what is rounded to whole numbers may go either way
        graphs = {k: g for k, g in graphs.items() if all(n.type.dtype == "f32" for _, n in g.outputs)}
    for case, network in emulate(graphs, tmp_path, device).items():
        if isinstance(network, EdgecError):
            if not isinstance(network, DeviceError) or "yet" not in network.message:
                wrong.append(f"{case}: {network}")
            continue
        given = arrays(graphs[case], SEED)
        wide = {k: v.astype(np.float64) if v.dtype == np.float32 else v for k, v in given.items()}
        want = evaluate.run(doubled(graphs[case]), wide)
        for output, got in network(given).items():
            told = difference(got, want[output], TOLERANCE[precision])
            if told:
                wrong.append(f"{case} {output}: {told}")
    assert not wrong, f"seed {SEED}\n" + "\n".join(wrong)


def difference(got: np.ndarray, want: np.ndarray, tolerance: float) -> str | None:
    """What is wrong with a result, or None."""
    if got.shape != want.shape:
        return f"its shape is {got.shape}, not {want.shape}"
    with np.errstate(all="ignore"):
        if got.dtype.kind != "f":
            return None if (got == want).all() else f"{(got != want).sum()} of {got.size} differ"
        same = (got == want.astype(got.dtype)) | (np.isnan(got) & np.isnan(want))
        most = np.max(np.abs(want[np.isfinite(want)]), initial=np.finfo(np.float32).tiny)
        close = np.isfinite(got) & (np.abs(got - want) <= tolerance * most)
    return None if (same | close).all() else f"{(~(same | close)).sum()} of {got.size} differ (largest {most:.3g})"

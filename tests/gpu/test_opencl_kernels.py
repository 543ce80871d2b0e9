"""Every OpenCL template on shapes around its edges, run by PoCL, held against the formulas."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from handed_on import handed_on
from kernel_cases import cases
from opencl_networks import accepted, driver, extensions, joined, network
from small_graphs import arrays, doubled
from test_cuda_kernels import difference

from edgec.device.facts import load_device
from edgec.ir import evaluate

SEED = int(np.random.SeedSequence().entropy) % 2**32  # fresh inputs every time; a failure names it
GROUPS = {**cases(), "handed on": handed_on()}


EACH = 12  # cases that are one program


#: Groups that reach every template on a device of each kind: a processor, tiles of local memory, blocks of four lanes.
KINDS = {
    "host_pocl": (
        "contractions", "convolutions", "epilogues", "functions", "handed on", "maps", "placements", "rows", "windows",
    ),
    "generic_opencl": ("attentions", "contractions", "convolutions", "handed on"),
    "mali_g78": ("byte_convolutions", "contractions", "convolutions", "windows"),
    "adreno_740": ("convolutions",),  # weights through images
    "opencl_h200": ("contractions",),  # sums in parts that meet in one kernel
}  # fmt: skip
EVERYTHING = {kind: sorted(GROUPS) for kind in KINDS}
KINDS = EVERYTHING if os.environ.get("EDGEC_TEST_OPENCL") else KINDS
RUNS = [(kind, name, "fp32") for kind, names in KINDS.items() for name in names]
#: What multiplies, or hands on halves.
NARROW = ("contractions", "convolutions", "epilogues", "windows", "handed on")
RUNS += [(kind, name, "fp16") for kind, names in KINDS.items() for name in names if name in NARROW]
HALVES = "cl_khr_fp16"
#: Devices that calculate with halves are rarer than those that keep them: these run where there is one.
RUNS += [("host_intel", name, "fp16") for name in NARROW]
#: Of the largest value: rounding of sums, and of factors and what is handed on to 11 bits.
TOLERANCE = {"fp32": 1e-5, "fp16": 3e-3}

pytestmark = pytest.mark.skipif(
    not driver(), reason="no OpenCL here: apt-get install pocl-opencl-icd ocl-icd-libopencl1"
)


@pytest.mark.parametrize(("kind", "name", "precision"), RUNS)
def test_kernels_compute_their_formulas(kind: str, name: str, precision: str, tmp_path: Path) -> None:
    device = replace(load_device(kind), precision=precision)
    if precision == "fp16" and HALVES in device.opencl_extensions and HALVES not in (extensions() or ()):
        pytest.skip(f"no {HALVES} here; Intel's runtime has it: pip install intel-opencl-rt intel-cmplr-lib-rt")
    # Sums by sub-groups are held against formulas in test_opencl_sub_groups, where the driver has them.
    there = tuple(e for e in device.opencl_extensions if e in (extensions() or ()))
    device = replace(device, opencl_extensions=there)
    graphs, wrong = accepted(GROUPS[name], device)
    for k in range(0, len(graphs), EACH):
        some = joined(dict(list(graphs.items())[k : k + EACH]))
        given = arrays(some, SEED)
        wide = {n: v.astype(np.float64) if v.dtype == np.float32 else v for n, v in given.items()}
        want = evaluate.run(doubled(some), wide)
        with network(some, tmp_path / str(k), device) as run:
            results = run(given)
        told = {output: difference(got, want[output], TOLERANCE[precision]) for output, got in results.items()}
        wrong += [f"{output}: {what}" for output, what in told.items() if what]
    assert not wrong, f"seed {SEED}\n" + "\n".join(wrong)

"""Every OpenCL template on shapes around its edges, run by PoCL, held against the formulas."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from chance import SEED
from drawn import part
from handed_on import handed_on
from kernel_cases import cases as cases_of
from opencl_networks import accepted, driver, extensions, joined, network
from small_graphs import arrays, doubled
from test_cuda_kernels import difference

from edgec.device.device import Device
from edgec.device.load import load_device
from edgec.ir import evaluate
from edgec.ir.graph import Graph

#: The kernel of the gradients of attention is one of processors that train.
GROUPS = {**{name: group for name, group in cases_of().items() if name != "attending"}, "handed on": handed_on()}


EACH = 12  # cases that are one program


#: Groups that reach every template on a device of each kind: a processor, tiles of local memory, blocks of four lanes.
KINDS = {
    "host_pocl": (
        "contractions", "convolutions", "epilogues", "functions", "handed on", "maps", "aliases", "rows", "windows",
    ),
    "generic_opencl": ("attentions", "contractions", "convolutions", "handed on"),
    "mali_g78": ("byte_convolutions", "contractions", "convolutions", "windows"),
    "adreno_740": ("convolutions",),  # weights through images
    "opencl_h200": ("contractions",),  # sums in parts that meet in one kernel
}  # fmt: skip
EVERYTHING = {kind: sorted(GROUPS) for kind in KINDS}
KINDS = EVERYTHING if os.environ.get("EDGEC_TEST_OPENCL") else KINDS
#: What multiplies, or hands on halves.
NARROW = ("contractions", "convolutions", "epilogues", "windows", "handed on")
HALVES = "cl_khr_fp16"
#: Of the largest value: rounding of sums, and of factors and what is handed on to 11 bits.
TOLERANCE = {"fp32": 1e-5, "fp16": 3e-3}

pytestmark = pytest.mark.skipif(
    not driver(), reason="no OpenCL here: apt-get install pocl-opencl-icd ocl-icd-libopencl1"
)


@pytest.mark.parametrize("name", sorted({name for names in KINDS.values() for name in names}))
def test_kernels_compute_their_formulas(name: str, tmp_path: Path) -> None:
    """On every kind of device; where two of them get the same files, or two precisions, these run once."""
    wrong: list[str] = []
    known: set[str] = set()
    for precision in ("fp32", "fp16") if name in NARROW else ("fp32",):
        for kind in [kind for kind, names in KINDS.items() if name in names]:
            device = replace(load_device(kind), precision=precision)
            if precision == "fp16" and HALVES in device.gpu.opencl_extensions and HALVES not in (extensions() or ()):
                continue  # calculates with halves, which is rare: see below
            cases = {case: GROUPS[name][case] for case in part(GROUPS[name], f"{name} {kind}")}
            wrong += mistakes(cases, device, known, tmp_path / f"{kind}_{precision}")
    assert not wrong, f"seed {SEED}\n" + "\n".join(wrong)


@pytest.mark.parametrize("name", NARROW)
def test_kernels_calculate_with_halves(name: str, tmp_path: Path) -> None:
    if HALVES not in (extensions() or ()):
        pytest.skip(f"no {HALVES} here; Intel's runtime has it: pip install intel-opencl-rt intel-cmplr-lib-rt")
    cases = {case: GROUPS[name][case] for case in part(GROUPS[name], name)}
    wrong = mistakes(cases, replace(load_device("host_intel"), precision="fp16"), set(), tmp_path / "intel")
    assert not wrong, f"seed {SEED}\n" + "\n".join(wrong)


def mistakes(cases: Mapping[str, Graph], device: Device, known: set[str], folder: Path) -> list[str]:
    """Errors in the results of cases on a device, and refusals; except for known files."""
    # Sums by sub-groups are held against formulas in test_opencl_sub_groups, where the driver has them.
    there = tuple(e for e in device.gpu.opencl_extensions if e in (extensions() or ()))
    device = replace(device, gpu=replace(device.gpu, opencl_extensions=there))
    graphs, wrong = accepted(cases, device, known)
    folder.mkdir()
    for k in range(0, len(graphs), EACH):
        some = joined(dict(list(graphs.items())[k : k + EACH]))
        given = arrays(some, SEED)
        wide = {n: v.astype(np.float64) if v.dtype == np.float32 else v for n, v in given.items()}
        want = evaluate.run(doubled(some), wide)
        with network(some, folder / str(k), device) as run:
            results = run(given)
        told = {o: difference(got, want[o], TOLERANCE[device.precision]) for o, got in results.items()}
        wrong += [f"{device.name}, {device.precision}: {output}: {what}" for output, what in told.items() if what]
    return wrong

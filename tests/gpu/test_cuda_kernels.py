"""Every CUDA template on shapes around its edges, its kernels run on the processor, held against their formulas."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from chance import SEED
from drawn import part
from emulated import Emulated, emulate
from kernel_cases import cases
from opencl_networks import accepted, joined
from procedure_cases import attending_by_statistics
from small_graphs import arrays, doubled

from edgec.device.load import load_device
from edgec.emit.project import files
from edgec.fuse import plan
from edgec.ir import evaluate
from edgec.schedule.build import schedule

#: Of the largest value: rounding of sums, and of factors to 10 bits of mantissa, which a softmax of products enlarges.
TOLERANCE = {"fp32": 1e-5, "tf32": 1e-2, "fp16": 1e-2}
#: On a GPU the gradients of attention read the statistics of rows, which processors find in the same kernel.
GROUPS = {name: group for name, group in cases().items() if name != "attending"}
#: What hands on halves; what has templates of its own on tensor cores, and where there are none.
BACKWARD = "attending_by_statistics"
GROUPS[BACKWARD] = dict(attending_by_statistics())
NARROW = ("contractions", "convolutions", "epilogues", "attentions", BACKWARD)
PRODUCTS = ("contractions", "attentions")
DEVICE = "cuda_sm90" if os.environ.get("EDGEC_TEST_GPU") else "jetson"
#: Without tensor cores, and four products of bytes a step: the oldest that nvcc 13 compiles for.
OLDER = 75
BYTES = ("byte_products", "byte_convolutions")
WHAT = [
    *((g, "fp32", 0) for g in sorted(GROUPS)), *((g, "fp16", 0) for g in (*NARROW, "recurring")),
    *((g, "tf32", 0) for g in (*PRODUCTS, BACKWARD)), *((g, "fp32", OLDER) for g in (*PRODUCTS, *BYTES)),
]  # fmt: skip


@pytest.mark.parametrize(("group", "precision", "capability"), WHAT)
def test_kernels_compute_their_formulas(group: str, precision: str, capability: int, tmp_path: Path) -> None:
    device = replace(load_device(DEVICE), precision=precision)
    if capability:
        device = replace(device, gpu=replace(device.gpu, compute_capability=capability))
    of = f"{group} {precision} {capability}"
    graphs, wrong = accepted({name: GROUPS[group][name] for name in part(GROUPS[group], of)}, device)
    whole = joined(graphs)  # one network: its host is most of what is compiled
    network = emulate({group: whole}, tmp_path, device)[group]
    assert isinstance(network, Emulated)
    given = arrays(whole, SEED)
    wide = {k: v.astype(np.float64) if v.dtype == np.float32 else v for k, v in given.items()}
    want = evaluate.run(doubled(whole), wide)
    told = {output: difference(got, want[output], TOLERANCE[precision]) for output, got in network(given).items()}
    wrong += [f"{output}: {what}" for output, what in told.items() if what]
    assert not wrong, f"seed {SEED}\n" + "\n".join(wrong)


def test_bytes_reach_every_way_of_loading_words() -> None:
    device = load_device(DEVICE)
    device = replace(device, gpu=replace(device.gpu, compute_capability=OLDER))
    graphs, _ = accepted({k: v for g in BYTES for k, v in GROUPS[g].items()}, device)
    program = schedule(plan(joined(graphs), gpu=True), device)
    text = b"".join(text for name, text in files(program, device, "net").items() if name.endswith(".cu")).decode()
    ways = (
        r"\? ec_word\(\w+\([^)]*\)\) : 0",
        r"\? ec_word\(\w+\([^)]*\), 0x07070707u\)",
        r"\? ec_bytes\(",
        r"EC_LAST_TO_ARRIVE\(",
    )
    assert all(re.search(way, text) for way in ways)
    assert {f"ec_dot_{s}_{l}" for s in ("i8", "u8") for l in ("i8", "u8")} <= set(re.findall(r"ec_dot_\w+", text))
    assert not load_device("jetson_nano").has_dot4


def difference(got: np.ndarray, want: np.ndarray, tolerance: float) -> str | None:
    """Description of the error of a result, or None."""
    if got.shape != want.shape:
        return f"its shape is {got.shape}, not {want.shape}"
    with np.errstate(all="ignore"):
        if got.dtype.kind != "f":
            return None if (got == want).all() else f"{(got != want).sum()} of {got.size} differ"
        same = (got == want.astype(got.dtype)) | (np.isnan(got) & np.isnan(want))
        most = np.max(np.abs(want[np.isfinite(want)]), initial=np.finfo(np.float32).tiny)
        close = np.isfinite(got) & (np.abs(got - want) <= tolerance * most)
    return None if (same | close).all() else f"{(~(same | close)).sum()} of {got.size} differ (largest {most:.3g})"

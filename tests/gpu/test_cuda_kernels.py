"""Every CUDA template on shapes around its edges, its kernels run on the processor, held against their formulas."""

from __future__ import annotations

import numpy as np
import pytest
from emulated import Emulated, emulate
from kernel_cases import cases
from small_graphs import arrays, doubled

from edgec.device.facts import load_device
from edgec.errors import DeviceError, EdgecError
from edgec.ir import evaluate

SEED = int(np.random.SeedSequence().entropy) % 2**32  # fresh inputs every time; a failure names it
TOLERANCE = 1e-5  # of the largest value
GROUPS = cases()


@pytest.fixture(scope="module", params=sorted(GROUPS))
def group(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, object]]:
    folder = tmp_path_factory.mktemp(request.param)
    return request.param, dict(emulate(GROUPS[request.param], folder, load_device("jetson")))


def test_kernels_compute_their_formulas(group: tuple[str, dict[str, Emulated | EdgecError]]) -> None:
    name, networks = group
    wrong = []
    for case, network in networks.items():
        if isinstance(network, EdgecError):
            if not isinstance(network, DeviceError) or "yet" not in network.message:
                wrong.append(f"{case}: {network}")
            continue
        given = arrays(GROUPS[name][case], SEED)
        wide = {k: v.astype(np.float64) if v.dtype == np.float32 else v for k, v in given.items()}
        want = evaluate.run(doubled(GROUPS[name][case]), wide)
        for output, got in network(given).items():
            told = difference(got, want[output])
            if told:
                wrong.append(f"{case} {output}: {told}")
    assert not wrong, f"seed {SEED}\n" + "\n".join(wrong)


def difference(got: np.ndarray, want: np.ndarray) -> str | None:
    """What is wrong with a result, or None."""
    if got.shape != want.shape:
        return f"its shape is {got.shape}, not {want.shape}"
    with np.errstate(all="ignore"):
        if got.dtype.kind != "f":
            return None if (got == want).all() else f"{(got != want).sum()} of {got.size} differ"
        same = (got == want.astype(got.dtype)) | (np.isnan(got) & np.isnan(want))
        most = np.max(np.abs(want[np.isfinite(want)]), initial=np.finfo(np.float32).tiny)
        close = np.isfinite(got) & (np.abs(got - want) <= TOLERANCE * most)
    return None if (same | close).all() else f"{(~(same | close)).sum()} of {got.size} differ (largest {most:.3g})"

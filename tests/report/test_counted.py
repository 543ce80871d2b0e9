"""Bytes by the counters of a GPU: a program in the place of Nsight Compute runs the emulated network and counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from convnet import convnet

import edgec
from edgec.bench import counters
from edgec.errors import DeviceError, EdgecError, ToolchainError, UsageError

COLUMNS = "lts__d_sectors_fill_device.sum,lts__t_sectors_srcunit_tex_op_write.sum"
FAKE = """#!/bin/sh
while [ $# -gt 0 ] && [ "$1" != --metrics ]; do shift; done
shift 2
"$@" || exit 9
echo '==PROF== Disconnected'
echo '"ID","Kernel Name",{columns}'
echo '"","",{units}'
k=0
while [ $k -lt {launches} ]; do echo "\\"$k\\",\\"net_$k\\",\\"1,00$k\\",\\"$k\\""; k=$((k + 1)); done
exit {code}
"""


def counted(
    folder: Path, monkeypatch: pytest.MonkeyPatch, columns: str = COLUMNS, launches: int = 5, code: int = 0
) -> Any:
    """The ledger of a network whose kernels were counted by a false profiler."""
    named = ",".join(f'"{c}"' for c in columns.split(","))
    (folder / "ncu").write_text(FAKE.format(columns=named, units='"sector","sector"', launches=launches, code=code))
    (folder / "ncu").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return edgec.inspect(convnet(), counted=True, device="cuda_sm90", compiler="emulated")


def test_each_kernel_and_the_sums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = counted(tmp_path, monkeypatch)
    ledger = found["traffic"]
    assert [k["counted_read"] for k in ledger["kernels"]] == [32 * (1000 + k) for k in range(5)]
    assert [k["counted_written"] for k in ledger["kernels"]] == [32 * k for k in range(5)]
    assert ledger["counted"]["read"] == 32 * 5010 and ledger["counted"]["written"] == 32 * 10
    moved = ledger["read"] + ledger["written"]
    left = 32 * 5020 - ledger["counted"]["prefetched"]
    assert f"{left / moved:.2f} of it, in 5 launches" in str(found)


def test_other_launches_than_kernels_are_only_summed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = counted(tmp_path, monkeypatch, launches=4)
    assert found["traffic"]["counted"]["launches"] == 4
    assert all("counted_read" not in k for k in found["traffic"]["kernels"]) and "in 4 launches" in str(found)


@pytest.mark.parametrize("more", ({"columns": "a,b"}, {"code": 3}, {"launches": 0, "columns": "x"}))
def test_what_counts_nothing_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]) -> None:
    if more.get("launches") == 0:
        monkeypatch.setattr(counters, "RUN", "raise SystemExit('no GPU')")
    with pytest.raises(DeviceError):
        counted(tmp_path, monkeypatch, **more)


def test_refusals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases: list[tuple[type[EdgecError], Any, str]] = [(UsageError, convnet(), "host")]
    monkeypatch.setenv("PATH", str(tmp_path))
    cases.append((ToolchainError, convnet(), "cuda_sm90"))
    onnx.save(convnet(), str(tmp_path / "m.onnx"))
    for error, model, device in cases:
        with pytest.raises(error) as raised:
            edgec.inspect(model, counted=True, device=device)
        assert raised.value.hint


def test_a_built_folder_is_refused(tmp_path: Path) -> None:
    edgec.build(convnet(), tmp_path / "out", compile=False)
    with pytest.raises(UsageError, match="not of a built folder"):
        edgec.inspect(tmp_path / "out", counted=True)

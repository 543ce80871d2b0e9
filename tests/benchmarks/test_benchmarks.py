"""The scripts that measure: what they read and write, on the smallest network."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from benchmarks import table
from benchmarks.cpu.peak import gflops
from benchmarks.measure import ROUNDS, Measured, Timed, block, take_turns
from benchmarks.networks import catalog as networks
from benchmarks.networks import state_dict
from edgec.bench.timing import Timing
from edgec.device.load import load_device
from edgec.device.toolchain import pick_compiler
from edgec.errors import UsageError

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    script = [sys.executable, "-m", "benchmarks.cpu.latency", "--no-download", *arguments]
    # The project under test, installed or not.
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(script, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)


def test_latency_writes_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    done = run("--only", "digits", "--seconds", "0.1", "--write", str(page))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1/1 digits: 1 thread(s)" in done.stdout
    assert "| digits | 72.5 k |" in page.read_text() and "Geometric mean" in page.read_text()


def test_a_broken_network_fails_alone(tmp_path: Path) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"junk")
    done = run("--folder", str(tmp_path), "--only", "broken", "--only", "digits", "--seconds", "0")
    assert done.returncode == 1
    assert "broken: FAILED" in done.stdout and "digits: not timed; error" in done.stdout


def test_turns_alternate() -> None:
    order: list[str] = []
    times = take_turns((lambda: order.append("a"), lambda: order.append("b")), 0.0)
    assert len(times[0]) and len(times[1])
    changes = [x for x, y in zip(order, ["", *order]) if x != y]
    # Both warm up, and then whoever was last in a round is first in the next: no turn follows the same neighbor twice.
    assert changes == (["a", "b"] * (ROUNDS + 3))[: ROUNDS + 3]


def test_a_block_leaves_out_its_first_calls() -> None:
    calls: list[int] = []
    taken = block(lambda: calls.append(0))
    assert len(calls) == len(taken) + 2


def test_peak_is_that_of_a_machine() -> None:
    device = load_device("host")
    peak = gflops(device, pick_compiler(device), 1)
    assert 1 < peak < 1e4


def test_readme_without_markers_is_refused(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("no section")
    with pytest.raises(UsageError, match="<!-- benchmarks -->"):
        table.put_into(readme, "text")


def test_a_wheel_that_cannot_be_had_is_left_out(tmp_path: Path) -> None:
    found, missing = networks.find(only=["magika"], download=False, cache=tmp_path)
    assert not found
    assert [(m.name, m.reason) for m in missing] == [
        ("magika", "magika 1.0.3 is not in the cache, and downloads are off")
    ]


def test_mean_is_geometric() -> None:
    def network(ratio: float) -> Measured:
        timed = (Timed(1, Timing(ratio, ratio, ratio, 1), Timing(1, 1, 1, 1)),)
        return Measured("n", "s", 1, 1, 1, timed, 1, 0.0, None, None, 1, 1, 1, 0.0, 0.0)

    report = table.Report("", "", {}, {1: 1.0}, [network(0.5), network(2.0)], [], [])
    assert report.mean_ratio(1) == pytest.approx(1.0)


# -- checkpoints, written as PyTorch writes them ---------------------------------------------------------------------


class FloatStorage:
    """Stands for torch.FloatStorage in a pickle."""


class Stored:
    def __init__(self, key: str) -> None:
        self.key = key


class Tensor:
    """Pickles as a tensor does: a call of _rebuild_tensor_v2 on a storage outside the pickle."""

    def __init__(self, key: str, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        self.arguments = (Stored(key), offset, shape, strides, False, {})

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return _rebuild_tensor_v2, self.arguments


def _rebuild_tensor_v2(*arguments: object) -> None:
    """Stands for torch._utils._rebuild_tensor_v2 in a pickle."""


class Pickler(pickle._Pickler):  # type: ignore[name-defined,misc]
    """Writes names of torch for the stand-ins, and storages by key."""

    def persistent_id(self, value: object) -> object:
        return ("storage", FloatStorage, value.key, "cpu", 6) if isinstance(value, Stored) else None

    def save_global(self, value: object, name: str | None = None) -> None:
        torch = {FloatStorage: b"ctorch\nFloatStorage\n", _rebuild_tensor_v2: b"ctorch._utils\n_rebuild_tensor_v2\n"}
        if value in torch:
            self.write(torch[value])
        else:
            super().save_global(value, name)

    dispatch: ClassVar = {**pickle._Pickler.dispatch, type: save_global, type(run): save_global}  # type: ignore[attr-defined]


STORED = np.arange(6, dtype=np.float32)
ENTRIES = {"whole": Tensor("0", 0, (2, 3), (3, 1)), "column": Tensor("0", 1, (2,), (3,))}


def check_entries(path: Path) -> None:
    found = state_dict.load(path)
    assert np.array_equal(found["whole"], STORED.reshape(2, 3)) and np.array_equal(found["column"], [1, 4])


def test_reads_zipped_checkpoints(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "c.pth", "w") as archive:
        with archive.open("archive/data.pkl", "w") as stream:
            Pickler(stream, 2).dump(ENTRIES)
        archive.writestr("archive/data/0", STORED.tobytes())
    check_entries(tmp_path / "c.pth")


def test_reads_older_checkpoints(tmp_path: Path) -> None:
    with open(tmp_path / "c.pth", "wb") as stream:
        for value in (state_dict.MAGIC, 1001, {}, ENTRIES, ["0"]):
            Pickler(stream, 2).dump(value)
        stream.write((6).to_bytes(8, "little") + STORED.tobytes())
    check_entries(tmp_path / "c.pth")


def test_a_checkpoint_runs_no_code(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "c.pth", "w") as archive:
        archive.writestr("archive/data.pkl", b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(pickle.UnpicklingError, match=r"no use for os\.system"):
        state_dict.load(tmp_path / "c.pth")

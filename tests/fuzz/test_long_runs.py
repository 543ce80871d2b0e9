"""The long runs of benchmarks/robustness, made short, and folders that nobody may write to."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from needed import need, need_opencl

import edgec
from benchmarks.robustness import long_runs
from edgec.artifact import publish

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "apps" / "digits" / "digits.onnx"


def test_threads(tmp_path: Path) -> None:
    found = long_runs.threads(tmp_path, 2)
    assert found.made > 50 and found.wrong == 0


def test_a_race_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Callers that share one arena."""
    text = (long_runs.HERE / "calls.c").read_text()
    one = text.replace("void *arena = memory(NET_ARENA_BYTES), *of_pool", "static unsigned char "
                       "_Alignas(NET_ALIGNMENT) arena[NET_ARENA_BYTES];\n  void *of_pool")  # fmt: skip
    assert one != text
    (tmp_path / "calls.c").write_text(one.replace("  free(arena);\n  free(y);", "  free(y);"))
    monkeypatch.setattr(long_runs, "HERE", tmp_path)
    with pytest.raises(SystemExit, match=r"data race|calls ended with 1|wrong"):
        found = long_runs.calls(tmp_path, 32, ["-fsanitize=thread"], [2, 5, 200, 1])
        raise SystemExit(f"{found.wrong} wrong" if found.wrong else "nothing")


def test_memory_stays(tmp_path: Path) -> None:
    for found in (long_runs.soak(tmp_path, 20000), long_runs.soak_python(tmp_path, 400)):
        assert found.wrong == 0 and found.late - found.early <= long_runs.GROWTH, found


def test_opencl_host(tmp_path: Path) -> None:
    need_opencl()
    assert long_runs.opencl(tmp_path, 12).wrong == 0


def test_cuda_host(tmp_path: Path) -> None:
    assert long_runs.cuda(tmp_path, 12).wrong == 0


def test_cuda_threads(tmp_path: Path) -> None:
    assert long_runs.cuda_threads(tmp_path, 1).wrong == 0


def test_a_race_of_cuda_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that keep their sessions at one place."""
    text = (long_runs.HERE / "device_calls.c").read_text()
    one = text.replace("  net_session *session = NULL;", "  static net_session *session = NULL;")
    assert one != text
    (tmp_path / "device_calls.c").write_text(one)
    monkeypatch.setattr(long_runs, "HERE", tmp_path)
    with pytest.raises(SystemExit, match=r"data race|ended with"):
        long_runs.cuda_threads(tmp_path, 1)


def test_a_write_behind_a_buffer_of_cuda_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the caller, into which the host code copies."""
    text = (long_runs.HERE / "device_calls.c").read_text()
    short = text.replace("y[NET_Y_ELEMENTS];", "y[NET_Y_ELEMENTS - 1];").replace("memset(y, 0xff, sizeof y);", "")
    assert short.count("NET_Y_ELEMENTS - 1") == 1
    (tmp_path / "device_calls.c").write_text(short)
    monkeypatch.setattr(long_runs, "HERE", tmp_path)
    with pytest.raises(SystemExit, match="stack-buffer-overflow"):
        long_runs.cuda(tmp_path, 1)


# ---- folders that nobody may write to


def command(words: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command without the right to write where permissions forbid it, which root has otherwise."""
    program = [sys.executable, "-m", "edgec", *words]
    if os.getuid() == 0:
        program = [need("setpriv", "util-linux"), "--bounding-set=-dac_override,-dac_read_search", *program]
    given = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **environment}
    return subprocess.run(program, capture_output=True, text=True, cwd=folder, env=given)


@pytest.fixture
def locked(tmp_path: Path) -> Path:
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o555)
    return folder


def test_an_unwritable_folder_is_named(locked: Path) -> None:
    done = command(["build", str(DIGITS), "--out", "out"], locked)
    assert done.returncode == 2 and "Permission denied" in done.stderr and "Traceback" not in done.stderr
    assert "hint: " in done.stderr and not list(locked.iterdir())


def test_an_unwritable_home_stops_what_writes_there_alone(locked: Path, tmp_path: Path) -> None:
    (tmp_path / "edgec.toml").write_text('model = "net.onnx"\n')
    home = {"HOME": str(locked), "XDG_CONFIG_HOME": str(locked), "XDG_DATA_HOME": str(locked)}
    home |= {"XDG_STATE_HOME": str(locked), "EDGEC_TRUST": str(locked / "trusted.json")}
    assert command(["inspect", str(DIGITS)], tmp_path, **home).returncode == 0
    done = command(["trust", str(tmp_path)], tmp_path, **home)
    assert done.returncode == 2 and str(locked) in done.stderr and "Traceback" not in done.stderr


# ---- clocks that are set


def test_a_clock_that_is_set_back_and_forth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No time limit follows the clock of the wall, and a build is swept by its owner's lock, not by its age."""
    real, steps = time.time, iter([0, -4e8, 4e8, -1e9] * 1000)
    monkeypatch.setattr(time, "time", lambda: real() + next(steps))
    built = edgec.build(DIGITS, tmp_path / "out", limits={"seconds": 60.0}, compile=False)
    assert built.folder.is_dir()
    with publish.hidden(tmp_path) as fresh:
        (fresh / "a").touch()
        for _ in range(8):
            publish.sweep(tmp_path)
        assert (fresh / "a").exists()

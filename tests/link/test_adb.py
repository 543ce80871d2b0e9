"""An Android device by the real adb client; the device is a stand-in for its side of the protocol."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from links import DIGITS, need, need_opencl, pictures, product

import edgec
from edgec import api
from edgec.bench import remote
from edgec.errors import LinkError


class Phone:
    """A stand-in, known to an adb server of its own."""

    def __init__(self, folder: Path) -> None:
        self.adb, self.folder = need("adb", "adb"), folder
        self.process: subprocess.Popen[str] | None = None
        self.serial = ""

    def start(self, lose_after: int = 1_000_000) -> None:
        program = Path(__file__).with_name("adb_stand_in.py")
        command = [sys.executable, str(program), str(self.folder), str(lose_after)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.serial = f"127.0.0.1:{self.process.stdout.readline().strip()}"
        connect = [self.adb, "connect", self.serial]
        said = subprocess.run(connect, capture_output=True, text=True, check=False, timeout=60)
        assert "connected" in said.stdout, said

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        subprocess.run([self.adb, "disconnect", self.serial], capture_output=True, check=False, timeout=60)


@pytest.fixture
def phone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Phone]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(free.getsockname()[1]))
    monkeypatch.setenv("HOME", str(tmp_path))  # where adb keeps its keys
    folder = tmp_path / "phone"
    folder.mkdir()
    made = Phone(folder)
    yield made
    made.stop()
    subprocess.run([made.adb, "kill-server"], capture_output=True, check=False, timeout=60, env=dict(os.environ))


def test_check_and_bench(phone: Phone, tmp_path: Path) -> None:
    """The processor's program, and one whose kernels the driver there compiles."""
    phone.start()
    checked = edgec.check(str(DIGITS), samples=2, device="generic", link=f"adb:{phone.serial}")
    assert checked.ok
    assert list(phone.folder.iterdir()) == []  # nothing is left behind
    need_opencl()
    benched = edgec.bench(product(tmp_path), device="host_pocl", link=f"adb:{phone.serial}", seconds=0.01)
    assert benched.timing.calls >= 3
    assert [ms > 0 for _, ms in benched.kernels] == [True]
    assert list(phone.folder.iterdir()) == []


def test_a_program_for_phones(tmp_path: Path) -> None:
    """Started as Android starts it, with a C library that goes by Android's name for its own, it looks for a driver."""
    qemu = need("qemu-aarch64", "qemu-user")
    need("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross")
    built = edgec.build(product(tmp_path), device="mali_g710", compile=False)
    runner = remote.compile_runner(built, tmp_path / "runner", profile=True)
    system = Path("/usr/aarch64-linux-gnu/lib")
    (tmp_path / "system" / "bin").mkdir(parents=True)
    (tmp_path / "system" / "bin" / "linker64").symlink_to(system / "ld-linux-aarch64.so.1")
    for name, real in {"c": "libc.so.6", "dl": "libdl.so.2", "m": "libm.so.6"}.items():
        (tmp_path / f"lib{name}.so").symlink_to(system / real)
    command = [qemu, "-L", str(tmp_path), "-E", f"LD_LIBRARY_PATH={tmp_path}", str(runner), "/dev/null", "out"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (
        5,
        "net_runner: there is no OpenCL library on this machine (libOpenCL.so)\n",
    )


def test_a_cable_that_is_pulled(phone: Phone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "BATCH_BYTES", 600)
    path, keep = pictures(tmp_path, 6), tmp_path / "kept"
    built = edgec.build(str(DIGITS), device="generic", compile=False)
    phone.start(lose_after=1)
    with pytest.raises(LinkError) as caught:
        api.run_on_device(built, path, link=f"adb:{phone.serial}", keep=keep)
    assert caught.value.where == f"adb:{phone.serial}"
    assert len(list(keep.iterdir())) == 1
    phone.stop()
    phone.start()
    ran = api.run_on_device(built, path, link=f"adb:{phone.serial}", keep=keep)
    here = api.run_on_device(built, path, link="local")
    for a, b in zip(ran, here, strict=True):
        np.testing.assert_array_equal(a.outputs["probabilities"], b.outputs["probabilities"])

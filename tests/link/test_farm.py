"""Several emulated devices at once, and some of them lost."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from links import DIGITS, need, product

from edgec.bench.farm import Place, farm, place
from edgec.cli.main import main
from edgec.errors import UsageError
from edgec.tune.database import Profiles

PLACES = ["raspberry_pi_3@qemu", "raspberry_pi_4@qemu", "arm32", "riscv64"]


@pytest.fixture
def devices() -> None:
    pytest.importorskip("distributed", reason="pip install 'edgec[farm]'")
    need("qemu-aarch64", "qemu-user")
    need("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross")
    need("arm-linux-gnueabihf-gcc", "gcc-arm-linux-gnueabihf", "libc6-dev-armhf-cross")
    need("riscv64-linux-gnu-gcc", "gcc-riscv64-linux-gnu", "libc6-dev-riscv64-cross")


def emulator_that(does: str, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An emulator that does something else in the middle of the work."""
    real, program = shutil.which(name), folder / name
    program.write_text(f'#!/bin/sh\ncase "$*" in *_runner*) {does};; *) exec {real} "$@";; esac\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_four_devices_two_of_which_are_killed(
    devices: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One loses the program that runs on it, the other takes its process of the farm along."""
    emulator_that("kill -9 $$", "qemu-arm", tmp_path, monkeypatch)
    emulator_that("kill -9 $PPID", "qemu-riscv64", tmp_path, monkeypatch)
    monkeypatch.setenv("EDGEC_PROFILES", str(tmp_path / "profiles.sqlite"))
    words = [*(word for text in PLACES for word in ("--on", text)), "--samples", "2", "--seconds", "0.01"]
    with pytest.raises(SystemExit) as ended:
        main(["device", "farm", product(tmp_path), *words, "--tune", "0.1", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert ended.value.code == 1 and not told["ok"]
    assert [d["place"] for d in told["devices"]] == PLACES
    *others, killed, gone = told["devices"]
    assert all(d["ok"] and d["error"] is None and d["max_rel"] <= 1e-4 and d["median_ms"] > 0 for d in others)
    assert all(d["measured"] > 0 for d in others)
    assert {e.target.device for e in Profiles().entries()} == {"raspberry_pi_3", "raspberry_pi_4"}
    assert all(not d["ok"] and d["median_ms"] is None for d in (killed, gone))
    assert "died of SIGKILL" in killed["error"] and "its process ended" in gone["error"]


def test_what_is_no_farm(devices: None) -> None:
    assert place("pixel_8@adb:127.0.0.1:5555") == Place("pixel_8", "adb:127.0.0.1:5555")
    with pytest.raises(UsageError, match="names no device"):
        place("@qemu")
    with pytest.raises(UsageError, match="is there twice"):
        farm(str(DIGITS), [place("arm32"), place("arm32")])

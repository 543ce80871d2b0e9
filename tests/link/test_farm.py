"""Several emulated devices at once, and some of them lost."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from links import DIGITS, need, product

from edgec import api
from edgec.bench.farm import Outcome, Place, _check, _told, farm, place
from edgec.cli.main import main
from edgec.errors import LinkError, UsageError
from edgec.tune.database import Profiles

PLACES = ["raspberry_pi_3@qemu", "raspberry_pi_4@qemu", "arm32", "riscv64"]


@pytest.fixture
def devices() -> None:
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


def test_a_process_that_is_gone_for_a_moment(devices: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is lost once, in the middle of the work, and another one begins again."""
    once, real = tmp_path / "once", shutil.which("qemu-arm")
    does = f'if [ -e {once} ]; then exec {real} "$@"; else touch {once}; kill -9 $PPID; fi'
    emulator_that(does, "qemu-arm", tmp_path, monkeypatch)
    (found,) = farm(product(tmp_path), [place("arm32")], samples=1, seconds=0.01)
    assert once.exists() and found.ok and found.error is None, found


@pytest.mark.parametrize("losses", [1, 2])
def test_a_device_that_is_gone_for_a_moment(losses: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that breaks in the middle is tried once more; whatever else is wrong stays so."""
    left = [LinkError("the connection is gone", where="ssh:pi") for _ in range(losses)]
    real = api.check

    def check(*given: Any, **more: Any) -> Any:
        if left:
            raise left.pop()
        return real(*given, **more)

    monkeypatch.setattr(api, "check", check)
    monkeypatch.setattr(api, "bench", lambda *given, **more: SimpleNamespace(timing=SimpleNamespace(median_ms=1.0)))
    work = {"samples": 1, "seed": 0, "tolerance": None, "timeout": 60.0}
    found = _check(product(tmp_path), place("generic@local"), {"device": "generic"}, work, 0.01, 0.0, None)
    assert not left and found.ok == (losses == 1), found
    assert (found.error is None) == (losses == 1)


def test_what_a_worker_sends_is_no_outcome() -> None:
    right = Outcome("a", True, 1.0)
    assert _told("a", right) is right
    wrong = (Outcome("b", True, 1.0), {"ok": True}, Outcome("a", False, 1.0, error="x" * 100_000))
    assert all(_told("a", found).error == "its worker sent something else than an outcome" for found in wrong)


def test_what_is_no_farm(devices: None) -> None:
    assert place("pixel_8@adb:127.0.0.1:5555") == Place("pixel_8", "adb:127.0.0.1:5555")
    with pytest.raises(UsageError, match="names no device"):
        place("@qemu")
    with pytest.raises(UsageError, match="is there twice"):
        farm(str(DIGITS), [place("arm32"), place("arm32")])

"""Affinity: what a sweep found is what the next build takes, and where its programs and Python stay."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from links import DIGITS, random_picture

import edgec
from edgec.artifact.folder import read_lock
from edgec.artifact.network import Network
from edgec.bench import sustained as work
from edgec.bench.remote import Remote
from edgec.bench.timing import Timing
from edgec.bench.turns import pinned
from edgec.cli.main import main
from edgec.errors import UsageError
from edgec.options.cores import cores_of, cores_text
from edgec.tune.database import Profiles

CPU = "/sys/devices/system/cpu"
needs_affinity = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux alone tells where threads run")
LAST = (os.cpu_count() or 1) - 1


@pytest.fixture
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EDGEC_PROFILES", str(tmp_path / "profiles.sqlite"))
    monkeypatch.delenv("EDGEC_CORES", raising=False)
    return tmp_path / "profiles.sqlite"


@pytest.fixture
def big_little(profiles: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two little cores, 0 and 1, and two big ones, 4 and 5, on which two threads are the quickest."""
    said = "".join(f"{CPU}/cpu{k}/cpu_capacity {300 if k < 2 else 1024}\n" for k in (0, 1, 4, 5))
    quick = {(1, ()): 9.0, (2, ()): 7.0, (1, (4,)): 5.0, (2, (4, 5)): 3.0, (1, (0,)): 20.0, (2, (0, 1)): 11.0}

    def time(on: Remote, arrays: Any, seconds: float) -> Timing:
        cores = tuple(k for k in range(8) if "on_" in on.runner and int(on.runner[3:-3], 16) >> k & 1)
        return Timing.of([quick[on.threads, cores] / 1e3])

    def run(on: Remote, samples: Any, runs: int = 1) -> list[Any]:
        return [type("Ran", (), {"nanoseconds": np.full(runs, 3_000_000)})]

    from edgec.link.local import Local

    monkeypatch.setattr(Local, "shell", lambda self, line: said)
    monkeypatch.setattr(Remote, "time", time)
    monkeypatch.setattr(Remote, "run", run)
    yield
    monkeypatch.undo()


def swept() -> work.Sustained:
    return work.bench_for_minutes(DIGITS, 0.0005, sweep=True, threads=2, device="generic", link="local")


def test_the_next_build_takes_what_a_sweep_found(big_little: None, tmp_path: Path) -> None:
    assert "affinity" not in read_lock(edgec.build(DIGITS, tmp_path / "a", device="generic", compile=False).folder)
    found = swept()
    assert (found.threads, found.cores, found.kept) == (2, (4, 5), True)

    def affinity(name: str, **settings: Any) -> Any:
        built = edgec.build(DIGITS, tmp_path / name, device="generic", compile=False, **settings)
        lock = read_lock(built.folder)
        assert lock["threads"] == built.options.threads == lock.get("affinity", lock)["threads"]
        return lock.get("affinity"), built.options.threads

    assert affinity("b") == ({"threads": 2, "cores": [4, 5], "by": "sweep"}, 2)
    assert '#define NET_CORES "4-5"' in (tmp_path / "b" / "net.h").read_text()
    assert affinity("c", threads=1) == ({"threads": 1, "cores": [4], "by": "sweep"}, 1)
    assert affinity("d", cores="0-1") == ({"threads": 2, "cores": [0, 1], "by": "sweep"}, 2)
    assert affinity("e", cores="any") == ({"threads": 2, "cores": [], "by": "sweep"}, 2)
    assert affinity("f", cores="0", threads=1) == ({"threads": 1, "cores": [0], "by": "asked"}, 1)
    assert affinity("g", profiles=False) == (None, 1)


def test_another_device_and_another_model_have_their_own(big_little: None, tmp_path: Path) -> None:
    swept()
    assert edgec.build(DIGITS, device="arm64", compile=False).options.placed_by == ""
    other = edgec.build(DIGITS, tmp_path / "other", device="generic", compile=False, cores="0", profiles=False)
    assert other.options.threads == 1


def test_a_lock_keeps_it_and_a_new_sweep_replaces_it(big_little: None, tmp_path: Path) -> None:
    swept()
    first = edgec.build(DIGITS, tmp_path / "first", device="generic", compile=False)
    count = len(Profiles().entries())
    swept()
    assert len(Profiles().entries()) == count == 6  # not a second time
    Profiles().clear()
    again = edgec.build(DIGITS, tmp_path / "again", device="generic", compile=False, lock=first.folder)
    assert read_lock(again.folder)["affinity"] == read_lock(first.folder)["affinity"]
    assert (tmp_path / "again" / "edgec.lock").read_bytes() == (tmp_path / "first" / "edgec.lock").read_bytes()


def test_reports_say_what_is_in_use(big_little: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    swept()
    for words in (["build", str(DIGITS), "-d", "generic", "--no-compile", "-o", str(tmp_path / "n")],
                  ["inspect", str(tmp_path / "n")]):  # fmt: skip
        with pytest.raises(SystemExit):
            main(words)
        assert "2 threads on cores 4-5, as a sweep found it quickest" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(SystemExit):
        main(["inspect", str(tmp_path / "n"), "--json"])
    assert json.loads(capsys.readouterr().out)["affinity"] == {"threads": 2, "cores": [4, 5], "by": "sweep"}


@pytest.mark.parametrize(
    ("text", "cores"), [("4-7", (4, 5, 6, 7)), ("0,2-3", (0, 2, 3)), ("3,1,1", (1, 3)), ("any", ())]
)
def test_lists_of_cores(text: str, cores: tuple[int, ...]) -> None:
    assert cores_of(text) == cores and cores_of(cores_text(cores)) == cores


@pytest.mark.parametrize("text", ["", "x", "-1", "7-4", "1,,2", "0x3", "1024", "99999", "1-", "²"])
def test_nonsense_is_refused_in_words(text: str) -> None:
    with pytest.raises(UsageError, match="is no list of cores"):
        edgec.build(DIGITS, device="generic", cores=text, compile=False)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"cores": "0", "threads": 2}, "2 threads would wait for 1 core"),
        ({"cores": str(LAST + 1), "device": "host"}, f"this machine has no core {LAST + 1}"),
        ({"cores": "0", "device": "cortex_m"}, "cores of an operating system"),
        ({"cores": "0", "device": "cuda_sm86"}, "run on the GPU"),
    ],
)
def test_cores_that_cannot_be_meant(settings: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        edgec.build(DIGITS, compile=False, **{"device": "generic", **settings})


@needs_affinity
@pytest.mark.skipif(LAST < 1, reason="needs two cores")
def test_threads_stay_on_the_core(profiles: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python keeps its thread on core 1 while the network runs, a program for as long as it lives."""
    before = os.sched_getaffinity(0)
    built = edgec.build(DIGITS, tmp_path / "one", cores="1")
    picture = random_picture()

    def seen(network: Any) -> set[int]:
        inside: list[set[int]] = []
        net = network._net
        inner = net._run
        net._run = lambda *given: (inside.append(os.sched_getaffinity(0)), inner(*given))[1]
        found = network.run(picture)
        assert os.sched_getaffinity(0) == before
        np.testing.assert_array_equal(next(iter(found.values())), next(iter(built.run(picture).values())))
        return inside[0]

    assert seen(Network(tmp_path / "one")) == {1}
    monkeypatch.setenv("EDGEC_CORES", "0")
    assert seen(Network(tmp_path / "one")) == {0}
    monkeypatch.setenv("EDGEC_CORES", "any")
    assert seen(Network(tmp_path / "one")) == before
    monkeypatch.setenv("EDGEC_CORES", str(LAST + 1))  # not ours: as if nothing were said
    assert seen(Network(tmp_path / "one")) == before
    monkeypatch.setenv("EDGEC_CORES", "nonsense")
    with pytest.raises(UsageError, match="no list of cores"):
        Network(tmp_path / "one")


@needs_affinity
@pytest.mark.skipif(LAST < 1, reason="needs two cores")
def test_programs_stay_on_the_core(profiles: Path, tmp_path: Path) -> None:
    """The example tells where it was: it is run under a function that reads /proc at its end."""
    folder = edgec.build(DIGITS, tmp_path / "one", cores="1").folder
    spy = tmp_path / "spy.c"
    spy.write_text(
        "#include <stdio.h>\n#include <string.h>\nint example(int argc, char **argv);\n"
        "int main(int argc, char **argv) {\n"
        '  int status = example(argc, argv);\n  char line[256];\n  FILE *f = fopen("/proc/self/status", "r");\n'
        "  while (f && fgets(line, sizeof line, f))\n"
        '    if (!strncmp(line, "Cpus_allowed_list:", 18)) fputs(line, stderr);\n'
        "  return status;\n}\n"
    )
    sources = [str(folder / s) for s in read_lock(folder)["sources"]]
    command = ["cc", "-std=gnu11", "-O1", "-march=native", "-Wall", "-Wextra", "-Werror", f"-I{folder}"]
    subprocess.run(
        [*command, "-Dmain=example", "-c", str(folder / "main.c"), "-o", str(tmp_path / "main.o")], check=True
    )
    program = tmp_path / "spy"
    subprocess.run(
        [*command, "-pthread", "-o", str(program), str(spy), str(tmp_path / "main.o"), *sources, "-lm"],
        check=True, cwd=folder,
    )  # fmt: skip

    def allowed(cores: str | None) -> tuple[int, str]:
        around = {**os.environ, **({"EDGEC_CORES": cores} if cores is not None else {})}
        ended = subprocess.run([str(program)], env=around, capture_output=True, text=True, cwd=folder, check=False)
        return ended.returncode, ended.stderr

    assert allowed(None) == (0, "Cpus_allowed_list:\t1\n")
    assert allowed("0") == (0, "Cpus_allowed_list:\t0\n")
    mine = f"Cpus_allowed_list:\t{cores_text(tuple(os.sched_getaffinity(0)))}\n"
    assert allowed("any") == allowed(f"0-{LAST + 1}") == (0, mine)
    for wrong in ("", "x", "2-1", "1,", "1-", "99999999999", "0 1"):
        status, said = allowed(wrong)
        assert status == 2 and said.startswith(f"EDGEC_CORES: '{wrong}' is no list of cores")


@needs_affinity
@pytest.mark.skipif(LAST < 1, reason="needs two cores")
def test_a_bench_is_on_the_cores_of_the_build(tmp_path: Path) -> None:
    before = os.sched_getaffinity(0)
    with pinned(1, (1,)) as is_pinned:
        assert is_pinned and os.sched_getaffinity(0) == {1}
    with pinned(1, (LAST + 1,)):  # not ours
        assert os.sched_getaffinity(0) == {min(before)}
    assert os.sched_getaffinity(0) == before

"""A build under its name at every moment: crashes, full disks, odd names and several builds at once."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from small_models import model, node, tensor_input, weights

import edgec
from edgec.artifact import folder, publish
from edgec.artifact.folder import publish as publish_files
from edgec.artifact.folder import read_lock
from edgec.errors import UsageError
from edgec.files import InPieces

LOCK = b'{"name": "net", "files": ["a"]}'


def files_of(text: str) -> dict[str, bytes]:
    return {"edgec.lock": LOCK, "a": text.encode()}


@pytest.fixture
def network(tmp_path: Path) -> Path:
    path = tmp_path / "net.onnx"
    onnx.save(model([node("Relu", ["x"], ["y"])]), path)
    return path


def test_weights_in_parts_are_those_of_the_project(tmp_path: Path) -> None:
    w = np.arange(3000, dtype=np.float32).reshape(50, 60)
    net = model([node("MatMul", ["x", "w"], ["y"])], [tensor_input("x", [4, 50])], ("y",), [weights("w", w)])
    built = edgec.build(net, tmp_path / "net", compile=False)
    made = built.stages["emit"].files
    assert isinstance(made, InPieces) and made.parts
    disk = {p: (tmp_path / "net" / p).read_bytes() for p in made}
    assert built.files == {p: len(c) for p, c in disk.items()}
    assert made == disk and not made.parts and built.files == {p: len(c) for p, c in disk.items()}
    assert len(next(c for p, c in disk.items() if p.endswith(".bin"))) >= w.nbytes


@pytest.mark.parametrize("name", ["a b'\"$(x)", "a:b%20#;\\", "-o", "a\nb", "é", "a" * 255, ".a", "a\udc80"])
def test_odd_names(network: Path, tmp_path: Path, name: str) -> None:
    net = tmp_path / "out" / name
    edgec.build(network, net)
    assert read_lock(net)["name"] == "net" and [p.name for p in net.parent.iterdir()] == [name]


@pytest.mark.parametrize("name", ["a" * 256, "a\0b", "/dev/null/x", "/proc/x", "net.onnx/x", "."])
def test_names_that_cannot_be(network: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError):
        edgec.build(network, name, compile=False)


def _publish(folder: Path, k: int, begin: object) -> None:
    begin.wait()  # type: ignore[attr-defined]
    for n in range(10):
        publish_files(files_of(f"{k} {n}"), folder)


def test_folders_in_folders(tmp_path: Path) -> None:
    assert not publish_files({**files_of("1"), "b/c/d": b"2", "b/e": b"3"}, tmp_path / "out")
    assert publish_files({**files_of("4"), "b/c/d": b"5"}, tmp_path / "out")
    found = {p.relative_to(tmp_path).as_posix(): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert found["out/a"] == b"4" and found["out/b/c/d"] == b"5"


def test_several_builds_into_one_folder(tmp_path: Path) -> None:
    """They failed with errors of the system, where one removed what the other was about to replace."""
    context = multiprocessing.get_context("fork")
    begin = context.Barrier(3)
    workers = [context.Process(target=_publish, args=(tmp_path / "net", k, begin)) for k in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert (tmp_path / "net" / "a").read_text().endswith(" 9") and len(list(tmp_path.iterdir())) == 1


def _stopped(step: str, place: Path) -> None:
    def die(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def put(fresh: Path, target: Path) -> None:
        if step == "cleaning":
            publish.put(fresh, target)
        die()

    if step == "locking":
        os.rename = die  # type: ignore[assignment]
    folder.put = put
    publish_files(files_of("new"), place, die if step == "compiling" else lambda _: None)


STEPS = {"locking": "old", "compiling": "old", "putting": "old", "cleaning": "new"}


@pytest.mark.parametrize("step", STEPS)
def test_a_kill_leaves_a_build_and_the_next_one_sweeps(tmp_path: Path, step: str) -> None:
    net = tmp_path / "net"
    publish_files(files_of("old"), net)
    stopped = multiprocessing.get_context("fork").Process(target=_stopped, args=(step, net))
    stopped.start()
    stopped.join()
    assert stopped.exitcode == -signal.SIGKILL
    assert (net / "a").read_text() == STEPS[step] and read_lock(net)
    (hidden,) = tmp_path.glob(".edgec-*")
    os.utime(hidden, (0, 0))
    publish_files(files_of("third"), net)
    assert (net / "a").read_text() == "third" and [p.name for p in tmp_path.iterdir()] == ["net"]


def test_what_others_are_making_stays(tmp_path: Path) -> None:
    with publish.hidden(tmp_path) as mine:
        (tmp_path / ".edgec-notes").write_text("a file of the user")
        (tmp_path / ".edgec-mine").mkdir()
        (tmp_path / ".edgec-mine" / "letter").write_text("a folder of the user")
        os.utime(tmp_path / ".edgec-mine", (0, 0))
        publish.sweep(tmp_path)
        assert mine.is_dir() and len(list(tmp_path.iterdir())) == 3
    assert sorted(p.name for p in tmp_path.iterdir()) == [".edgec-mine", ".edgec-notes"]


def test_without_an_exchange_of_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "_exchanged", lambda one, other: False)
    for text in ("one", "two", "three"):
        publish_files(files_of(text), tmp_path / "net")
    assert (tmp_path / "net" / "a").read_text() == "three" and len(list(tmp_path.iterdir())) == 1


def test_a_place_that_stays_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "PATIENCE", 0.05)
    with publish.turn(tmp_path / "net"), pytest.raises(UsageError, match="locked"):
        publish_files(files_of("one"), tmp_path / "net")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("most", [0, 50_000])
def test_a_full_disk_is_told(network: Path, tmp_path: Path, most: int) -> None:
    """Files of so many bytes are the largest that the system writes, as on a disk that is full."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    publish_files(files_of("old"), tmp_path / "net")
    words = [sys.executable, "-m", "edgec", "build", str(network), "-o", str(tmp_path / "net"), "--report", "--quick"]
    done = subprocess.run(words, preexec_fn=limit, capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 2 and "mistake in edgec" not in done.stderr and "Traceback" not in done.stderr, (
        done.stderr
    )
    built = {p.name for p in (tmp_path / "net").iterdir()}
    assert built == {"a", "edgec.lock"} or (most == 50_000 and "net.h" in built), "it is whole: the old one or the new"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net", "net.onnx"] and "report.html" not in built


def test_a_folder_of_temporary_files_without_room(network: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the system refuses in the middle of a build is an error of edgec's own kind."""

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "/tmp/x")

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    with pytest.raises(UsageError, match="No space left"):
        edgec.build(network)


def test_leftovers_of_other_users_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = tmp_path / f"{publish.HIDDEN}left"
    left.mkdir()
    (left / "owner").touch()
    monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)
    publish.sweep(tmp_path)
    assert left.is_dir()
    monkeypatch.undo()
    publish.sweep(tmp_path)
    assert not left.exists()

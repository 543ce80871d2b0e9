"""Hosts and workers in C: the bits of the coordinator in Python, over TCP and MPI, and every fault by name."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from divided_cases import divided, image, tower
from emitted_programs import (
    KEY,
    MPI,
    addresses,
    compiled,
    environment,
    expected,
    host_command,
    need_mpi,
    workers,
    written,
)
from rich.console import Console
from test_held_states import WIDTH, over

import edgec
from edgec.distribute import protocol
from edgec.distribute.build import BuiltParts
from edgec.distribute.emitted import divided_files, refusal
from edgec.distribute.manifest import read_manifest
from edgec.distribute.protocol import DONE, FAILED, HEADER, RUN, Header
from edgec.distribute.served import digest_of
from edgec.errors import LinkError
from edgec.report.divided import draw, record

CASES = [(split, count) for split in ("pipeline", "rows", "tensor") for count in (2, 3)]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def network(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    split, count = request.param
    built = divided(tmp_path_factory.mktemp("c"), count, split)
    assert built.without_c == ""
    assert len(built.manifest.workers) == count
    return built.folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return divided(tmp_path_factory.mktemp("faults"), 2, "pipeline").folder


@pytest.mark.parametrize("engine", ["tcp", "mpi"])
def test_c_gives_the_bits_of_python(network: Path, engine: str, tmp_path: Path) -> None:
    """One frame, frame after frame, and a stream with as many in flight as there is room for."""
    frames = [{"image": image(k)} for k in range(7)]
    want = expected(network, frames)
    compiled(network, engine)
    for count, more in ((1, ("--in-flight", "1")), (7, ("--in-flight", "1")), (7, ("--in-flight", "2")), (7, ())):
        given, got = written(tmp_path / "in", network, frames[:count]), tmp_path / "out"
        arguments = ["--frames", str(given), str(got), *more]
        if engine == "tcp":
            with workers(network, None, "--once") as found:
                command = host_command(network, engine, *arguments, *addresses(found))
                done = subprocess.run(
                    command, capture_output=True, text=True, env=environment(), timeout=60, check=False
                )
                ends = [worker.wait(10) for worker in found] if not done.returncode else []
            assert not any(ends)
        else:
            command = host_command(network, engine, *arguments)
            done = subprocess.run(
                command, capture_output=True, text=True, env=environment(**MPI), timeout=60, check=False
            )
        assert done.returncode == 0, done.stderr
        assert got.read_bytes() == want[: len(want) // 7 * count]


def test_python_and_c_speak_one_protocol(folder: Path, tmp_path: Path) -> None:
    frames = [{"image": image(k)} for k in range(5)]
    want = expected(folder, frames)
    with workers(folder, None, "--once") as found:
        with edgec.Several(folder, addresses=addresses(found), secret=KEY) as several:
            got = b"".join(r["scores"].tobytes() for r in several.stream(frames))
            assert all(bytes_there > 1 << 20 for bytes_there in several.memory())
        assert got == want
        assert [worker.wait(10) for worker in found] == [0, 0]
    python, ports = [], []
    try:
        for k in range(2):
            command = [sys.executable, "-m", "edgec", "worker", str(folder / f"part{k}"), "--listen", "127.0.0.1:0"]
            pipe = subprocess.PIPE
            python.append(
                subprocess.Popen([*command, "--once"], stdout=pipe, stderr=pipe, text=True, env=environment())
            )
            ports.append(python[-1].stdout.readline().split()[-1])  # type: ignore[union-attr]
        arguments = ["--frames", str(written(tmp_path / "in", folder, frames)), str(tmp_path / "out")]
        command = host_command(folder, "tcp", *arguments, *ports)
        subprocess.run(command, env=environment(), timeout=60, check=True)
        assert (tmp_path / "out").read_bytes() == want
        told = [worker.communicate(timeout=20) for worker in python]
        assert [worker.returncode for worker in python] == [0, 0]
        assert not any(errors for _, errors in told)
    finally:
        for worker in python:
            worker.kill()
            worker.communicate()


def test_programs_of_one_rank_have_no_other_parts(folder: Path, tmp_path: Path) -> None:
    frames = [{"image": image(9)}]
    host = compiled(folder, "tcp", "main.c", 0)
    ends = []
    try:
        for rank in (1, 2):
            command = [str(compiled(folder, "tcp", "main.c", rank)), "--worker", str(rank), "--once"]
            ends.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()))
        at = [end.stdout.readline().split()[-1] for end in ends]  # type: ignore[union-attr]
        given = written(tmp_path / "in", folder, frames)
        subprocess.run([str(host), "--frames", given, tmp_path / "out", *at], env=environment(), timeout=60, check=True)
        assert (tmp_path / "out").read_bytes() == expected(folder, frames)
        wrong = [str(compiled(folder, "tcp", "main.c", 1)), *at]
        done = subprocess.run(wrong, env=environment(), capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 1
        assert "cannot be reached" in done.stderr
    finally:
        for end in ends:
            end.kill()
            end.communicate()


def test_c_workers_hold_states(tmp_path: Path) -> None:
    """Caches stay in the workers from one frame to the next, and begin at zero for the next host and after a reset.

    Frames see places that were not written yet, so that what another host left there would be seen.
    """
    folder = over(tmp_path, 2, split="tensor", shard=("q0_product=1", "q1_product=1")).folder
    random = np.random.default_rng(3)
    frames = [
        {"x": random.standard_normal((1, WIDTH)).astype(np.float32), "place": np.array([t])} for t in (5, 3, 4, 2)
    ]
    want = expected(folder, frames)
    given, got = written(tmp_path / "in", folder, frames), tmp_path / "out"
    with workers(folder) as found:
        for _ in range(2):
            command = host_command(folder, "tcp", "--frames", str(given), str(got), *addresses(found))
            subprocess.run(command, env=environment(), timeout=60, check=True)
            assert got.read_bytes() == want
        with edgec.Several(folder, addresses=addresses(found), secret=KEY) as several:
            for _ in range(2):
                assert b"".join(r["y"].tobytes() for r in several.stream(frames)) == want
                several.reset()


def test_messages_larger_than_any_buffer(tmp_path: Path) -> None:
    """Answers of megabytes wait in workers while the host sends requests of megabytes: nobody waits in a circle."""
    folder = divided(tmp_path, 3, "pipeline", tower(220)).folder
    frames = [{"image": image(k, 220)} for k in range(6)]
    given, got = written(tmp_path / "in", folder, frames), tmp_path / "out"
    with workers(folder) as found:
        command = host_command(folder, "tcp", "--frames", str(given), str(got), *addresses(found))
        subprocess.run(command, env=environment(), timeout=120, check=True)
    assert got.read_bytes() == expected(folder, frames)


@pytest.mark.parametrize("engine", ["tcp", "mpi"])
@pytest.mark.parametrize(("number", "why"), [(signal.SIGKILL, "closed"), (signal.SIGSTOP, "no answer in time")])
def test_a_worker_in_c_that_is_lost_ends_the_run(
    folder: Path, engine: str, number: int, why: str, tmp_path: Path
) -> None:
    """The first frame is handed out, the second one not; the host ends in time and names the worker."""
    given, got, pids = tmp_path / "fifo", tmp_path / "out", tmp_path / "pids"
    os.mkfifo(given)
    arguments = ["--frames", str(given), str(got), "--in-flight", "1", "--timeout", "2"]
    with workers(folder) as found:
        if engine == "tcp":
            command, own = host_command(folder, engine, *arguments, *addresses(found)), environment()
        else:
            need_mpi()
            pids.mkdir()
            head, rest = (all_of := host_command(folder, engine, *arguments))[:3], all_of[3:]
            ranked = f'echo $$ > {pids}/${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}; exec "$0" "$@"'
            command, own = [*head, "sh", "-c", ranked, *rest], environment(**MPI)
        pipe = subprocess.PIPE
        host = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=own)
        try:
            with given.open("wb", buffering=0) as frames:
                frames.write(image(0).tobytes())
                one = 5 * 4
                wait_for(lambda: got.exists() and host.poll() is None)
                lost = found[1].pid if engine == "tcp" else int((pids / "2").read_text())
                time.sleep(0.5)
                os.kill(lost, number)
                frames.write(image(1).tobytes())
                told = host.communicate(timeout=30)
            assert host.returncode
            if engine == "tcp" or number == signal.SIGSTOP:  # mpirun tells of processes that were killed itself
                assert "worker 1" in told[1] and why in told[1]
            assert got.stat().st_size <= one
        finally:
            if engine == "mpi" and number == signal.SIGSTOP and (pids / "2").exists():
                with suppress(ProcessLookupError):
                    os.kill(int((pids / "2").read_text()), signal.SIGKILL)
            host.kill()
            host.communicate()


def test_mpi_refuses_more_or_fewer_ranks(folder: Path) -> None:
    program = compiled(folder, "mpi")
    for ranks in ("2", "4"):
        command = ["mpirun", "-n", ranks, str(program)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment(**MPI), timeout=60, check=False)
        assert done.returncode
        assert "more or fewer ranks" in done.stderr


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def host_beside(
    folder: Path, tmp_path: Path, answer: Callable[[socket.socket, Header], None] | None, secret: str
) -> str:
    """The words of a host in C about a worker that answers as it likes; it ends with an error and no output."""
    parts = [[folder / f"part{k}"] for k in range(2)]
    given, got = written(tmp_path / "in", folder, [{"image": image()}]), tmp_path / "out"
    with socket.create_server(("127.0.0.1", 0)) as server, workers(folder) as found:
        at = "{}:{}".format(*server.getsockname()[:2])
        command = host_command(
            folder, "tcp", "--frames", str(given), str(got), "--timeout", "2", at, addresses(found)[1]
        )
        pipe = subprocess.PIPE
        host = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment())
        try:
            end, _ = server.accept()
            with end:
                try:
                    protocol.greet_as_worker(
                        end, secret.encode(), digest_of(parts[0] if answer is not None else parts[1])
                    )
                    head = protocol.header_of(protocol.received(end, HEADER.size, time.monotonic() + 5))
                    protocol.received(end, head.length, time.monotonic() + 5)
                    assert answer is not None
                    answer(end, head)
                    told = host.communicate(timeout=20)[1]
                except LinkError:
                    end.close()
                    told = host.communicate(timeout=20)[1]
        finally:
            host.kill()
            host.communicate()
    assert host.returncode == 1
    assert not got.exists() or not got.read_bytes()
    assert "worker 0" in told
    return told


def head_of(head: Header, **other: int) -> bytes:
    length = 24 * 20 * 20 * 4
    return Header(
        **{"kind": DONE, "part": head.part, "frame": head.frame, "length": length, "types": 0, **other}
    ).packed()


ANSWERS: dict[str, Callable[[socket.socket, Header], None]] = {
    "other bytes": lambda end, head: end.sendall(b"garbage" * 100),
    "another kind": lambda end, head: end.sendall(head_of(head, kind=RUN)),
    "another frame": lambda end, head: end.sendall(head_of(head, frame=7)),
    "a length without end": lambda end, head: end.sendall(head_of(head, length=2**64 - 1)),
    "other types": lambda end, head: end.sendall(head_of(head, types=5)),
    "more words than there is room for": lambda end, head: end.sendall(head_of(head, kind=FAILED, length=2001)),
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
def test_a_host_in_c_refuses_garbage(folder: Path, name: str, tmp_path: Path) -> None:
    assert "garbage" in host_beside(folder, tmp_path, ANSWERS[name], KEY)


def test_a_host_in_c_hears_why_a_part_failed(folder: Path, tmp_path: Path) -> None:
    words = b"no memory\x1b[2J there"

    def failing(end: socket.socket, head: Header) -> None:
        end.sendall(head_of(head, kind=FAILED, length=len(words)) + words)

    told = host_beside(folder, tmp_path, failing, KEY)
    assert "no memory [2J there" in told


def test_a_worker_with_another_secret_or_part_is_refused_in_c(folder: Path, tmp_path: Path) -> None:
    assert "does not know the secret" in host_beside(folder, tmp_path, lambda end, head: None, "another-secret-of-16")
    assert "other parts" in host_beside(folder, tmp_path, None, KEY)


def test_a_worker_in_c_refuses_what_is_not_due(folder: Path) -> None:
    """Each connection ends with its reason, and the worker serves the next one."""
    digest = digest_of([folder / "part0"])
    taken = 3 * 20 * 20 * 4
    wrong: dict[str, tuple[str, bytes]] = {
        "secret": ("another-secret-of-16", b""),
        "magic": (KEY, b"GET / HTTP/1.1\r\nHost: worker\r\n\r\n"),
        "part": (KEY, Header(RUN, 1, 0, taken, 0).packed()),
        "run": (KEY, Header(RUN, 0, 3, taken, 0).packed()),
        "length": (KEY, Header(RUN, 0, 0, 2**63, 0).packed()),
        "kind": (KEY, Header(DONE, 0, 0, taken, 0).packed()),
        "reset": (KEY, Header(protocol.RESET, 0, 0, 8, 0).packed()),
    }
    with workers(folder) as found:
        host, port = addresses(found)[0].split(":")
        for secret, sent in wrong.values():
            with socket.create_connection((host, int(port)), 10) as end:
                if secret != KEY:
                    with pytest.raises(LinkError):
                        protocol.greet_as_coordinator(end, secret.encode(), digest)
                    continue
                protocol.greet_as_coordinator(end, secret.encode(), digest)
                end.sendall(sent)
                end.settimeout(10)
                with suppress(ConnectionResetError):  # where it closed with bytes of ours unread
                    assert end.recv(1) == b""
        with edgec.Several(folder, addresses=addresses(found), secret=KEY) as several:
            several.run({"image": image()})
        found[0].kill()
        told = found[0].communicate()[1]
        assert told.count("garbage") == len(wrong) - 1
        assert told.count("secret") == 1


def test_what_has_no_c_is_refused_in_words(folder: Path, tmp_path: Path) -> None:
    manifest = read_manifest(folder)
    assert refusal(folder, manifest) == ""
    for change, why in (
        ({"language": "opencl"}, "part0 is in opencl"),
        ({"weights": {"place": "file"}}, "the weights of part0 are in a file"),
    ):
        copy = tmp_path / why.split()[-1]
        shutil.copytree(folder, copy)
        lock = json.loads((copy / "part0" / "edgec.lock").read_text())
        (copy / "part0" / "edgec.lock").write_text(json.dumps({**lock, **change}))
        assert why in refusal(copy, manifest)
    lock = json.loads((folder / "part0" / "edgec.lock").read_text())
    several = replace(manifest, workers=(*manifest.workers, manifest.workers[0]))
    assert refusal(folder, several) == "worker 2 has no part"
    assert "would hide" in refusal(folder, replace(manifest, name="ec"))
    narrow = {n: replace(t, dtype="f8e5m2", terms=("a", "b")) for n, t in manifest.tensors.items()}
    assert "the sum image is of f8e5m2" in refusal(folder, replace(manifest, tensors=narrow))
    lock["inputs"][0]["shape"][0] = "batch"
    (copy / "part0" / "edgec.lock").write_text(json.dumps(lock))
    assert "only at run time" in refusal(copy, manifest)


def test_a_build_without_c_has_parts_alone(tmp_path: Path) -> None:
    built = divided(tmp_path, 2, "pipeline", weights="file")
    assert "the weights of part0 are in a file" in built.without_c
    assert not list(built.folder.glob("*.c"))
    assert "no host and workers in C" in shown_by(built)


def shown_by(built: BuiltParts) -> str:
    console = Console(width=200)
    with console.capture() as text:
        console.print(draw(record(built.folder, built.manifest, built.without_c)))
    return text.get()


def test_the_same_folder_gives_the_same_c(folder: Path) -> None:
    manifest = read_manifest(folder)
    for path, content in divided_files(folder, manifest).items():
        assert (folder / path).read_bytes() == content


def test_a_network_in_c_is_built_by_cmake(folder: Path, tmp_path: Path) -> None:
    if shutil.which("cmake") is None:
        pytest.skip("there is no cmake here")
    for command in (["-S", str(folder), "-B", str(tmp_path / "b"), "-DNET_RANK=1"], ["--build", str(tmp_path / "b")]):
        done = subprocess.run(["cmake", *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "warning:" not in done.stdout + done.stderr
    program = tmp_path / "b" / "net_divided"
    done = subprocess.run([program, "--worker", "2", "--once"], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode and "secret" in done.stderr

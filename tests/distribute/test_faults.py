"""Faults of workers and of those who connect: every one ends in time, by name, without a result."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from divided_cases import divided, image

import edgec
from edgec.distribute import protocol
from edgec.distribute.manifest import read_manifest
from edgec.distribute.protocol import DONE, HEADER, RUN, SECRET, Header
from edgec.distribute.served import digest_of
from edgec.errors import EdgecError, LinkError, UsageError

KEY = "0123456789abcdef-secret"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return divided(tmp_path_factory.mktemp("faults"), 2, "pipeline").folder


@pytest.mark.parametrize(("name", "number"), [("killed", signal.SIGKILL), ("hangs", signal.SIGSTOP)])
def test_a_worker_that_is_lost_ends_the_run(folder: Path, name: str, number: int) -> None:
    network = edgec.Several(folder, timeout=1.0)
    try:
        network.run({"image": image()})
        os.kill(network.processes[1], number)
        begun = time.monotonic()
        handed_out: list[Any] = []
        with pytest.raises(LinkError, match=r"worker 1 .*host@local.*no result"):
            handed_out.extend(network.stream({"image": image(k)} for k in range(20)))
        assert time.monotonic() - begun < 6
        assert not handed_out
        with pytest.raises(UsageError, match="lost a worker"):
            network.run({"image": image()})
    finally:
        network.close()


@contextmanager
def impostor(folder: Path, answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A worker for all parts that knows the secret, takes one message, and answers as it likes."""
    parts = [folder / p.folder for p in read_manifest(folder).parts if p.worker == 0]
    with socket.create_server(("127.0.0.1", 0)) as server:

        def work() -> None:
            end, _ = server.accept()
            with end:
                protocol.greet_as_worker(end, KEY.encode(), digest_of(parts))
                head = protocol.header_of(protocol.received(end, HEADER.size, None))
                protocol.received(end, head.length, None)
                answer(end)
                end.settimeout(3)
                with suppress(OSError):
                    end.recv(1)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        yield "{}:{}".format(*server.getsockname())
        thread.join(5)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return divided(tmp_path_factory.mktemp("alone"), 1, "auto").folder


def _answers(folder: Path) -> dict[str, tuple[bytes, bool]]:
    """Answers of a worker, and whether each is right."""
    types = protocol.checksum([("f32", (1, 5))])
    right = Header(DONE, 0, 0, 20, types)
    scores, tail = np.arange(5, dtype=np.float32).tobytes(), protocol.tail_of(0)
    return {
        "right": (right.packed() + scores + tail, True),
        "noise": (b"\x00" * HEADER.size, False),
        "another kind": (Header(RUN, 0, 0, 20, types).packed() + scores + tail, False),
        "another part": (Header(DONE, 1, 0, 20, types).packed() + scores + tail, False),
        "another frame": (Header(DONE, 0, 1, 20, types).packed() + scores + tail, False),
        "other types": (Header(DONE, 0, 0, 20, types ^ 1).packed() + scores + tail, False),
        "too long": (Header(DONE, 0, 0, 1 << 62, types).packed() + scores + tail, False),
        "too short": (Header(DONE, 0, 0, 16, types).packed() + scores + tail, False),
        "an endless complaint": (Header(protocol.FAILED, 0, 0, 1 << 40, 0).packed(), False),
        "half of it": (right.packed() + scores[:7], False),
        "no tail": (right.packed() + scores + bytes(len(tail)), False),
        "the tail of another run": (right.packed() + scores + protocol.tail_of(1), False),
        "twice": (2 * (right.packed() + scores + tail), True),
    }


@pytest.mark.parametrize("name", _answers(Path()))
def test_an_answer_that_is_not_due_is_refused(alone: Path, name: str) -> None:
    data, is_right = _answers(alone)[name]
    with (
        impostor(alone, lambda end: end.sendall(data)) as address,
        edgec.Several(alone, addresses=[address], secret=KEY, timeout=1.0) as network,
    ):
        if is_right:  # so that the others fail for their mistake alone
            try:
                assert network.run({"image": image()})["scores"].tolist() == [[0, 1, 2, 3, 4]]
            except LinkError as error:
                assert name == "twice" and "none is due" in error.message
        else:
            with pytest.raises(LinkError, match="worker 0"):
                network.run({"image": image()})


@contextmanager
def served(folder: Path, **variables: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "edgec", "worker", str(folder / "part0"), "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, SECRET: KEY}
    )
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().strip().removeprefix("listening at ")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_worker_outlives_hostile_connections(alone: Path) -> None:
    digest = digest_of([alone / "part0"])
    types = protocol.checksum([("f32", (1, 3, 20, 20))])
    hostile = {
        "noise": b"\xff" * 4096,
        "another part": Header(RUN, 7, 0, 4800, types).packed(),
        "another frame": Header(RUN, 0, 3, 4800, types).packed(),
        "huge": Header(RUN, 0, 0, 1 << 63, types).packed(),
        "other types": Header(RUN, 0, 0, 4800, types ^ 1).packed(),
        "an answer": Header(DONE, 0, 0, 20, 0).packed(),
    }
    with served(alone) as (process, address):
        host, port = address.split(":")

        def connected() -> socket.socket:
            return socket.create_connection((host, int(port)), 5)

        # Who does not know the secret gets no further than the greeting.
        with connected() as end, pytest.raises(LinkError):
            protocol.greet_as_coordinator(end, b"another secret 123", digest)
        with connected() as end:
            end.sendall(b"\x00" * 200)
        for data in hostile.values():
            with connected() as end:
                protocol.greet_as_coordinator(end, KEY.encode(), digest)
                end.sendall(data)
                end.settimeout(5)
                with suppress(ConnectionError):
                    assert end.recv(1) == b"", "it answers"
        assert process.poll() is None
        with edgec.Several(alone, addresses=[address], secret=KEY) as network:
            assert network.run({"image": image()})["scores"].shape == (1, 5)
        with pytest.raises(LinkError, match="worker 0"):
            edgec.Several(alone, addresses=[address], secret="another secret 123")
        with pytest.raises(UsageError, match="at least 16 characters"):
            edgec.Several(alone, addresses=[address], secret="short")


def _damaged(folder: Path, change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "edgec-divided.json").read_text())
    change(found)
    return found


DAMAGES: dict[str, Callable[[dict[str, Any]], None]] = {
    "another version": lambda m: m.update(divided=1),
    "no parts": lambda m: m.update(parts=[]),
    "a worker too many": lambda m: m["parts"][0].update(worker=9),
    "a folder elsewhere": lambda m: m["parts"][0].update(folder="../part0"),
    "a tensor of nobody": lambda m: m["parts"][0]["reads"][0].update(tensor="other"),
    "parts the other way round": lambda m: m["parts"].reverse(),
    "a huge tensor": lambda m: m["tensors"][0].update(shape=[1 << 39, 1 << 39]),
    "an unknown type": lambda m: m["tensors"][0].update(dtype="f99"),
    "another shape": lambda m: m["tensors"][0].update(shape=[1, 3, 20, 21]),
    "a negative time": lambda m: m["parts"][0].update(seconds=-1),
    "no number": lambda m: m.update(in_flight="many"),
    "rows outside": lambda m: m["parts"][0]["reads"][0].update(axis=2, begin=5, end=21),
    "a name that controls": lambda m: m.update(verdict="\x1b[2J"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_manifest_is_refused(folder: Path, tmp_path: Path, name: str) -> None:
    for part in ("part0", "part1"):
        (tmp_path / part).symlink_to(folder / part)
    (tmp_path / "edgec-divided.json").write_text(json.dumps(_damaged(folder, DAMAGES[name])))
    with pytest.raises(EdgecError):
        edgec.Several(tmp_path)
    (tmp_path / "edgec-divided.json").write_text(json.dumps(_damaged(folder, lambda m: None)))
    edgec.Several(tmp_path).close()  # what is not damaged opens


def test_all_of_a_message_is_sent_in_order_by_a_socket_that_takes_little() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        ours.setblocking(False)
        data = np.random.default_rng(0).integers(0, 256, 300_000).astype(np.uint8)
        pieces = [data[:7], data[7:7], data[7:250_000], *(data[k : k + 50] for k in range(250_000, 300_000, 50))]
        outgoing, got = deque(p.data for p in pieces), bytearray()
        while outgoing:
            with suppress(BlockingIOError):
                protocol.send_some(ours, outgoing)
                continue
            got += theirs.recv(1 << 16)
        ours.shutdown(socket.SHUT_WR)
        while more := theirs.recv(1 << 16):
            got += more
        assert bytes(got) == data.tobytes()

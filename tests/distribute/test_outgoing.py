"""Answers of a worker on their way: whole and in order, while their memory is written again, and given up in time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from edgec.distribute.outgoing import Outgoing
from edgec.errors import LinkError

#: More than what sockets take at once.
SIZE = 8 << 20


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def received(end: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size and (data := end.recv(1 << 20)):
        found += data
    return bytes(found)


def test_an_answer_goes_while_the_next_one_is_made(ends: tuple[socket.socket, socket.socket]) -> None:
    answer = bytearray(b"a" * SIZE)
    with closing(Outgoing(ends[0], 10)) as outgoing:
        ends[0].settimeout(2)  # as the one who receives leaves it
        outgoing.send([b"head", memoryview(answer)])  # nobody has read a byte so far
        answer[:] = b"b" * SIZE
        reader: list[bytes] = []
        thread = threading.Thread(target=lambda: reader.append(received(ends[1], 2 * SIZE + 4)))
        thread.start()
        outgoing.send([memoryview(answer)])
        outgoing.wait()
        thread.join()
    assert reader[0] == b"head" + b"a" * SIZE + b"b" * SIZE


def test_without_overlap_it_waits(ends: tuple[socket.socket, socket.socket]) -> None:
    with (
        closing(Outgoing(ends[0], 0.2, overlaps=False)) as outgoing,
        pytest.raises(LinkError, match="not taken in time"),
    ):
        outgoing.send([bytes(SIZE)])


@pytest.mark.parametrize("is_gone", [True, False])
def test_what_is_not_taken_ends_the_connection(ends: tuple[socket.socket, socket.socket], is_gone: bool) -> None:
    begun = time.monotonic()
    with closing(Outgoing(ends[0], 0.3)) as outgoing:
        outgoing.send([bytes(SIZE)])
        if is_gone:
            ends[1].close()
        with pytest.raises(LinkError, match="the connection broke"):
            outgoing.send([b"next"])
    assert time.monotonic() - begun < 5

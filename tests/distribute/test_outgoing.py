"""Answers of a worker on their way: whole and in order, while their memory is written again, and given up in time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from edgec.distribute.outgoing import Answer, Outgoing
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


def test_outputs_go_before_the_answer_is_over(ends: tuple[socket.socket, socket.socket]) -> None:
    """Also while the socket takes no more, and their memory is free after the end."""
    outputs = [bytearray(b"abc"), bytearray(b"d" * SIZE), bytearray(b"e" * SIZE)]
    with closing(Outgoing(ends[0], 10)) as outgoing:
        answer = Answer(outgoing, b"head")
        answer.early(outputs[:1])
        assert received(ends[1], 7) == b"headabc"
        answer.early(outputs[:2])
        answer.early(outputs[:2])  # nothing more
        answer.finish(outputs)
        for own in outputs:
            own[:] = bytes(len(own))
        later = Answer(outgoing, b"next")
        later.early([b"f"])
        assert not later.has_begun, "the answer before it is not gone"
        reader: list[bytes] = []
        thread = threading.Thread(target=lambda: reader.append(received(ends[1], 2 * SIZE + 5)))
        thread.start()
        later.finish([b"f"])
        outgoing.wait()
        thread.join()
    assert reader[0] == b"d" * SIZE + b"e" * SIZE + b"nextf"


def test_an_early_output_that_nobody_takes_is_told_at_the_end(ends: tuple[socket.socket, socket.socket]) -> None:
    with closing(Outgoing(ends[0], 0.2)) as outgoing:
        answer = Answer(outgoing, b"head")
        ends[1].close()
        answer.early([bytes(SIZE)])
        answer.early([bytes(SIZE), b"more"])
        with pytest.raises(LinkError, match="the connection broke"):
            answer.finish([bytes(SIZE), b"more", b"last"])

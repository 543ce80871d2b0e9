"""Requests of a worker on their way: one is received ahead while a part is computed, and no more than one."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress

import pytest

from edgec.distribute import protocol
from edgec.distribute.connection import Asked, Connection
from edgec.distribute.exchange import Exchange
from edgec.distribute.incoming import Incoming
from edgec.distribute.protocol import (
    ASK,
    DONE,
    HEADER,
    MEMORY,
    RESET,
    RUN,
    TAIL,
    TOLD,
    Header,
    fill,
    header_of,
    received,
    tail_of,
)
from edgec.distribute.served import TURNS, Told
from edgec.distribute.worker import session
from edgec.errors import LinkError, ModelError

#: Bytes that sockets are told to hold, and of a request, which is far more than they do hold.
HELD, SIZE = 1 << 16, 8 << 20
#: Seconds after which a test has failed, and after which nothing has come that is not to come.
LATE, NEVER = 10.0, 0.2
#: Bytes of a packet of a slow link.
PACKET = 4096
LONG_AND_SHORT = (2 << 20, 28, 2 << 20, 1, 28)


class Gated:
    """A part that gives the first byte of what it took, after it was told to go on."""

    def __init__(self, length: int = SIZE, number: int = 0) -> None:
        self.number, self.length, self.length_out, self.types, self.types_out = number, length, 1, 7, 9
        self.rooms: Sequence[Sequence[memoryview]] = [[memoryview(bytearray(length))] for _ in range(TURNS)]
        self.may_go_on, self.is_at_work = threading.Semaphore(0), threading.Semaphore(0)
        self.resets = 0
        self.fails = False

    def run(self, turn: int, told: Told | None = None) -> list[memoryview]:
        self.is_at_work.release()
        assert self.may_go_on.acquire(timeout=LATE)
        if self.fails:
            raise ModelError("it fails")
        room = self.rooms[turn][0]
        assert room[0] == room[-1], "it was written over"
        return [room[:1]]

    def reset(self) -> None:
        self.resets += 1

    def request(self, run: int, fill: int) -> bytes:
        return self.head(run) + bytes([fill]) * self.length

    def head(self, run: int, length: int | None = None) -> bytes:
        return Header(RUN, self.number, run, self.length if length is None else length, self.types).packed()


@contextmanager
def at_work(*parts: Gated, overlaps: bool = True) -> Iterator[tuple[socket.socket, list[LinkError], threading.Thread]]:
    """The coordinator's end of a session, why it ended, and its thread."""
    ended: list[LinkError] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, HELD)
        ours = socket.create_connection(server.getsockname())
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, HELD)
        theirs = server.accept()[0]

    def work() -> None:
        with theirs:
            try:
                session(theirs, {p.number: p for p in parts}, overlaps)
            except LinkError as error:
                ended.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    with ours:
        ours.settimeout(LATE)
        yield ours, ended, thread
    for part in parts:
        part.may_go_on.release()
    thread.join(LATE)
    assert not thread.is_alive(), "it does not end with its coordinator"


def answered(end: socket.socket, run: int) -> int:
    """The byte that comes back for a run."""
    deadline = time.monotonic() + LATE
    assert header_of(received(end, HEADER.size, deadline)) == Header(DONE, 0, run, 1, 9)
    (found,) = received(end, 1, deadline)
    assert received(end, TAIL.size, deadline) == tail_of(run)
    return found


def taken(end: socket.socket, data: bytes, patience: float) -> int:
    """Bytes of these that the other end takes until it has taken none for so long."""
    end.settimeout(patience)
    sent = 0
    with suppress(TimeoutError):
        while sent < len(data):
            sent += end.send(data[sent : sent + (1 << 20)])
    end.settimeout(LATE)
    return sent


def test_the_next_request_comes_while_a_part_is_computed() -> None:
    part = Gated()
    with at_work(part) as (end, _, _):
        end.sendall(part.request(0, 11))
        assert part.is_at_work.acquire(timeout=LATE)
        end.sendall(part.request(1, 22))  # no socket holds it: it is taken before the first one is computed
        part.may_go_on.release()
        assert answered(end, 0) == 11
        part.may_go_on.release()
        assert answered(end, 1) == 22


def test_no_more_than_one_request_is_received_ahead() -> None:
    part = Gated()
    with at_work(part) as (end, _, _):
        end.sendall(part.request(0, 11))
        assert part.is_at_work.acquire(timeout=LATE)
        end.sendall(part.request(1, 22))
        last = part.request(2, 33)
        sent = taken(end, last, NEVER)
        assert sent < len(last)
        part.may_go_on.release()
        assert answered(end, 0) == 11
        end.sendall(last[sent:])
        part.may_go_on.release()
        assert answered(end, 1) == 22
        part.may_go_on.release()
        assert answered(end, 2) == 33


def test_without_overlap_nothing_is_received_ahead() -> None:
    part = Gated()
    with at_work(part, overlaps=False) as (end, _, _):
        end.sendall(part.request(0, 11))
        assert part.is_at_work.acquire(timeout=LATE)
        next_one = part.request(1, 22)
        sent = taken(end, next_one, NEVER)
        assert sent < len(next_one)
        part.may_go_on.release()
        assert answered(end, 0) == 11
        end.sendall(next_one[sent:])
        part.may_go_on.release()
        assert answered(end, 1) == 22
    assert not any(part.rooms[1][0][:: 1 << 12]), "the other room is of no use, and takes memory"


def test_questions_and_resets_wait_for_their_turn() -> None:
    part = Gated(64)
    with at_work(part) as (end, _, _):
        end.sendall(part.request(0, 11) + Header(RESET, 0, 0, 0, 0).packed() + Header(ASK, 0, 0, 0, 0).packed())
        assert part.is_at_work.acquire(timeout=LATE)
        assert part.resets == 1, "states begin anew with the connection"
        part.may_go_on.release()
        assert answered(end, 0) == 11
        deadline = time.monotonic() + LATE
        assert header_of(received(end, HEADER.size, deadline)) == Header(TOLD, 0, 0, MEMORY.size, 0)
        received(end, MEMORY.size, deadline)
        assert part.resets == 2


def test_a_part_that_fails_leaves_the_request_behind_it() -> None:
    part = Gated(64)
    with at_work(part) as (end, _, _):
        end.sendall(part.request(0, 11) + part.request(1, 22))
        assert part.is_at_work.acquire(timeout=LATE)
        part.fails = True
        part.may_go_on.release()
        deadline = time.monotonic() + LATE
        header = header_of(received(end, HEADER.size, deadline))
        assert header.kind == protocol.FAILED and b"it fails" in received(end, header.length, deadline)
        assert part.is_at_work.acquire(timeout=LATE)
        part.fails = False
        part.may_go_on.release()
        assert answered(end, 1) == 22


HOSTILE: dict[str, tuple[Callable[[Gated], bytes], str]] = {
    "another length": (lambda p: p.head(1, 1 << 60), "length"),
    "another run": (lambda p: p.head(2), "frame 2 where 1 is due"),
    "the same run": (lambda p: p.head(0), "frame 0 where 1 is due"),
    "a part that is not there": (lambda p: Header(RUN, 5, 0, 64, 7).packed(), "part 5 is asked for"),
    "noise": (lambda p: b"\xff" * HEADER.size, "does not speak the protocol"),
    "an end": (lambda p: b"", "was closed"),
    "half of it": (lambda p: p.request(1, 22)[:-3], "was closed"),
}


@pytest.mark.parametrize("overlaps", [True, False])
@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_hostile_behind_a_request_ends_the_session(name: str, overlaps: bool) -> None:
    part = Gated(64)
    made, why = HOSTILE[name]
    with at_work(part, overlaps=overlaps) as (end, ended, thread):
        end.sendall(part.request(0, 11) + made(part))
        end.shutdown(socket.SHUT_WR)
        part.may_go_on.release()
        assert answered(end, 0) == 11, "what came before it is answered"
        thread.join(LATE)
        assert [why in error.message for error in ended] == [True]
        assert part.is_at_work.acquire(timeout=LATE) and not part.is_at_work.acquire(blocking=False)


def test_a_request_that_stops_half_way_is_given_up() -> None:
    part = Gated(64)
    ours, theirs = socket.socketpair()
    with ours, theirs, closing(Incoming(theirs, {0: part}, 0.1)) as incoming:
        ours.sendall(part.request(0, 11)[:-1])
        for _ in range(2):  # and stays so
            with pytest.raises(LinkError, match="no answer in time"):
                incoming.take()


def test_what_is_received_ahead_can_be_closed() -> None:
    part = Gated(64)
    ours, theirs = socket.socketpair()
    ours.settimeout(LATE)
    with ours, theirs:
        incoming = Incoming(theirs, {0: part}, LATE)
        ours.sendall(part.request(0, 11))
        assert incoming.take().run == 0
        ours.sendall(part.request(1, 22)[:-1])
        incoming.close()  # it ends, though the rest of the request never comes
        assert ours.recv(1) == b""


@contextmanager
def dripping(messages: Sequence[bytes]) -> Iterator[socket.socket]:
    """An end that gets messages in small packets, the next one when it has answered with a byte."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        end, _ = server.accept()

    def send() -> None:
        ours.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for message in messages:
            for k in range(0, len(message), PACKET):
                ours.sendall(message[k : k + PACKET])
                time.sleep(5e-5)
            assert ours.recv(1) == b"!"

    with ours, end:
        thread = threading.Thread(target=send, daemon=True)
        thread.start()
        yield end
        thread.join(LATE)


def few(size: int) -> float:
    """Calls that take a message, at most."""
    return 4 + 2 * size / protocol.WOKEN if hasattr(socket, "SO_RCVLOWAT") else 2 + size


class Counted(socket.socket):
    """A socket that counts what it receives."""

    calls = 0

    def recv_into(self, *given: object, **more: object) -> int:
        self.calls += 1
        return super().recv_into(*given, **more)  # type: ignore[arg-type]


def test_a_worker_wakes_up_for_much_of_a_message() -> None:
    """Long messages in small packets are received in few calls, and short ones behind them are not waited for."""
    with dripping([bytes(n) for n in LONG_AND_SHORT]) as end, Counted(fileno=end.detach()) as counted:
        for n in LONG_AND_SHORT:
            before = counted.calls
            fill(counted, memoryview(bytearray(n)), time.monotonic() + LATE)
            assert counted.calls - before <= few(n)
            counted.sendall(b"!")


def test_a_coordinator_wakes_up_for_much_of_an_answer() -> None:
    answers = [Header(DONE, 0, k, n, 9).packed() + bytes(n) + tail_of(k) for k, n in enumerate(LONG_AND_SHORT)]
    with dripping(answers) as end, closing(Exchange()) as exchange:
        connection = Connection("worker", end, LATE)
        exchange.add(connection)
        for n in LONG_AND_SHORT:
            connection.ask(Asked(0, 7, 0, (n,), 9, None), ())
            connection.outgoing.clear()
            turns = 0
            while not exchange.turn():
                turns += 1
            assert turns <= few(n)
            end.sendall(b"!")

"""A coordinator's connection to one worker: what is to be sent, and which answers are due in which order.

Nothing blocks: `write` and `read` move what the socket takes or has. An answer is compared with the one that is due
before room for it is made, whose size the coordinator has known all along. Its outputs are taken one by one; its tail
tells that they were these.
"""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np

from edgec.distribute.protocol import (
    DONE,
    FAILED,
    HEADER,
    MOST_WORDS,
    RUN,
    TAIL,
    Header,
    header_of,
    require,
    send_some,
    tail_of,
    wake_after,
)
from edgec.errors import LinkError
from edgec.text import printable


@dataclass(frozen=True)
class Asked:
    """A request: of which part, the types of both messages, the bytes of each output, and what it is for."""

    part: int
    types: int
    length: int
    outputs: tuple[int, ...]
    types_out: int
    frame: Any


@dataclass(frozen=True)
class Due:
    """An answer that is due, of one of the runs of a part."""

    asked: Asked
    run: int

    @property
    def header(self) -> Header:
        return Header(DONE, self.asked.part, self.run, sum(self.asked.outputs), self.asked.types_out)


#: What came of an answer: the bytes of an output by its number, or None where the answer is complete.
Came = tuple[Asked, "int | None", np.ndarray]
_NOTHING = np.empty(0, np.uint8)


@dataclass
class Connection:
    """A connection after its greeting. ``name`` is how errors call the worker."""

    name: str
    socket: socket.socket
    timeout: float
    outgoing: deque[memoryview] = field(default_factory=deque)
    due: deque[Due] = field(default_factory=deque)
    runs: dict[int, int] = field(default_factory=dict)
    behind: deque[tuple[Asked, Sequence[memoryview]]] = field(default_factory=deque)
    is_open: bool = False
    sent: int = 0
    received: int = 0
    _since: float = 0.0
    _head: bytearray = field(default_factory=bytearray)
    _room: memoryview | None = None
    _filled: int = 0
    _ends: list[int] = field(default_factory=list)
    _given: int = 0
    _is_failure: bool = False
    _wakes_late: bool = False

    def ask(self, asked: Asked, payload: Sequence[memoryview]) -> None:
        """Queue a run of a part, behind a request that is not complete."""
        if self.is_open:
            self.behind.append((asked, payload))
            return
        self.open(asked)
        self.add(payload)
        self.end()

    def open(self, asked: Asked) -> None:
        """Begin a request whose inputs are there in part: `add` sends more of them, and `end` completes it."""
        run = self.runs.get(asked.part, 0)
        self.runs[asked.part] = run + 1
        self.outgoing.append(memoryview(Header(RUN, asked.part, run, asked.length, asked.types).packed()))
        self.sent += asked.length
        self.due.append(Due(asked, run))
        self.is_open = True

    def add(self, payload: Sequence[memoryview]) -> None:
        """More bytes of the request that is open, in order."""
        self.outgoing.extend(p for p in payload if p.nbytes)

    def end(self) -> None:
        """The request that is open is complete; those behind it follow."""
        self.is_open = False
        if len(self.due) == 1:
            self._since = time.monotonic()
        if self.behind:
            self.ask(*self.behind.popleft())

    @property
    def deadline(self) -> float | None:
        """The time when the first answer that is due has to be here in full; None where no complete request is."""
        return self._since + self.timeout if len(self.due) > self.is_open else None

    def lost(self, why: str, hint: str | None = None) -> LinkError:
        """The error that names this worker."""
        return LinkError(f"{why}; no result of this run is handed out", hint=hint, where=self.name)

    def check_time(self) -> None:
        """Raises LinkError where an answer is late."""
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise self.lost(f"no answer within {self.timeout:g} s", "give it more --timeout, if it is at work")

    def write(self) -> None:
        """Send what the socket takes. Raises LinkError where the worker is gone."""
        try:
            while self.outgoing:
                send_some(self.socket, self.outgoing)
        except BlockingIOError:
            pass
        except OSError as error:
            raise self.lost(f"the connection broke: {error.strerror or error}") from None

    def read(self) -> list[Came]:
        """Outputs that are complete, in order. Raises LinkError for what is not due, and where the worker is gone."""
        found: list[Came] = []
        try:
            while True:
                if self._room is None:
                    self._take_head()
                assert self._room is not None
                found.extend(self._outputs())
                while self._filled < self._room.nbytes:
                    self._filled += self._got(self.socket.recv_into(self._room[self._filled :]))
                    found.extend(self._outputs())
                found.append(self._complete())
        except BlockingIOError:
            self._wake_after(0 if self._room is None else self._end - self._filled)
            return found
        except OSError as error:
            raise self.lost(f"the connection broke: {error.strerror or error}") from None

    @property
    def _end(self) -> int:
        """The byte of the answer at which the next output is complete."""
        assert self._room is not None
        return self._ends[self._given] if self._given < len(self._ends) else self._room.nbytes

    def _outputs(self) -> Iterator[Came]:
        """Outputs that have become complete."""
        assert self._room is not None
        if self._is_failure:
            return
        while self._given < len(self._ends) and self._ends[self._given] <= self._filled:
            begin = self._ends[self._given - 1] if self._given else 0
            data = np.frombuffer(self._room[begin : self._ends[self._given]], np.uint8)
            self._given += 1
            yield self.due[0].asked, self._given - 1, data

    def _wake_after(self, left: int) -> None:
        """Wait for what is left of an answer, rather than for each packet of it."""
        if left or self._wakes_late:
            wake_after(self.socket, left)
            self._wakes_late = left > 0

    def _got(self, count: int) -> int:
        if not count:
            raise self.lost("the worker closed the connection, or ended")
        return count

    def _take_head(self) -> None:
        while len(self._head) < HEADER.size:
            data = self.socket.recv(HEADER.size - len(self._head))
            self._got(len(data))
            self._head += data
        try:
            header = header_of(bytes(self._head))
            if len(self.due) <= self.is_open:
                raise LinkError("a message where none is due")
            wanted = self.due[0]
            self._is_failure = header.kind == FAILED
            if self._is_failure:
                length = min(header.length, MOST_WORDS)
                require(header, Header(FAILED, wanted.asked.part, wanted.run, length, 0))
            else:
                require(header, wanted.header)
        except LinkError as error:
            raise self.lost(f"{error.message}: it answers garbage") from None
        self._head = bytearray()
        tail = 0 if self._is_failure else TAIL.size
        self._room, self._filled = np.empty(header.length + tail, np.uint8).data, 0
        self._ends, self._given = list(accumulate(wanted.asked.outputs)), 0

    def _complete(self) -> Came:
        assert self._room is not None
        room, self._room = self._room, None
        due = self.due.popleft()
        self._since = time.monotonic()
        if self._is_failure:
            words = room.tobytes().decode(errors="replace")
            raise self.lost(f"part {due.asked.part} failed there: {printable(words, 400)}")
        if room[-TAIL.size :] != tail_of(due.run):
            raise self.lost("an answer does not end where it is due: it answers garbage")
        self.received += room.nbytes - TAIL.size
        return due.asked, None, _NOTHING

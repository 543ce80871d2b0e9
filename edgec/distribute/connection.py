"""A coordinator's connection to one worker: what is to be sent, and which answers are due in which order.

Nothing blocks: `write` and `read` move what the socket takes or has. An answer is compared with the one that is due
before room for it is made, whose size the coordinator has known all along.
"""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from edgec.distribute.protocol import (
    DONE,
    FAILED,
    HEADER,
    MOST_WORDS,
    RUN,
    Header,
    header_of,
    require,
    send_some,
    wake_after,
)
from edgec.errors import LinkError
from edgec.text import printable


@dataclass(frozen=True)
class Due:
    """An answer that is due: of which part and which of its runs, the bytes and their types, and what it is for."""

    part: int
    run: int
    length: int
    types: int
    frame: Any

    @property
    def header(self) -> Header:
        return Header(DONE, self.part, self.run, self.length, self.types)


@dataclass
class Connection:
    """A connection after its greeting. ``name`` is how errors call the worker."""

    name: str
    socket: socket.socket
    timeout: float
    outgoing: deque[memoryview] = field(default_factory=deque)
    due: deque[Due] = field(default_factory=deque)
    runs: dict[int, int] = field(default_factory=dict)
    sent: int = 0
    received: int = 0
    _since: float = 0.0
    _head: bytearray = field(default_factory=bytearray)
    _room: memoryview | None = None
    _filled: int = 0
    _is_failure: bool = False
    _wakes_late: bool = False

    def ask(self, part: int, types: int, payload: Sequence[memoryview], length: int, out: int, frame: Any) -> None:
        """Queue a run of a part. ``length`` and ``out`` are bytes and types of its answer, ``frame`` comes back."""
        run = self.runs.get(part, 0)
        self.runs[part] = run + 1
        total = sum(p.nbytes for p in payload)
        self.outgoing.append(memoryview(Header(RUN, part, run, total, types).packed()))
        self.outgoing.extend(p for p in payload if p.nbytes)
        self.sent += total
        if not self.due:
            self._since = time.monotonic()
        self.due.append(Due(part, run, length, out, frame))

    @property
    def deadline(self) -> float | None:
        """The time when the first answer that is due has to be here in full; None where none is."""
        return self._since + self.timeout if self.due else None

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

    def read(self) -> list[tuple[Due, np.ndarray]]:
        """Answers that are complete, in order. Raises LinkError for what is not due, and where the worker is gone."""
        found: list[tuple[Due, np.ndarray]] = []
        try:
            while True:
                if self._room is None:
                    self._take_head()
                assert self._room is not None
                while self._filled < self._room.nbytes:
                    self._filled += self._got(self.socket.recv_into(self._room[self._filled :]))
                found.append(self._complete())
        except BlockingIOError:
            self._wake_after(0 if self._room is None else self._room.nbytes - self._filled)
            return found
        except OSError as error:
            raise self.lost(f"the connection broke: {error.strerror or error}") from None

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
            if not self.due:
                raise LinkError("a message where none is due")
            wanted = self.due[0]
            self._is_failure = header.kind == FAILED
            if self._is_failure:
                length = min(header.length, MOST_WORDS)
                require(header, Header(FAILED, wanted.part, wanted.run, length, 0))
            else:
                require(header, wanted.header)
        except LinkError as error:
            raise self.lost(f"{error.message}: it answers garbage") from None
        self._head = bytearray()
        self._room, self._filled = np.empty(header.length, np.uint8).data, 0

    def _complete(self) -> tuple[Due, np.ndarray]:
        assert self._room is not None
        data = np.frombuffer(self._room, np.uint8)
        self._room = None
        due = self.due.popleft()
        self._since = time.monotonic()
        if self._is_failure:
            words = data.tobytes().decode(errors="replace")
            raise self.lost(f"part {due.part} failed there: {printable(words, 400)}")
        self.received += data.nbytes
        return due, data

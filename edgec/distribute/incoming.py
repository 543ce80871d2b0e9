"""Requests of a coordinator on their way: the next one is received while the one before it is computed."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from edgec.distribute.protocol import ASK, END, HEADER, RESET, RUN, Header, fill, header_of, received, require
from edgec.distribute.served import Served
from edgec.errors import LinkError


@dataclass(frozen=True)
class Request:
    """A request that is here in full: its kind, and of a run the part, its number, and which of the rooms it fills."""

    kind: int
    part: Served | None = None
    run: int = 0
    turn: int = 0


class Incoming:
    """Requests of one coordinator, in order, each compared with the one that is due before any of it is taken in.

    Where it ``overlaps``, one request at most is received ahead. It fills the rooms of its part that the run before
    it does not read. ``patience`` are the seconds in which the rest of a request has to come once it has begun.
    """

    def __init__(self, end: socket.socket, parts: Mapping[int, Served], patience: float, overlaps: bool = True) -> None:
        self._end, self._parts, self._patience = end, parts, patience
        self._runs = dict.fromkeys(parts, 0)
        self._may_receive, self._is_here = threading.Semaphore(0), threading.Semaphore(0)
        self._found: Request | LinkError | None = None
        self._is_closed = False
        self._thread = threading.Thread(target=self._ahead, daemon=True) if overlaps else None
        if self._thread is not None:
            self._may_receive.release()
            self._thread.start()

    def take(self) -> Request:
        """The next request, as soon as it is here; whoever asks for it has done with the one before.

        Raises LinkError for one that is not due, or not here in time, and where the coordinator is gone.
        """
        if self._thread is None:
            return self._received()
        self._is_here.acquire()
        found = self._found
        if not isinstance(found, Request):
            assert found is not None
            self._is_here.release()  # nothing comes after it
            raise found
        self._may_receive.release()
        return found

    def close(self) -> None:
        """Give up what is on its way; nothing of the socket is read afterwards."""
        if self._thread is not None:
            self._is_closed = True
            self._may_receive.release()
            with suppress(OSError):
                self._end.shutdown(socket.SHUT_RDWR)
            self._thread.join()

    def _ahead(self) -> None:
        while True:
            self._may_receive.acquire()
            if self._is_closed:
                return
            try:
                self._found = self._received()
            except LinkError as error:
                self._found = error
            self._is_here.release()
            if not isinstance(self._found, Request):
                return

    def _received(self) -> Request:
        header = header_of(received(self._end, HEADER.size, None))
        deadline = time.monotonic() + self._patience
        if header.kind in (ASK, RESET, END):
            require(header, Header(header.kind, 0, 0, 0, 0))
            return Request(header.kind)
        part = self._parts.get(header.part)
        if part is None:
            raise LinkError(f"part {header.part} is asked for, which is not here")
        due = self._runs[part.number]
        require(header, Header(RUN, part.number, due, part.length, part.types))
        turn = due % len(part.rooms) if self._thread is not None else 0
        for room in part.rooms[turn]:
            fill(self._end, room, deadline)
        self._runs[part.number] = due + 1
        return Request(RUN, part, due, turn)

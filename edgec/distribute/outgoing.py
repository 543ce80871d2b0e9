"""Answers of a worker on their way: outputs go as soon as they are final, and while the next part is computed."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

from edgec.distribute.protocol import send_some
from edgec.errors import LinkError

#: A call sends what the socket takes, whatever timeouts it has; without the flag, all of it before it goes on.
AT_ONCE: int = getattr(socket, "MSG_DONTWAIT", 0)


class Outgoing:
    """Messages of a worker to one coordinator, in order. Of one answer at most, a copy is kept until it is gone.

    ``patience`` are the seconds in which an answer has to go. Without ``overlaps`` the worker waits until it is.
    """

    def __init__(self, end: socket.socket, patience: float, overlaps: bool = True) -> None:
        self._end = end.dup()  # with timeouts of its own: whoever receives sets others
        self._end.settimeout(None)
        self._patience, self.overlaps = patience, overlaps and bool(AT_ONCE)
        self._thread: threading.Thread | None = None
        self._turn = threading.Lock()
        self._left: deque[memoryview] = deque()
        self._error: OSError | None = None

    def send(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Send these bytes, or begin to. Their memory is free afterwards. Raises LinkError, for those before too."""
        self.wait()
        self.add(pieces)

    def add(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Send more of a message that has begun, behind what is left of it. Raises as `send` does."""
        outgoing = deque(p for p in (memoryview(p).cast("B") for p in pieces) if p.nbytes)
        with self._turn:
            is_at_work = bool(self._left)
            if not is_at_work and self.overlaps:
                self._push(outgoing)
            self._left.extend(memoryview(bytes(p)) if self.overlaps else p for p in outgoing)
            is_left = bool(self._left) and self._error is None
        if is_left and not self.overlaps:
            self._finish()
        elif is_left and not is_at_work:
            self._thread = threading.Thread(target=self._finish, daemon=True)
            self._thread.start()
        self._raise()

    @property
    def is_at_work(self) -> bool:
        """Is something not gone yet?"""
        return bool(self._left)

    def wait(self) -> None:
        """Wait until everything is gone. Raises LinkError where it does not go."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._raise()

    def close(self) -> None:
        """Give up what is left, and let go of the socket."""
        if self._thread is not None:
            with suppress(OSError):
                self._end.shutdown(socket.SHUT_RDWR)
            self._thread.join()
        self._end.close()

    def _push(self, outgoing: deque[memoryview]) -> None:
        try:
            while outgoing:
                send_some(self._end, outgoing, AT_ONCE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._error = error

    def _finish(self) -> None:
        deadline = time.monotonic() + self._patience
        with selectors.DefaultSelector() as ready:
            ready.register(self._end, selectors.EVENT_WRITE)
            while True:
                left = deadline - time.monotonic()
                is_late = left <= 0 or not ready.select(left)
                with self._turn:
                    if is_late:
                        self._error = TimeoutError("it is not taken in time")
                    else:
                        self._push(self._left)
                    if not self._left or self._error is not None:
                        self._left.clear()
                        return

    def _raise(self) -> None:
        if self._error is not None:
            raise LinkError(f"the connection broke: {self._error.strerror or self._error}") from None


class Answer:
    """The answer to one run: outputs go as they become final, the others and the tail when the run is over."""

    def __init__(self, outgoing: Outgoing, head: bytes, tail: bytes = b"") -> None:
        self._outgoing, self._head, self._tail = outgoing, head, tail
        self._sent = 0
        self._error: LinkError | None = None
        self.has_begun = False

    def early(self, final: Sequence[memoryview]) -> None:
        """Send outputs that are final, the first ones, while others are computed.

        While the answer before is not gone, they wait for the end of the run. Nothing is raised before it either.
        """
        if self._error is not None or (not self.has_begun and self._outgoing.is_at_work):
            return
        try:
            self._add(final)
        except LinkError as error:
            self._error = error

    def finish(self, outputs: Sequence[memoryview]) -> None:
        """Send what is left. Raises LinkError for what was sent before, too."""
        if self._error is not None:
            raise self._error
        if not self.has_begun:
            self._outgoing.wait()
        self._add(outputs, self._tail)

    def _add(self, outputs: Sequence[memoryview], tail: bytes = b"") -> None:
        pieces: list[bytes | memoryview] = [] if self.has_begun else [self._head]
        pieces += [*outputs[self._sent :], tail]
        self.has_begun, self._sent = True, len(outputs)
        self._outgoing.add(pieces)

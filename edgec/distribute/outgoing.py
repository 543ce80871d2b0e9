"""Answers of a worker on their way: what the socket does not take at once goes while the next part is computed."""

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
        self._patience, self._overlaps = patience, overlaps and bool(AT_ONCE)
        self._thread: threading.Thread | None = None
        self._error: OSError | None = None

    def send(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Send these bytes, or begin to. Their memory is free afterwards. Raises LinkError, for those before too."""
        self.wait()
        outgoing = deque(p for p in (memoryview(p).cast("B") for p in pieces) if p.nbytes)
        if self._overlaps:
            self._push(outgoing)
            if outgoing:
                left = deque(memoryview(bytes(p)) for p in outgoing)
                self._thread = threading.Thread(target=self._finish, args=(left,), daemon=True)
                self._thread.start()
        else:
            self._finish(outgoing)
        self._raise()

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

    def _finish(self, outgoing: deque[memoryview]) -> None:
        deadline = time.monotonic() + self._patience
        with selectors.DefaultSelector() as ready:
            ready.register(self._end, selectors.EVENT_WRITE)
            while outgoing and self._error is None:
                left = deadline - time.monotonic()
                if left <= 0 or not ready.select(left):
                    self._error = TimeoutError("it is not taken in time")
                else:
                    self._push(outgoing)

    def _raise(self) -> None:
        if self._error is not None:
            raise LinkError(f"the connection broke: {self._error.strerror or self._error}") from None

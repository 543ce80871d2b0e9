"""Connections to all workers at work at once: one loop over sockets that do not block."""

from __future__ import annotations

import selectors
import time
from collections.abc import Sequence
from contextlib import suppress

from edgec.distribute.connection import Came, Connection


class Exchange:
    """Connections after their greetings, in the order of the workers."""

    def __init__(self) -> None:
        self.connections: list[Connection] = []
        self._selector = selectors.DefaultSelector()

    def add(self, connection: Connection) -> None:
        """Take a connection in, whose socket does not block from now on."""
        connection.socket.setblocking(False)
        self._selector.register(connection.socket, selectors.EVENT_READ, connection)
        self.connections.append(connection)

    def turn(self) -> Sequence[Came]:
        """Move what can be moved, or wait for it: at most until an answer is late. The outputs that are complete.

        Raises LinkError for a worker that is gone, late, or answers what is not due.
        """
        deadlines = [c.deadline for c in self.connections if c.deadline is not None]
        wait = max(0.0, min(deadlines, default=time.monotonic() + 1) - time.monotonic())
        for c in self.connections:
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if c.outgoing else 0)
            if self._selector.get_key(c.socket).events != wanted:
                self._selector.modify(c.socket, wanted, c)
        found: list[Came] = []
        for key, events in self._selector.select(wait + 0.001):
            connection: Connection = key.data
            if events & selectors.EVENT_WRITE:
                connection.write()
            if events & selectors.EVENT_READ:
                found.extend(connection.read())
        for c in self.connections:
            c.check_time()
        return found

    def close(self) -> None:
        """Close all connections."""
        for c in self.connections:
            with suppress(OSError):
                c.socket.close()
        self._selector.close()

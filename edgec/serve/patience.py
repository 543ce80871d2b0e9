"""Bounds on the clients of a server: how many there are, and how long each may take to ask and to read."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

#: Seconds that the head of a request may take to arrive, and that a client may leave an answer unread.
SECONDS = 30.0
#: Connections at the same time.
CONNECTIONS = 256


class Patient(H11Protocol):
    """HTTP of uvicorn, which itself waits for the head of a request, and for a reader, without end."""

    _look: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS:
            transport.abort()
        else:
            self._watch(None)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        for timer in (self._look, self._unread):
            if timer is not None:
                timer.cancel()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()

    def _watch(self, before: object) -> None:
        """Close a connection that waited for a request the last time too; look again after a while."""
        waits = self.cycle is None or self.cycle.response_complete
        now = (self.cycle,) if waits else None
        if waits and before == now:
            self.transport.abort()
        else:
            self._look = self.loop.call_later(SECONDS, self._watch, now)

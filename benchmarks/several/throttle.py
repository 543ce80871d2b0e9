"""A pipe that carries bytes between a coordinator and a worker no faster than a link would: a token bucket."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

#: Bytes that are carried at once, and the room of a socket: what a driver's queue would hold.
CHUNK, ROOM = 16 << 10, 64 << 10


def _carry(source: socket.socket, sink: socket.socket, bytes_per_s: float) -> None:
    """Carry bytes one way; each chunk leaves when the bucket has tokens for it."""
    ready = time.monotonic()
    with suppress(OSError):
        while data := source.recv(CHUNK):
            ready = max(ready, time.monotonic()) + len(data) / bytes_per_s
            if (left := ready - time.monotonic()) > 0:
                time.sleep(left)
            sink.sendall(data)
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextmanager
def throttled(address: str, bits_per_s: float) -> Iterator[str]:
    """An address whose one connection leads to the worker at ``address``, at so many bits a second each way."""
    host, _, port = address.rpartition(":")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def work() -> None:
            with suppress(OSError):
                near, _ = server.accept()
                far = socket.create_connection((host, int(port)))
                for end in (near, far):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, ROOM)
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, ROOM)
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for a, b in ((near, far), (far, near)):
                    threading.Thread(target=_carry, args=(a, b, bits_per_s / 8), daemon=True).start()

        threading.Thread(target=work, daemon=True).start()
        yield "{}:{}".format(*server.getsockname()[:2])

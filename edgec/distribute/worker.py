"""A worker: serves parts of a divided network to one coordinator at a time, over TCP.

It runs the parts that it was started with and nothing else: no code and no file comes through the connection. Its
memory is that of the parts, two requests of each, and an answer.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from edgec.distribute.incoming import Incoming
from edgec.distribute.outgoing import Answer, Outgoing
from edgec.distribute.protocol import (
    ASK,
    DONE,
    END,
    FAILED,
    MEMORY,
    MOST_WORDS,
    TOLD,
    Header,
    greet_as_worker,
    tail_of,
)
from edgec.distribute.served import Served, ServedPart, digest_of
from edgec.errors import EdgecError, LinkError, UsageError

#: Seconds in which the rest of a message has to come once it has begun, and in which an answer has to go.
MESSAGE = 60.0


def address_of(text: str) -> tuple[str, int]:
    """Host and port of ``HOST:PORT``; a port of 0 is any that is free. Raises UsageError."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        hint = "write --listen 127.0.0.1:7000"
        raise UsageError(f"'{text}' is no HOST:PORT", hint=hint, where="--listen")
    return host.strip("[]"), int(port)


def serve(
    folders: Sequence[Path],
    listen: str,
    secret: bytes,
    *,
    threads: int = 1,
    once: bool = False,
    overlaps: bool = True,
    ready: Callable[[str], None] = lambda address: None,
    complain: Callable[[str], None] = lambda text: None,
) -> None:
    """Serve the parts in ``folders`` at an address until the process ends; with ``once``, to the first coordinator.

    Where it ``overlaps``, the next request is received, and an answer goes, while a part is computed.
    ``ready`` is called with the address that is listened at, ``complain`` with the reason why a connection ended.
    Raises UsageError for folders that hold no parts, LinkError for an address that cannot be had.
    """
    parts = {p.number: p for p in (ServedPart(f, threads) for f in folders)}
    digest = digest_of(folders)
    host, port = address_of(listen)
    try:
        server = socket.create_server((host, port), backlog=4)
    except OSError as error:
        raise LinkError(f"cannot listen: {error.strerror or error}", where=listen) from None
    with server:
        ready("{}:{}".format(*server.getsockname()[:2]))
        while True:
            end, _ = server.accept()
            is_known = False
            with end:
                try:
                    greet_as_worker(end, secret, digest)
                    is_known = True
                    session(end, parts, overlaps)
                except LinkError as error:
                    complain(error.message)
            if once and is_known:
                return


def session(end: socket.socket, parts: Mapping[int, Served], overlaps: bool = True) -> None:
    """Answer one coordinator until it goes. Raises LinkError for a message that is not due.

    Where it ``overlaps``, the next request is received, and an answer goes, while a part is computed.
    """
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    _reset(parts)
    with (
        closing(Outgoing(end, MESSAGE, overlaps)) as outgoing,
        closing(Incoming(end, parts, MESSAGE, overlaps)) as incoming,
    ):
        _answer(parts, incoming, outgoing)


def _answer(parts: Mapping[int, Served], incoming: Incoming, outgoing: Outgoing) -> None:
    """Run what is asked for, one part after the other, until nothing follows."""
    while True:
        request = incoming.take()
        if request.kind == END:
            return
        if request.kind == ASK:
            outgoing.send([Header(TOLD, 0, 0, MEMORY.size, 0).packed(), MEMORY.pack(resident_bytes())])
        elif request.part is None:
            _reset(parts)
        else:
            part = request.part
            head = Header(DONE, part.number, request.run, part.length_out, part.types_out)
            answer = Answer(outgoing, head.packed(), tail_of(request.run))
            try:
                results = part.run(request.turn, answer.early if outgoing.overlaps else None)
            except EdgecError as error:
                words = str(error).encode()[:MOST_WORDS]
                if answer.has_begun:  # what was announced does not come
                    raise LinkError(f"part {part.number} failed: {error}") from None
                outgoing.send([Header(FAILED, part.number, request.run, len(words), 0).packed(), words])
                continue
            answer.finish(results)


def _reset(parts: Mapping[int, Served]) -> None:
    for own in parts.values():
        own.reset()


def resident_bytes() -> int:
    """The greatest resident memory of this process so far; 0 where the system does not tell."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        pass
    try:
        import resource
    except ImportError:
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # after a fork it may be that of the parent
    return most if sys.platform == "darwin" else most * 1024

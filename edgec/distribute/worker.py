"""A worker: serves parts of a divided network to one coordinator at a time, over TCP.

It runs the parts that it was started with and nothing else: no code and no file comes through the connection. Its
memory is that of the parts and one message of each.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from edgec.distribute.outgoing import Outgoing
from edgec.distribute.protocol import (
    ASK,
    DONE,
    FAILED,
    HEADER,
    MEMORY,
    MOST_WORDS,
    RESET,
    RUN,
    TOLD,
    Header,
    fill,
    greet_as_worker,
    header_of,
    received,
    require,
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

    Where it ``overlaps``, an answer goes while the next part is computed.
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

    Where it ``overlaps``, an answer goes while the next part is computed.
    """
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with closing(Outgoing(end, MESSAGE, overlaps)) as outgoing:
        _answer(end, parts, outgoing)


def _answer(end: socket.socket, parts: Mapping[int, Served], outgoing: Outgoing) -> None:
    """Run what is asked for, one part after the other."""
    last = dict.fromkeys(parts, -1)
    for own in parts.values():
        own.reset()
    while True:
        header = header_of(received(end, HEADER.size, None))
        deadline = time.monotonic() + MESSAGE
        if header.kind == ASK:
            require(header, Header(ASK, 0, 0, 0, 0))
            outgoing.send([Header(TOLD, 0, 0, MEMORY.size, 0).packed(), MEMORY.pack(resident_bytes())])
            continue
        if header.kind == RESET:
            require(header, Header(RESET, 0, 0, 0, 0))
            for own in parts.values():
                own.reset()
            continue
        part = parts.get(header.part)
        if part is None:
            raise LinkError(f"part {header.part} is asked for, which is not here")
        due = last[part.number] + 1
        require(header, Header(RUN, part.number, due, part.length, part.types))
        for room in part.rooms:
            fill(end, room, deadline)
        last[part.number] = due
        try:
            results = part.run()
        except EdgecError as error:
            words = str(error).encode()[:MOST_WORDS]
            outgoing.send([Header(FAILED, part.number, due, len(words), 0).packed(), words])
            continue
        length = sum(r.nbytes for r in results)
        outgoing.send([Header(DONE, part.number, due, length, part.types_out).packed(), *results])


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

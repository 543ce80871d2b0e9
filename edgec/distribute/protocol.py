"""Messages between a coordinator and its workers: a header of fixed length, then bytes whose number is known before.

The outputs of a run are followed by a tail, without which nothing of them counts: an answer that has lost bytes, or has
some too many, would be made whole by those of the next one.

Both sides have read what a part takes and gives, so a message carries no types, only a checksum of them. A header that
is not the one that is due is refused before anything is allocated for what it announces.

A connection begins with proofs that both know the secret, which itself is never sent: each side answers the other's
random number with an HMAC of both (SHA-256).
"""

from __future__ import annotations

import hmac
import secrets
import socket
import struct
import time
import zlib
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

import numpy as np

from edgec.errors import LinkError, UsageError
from edgec.ir.dtypes import plain

#: The environment variable with the secret that workers and coordinator share.
SECRET = "EDGEC_WORKER_SECRET"
#: Kinds of messages: a run of a part, what it gave, why there is nothing, memory that is asked for and told, states
#: that begin anew, and that nothing follows.
RUN, DONE, FAILED, ASK, TOLD, RESET, END = 1, 2, 3, 4, 5, 6, 7
KINDS = (RUN, DONE, FAILED, ASK, TOLD, RESET, END)
MAGIC = b"EDG2"
HEADER = struct.Struct("!4sHHQQI")
#: What follows the outputs of a run: that they end, and the number of the run.
ENDS, TAIL = b"ENDS", struct.Struct("!4sQ")
#: Most bytes of a message of words, and of what `TOLD` carries: the greatest resident bytes of the process.
MOST_WORDS, MEMORY = 2000, struct.Struct("!Q")
#: Bytes of a nonce, of a proof, and of the digest of the parts that a worker has.
NONCE = PROOF = DIGEST = 32
#: A secret has at least so many characters.
LEAST_SECRET = 16
#: Seconds for the beginning of a connection.
GREETING = 10.0
#: Bytes of a long message for which a receiver is woken up, at most: a slow link brings them in packets of a few.
WOKEN = 1 << 18
#: Pieces that one call sends at most: systems take 1024.
PIECES = 512


@dataclass(frozen=True)
class Header:
    """The head of a message: its kind, the part and frame it is about, its bytes, and the checksum of their types."""

    kind: int
    part: int
    frame: int
    length: int
    types: int

    def packed(self) -> bytes:
        return HEADER.pack(MAGIC, self.kind, self.part, self.frame, self.length, self.types)


def tail_of(run: int) -> bytes:
    """The tail of the answer to a run of this number."""
    return TAIL.pack(ENDS, run)


def header_of(data: bytes) -> Header:
    """The header in these bytes. Raises LinkError for what is none."""
    magic, kind, part, frame, length, types = HEADER.unpack(data)
    if magic != MAGIC or kind not in KINDS:
        raise LinkError("it does not speak the protocol of workers")
    return Header(kind, part, frame, length, types)


def raw(array: np.ndarray) -> memoryview:
    """The bytes of an array, in order."""
    return plain(np.ascontiguousarray(array)).reshape(-1).view(np.uint8).data


def checksum(types: Sequence[tuple[str, Sequence[int]]]) -> int:
    """Checksum of element types and shapes in order."""
    return zlib.crc32(";".join(f"{dtype}{list(map(int, shape))}" for dtype, shape in types).encode())


def require(header: Header, due: Header) -> None:
    """Raises LinkError where a header is not the one that is due: of another kind, order, type or length."""
    for name, is_told, is_due in (
        ("kind", header.kind, due.kind),
        ("part", header.part, due.part),
        ("frame", header.frame, due.frame),
        ("types", header.types, due.types),
        ("length", header.length, due.length),
    ):
        if is_told != is_due:
            raise LinkError(f"a message with {name} {is_told} where {is_due} is due")


def received(end: socket.socket, length: int, deadline: float | None) -> bytes:
    """Exactly so many bytes; of a length that the caller knows to be small."""
    found = bytearray(length)
    fill(end, memoryview(found), deadline)
    return bytes(found)


def fill(end: socket.socket, room: memoryview, deadline: float | None) -> None:
    """Receive into all of ``room`` until the deadline (`time.monotonic`). Raises LinkError where it does not come."""
    room = room.cast("B") if room.format != "B" or room.ndim != 1 else room
    is_woken_late = False
    while room.nbytes:
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise LinkError("no answer in time")
            end.settimeout(left)
        else:
            end.settimeout(None)
        try:
            got = end.recv_into(room)
        except TimeoutError:
            raise LinkError("no answer in time") from None
        except OSError as error:
            raise LinkError(f"the connection broke: {error.strerror or error}") from None
        if not got:
            raise LinkError("the connection was closed")
        room = room[got:]
        if room.nbytes or is_woken_late:
            wake_after(end, room.nbytes)
            is_woken_late = True


def wake_after(end: socket.socket, length: int) -> None:
    """Let `select` and ``recv`` wait until so many bytes are there, `WOKEN` at most; a system that cannot wakes early.

    Whoever has received all of a message sets it back to 1.
    """
    if hasattr(socket, "SO_RCVLOWAT"):
        with suppress(OSError):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, max(1, min(length, WOKEN)))


def send_some(end: socket.socket, outgoing: deque[memoryview], flags: int = 0) -> None:
    """Send what the socket takes of these bytes at once, and drop that: the other end wakes up once for all of it."""
    count = end.sendmsg(list(islice(outgoing, PIECES)), (), flags)
    while outgoing and count >= outgoing[0].nbytes:
        count -= outgoing.popleft().nbytes
    if count:
        outgoing[0] = outgoing[0][count:]


def secret_of(text: str | None, where: str) -> bytes:
    """A secret as bytes. Raises UsageError for one that is missing, or short enough to be guessed."""
    told = (text or "").strip()
    if len(told) < LEAST_SECRET:
        hint = 'python -c "import secrets; print(secrets.token_hex())" > secret, then --secret-file secret'
        raise UsageError(f"a secret has at least {LEAST_SECRET} characters", hint=hint, where=where)
    return told.encode()


def proof(secret: bytes, role: str, of_worker: bytes, of_coordinator: bytes, digest: bytes) -> bytes:
    """The answer to both nonces of who knows the secret, in a role, about parts of a digest."""
    return hmac.digest(secret, role.encode() + of_worker + of_coordinator + digest, "sha256")


def greet_as_worker(end: socket.socket, secret: bytes, digest: bytes) -> None:
    """The beginning of a connection, of the worker: nonce and digest, then the proofs. Raises LinkError."""
    deadline = time.monotonic() + GREETING
    own = secrets.token_bytes(NONCE)
    _send(end, MAGIC + own + digest)
    answer = received(end, NONCE + PROOF, deadline)
    if not hmac.compare_digest(answer[NONCE:], proof(secret, "coordinator", own, answer[:NONCE], digest)):
        raise LinkError("the coordinator does not know the secret")
    _send(end, proof(secret, "worker", own, answer[:NONCE], digest))


def greet_as_coordinator(end: socket.socket, secret: bytes, digest: bytes) -> None:
    """The beginning of a connection, of the coordinator, to a worker with parts of ``digest``. Raises LinkError."""
    deadline = time.monotonic() + GREETING
    hello = received(end, len(MAGIC) + NONCE + DIGEST, deadline)
    if not hello.startswith(MAGIC):
        raise LinkError("it does not speak the protocol of workers")
    nonce, told = hello[len(MAGIC) : -DIGEST], hello[-DIGEST:]
    if not hmac.compare_digest(told, digest):
        raise LinkError("it has other parts than this folder", hint="copy the folder there again")
    own = secrets.token_bytes(NONCE)
    _send(end, own + proof(secret, "coordinator", nonce, own, digest))
    if not hmac.compare_digest(received(end, PROOF, deadline), proof(secret, "worker", nonce, own, digest)):
        raise LinkError("it does not know the secret")


def _send(end: socket.socket, data: bytes) -> None:
    end.settimeout(GREETING)
    try:
        end.sendall(data)
    except OSError as error:
        raise LinkError(f"the connection broke: {error.strerror or error}") from None

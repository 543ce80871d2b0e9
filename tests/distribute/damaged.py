"""A worker whose answers are damaged at a drawn place, on their way through a relay that knows the protocol."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from edgec.distribute.protocol import (
    DIGEST,
    FAILED,
    HEADER,
    MAGIC,
    NONCE,
    PROOF,
    TAIL,
    Header,
    header_of,
    received,
)
from edgec.errors import LinkError

#: Seconds between two bytes of an answer that drips: it is never there in time.
DRIP = 0.1
#: What is sent instead of an answer, given what is left of it from the place on; None closes the connection behind it.
Sent = Callable[[random.Random, Header, bytes], "tuple[bytes, bool]"]


def _other(draw: random.Random, data: bytes) -> bytes:
    """Noise that differs in its first byte."""
    return bytes([data[0] ^ draw.randint(1, 255), *draw.randbytes(len(data) - 1)]) if data else b""


def _less(draw: random.Random, head: Header, left: bytes) -> tuple[bytes, bool]:
    return left[draw.randint(1, max(1, min(len(left), 64))) :], True


def _more(draw: random.Random, head: Header, left: bytes) -> tuple[bytes, bool]:
    return draw.randbytes(draw.randint(1, 64)) + left, True


def _of_another(draw: random.Random, head: Header, left: bytes) -> tuple[bytes, bool]:
    """The head of the next answer, and all of it, where this one has not ended."""
    return Header(head.kind, head.part, head.frame + 1, head.length, head.types).packed() + left, True


def _fails(draw: random.Random, head: Header, left: bytes) -> tuple[bytes, bool]:
    words = b"no memory"
    return Header(FAILED, head.part, head.frame, len(words), 0).packed() + words + left, True


#: What goes on behind the damage, by name.
KINDS: dict[str, Sent] = {
    "is cut off": lambda draw, head, left: (b"", False),
    "has less": _less,
    "has more": _more,
    "has the head of another": _of_another,
    "has words of a failure": _fails,
    "ends in noise": lambda draw, head, left: (_other(draw, left) + draw.randbytes(200), False),
}
#: Kinds that are about the time: what is left does not come, or byte by byte.
SLOW = ("stops", "drips")
#: Kinds that are about a head: one of its fields is another.
FIELDS = ("kind", "part", "frame", "length", "types")


@dataclass(frozen=True)
class Damage:
    """A damage of one of the answers of a worker, by a seed: its kind, and how far in that answer it begins, 0 to 1."""

    seed: int
    answer: int
    kind: str
    share: float

    @staticmethod
    def drawn(seed: int, frames: int, parts: int) -> Damage:
        """A damage in the first so many frames, of so many answers each; often in the last one, which ends a frame."""
        draw = random.Random(seed)
        kind = draw.choice(draw.choice([[*KINDS], SLOW, FIELDS]))
        own = draw.choice([parts - 1, draw.randrange(parts)])
        return Damage(seed, parts * draw.randrange(frames) + own, kind, draw.random())

    def at(self, head: Header) -> int:
        """The byte of the answer, of its head, its outputs and its tail, at which it is damaged."""
        draw = random.Random(f"{self.seed} place")
        whole = HEADER.size + head.length + TAIL.size
        place = draw.choice(["head", "outputs", "outputs", "tail"])
        if place == "outputs":
            return HEADER.size + int(self.share * head.length)
        return int(self.share * HEADER.size) if place == "head" else whole - 1 - int(self.share * TAIL.size)


@contextmanager
def relay(address: str, damage: Damage | None) -> Iterator[str]:
    """An address at which a worker answers, whose answers are damaged on the way to the one who connects first."""
    host, port = address.split(":")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(20)
        threads: list[threading.Thread] = []

        def work() -> None:
            with suppress(OSError), server.accept()[0] as near, socket.create_connection((host, int(port)), 5) as far:
                for end in (near, far):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                requests = threading.Thread(target=_copied, args=(near, far), daemon=True)
                requests.start()
                with suppress(LinkError):
                    _answers(far, near, damage)
                for end in (near, far):
                    with suppress(OSError):
                        end.shutdown(socket.SHUT_RDWR)
                requests.join(10)

        threads.append(threading.Thread(target=work, daemon=True))
        threads[0].start()
        yield "{}:{}".format(*server.getsockname()[:2])
        threads[0].join(20)
        assert not threads[0].is_alive(), "it does not end with its coordinator"


def _copied(source: socket.socket, to: socket.socket) -> None:
    """Everything from one end to the other."""
    with suppress(OSError):
        while data := source.recv(1 << 16):
            to.sendall(data)
    with suppress(OSError):
        to.shutdown(socket.SHUT_RDWR)


def _answers(worker: socket.socket, coordinator: socket.socket, damage: Damage | None) -> None:
    """The greeting and all answers of a worker, one of them damaged."""
    coordinator.sendall(received(worker, len(MAGIC) + NONCE + DIGEST, None))
    coordinator.sendall(received(worker, PROOF, None))
    number = 0
    while True:
        packed = received(worker, HEADER.size, None)
        head = header_of(packed)
        if damage is None or number != damage.answer:
            coordinator.sendall(packed)
            left = head.length + TAIL.size
            while left:  # as it comes, panel by panel
                data = worker.recv(min(left, 1 << 16))
                if not data:
                    return
                coordinator.sendall(data)
                left -= len(data)
        elif not _damaged(packed + received(worker, head.length + TAIL.size, None), head, coordinator, damage):
            _until_closed(coordinator)
            return
        number += 1


def _damaged(answer: bytes, head: Header, to: socket.socket, damage: Damage) -> bool:
    """Send an answer with its damage. Do others follow?"""
    draw, at = random.Random(f"{damage.seed} bytes"), damage.at(head)
    if damage.kind in FIELDS:
        wrong = {damage.kind: getattr(head, damage.kind) ^ 1 << draw.randrange(3)}
        fields = {"kind": head.kind, "part": head.part, "frame": head.frame, "length": head.length, "types": head.types}
        to.sendall(Header(**{**fields, **wrong}).packed() + answer[HEADER.size :])
        return True
    to.sendall(answer[:at])
    if damage.kind == "drips":
        for k in range(at, len(answer)):
            time.sleep(DRIP)
            to.sendall(answer[k : k + 1])
    if damage.kind in SLOW:
        return False
    data, goes_on = KINDS[damage.kind](draw, head, answer[at:])
    to.sendall(data)
    if not goes_on:
        to.shutdown(socket.SHUT_WR)
    return goes_on


def _until_closed(end: socket.socket) -> None:
    end.settimeout(20)
    with suppress(OSError):
        while end.recv(1 << 16):
            pass

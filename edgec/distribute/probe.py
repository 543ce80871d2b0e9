"""Speed of a link, measured: bytes a second and seconds of latency.

To this machine it is that of whole messages over loopback, to a process that answers as workers do. Elsewhere a file is
copied through the link, and a command that does nothing is run: ssh encrypts and starts processes, so a worker's own
connection may be faster.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median

import numpy as np

from edgec.artifact.network import Port
from edgec.device.device import Device
from edgec.distribute.connection import Connection
from edgec.distribute.exchange import Exchange
from edgec.distribute.frames import Frames
from edgec.distribute.links import Handled
from edgec.distribute.manifest import Manifest, PartEntry, Tensor
from edgec.distribute.parts import Read
from edgec.distribute.places import Place, Speed
from edgec.distribute.protocol import checksum
from edgec.distribute.served import TURNS, Told
from edgec.distribute.sides import Side
from edgec.distribute.worker import session
from edgec.errors import LinkError
from edgec.link.choose import open_link

#: Frames that are timed of each kind, some before them, and lengths of messages; bytes copied through another link.
TRIPS, WARM_UP, LENGTHS, COPIED = 40, 5, (64, 1 << 20), 4 << 20
#: Parts with short messages: frames of one of them and of all are compared.
CHAIN = 5
#: Bytes of memory that a part goes through, and the least nanoseconds that it takes: about those of parts of networks.
#: With a fifth of them, messages cost half as much.
WALKED, AT_WORK_NS = 32 << 20, 10_000_000
_PATIENCE = 20.0
#: What the other process runs, with a port of this machine to connect to.
_OTHER = "import sys; from edgec.distribute.probe import answer; answer(int(sys.argv[1]))"


def probe_place(device: Device, place: Place) -> Speed | Handled:
    """The speed of the link to a device, here that of messages. Raises LinkError where it is out of reach."""
    return loopback() if place.is_here else through(device, place.link)


class Echo:
    """A part that gives back what it was given, with its own nanoseconds added to the number that this begins with.

    It goes through ``memory`` as kernels do: between two messages, caches forget the code and the buffers of both
    sides, and the coordinator falls asleep.
    """

    def __init__(self, number: int, length: int, memory: np.ndarray) -> None:
        self.number, self.length, self.length_out = number, length, length
        self.rooms: Sequence[Sequence[memoryview]] = [[memoryview(bytearray(length))] for _ in range(TURNS)]
        self.types = self.types_out = checksum([("u8", (length,))])
        self._spent = [np.frombuffer(room, np.int64, 1) for (room,) in self.rooms]
        self._memory = memory

    def run(self, turn: int, told: Told | None = None) -> Sequence[memoryview]:
        begun = time.perf_counter_ns()
        while (spent := time.perf_counter_ns() - begun) < AT_WORK_NS:
            self._memory += 1
        self._spent[turn] += spent
        return self.rooms[turn]

    def reset(self) -> None:
        return None


def _echoes() -> dict[int, Echo]:
    lengths, memory = (*(LENGTHS[0],) * CHAIN, LENGTHS[1]), np.zeros(WALKED, np.uint8)
    return {k: Echo(k, length, memory) for k, length in enumerate(lengths)}


def answer(port: int) -> None:
    """Answer messages at a port of this machine, until the other end is gone."""
    with socket.create_connection(("127.0.0.1", port), _PATIENCE) as end, suppress(LinkError):
        session(end, _echoes())


def loopback() -> Handled:
    """Messages to a process of this machine and back, timed. Raises LinkError where it does not answer."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        # Where edgec itself is: the first place that Python takes modules from is the folder it starts in.
        command, home = [sys.executable, "-c", _OTHER, str(port)], Path(__file__).resolve().parents[2]
        other = subprocess.Popen(command, stdin=subprocess.DEVNULL, cwd=home)
        try:
            return _measured(_accepted(server, other))
        finally:
            other.kill()
            other.wait()


def _accepted(server: socket.socket, other: subprocess.Popen[bytes]) -> socket.socket:
    """The connection of a process that was started. Raises LinkError where it ends or takes too long."""
    until = time.monotonic() + _PATIENCE
    server.settimeout(0.1)
    while other.poll() is None and time.monotonic() < until:
        with suppress(TimeoutError):
            end, _ = server.accept()
            end.settimeout(None)
            return end
    raise LinkError("a process that answers messages does not start", where="loopback")


def _measured(end: socket.socket) -> Handled:
    """The costs of frames and messages: of those by chains of short ones, of a byte by what a long one takes more."""
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    exchange = Exchange()
    exchange.add(Connection("loopback", end, _PATIENCE))
    echoes = _echoes()
    short = [echoes[k] for k in range(CHAIN)]
    try:
        found = [_trips(_frames(exchange, parts)) for parts in (short[:1], short, [echoes[CHAIN]])]
    finally:
        exchange.close()
    (one, one_own), (all_, all_own), (long, long_own) = found
    message, own = ((b - a) / (2 * (CHAIN - 1)) for a, b in ((one, all_), (one_own, all_own)))
    message = max(message, 1e-7)
    own = min(max(own, 1e-7), message)
    more = 2 * (LENGTHS[1] - LENGTHS[0])
    whole = Speed(more / max(long - one, 1e-9), message)
    hub = Speed(max(more / max(long_own - one_own, 1e-9), whole.bytes_per_s), own)
    return Handled(whole, hub, max(one_own - 2 * own, 0.0))


def _frames(exchange: Exchange, echoes: Sequence[Echo]) -> Frames:
    """Frames of parts in a chain, as the coordinator has them."""
    shape = (echoes[0].length,)
    names = [f"value{k}" for k in range(len(echoes) + 1)]
    ports = [Port(n, n, "u8", shape) for n in names]
    reads = [(Read(n, n),) for n in names]
    entries = [PartEntry(f"part{k}", 0, r, (n,), 0.0, 0, 0) for k, (r, n) in enumerate(zip(reads, names[1:]))]
    sides = [
        Side(e, e.reads, (port,), echo.types, echo.types_out, echo.length, (echo.length,), echo.number)
        for e, port, echo in zip(entries, ports[1:], echoes)
    ]
    tensors = {n: Tensor(n, "u8", shape) for n in names}
    manifest = Manifest(
        "echo", "pipeline", "latency", "", (), tensors, (names[0],), (names[-1],), tuple(entries), 1, 0.0, 0.0, 0, 0.0
    )
    return Frames(manifest, sides, ports[:1], exchange)


def _trips(frames: Frames) -> tuple[float, float]:
    """Seconds of a frame alone but for the work of its parts, and those that this process computed for it.

    The quickest quarter of them is below: what other programs do meanwhile is no cost of a message.
    """
    given = {p.onnx_name: np.zeros([int(n) for n in p.shape], np.uint8) for p in frames.inputs}
    times: list[tuple[float, float]] = []
    for _ in range(WARM_UP + TRIPS):
        begun, begun_own = time.perf_counter(), time.process_time()
        (found,) = frames.stream([given], 1, deque())
        spent, own = time.perf_counter() - begun, time.process_time() - begun_own
        (worked,) = next(iter(found.values()))[:8].view(np.int64)
        times.append((spent - worked * 1e-9, own))
    wall, computed = (np.percentile(t, 25) for t in zip(*times[WARM_UP:]))
    return float(wall), float(computed)


def through(device: Device, link: str) -> Speed:
    """Speed of a link of another kind, by a file and by commands."""
    way = open_link(device, None if link == "device" else link)
    try:
        trips = []
        for _ in range(5):
            begun = time.perf_counter()
            if way.shell("true") is None:
                raise LinkError("no commands can be run there", hint="give --link-speed 100M/0.5", where=way.name)
            trips.append(time.perf_counter() - begun)
        with tempfile.TemporaryDirectory(prefix="edgec-") as folder:
            file = Path(folder) / "probe"
            file.write_bytes(bytes(COPIED))
            begun = time.perf_counter()
            way.send(file, "probe")
            spent = time.perf_counter() - begun
        latency = median(trips) / 2
        return Speed(COPIED / max(spent - 2 * latency, 1e-6), latency)
    finally:
        way.close()

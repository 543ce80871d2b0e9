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
from contextlib import suppress
from pathlib import Path
from statistics import median

from edgec.device.device import Device
from edgec.distribute.connection import Connection
from edgec.distribute.exchange import Exchange
from edgec.distribute.links import Handled
from edgec.distribute.places import Place, Speed
from edgec.distribute.protocol import checksum
from edgec.distribute.worker import session
from edgec.errors import LinkError
from edgec.link.choose import open_link

#: Messages that are timed of each length, some before them, and their lengths; bytes copied through another link.
TRIPS, WARM_UP, LENGTHS, COPIED = 60, 10, (64, 1 << 20), 4 << 20
_PATIENCE = 20.0
#: What the other process runs, with a port of this machine to connect to.
_OTHER = "import sys; from edgec.distribute.probe import answer; answer(int(sys.argv[1]))"


def probe_place(device: Device, place: Place) -> Speed | Handled:
    """The speed of the link to a device, here that of messages. Raises LinkError where it is out of reach."""
    return loopback() if place.is_here else through(device, place.link)


class Echo:
    """A part that gives back what it was given."""

    def __init__(self, number: int, length: int) -> None:
        self.number, self.length = number, length
        self.rooms = [memoryview(bytearray(length))]
        self.types = self.types_out = checksum([("u8", (length,))])

    def run(self) -> list[memoryview]:
        return self.rooms


def _echoes() -> dict[int, Echo]:
    return {k: Echo(k, length) for k, length in enumerate(LENGTHS)}


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
    """The costs of messages: of one by the short ones, of a byte by what the long ones take more."""
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    exchange = Exchange()
    exchange.add(Connection("loopback", end, _PATIENCE))
    try:
        (short, short_own), (long, long_own) = (_trips(exchange, echo) for echo in _echoes().values())
    finally:
        exchange.close()
    more = 2 * (LENGTHS[1] - LENGTHS[0])
    whole = Speed(more / max(long - short, 1e-9), short / 2)
    hub = Speed(max(more / max(long_own - short_own, 1e-9), whole.bytes_per_s), min(short_own, short) / 2)
    return Handled(whole, hub)


def _trips(exchange: Exchange, echo: Echo) -> tuple[float, float]:
    """Seconds of a message and its answer, and those that this process computed meanwhile."""
    (connection,) = exchange.connections
    times, begun_own = [], 0.0
    for k in range(WARM_UP + TRIPS):
        if k == WARM_UP:
            begun_own = time.process_time()
        begun = time.perf_counter()
        connection.ask(echo.number, echo.types, [memoryview(bytes(echo.length))], echo.length, echo.types_out, None)
        connection.write()
        while not exchange.turn():
            pass
        times.append(time.perf_counter() - begun)
    return median(times[WARM_UP:]), (time.process_time() - begun_own) / TRIPS


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

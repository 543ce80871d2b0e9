"""Speed of a link, measured: bytes a second and seconds of latency.

To this machine it is TCP over loopback, which is what workers here use. Elsewhere a file is copied through the link,
and a command that does nothing is run: ssh encrypts and starts processes, so a worker's own connection may be faster.
"""

from __future__ import annotations

import socket
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path
from statistics import median

from edgec.device.device import Device
from edgec.distribute.places import Speed
from edgec.errors import LinkError
from edgec.link.choose import open_link

#: Round trips that are timed, and bytes that are sent for the bandwidth: over loopback, and through a link.
TRIPS, SENT, COPIED = 50, 64 << 20, 4 << 20
_CHUNK = 1 << 20
_PATIENCE = 20.0


def probe_place(device: Device, link: str) -> Speed:
    """The speed of the link to a device. Raises LinkError where it cannot be reached or asked."""
    return loopback() if link == "local" else through(device, link)


def loopback() -> Speed:
    """Speed of TCP between two threads of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(_PATIENCE)
        echo = threading.Thread(target=_echo, args=(server,), daemon=True)
        echo.start()
        with socket.create_connection(server.getsockname(), _PATIENCE) as end:
            found = measured(end)
        echo.join(_PATIENCE)
    return found


def measured(end: socket.socket) -> Speed:
    """Speed of a connection to `echo`: half a round trip of a byte, and many bytes until all are there."""
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    trips = []
    for _ in range(TRIPS):
        begun = time.perf_counter()
        end.sendall(b"?")
        if end.recv(1) != b"?":
            raise LinkError("the other end does not echo", where="loopback")
        trips.append(time.perf_counter() - begun)
    begun = time.perf_counter()
    end.sendall(b"!")
    chunk = bytes(_CHUNK)
    for _ in range(SENT // _CHUNK):
        end.sendall(chunk)
    if end.recv(1) != b"!":
        raise LinkError("the other end does not answer", where="loopback")
    return Speed(SENT / (time.perf_counter() - begun), median(trips) / 2)


def _echo(server: socket.socket) -> None:
    """Send single bytes back; after a ``!``, take `SENT` bytes and answer one."""
    end, _ = server.accept()
    with closing(end):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end.settimeout(_PATIENCE)
        while (word := end.recv(1)) == b"?":
            end.sendall(word)
        left = SENT if word == b"!" else 0
        room = bytearray(_CHUNK)
        while left:
            got = end.recv_into(room, min(left, _CHUNK))
            if not got:
                return
            left -= got
        if word == b"!":
            end.sendall(b"!")


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

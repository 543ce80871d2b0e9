"""A stand-in for the part of an Android device that the real adb client talks to: the protocol over TCP, a shell, sync.

It speaks the published protocol (AOSP, packages/modules/adb/protocol.txt and SYNC.TXT) in its oldest form, without
authentication. /data/local/tmp is a folder of this machine. ``lose_after`` makes it vanish after that many shell
commands.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path

_HOME = "/data/local/tmp"
_MOST = 4096


class Stream:
    """One service that the client opened."""

    def __init__(self, device: Device, peer: int) -> None:
        self.device, self.peer, self.buffer = device, peer, bytearray()
        self.acknowledged, self.arrived = threading.Semaphore(0), threading.Condition()
        self.closed = False

    def write(self, data: bytes) -> None:
        for k in range(0, len(data), _MOST):
            self.device.send(b"WRTE", self.peer, self.peer, data[k : k + _MOST])
            self.acknowledged.acquire(timeout=20)

    def read(self, count: int) -> bytes:
        with self.arrived:
            self.arrived.wait_for(lambda: len(self.buffer) >= count or self.closed, timeout=60)
            taken = bytes(self.buffer[:count])
            del self.buffer[:count]
        return taken

    def feed(self, data: bytes) -> None:
        with self.arrived:
            self.buffer += data
            self.arrived.notify_all()

    def close(self) -> None:
        self.device.send(b"CLSE", self.peer, self.peer)


class Device:
    """One connection."""

    def __init__(self, connection: socket.socket, folder: Path, lose_after: int) -> None:
        self.connection, self.folder, self.left = connection, folder, lose_after
        self.lock, self.streams = threading.Lock(), dict[int, Stream]()

    def send(self, command: bytes, first: int, second: int, data: bytes = b"") -> None:
        (number,) = struct.unpack("<I", command)
        head = struct.pack("<4s5I", command, first, second, len(data), sum(data) & 0xFFFFFFFF, number ^ 0xFFFFFFFF)
        with self.lock:
            self.connection.sendall(head + data)

    def serve(self) -> None:
        while head := self._exactly(24):
            command, first, second, length, _, _ = struct.unpack("<4s5I", head)
            data = self._exactly(length) if length else b""
            if command == b"CNXN":
                self.send(b"CNXN", 0x01000000, _MOST, b"device::ro.product.name=stand_in;\0")
            elif command == b"OPEN":
                stream = self.streams[first] = Stream(self, first)
                self.send(b"OKAY", first, first)
                service = data.rstrip(b"\0").decode()
                threading.Thread(target=self._service, args=(stream, service), daemon=True).start()
            elif command == b"WRTE" and first in self.streams:
                self.send(b"OKAY", second, first)
                self.streams[first].feed(data)
            elif command == b"OKAY" and first in self.streams:
                self.streams[first].acknowledged.release()
            elif command == b"CLSE" and first in self.streams:
                stream = self.streams.pop(first)
                with stream.arrived:
                    stream.closed = True
                    stream.arrived.notify_all()

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self.connection.recv(count - len(data))
            if not part:
                return b""
            data += part
        return data

    def _service(self, stream: Stream, service: str) -> None:
        if service.startswith("shell:"):
            if "runner" in service and "chmod" not in service:
                self.left -= 1
                if self.left < 0:  # the cable is pulled, in the middle of the work
                    os._exit(1)
            line = service[6:].replace(_HOME, str(self.folder))
            done = subprocess.run(["sh", "-c", line], capture_output=True, check=False, stdin=subprocess.DEVNULL)
            stream.write(done.stdout + done.stderr if done.stdout + done.stderr else b"\n")
        elif service.startswith("sync:"):
            self._sync(stream)
        stream.close()

    def _sync(self, stream: Stream) -> None:
        while len(head := stream.read(8)) == 8:
            what, length = struct.unpack("<4sI", head)
            if what == b"QUIT":
                return
            name = stream.read(length).decode()
            path = Path(name.rpartition(",")[0] if what == b"SEND" else name)
            path = Path(str(path).replace(_HOME, str(self.folder)))
            if what == b"STAT":
                found = path.stat() if path.exists() else None
                facts = (found.st_mode, found.st_size, int(found.st_mtime)) if found else (0, 0, 0)
                stream.write(struct.pack("<4s3I", b"STAT", *facts))
            elif what == b"RECV":
                data = path.read_bytes()
                for k in range(0, len(data), _MOST):
                    stream.write(struct.pack("<4sI", b"DATA", len(data[k : k + _MOST])) + data[k : k + _MOST])
                stream.write(struct.pack("<4sI", b"DONE", 0))
            elif what == b"SEND":
                content = b""
                while True:
                    kind, size = struct.unpack("<4sI", stream.read(8))
                    if kind == b"DONE":
                        break
                    content += stream.read(size)
                path.write_bytes(content)
                stream.write(struct.pack("<4sI", b"OKAY", 0))


def main() -> None:
    folder, lose_after = Path(sys.argv[1]), int(sys.argv[2])
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(server.getsockname()[1], flush=True)
        while True:
            connection, _ = server.accept()
            threading.Thread(target=Device(connection, folder, lose_after).serve, daemon=True).start()


if __name__ == "__main__":
    main()

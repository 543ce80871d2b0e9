"""The coordinator: runs a divided network on its workers, with one frame or several in flight.

All tensors go through it, in one loop over sockets that do not block. A frame is handed out when all of its outputs are
there; when a worker is lost, nothing of what was begun is.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from edgec.distribute.connection import Connection
from edgec.distribute.exchange import Exchange
from edgec.distribute.frames import Frames
from edgec.distribute.manifest import read_manifest
from edgec.distribute.places import Place
from edgec.distribute.protocol import (
    ASK,
    END,
    HEADER,
    MEMORY,
    RESET,
    SECRET,
    TOLD,
    Header,
    greet_as_coordinator,
    header_of,
    received,
    require,
    secret_of,
)
from edgec.distribute.remote import start_over_ssh
from edgec.distribute.served import digest_of
from edgec.distribute.sides import Frame, port_of, side_of
from edgec.distribute.start import Started, start
from edgec.distribute.worker import address_of
from edgec.errors import LinkError, UsageError

#: Seconds that an answer of a worker may take, and a connection to it.
TIMEOUT, CONNECTING = 30.0, 10.0


class Several:
    """A divided network at work on its workers: runs on numpy arrays by ONNX name, like `Network`.

    Workers on this machine, and on those that ssh reaches, are started with it and end with it. Others are started by
    the user (``edgec worker``), and ``addresses`` says where each listens ("HOST:PORT", in the order of the workers).
    """

    def __init__(
        self,
        folder: str | Path,
        threads: int = 1,
        *,
        addresses: Sequence[str] | None = None,
        secret: str | None = None,
        timeout: float = TIMEOUT,
        cores: Sequence[int] | None = None,
    ) -> None:
        """Open the network in ``folder`` and connect to its workers.

        ``secret`` is that of workers at ``addresses``; by default the environment's EDGEC_WORKER_SECRET. ``timeout``
        is how many seconds an answer may take; ``cores`` keeps each worker that is started here on a core.

        Raises UsageError for a folder that holds no divided network, LinkError where a worker cannot be reached.
        """
        self.folder = Path(folder).absolute()
        self.manifest = read_manifest(self.folder)
        sides = [side_of(self.folder, self.manifest, k) for k in range(len(self.manifest.parts))]
        self.inputs = tuple(port_of(self.manifest, n) for n in self.manifest.inputs)
        self.outputs = tuple(port_of(self.manifest, n) for n in self.manifest.outputs)
        self._own: list[Started] = []
        self._exchange = Exchange()
        self._frames = Frames(self.manifest, sides, self.inputs, self._exchange)
        self._lock = threading.RLock()
        self._state = "open"
        try:
            self._connect(threads, addresses, secret, timeout, cores)
        except BaseException:
            self.close()
            raise

    def _connect(
        self,
        threads: int,
        addresses: Sequence[str] | None,
        secret: str | None,
        timeout: float,
        cores: Sequence[int] | None,
    ) -> None:
        workers = self.manifest.workers
        if addresses is None and any(not _is_started(w.place) for w in workers):
            far = next(w.place for w in workers if not _is_started(w.place))
            hint = "start edgec worker there, and give the addresses of all: --worker HOST:PORT, once for each"
            raise UsageError(f"the worker for {far} is on another machine", hint=hint, where=str(self.folder))
        if addresses is not None and len(addresses) != len(workers):
            raise UsageError(f"{len(addresses)} addresses for {len(workers)} workers", where=str(self.folder))
        known = (
            secrets.token_hex().encode()
            if addresses is None
            else secret_of(secret or os.environ.get(SECRET), f"the environment's {SECRET}")
        )
        for k, worker in enumerate(workers):
            folders = [self.folder / p.folder for p in self.manifest.parts if p.worker == k]
            name = f"worker {k} ({worker.place})"
            if addresses is None:
                if worker.place.is_by_ssh:
                    self._own.append(start_over_ssh(folders, known, threads, worker.link, name))
                else:
                    core = cores[k % len(cores)] if cores else None
                    self._own.append(start(folders, known, threads, core, name))
            address = addresses[k] if addresses is not None else self._own[-1].address
            self._exchange.add(_connected(address, name, known, digest_of(folders), timeout))

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run one frame: outputs by name from inputs by name.

        Raises ModelError for an input that does not fit, LinkError with the name of a worker that was lost.
        """
        (found,) = self.stream([inputs])
        return found

    def __call__(self, *arrays: np.ndarray, **named: np.ndarray) -> Any:
        """Run one frame on arrays in the order of the inputs or by name: the output, or all of them by name."""
        names = [p.onnx_name for p in self.inputs]
        if len(arrays) > len(names):
            raise UsageError(f"{len(arrays)} arrays are given, and the network has {len(names)} inputs")
        results = self.run({**dict(zip(names, arrays)), **named})
        return next(iter(results.values())) if len(results) == 1 else results

    def stream(
        self, frames: Iterable[Mapping[str, np.ndarray]], in_flight: int | None = None
    ) -> Iterator[dict[str, np.ndarray]]:
        """Outputs of every frame in order, while so many are on their way; by default what the manifest says.

        Frames are taken as others are done, so that an endless supply needs no more memory. Raises as `run` does.
        """
        most = self.manifest.in_flight if in_flight is None else in_flight
        if most < 1:
            raise UsageError(f"{most} frames in flight", hint="give 1 or more")
        with self._lock:
            self._require_open()
            self._state = "busy"
            active: deque[Frame] = deque()
            try:
                yield from self._frames.stream(frames, most, active)
            except LinkError:
                self._state = "lost"
                self.close()
                raise
            finally:
                if self._state == "busy":
                    self._finish(active)

    def _finish(self, active: Iterable[Frame]) -> None:
        """Wait for what was begun, whose results nobody takes, so that the next run finds the workers idle."""
        try:
            for frame in active:
                self._frames.finish(frame)
            self._state = "open"
        except LinkError:
            self._state = "lost"
            self.close()

    def _require_open(self) -> None:
        if self._state != "open":
            why = {"busy": "is at work on another stream", "lost": "has lost a worker"}.get(self._state, "is closed")
            raise UsageError(f"the network {why}", hint="open the folder again", where=str(self.folder))

    def reset(self) -> None:
        """Let states begin anew: they are zero then. Raises LinkError where a worker is lost."""
        with self._lock:
            self._require_open()
            for c in self._exchange.connections:
                c.outgoing.append(memoryview(Header(RESET, 0, 0, 0, 0).packed()))
                try:
                    c.write()
                except LinkError:
                    self._state = "lost"
                    self.close()
                    raise

    def memory(self) -> list[int]:
        """The greatest resident bytes of every worker so far; 0 where its system does not tell."""
        with self._lock:
            self._require_open()
            found = []
            for c in self._exchange.connections:
                try:
                    c.socket.settimeout(c.timeout)
                    c.socket.sendall(Header(ASK, 0, 0, 0, 0).packed())
                    deadline = time.monotonic() + c.timeout
                    header = header_of(received(c.socket, HEADER.size, deadline))
                    require(header, Header(TOLD, 0, 0, MEMORY.size, 0))
                    found.append(int(MEMORY.unpack(received(c.socket, MEMORY.size, deadline))[0]))
                except (LinkError, OSError) as error:
                    self._state = "lost"
                    self.close()
                    raise c.lost(str(error)) from None
                c.socket.setblocking(False)
            return found

    @property
    def moved(self) -> list[tuple[int, int]]:
        """Bytes of tensors that were sent to every worker, and received from it, so far."""
        return [(c.sent, c.received) for c in self._exchange.connections]

    @property
    def processes(self) -> list[int]:
        """Process ids of the workers that were started here."""
        return [s.process.pid for s in self._own]

    def close(self) -> None:
        """Close the connections and end the workers that were started here; nothing runs afterwards."""
        if self._state == "open":
            for c in self._exchange.connections:
                with suppress(OSError):  # who does not hear it sees the connection close
                    c.socket.send(Header(END, 0, 0, 0, 0).packed())
        if self._state in ("open", "busy"):
            self._state = "closed"
        self._exchange.close()
        for worker in self._own:
            if self._state == "lost":
                worker.process.kill()
            worker.end()
        self._own = []

    def __enter__(self) -> Several:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __str__(self) -> str:
        """The name and split, and a line for every input and output with its type."""
        ports = [(kind, p) for kind, group in (("in", self.inputs), ("out", self.outputs)) for p in group]
        head = f"network {self.manifest.name} by {self.manifest.split} on {len(self.manifest.workers)} devices"
        return "\n".join([head, *(f"  {kind:3} {p.onnx_name}  {p}" for kind, p in ports)])

    __repr__ = __str__


def _is_started(place: Place) -> bool:
    return place.is_here or place.is_by_ssh


def _opened(address: str) -> socket.socket:
    """A connected socket, to ``HOST:PORT`` or to a socket file, ``unix:PATH``. Raises OSError."""
    if not address.startswith("unix:"):
        end = socket.create_connection(address_of(address), CONNECTING)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return end
    end = socket.socket(socket.AF_UNIX)
    try:
        end.settimeout(CONNECTING)
        end.connect(address.removeprefix("unix:"))
    except OSError:
        end.close()
        raise
    return end


def _connected(address: str, name: str, secret: bytes, digest: bytes, timeout: float) -> Connection:
    """A connection to the worker at an address, after its greeting. Raises LinkError that names the worker."""
    where = f"{name} at {address}"
    try:
        end = _opened(address)
    except OSError as error:
        hint = "is edgec worker running there?"
        raise LinkError(f"cannot be reached: {error.strerror or error}", hint=hint, where=where) from None
    try:
        greet_as_coordinator(end, secret, digest)
    except LinkError as error:
        end.close()
        raise LinkError(error.message, hint=error.hint, where=where) from None
    return Connection(where, end, timeout)

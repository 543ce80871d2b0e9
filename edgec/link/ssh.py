"""A device by ssh, through OpenSSH's own programs: keys, agents and ~/.ssh/config are the user's.

Words of the environment variable EDGEC_SSH_OPTIONS go to ssh and to scp before all others (``-F config``, say).
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from edgec.errors import LinkError
from edgec.link.base import Ended, Link, again, call, told, tool

_HINT = "install OpenSSH's client"
#: What ssh itself ends with when the connection fails.
_LOST = 255


class Ssh(Link):
    """``target`` is what ssh takes: a host of ~/.ssh/config, ``user@host`` or ``user@host:port``."""

    def __init__(self, target: str) -> None:
        self.name = f"ssh:{target}"
        host, colon, port = target.rpartition(":")
        if not colon:
            host, port = target, ""
        if not host or host.startswith("-") or (port and not port.isdecimal()):
            raise LinkError(f"'{target}' is no host", hint="write ssh:user@host or ssh:user@host:port")
        self._host = host
        # One connection serves all steps; a device that is gone is noticed within seconds.
        self._control = tempfile.TemporaryDirectory(prefix="edgec-")
        options = (
            "BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=3", "ServerAliveCountMax=3",
            "ControlMaster=auto", f"ControlPath={self._control.name}/%C", "ControlPersist=20",
        )  # fmt: skip
        self._options = shlex.split(os.environ.get("EDGEC_SSH_OPTIONS", ""))
        self._options += [word for option in options for word in ("-o", option)]
        self._port = port
        self._folder = again(self._make_folder, self.name)

    def send(self, path: Path, name: str) -> None:
        again(lambda: self._copy(str(path), f"{self._host}:{self._folder}/{name}"), self.name)
        again(lambda: self._shell(f"chmod 755 {self._folder}/{name}"), self.name)

    def send_folder(self, path: Path) -> None:
        """Put a folder with all that is in it into ours, under its name."""
        again(lambda: self._copy(str(path.absolute()), f"{self._host}:{self._folder}/", "-r"), self.name)

    def popen(self, script: str, errors: IO[bytes]) -> subprocess.Popen[bytes]:
        """Start a script of its shell in the folder. Its input and output are pipes; it goes on until they end."""
        line = f"cd {self._folder} && exec sh -c {shlex.quote(script)}"
        return subprocess.Popen(
            [*self._ssh(), self._host, line], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
        )

    def forward(self, port: int) -> Path:
        """A socket file of this machine, connections to which go to a port of 127.0.0.1 there."""
        path = Path(self._control.name) / f"port{port}"
        way = ["-O", "forward", "-L", f"{path}:127.0.0.1:{port}"]
        ended = call([*self._ssh(), *way, self._host], self.name)
        if ended.code != 0:
            raise LinkError(f"no connection to a port there{told(ended)}", where=self.name)
        return path

    def fetch(self, name: str, path: Path) -> None:
        again(lambda: self._copy(f"{self._host}:{self._folder}/{name}", str(path)), self.name)

    def start(self, program: str, arguments: Sequence[str], timeout: float) -> Ended:
        words = " ".join(shlex.quote(word) for word in (f"./{program}", *arguments))
        return self._shell(f"cd {self._folder} && {words}", timeout, quiet=True)

    def shell(self, line: str) -> str | None:
        return self._shell(line, quiet=True).output

    def close(self) -> None:
        try:
            self._shell(f"rm -rf {self._folder}", 15)
            call([*self._ssh(), "-O", "exit", self._host], self.name, 15)
        except LinkError:
            pass
        self._control.cleanup()

    def _make_folder(self) -> str:
        folder = self._shell("mktemp -d -t edgec-XXXXXX").output.strip()
        if not re.fullmatch(r"/[\w./-]*/edgec-\w+", folder):  # it goes into commands as it is
            raise LinkError(f"it did not make a folder but said '{folder[:80]}'", where=self.name)
        return folder

    def _ssh(self) -> list[str]:
        return [tool("ssh", _HINT), *self._options, *(["-p", self._port] if self._port else [])]

    def _shell(self, line: str, timeout: float | None = None, quiet: bool = False) -> Ended:
        ended = call([*self._ssh(), self._host, line], self.name, timeout)
        if ended.code == _LOST or (ended.code != 0 and not quiet):
            raise LinkError(f"the connection failed{told(ended)}", where=self.name)
        return ended

    def _copy(self, source: str, target: str, *words: str) -> None:
        port = ["-P", self._port] if self._port else []
        ended = call([tool("scp", _HINT), "-q", *words, *self._options, *port, source, target], self.name)
        if ended.code != 0:
            raise LinkError(f"a file could not be copied{told(ended)}", where=self.name)

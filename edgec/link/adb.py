"""An Android device by adb, on a cable or by network."""

from __future__ import annotations

import re
import shlex
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from edgec.errors import LinkError
from edgec.link.base import Ended, Link, again, call, told, tool

#: The one place where a shell of Android may put programs and start them.
_HOME = "/data/local/tmp"
#: Older devices do not pass on how a program ended, so it is printed.
_MARK = "edgec-ended:"


class Adb(Link):
    """``serial`` is what ``adb devices`` shows; empty where there is one device only."""

    def __init__(self, serial: str = "") -> None:
        self.name = f"adb:{serial}" if serial else "adb"
        if serial.startswith("-"):
            raise LinkError(f"'{serial}' is no serial number", hint="adb devices")
        self._adb = [tool("adb", "install Android's platform tools (apt install adb)")]
        self._adb += ["-s", serial] if serial else []
        self._folder = f"{_HOME}/edgec-{uuid.uuid4().hex[:8]}"
        again(lambda: self._shell(f"mkdir -p {self._folder}"), self.name)

    def send(self, path: Path, name: str) -> None:
        again(lambda: self._call("push", str(path), f"{self._folder}/{name}"), self.name)
        again(lambda: self._shell(f"chmod 755 {self._folder}/{name}"), self.name)

    def fetch(self, name: str, path: Path) -> None:
        again(lambda: self._call("pull", f"{self._folder}/{name}", str(path)), self.name)

    def start(self, program: str, arguments: Sequence[str], timeout: float) -> Ended:
        words = " ".join(shlex.quote(word) for word in (f"./{program}", *arguments))
        return self._shell(f"cd {self._folder} && {words}", timeout, quiet=True)

    def shell(self, line: str) -> str | None:
        return self._shell(line, quiet=True).output

    def close(self) -> None:
        with suppress(LinkError):
            self._shell(f"rm -rf {self._folder}", 15)

    def _shell(self, line: str, timeout: float | None = None, quiet: bool = False) -> Ended:
        answer = call([*self._adb, "shell", f"{line}; echo {_MARK}$?"], self.name, timeout)
        output, mark, code = answer.output.replace("\r\n", "\n").rpartition(_MARK)
        if not mark or re.fullmatch(r"\s*[0-9]{1,3}\s*", code) is None:
            raise LinkError(f"the device is gone{told(answer)}", where=self.name)
        ended = Ended(int(code), output, answer.errors or output)
        if ended.code != 0 and not quiet:
            raise LinkError(f"the device refused '{line}'{told(ended)}", where=self.name)
        return ended

    def _call(self, *arguments: str) -> None:
        ended = call([*self._adb, *arguments], self.name)
        if ended.code != 0:
            raise LinkError(f"adb {arguments[0]} failed{told(ended)}", where=self.name)

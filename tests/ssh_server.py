"""A device by ssh: sshd on this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from getpass import getuser
from pathlib import Path

import pytest
from needed import need


class Server:
    """sshd with keys of its own, on a port of its own."""

    def __init__(self, folder: Path) -> None:
        self.sshd = need("sshd", "openssh-server") if not Path("/usr/sbin/sshd").exists() else "/usr/sbin/sshd"
        keygen = need("ssh-keygen", "openssh-client")
        self.folder = folder
        for name in ("host", "user"):
            subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
        (folder / "authorized").write_text((folder / "user.pub").read_text())
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        (folder / "sshd_config").write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\n"
            f"AuthorizedKeysFile {folder}/authorized\n"
            "StrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\nPidFile none\n"
            "Subsystem sftp internal-sftp\n"
        )
        (folder / "config").write_text(
            f"Host board\n HostName 127.0.0.1\n Port {self.port}\n User {getuser()}\n IdentityFile {folder}/user\n"
            f" IdentitiesOnly yes\n StrictHostKeyChecking no\n UserKnownHostsFile {folder}/known\n LogLevel ERROR\n"
        )
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        self.process = subprocess.Popen(
            [self.sshd, "-D", "-e", "-f", str(self.folder / "sshd_config")],
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        pytest.skip("sshd does not start here")

    def stop(self) -> None:
        """The device is switched off: the server and all its connections go."""
        if self.process is not None:
            found = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True, check=False)
            for pid in (*found.stdout.split(), str(self.process.pid)):
                subprocess.run(["kill", "-KILL", pid], check=False, capture_output=True)
            self.process.wait()
            self.process = None


@contextmanager
def serving(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server with its files in a new folder, which the links of this test reach."""
    folder.mkdir()
    made = Server(folder)
    made.start()
    monkeypatch.setenv("EDGEC_SSH_OPTIONS", f"-F {folder}/config")
    try:
        yield made
    finally:
        made.stop()

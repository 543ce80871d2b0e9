"""A device by ssh: a real server on this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from getpass import getuser
from pathlib import Path

import numpy as np
import pytest
from links import DIGITS, need, need_opencl, pictures, product

import edgec
from edgec import api
from edgec.bench import remote
from edgec.errors import LinkError
from edgec.tune.database import Profiles
from edgec.tune.on_device import tune_on_device


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


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    folder = tmp_path / "ssh"
    folder.mkdir()
    made = Server(folder)
    made.start()
    monkeypatch.setenv("EDGEC_SSH_OPTIONS", f"-F {folder}/config")
    yield made
    made.stop()


def test_check_and_bench(server: Server) -> None:
    checked = edgec.check(str(DIGITS), samples=2, device="generic", link="ssh:board")
    assert checked.ok and checked.link == "ssh:board"
    benched = edgec.bench(str(DIGITS), device="generic", link="ssh:board", seconds=0.01)
    assert benched.timing.calls >= 3 and len(benched.kernels) > 3


def test_a_gpu(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its kernels are compiled there, and its products timed by its clock."""
    need_opencl()
    monkeypatch.setenv("EDGEC_PROFILES", str(tmp_path / "profiles.sqlite"))
    checked = edgec.check(product(tmp_path), samples=2, device="host_pocl", link="ssh:board")
    assert checked.ok and checked.executed_stage == "emit"
    done = tune_on_device(product(tmp_path), 0.0, link="ssh:board", device="host_pocl")
    (entry,) = Profiles().entries()
    assert (done.measured, done.known) == (1, 0) and done.skipped > 2
    assert entry.target.device == "host_pocl" and 0 < entry.seconds < 1


def test_a_device_that_vanishes_and_comes_back(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "BATCH_BYTES", 600)  # two pictures
    path, keep = pictures(tmp_path, 6), tmp_path / "kept"
    built = edgec.build(str(DIGITS), device="generic", compile=False)
    batches: list[str] = []

    def progress(stage: str, detail: str = "", fraction: float | None = None) -> None:
        if stage == "device" and detail.startswith("sample"):
            batches.append(detail)
            if len(batches) == 2:
                server.stop()

    with pytest.raises(LinkError, match="tried 3 times") as caught:
        api.run_on_device(built, path, link="ssh:board", keep=keep, progress=progress)
    assert caught.value.where == "ssh:board" and "goes on behind what came back" in str(caught.value.hint)
    assert len(list(keep.iterdir())) == 1
    server.start()
    ran = api.run_on_device(built, path, link="ssh:board", keep=keep)
    here = api.run_on_device(built, path, link="local")
    for a, b in zip(ran, here, strict=True):
        np.testing.assert_array_equal(a.outputs["probabilities"], b.outputs["probabilities"])


def test_a_host_that_is_not_there(server: Server) -> None:
    server.stop()
    with pytest.raises(LinkError, match="the connection failed"):
        edgec.check(str(DIGITS), samples=1, device="generic", link="ssh:board")

"""A device by ssh: a real server on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from links import DIGITS, need_opencl, pictures, product
from ssh_server import Server, serving

import edgec
from edgec import api
from edgec.bench import remote
from edgec.errors import LinkError
from edgec.tune.database import Profiles
from edgec.tune.on_device import tune_on_device


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with serving(tmp_path / "ssh", monkeypatch) as made:
        yield made


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

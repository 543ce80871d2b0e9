"""Workers that are started over ssh, with a real server on this machine; and speeds of links that are kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from divided_cases import divided, image, tower
from ssh_server import Server, serving

import edgec
from edgec.cli.main import main
from edgec.distribute import kept, probe
from edgec.distribute.bench import measure
from edgec.distribute.build import BuiltParts, build_over
from edgec.distribute.links import Handled
from edgec.distribute.places import Place, Speed
from edgec.errors import LinkError


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    path = Path(edgec.__file__).parents[1]
    monkeypatch.setenv("EDGEC_SSH_PYTHON", f"env PYTHONPATH={path} {sys.executable}")
    with serving(tmp_path / "ssh", monkeypatch) as made:
        yield made


def over_ssh(folder: Path) -> BuiltParts:
    path = folder / "tower.onnx"
    onnx.save(tower(), str(path))
    over = ["host@local", "host@ssh:board"]
    return build_over(path, folder / "over", over=over, split="pipeline", force=True, link_speed="1G/0.2")


def workers_there() -> list[str]:
    pattern = "^[^ ]*python[^ ]* -m edgec worker part1 --listen"
    found = subprocess.run(["pgrep", "-f", pattern], capture_output=True, text=True, check=False)
    return found.stdout.split()


def gone(before: list[str]) -> bool:
    """Have workers that were not there before ended, within seconds?"""
    end = time.monotonic() + 20
    while set(workers_there()) - set(before) and time.monotonic() < end:
        time.sleep(0.1)
    return not set(workers_there()) - set(before)


def test_a_worker_over_ssh(server: Server, tmp_path: Path) -> None:
    want = edgec.build(tower().SerializeToString()).run({"image": image()})["scores"]
    built, before = over_ssh(tmp_path), workers_there()
    with edgec.Several(built.folder) as network:
        assert np.array_equal(network.run({"image": image()})["scores"], want)
        measured = measure(network, 0.1)
        assert measured.bytes_a_frame == built.manifest.bytes_a_frame and all(measured.memory)
        (there,) = set(workers_there()) - set(before)
        command = Path(f"/proc/{there}/cmdline").read_bytes()
        environment = Path(f"/proc/{there}/environ").read_bytes()
        secret = environment.split(b"EDGEC_WORKER_SECRET=")[1].split(b"\0")[0]
        assert len(secret) == 64 and secret not in command
    assert gone(before)


def test_a_connection_that_is_lost(server: Server, tmp_path: Path) -> None:
    built, before = over_ssh(tmp_path), workers_there()
    network = edgec.Several(built.folder, timeout=5.0)
    try:
        network.run({"image": image()})
        server.stop()
        os.kill(network.processes[1], signal.SIGKILL)
        with pytest.raises(LinkError, match=r"worker 1 .*host@ssh:board.*no result"):
            list(network.stream({"image": image()} for _ in range(20)))
    finally:
        network.close()
    assert gone(before)


def test_a_worker_that_does_not_start(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = over_ssh(tmp_path)
    monkeypatch.setenv("EDGEC_SSH_PYTHON", "no-such-python")
    begun = time.monotonic()
    with pytest.raises(LinkError, match=r"worker 1 .*does not start.*no-such-python") as caught:
        edgec.Several(built.folder)
    assert "EDGEC_SSH_PYTHON" in str(caught.value.hint) and time.monotonic() - begun < 30


def test_speeds_are_kept_for_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(SystemExit) as ended:
        main(["device", "probe", "--links", "host@local", "--json"])
    assert not ended.value.code
    found = kept.kept(Place("host", "local"))
    assert isinstance(found, Handled) and 1e6 < found.whole.bytes_per_s < 1e12
    assert 0 < found.hub.latency_s <= found.whole.latency_s < 0.1 and found.hub.bytes_per_s >= found.whole.bytes_per_s

    def never(*given: object) -> None:
        raise AssertionError("measured again")

    monkeypatch.setattr("edgec.distribute.build.probe_place", never)
    built = divided(tmp_path, 2, "pipeline", link_speed=None)
    assert {w.bytes_per_s for w in built.manifest.workers} == {found.whole.bytes_per_s}
    for text in ("", "[]", '{"host@local": 3}', '{"host@local": {"whole": {"bytes_per_s": -1, "latency_s": 0}}}'):
        kept.kept_path().write_text(text)
        assert kept.kept(Place("host", "local")) is None
    kept.keep(Place("pi", "ssh:a"), Speed(1e8, 1e-3))
    kept.keep(Place("pi", "ssh:b"), Speed(2e8, 1e-3))
    assert kept.kept(Place("pi", "ssh:a")) == Speed(1e8, 1e-3) and kept.kept(Place("pi", "ssh:c")) is None


def test_parts_of_a_message_add_up() -> None:
    found = probe.loopback()
    whole, hub, worker = found.whole, found.hub, found.worker
    assert hub.latency_s + worker.latency_s == pytest.approx(whole.latency_s)
    assert 0 <= found.frame_s < 0.01
    assert 1 / hub.bytes_per_s + 1 / worker.bytes_per_s == pytest.approx(1 / whole.bytes_per_s)

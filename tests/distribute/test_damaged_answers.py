"""Answers that turn to garbage in their middle: the run ends in time, by the worker's name, without a wrong result.

Places and kinds are drawn, for the coordinator in Python and for the host in C, which is compiled with sanitizers.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from damaged import Damage, relay
from emitted_programs import KEY, compiled, environment, host_command, written
from test_panels import frames, tall

import edgec
from edgec.distribute.build import build_over
from edgec.distribute.manifest import read_manifest
from edgec.distribute.start import start
from edgec.errors import LinkError
from edgec.progress import silent

#: Seconds that an answer may take, and those in which a run has to have ended.
TIMEOUT, ENDED = 1.0, 8.0
SEEDS = range(48)


@dataclass(frozen=True)
class Divided:
    """A network in panels and in sums, the workers that serve it, one run after the other, and its right outputs."""

    folder: Path
    addresses: list[str]
    want: list[np.ndarray]

    def damage(self, seed: int, worker: int) -> Damage:
        """A damage of the answers of a worker, in any frame but the last one, behind which nothing is due."""
        own = sum(p.worker == worker for p in read_manifest(self.folder).parts)
        return Damage.drawn(seed, len(self.want) - 1, own)

    @contextmanager
    def through(self, worker: int, damage: Damage | None) -> Iterator[list[str]]:
        """The addresses of all workers, one of them through a relay that damages its answers."""
        with relay(self.addresses[worker], damage) as at:
            yield [at if w == worker else own for w, own in enumerate(self.addresses)]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Divided]:
    at = tmp_path_factory.mktemp("damaged")
    onnx.save(tall(), str(at / "tall.onnx"))
    folder = at / "over"
    build_over(
        at / "tall.onnx", folder, over=["host@local"] * 2, split="tensor", goal="latency", force=True,
        shard=["up0=1", "up1=1", "up2=1"], link_speed="20M/0.01", progress=silent,
    )  # fmt: skip
    manifest = read_manifest(folder)
    assert manifest.panels
    with edgec.Several(folder) as several:
        want = [several.run(f)["y"] for f in frames()]
    with ExitStack() as stack:
        addresses = []
        for w in range(2):
            parts = [folder / p.folder for p in manifest.parts if p.worker == w]
            started = start(parts, KEY.encode(), 1, None, f"worker {w}", once=False)
            stack.callback(started.end)
            stack.callback(started.process.kill)
            addresses.append(started.address)
        yield Divided(folder, addresses, want)


def of(network: Divided, seed: int) -> tuple[int, Damage]:
    """The worker whose answers are damaged, and how."""
    worker = seed % 2
    return worker, network.damage(seed, worker)


def test_a_relay_without_damage_changes_nothing(network: Divided) -> None:
    with (
        network.through(1, None) as addresses,
        edgec.Several(network.folder, addresses=addresses, secret=KEY, timeout=TIMEOUT) as several,
    ):
        got = [r["y"] for r in several.stream(frames(), 3)]
    assert all(np.array_equal(a, b) for a, b in zip(got, network.want, strict=True))


@pytest.mark.parametrize("seed", SEEDS)
def test_damaged_answers_end_a_run(network: Divided, seed: int) -> None:
    worker, damage = of(network, seed)
    got: list[np.ndarray] = []
    with (
        network.through(worker, damage) as addresses,
        edgec.Several(network.folder, addresses=addresses, secret=KEY, timeout=TIMEOUT) as several,
    ):
        begun = time.monotonic()
        with pytest.raises(LinkError, match=f"worker {worker} .*no result of this run"):
            got.extend(r["y"] for r in several.stream(frames(), 1 + seed % 3))
        assert time.monotonic() - begun < ENDED, damage
    assert len(got) < len(network.want), damage
    assert all(np.array_equal(a, b) for a, b in zip(got, network.want)), damage


@pytest.mark.parametrize("seed", SEEDS)
def test_damaged_answers_end_a_run_in_c(network: Divided, seed: int, tmp_path: Path) -> None:
    worker, damage = of(network, seed)
    given, got = written(tmp_path / "in", network.folder, list(frames())), tmp_path / "out"
    more = ["--in-flight", str(1 + seed % 3), "--timeout", f"{TIMEOUT:g}"]
    compiled(network.folder)
    with network.through(worker, damage) as addresses:
        begun = time.monotonic()
        command = host_command(network.folder, "tcp", "--frames", str(given), str(got), *more, *addresses)
        done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=60, check=False)
        assert time.monotonic() - begun < ENDED, damage
    assert done.returncode == 1, (damage, done.stderr)
    assert f"worker {worker}: " in done.stderr and len(done.stderr.splitlines()) == 1, (damage, done.stderr)
    right = b"".join(w.tobytes() for w in network.want)
    handed_out = got.read_bytes()
    assert len(handed_out) < len(right) and len(handed_out) % network.want[0].nbytes == 0, damage
    assert right.startswith(handed_out), damage

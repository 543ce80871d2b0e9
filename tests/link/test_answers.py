"""Answers of devices that are broken, or mean harm: each ends in an error that names the device."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from links import DIGITS, random_picture

import edgec
from edgec.bench import answers
from edgec.bench.remote import Remote
from edgec.build import Built
from edgec.errors import CheckError, LinkError
from edgec.link import base
from edgec.link.base import Ended, call
from edgec.link.local import Local
from edgec.progress import silent


@pytest.fixture(scope="module")
def built() -> Built:
    return edgec.build(DIGITS, compile=False)


class Liar(Local):
    """A device that runs the program, and changes what comes back."""

    change = staticmethod(lambda raw: raw)
    said: str | None = None

    def fetch(self, name: str, path: Path) -> None:
        super().fetch(name, path)
        raw = self.change(path.read_bytes())
        if raw is None:
            path.unlink()
        else:
            path.write_bytes(raw)

    def start(self, program: str, arguments: object, timeout: float) -> Ended:
        ended = super().start(program, arguments, timeout)  # type: ignore[arg-type]
        return ended if self.said is None else Ended(0, self.said, "")


def number(place: int, value: int) -> object:
    return lambda raw: raw[: 8 * place] + np.int64(value).tobytes() + raw[8 * place + 8 :]


LIES = {
    "nothing came back": (lambda raw: None, "no outputs came back"),
    "cut off": (lambda raw: raw[:-1], "cut off"),
    "empty": (lambda raw: b"", "cut off"),
    "longer": (lambda raw: raw + b"x", "of more than"),
    "other runs": (number(1, 2**62), "runs"),
    "runs below 0": (number(1, -1), "runs"),
    "times below 0": (number(2, -5), "less than no time"),
}


@pytest.fixture(scope="module")
def device(built: Built) -> Remote:
    return Remote(built, Liar(), progress=silent)


@pytest.mark.parametrize("lie", LIES)
def test_files_that_are_no_answers(device: Remote, lie: str) -> None:
    change, told = LIES[lie]
    device.link.change = change  # type: ignore[attr-defined]
    with pytest.raises(LinkError, match=told) as refused:
        device.run([random_picture()])
    assert refused.value.where == "local"
    device.link.change = lambda raw: raw  # type: ignore[attr-defined]
    assert device.run([random_picture()])[0].outputs


def test_a_status_is_told(device: Remote) -> None:
    device.link.change = number(0, 3)  # type: ignore[attr-defined]
    with pytest.raises(CheckError, match="status 3"):
        device.run([random_picture()])


@pytest.mark.parametrize(
    "said",
    ["", "kernel 1 5\nkernel 0 5\n", "kernel 0 5\nkernel 0 5\n", f"kernel 0 {'9' * 5000}\n", "kernel 0 5\nkernel 2 5\n",
     f"kernel {'9' * 5000} 1\n", "kernel 0 ٣\n"],
)  # fmt: skip
def test_lines_that_are_no_times(said: str) -> None:
    with pytest.raises(LinkError, match="kernels"):
        answers.kernel_times(said, "rpi")
    assert answers.stack_bytes(f"stack {'9' * 5000}\n") is None


def test_lines_that_are_times() -> None:
    assert answers.kernel_times("hello\nkernel 0 5 \nkernel 1 -2\n", "rpi") == (5, -2)
    assert answers.stack_bytes("stack 123\n") == 123


CHILD = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); "


def test_a_child_of_a_child_holds_nobody_up() -> None:
    """Both kept the pipes open, and the time that was given did not hold."""
    begun = time.monotonic()
    assert call([sys.executable, "-c", f"{CHILD} print('done')"], "here", 30).output == "done\n"
    with pytest.raises(LinkError, match=r"no answer within 0\.5 s"):
        call([sys.executable, "-c", f"{CHILD} time.sleep(60)"], "here", 0.5)
    assert time.monotonic() - begun < 50


def test_a_device_that_does_not_answer_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was asked three times, two minutes each, and the hint named an option that is not about such steps."""
    monkeypatch.setattr(base, "PATIENCE", 0.2)
    asked = []

    def step() -> base.Ended:
        asked.append(1)
        return call(["sleep", "60"], "here")

    with pytest.raises(LinkError, match=r"no answer within 0\.2 s") as caught:
        base.again(step, "here")
    assert len(asked) == 1 and caught.value.hint == "is it on, and connected?"


def test_children_end_with_the_time(tmp_path: Path) -> None:
    place = tmp_path / "pid"
    script = f"sleep 60 & echo $! > {place}; wait"
    with pytest.raises(LinkError):
        call(["sh", "-c", script], "here", 0.5)
    pid, end = int(place.read_text()), time.monotonic() + 10
    while Path(f"/proc/{pid}/stat").is_file() and time.monotonic() < end:
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.05)
    assert not Path(f"/proc/{pid}").exists()


def test_a_device_that_never_stops_talking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "MOST_SAID", 100_000)
    with pytest.raises(LinkError, match="says more than 100,000 bytes"):
        call(["yes"], "here", 60)


FORK = """
import os, signal, sys, threading
import numpy as np
from edgec.artifact.network import Network
net = Network(sys.argv[1], 4)
x = {"image": np.ones((1, 1, 8, 8), np.float32)}
want = net.run(x)["probabilities"]
for held in (False, True):
    if held:
        net._lock.acquire()  # as another thread would while the network runs
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        same = all(np.array_equal(net.run(x)["probabilities"], want) for _ in range(3))
        net.close()
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0
    if not held:
        assert np.array_equal(net.run(x)["probabilities"], want)
"""


def test_a_forked_child_works(tmp_path: Path) -> None:
    """It has the memory of the threads and none of them: it hung."""
    built = edgec.build(DIGITS, tmp_path / "net", threads=4)
    name = built.network.inputs[0].onnx_name
    shape = tuple(built.network.inputs[0].shape)
    text = FORK.replace('"image"', repr(name)).replace("(1, 1, 8, 8)", repr(shape))
    done = subprocess.run(
        [sys.executable, "-c", text, str(tmp_path / "net")], env=os.environ, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr

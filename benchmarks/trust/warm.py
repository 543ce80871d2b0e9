"""A process that has imported the packages that tests need, and runs pytest in copies of itself: none waits for them.

    echo '{"arguments": ["-q", "tests/ir/test_index.py"], "seconds": 60}' | python -m benchmarks.trust.warm

It reads a line of JSON for each run and answers with one: the exit code, or null where the run took longer than its
``seconds`` by the clock, and what pytest printed. Of the package itself those modules are imported before the copy is
made that arguments name.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks import ROOT
from benchmarks.trust.probes import install

#: Packages that many tests import, and take long to be.
PACKAGES = (
    "numpy", "onnx", "onnx.helper", "onnx.numpy_helper", "onnx.checker", "onnx.shape_inference", "onnxruntime", "typer",
    "rich.console", "rich.table", "jinja2", "jsonschema", "ml_dtypes",
)  # fmt: skip


class Warm:
    """Such a process, in the folder of a project and with an environment; ``modules`` are imported beforehand too.

    With ``probed`` the modules note what runs (`probes`).
    """

    def __init__(
        self, folder: Path, environment: Mapping[str, str], modules: Sequence[str] = (), probed: bool = False
    ) -> None:
        command = [sys.executable, "-m", "benchmarks.trust.warm", *(["--probed"] if probed else []), *modules]
        self.process = subprocess.Popen(
            command, cwd=folder, env=dict(environment), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def run(self, arguments: Sequence[str], seconds: float) -> tuple[int | None, str]:
        """The exit code of pytest, None where it took longer than ``seconds``, and what it printed."""
        assert self.process.stdin is not None and self.process.stdout is not None
        print(json.dumps({"arguments": list(arguments), "seconds": seconds}), file=self.process.stdin, flush=True)
        answer = json.loads(self.process.stdout.readline())
        return answer["code"], answer["said"]


def copied(arguments: Sequence[str], seconds: float) -> dict[str, Any]:
    """Run pytest in a copy of this process, which is ended after ``seconds`` with all that it started."""
    with tempfile.TemporaryFile("w+", errors="replace") as printed:
        sys.stdout.flush()
        child = os.fork()
        if not child:
            _run(arguments, printed.fileno())
        code = _ended(child, seconds)
        printed.seek(0)
        return {"code": code, "said": printed.read()}


def _run(arguments: Sequence[str], target: int) -> None:
    """In the copy: never returns."""
    os.setsid()
    for stream in (1, 2):
        os.dup2(target, stream)
    code = 1
    try:
        code = int(pytest.main(list(arguments)))
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _ended(child: int, seconds: float) -> int | None:
    """The exit code of a child, negative the signal that ended it, as of a command; None where it was ended here."""
    watched = os.pidfd_open(child) if hasattr(os, "pidfd_open") else None
    if watched is not None:
        in_time = bool(select.select([watched], [], [], seconds)[0])
        os.close(watched)
    else:
        until = time.monotonic() + seconds
        while not (in_time := os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None):
            if time.monotonic() > until:
                break
            time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) if in_time else None


def main() -> int:
    if "--probed" in sys.argv:
        install(ROOT)
    for name in (*PACKAGES, *(word for word in sys.argv[1:] if word != "--probed")):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(copied(asked["arguments"], asked["seconds"])), file=answers, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

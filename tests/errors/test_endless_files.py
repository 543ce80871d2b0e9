"""Devices and pipes where a file is expected are refused before they are read: /dev/zero filled the memory."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from edgec.artifact.stages import read_plan
from edgec.certify import vnnlib
from edgec.cli import config
from edgec.cli.main import _lines
from edgec.compress.calibrate import digest
from edgec.device.load import load_device
from edgec.errors import EdgecError
from edgec.frontend import source
from edgec.frontend.hugging import document, safetensors
from edgec.frontend.language.chat import read_template
from edgec.frontend.onnx import model as onnx_model
from edgec.serve.language_model import _key
from edgec.untrusted import read_arrays, read_json

READERS: dict[str, Callable[[Path], object]] = {
    "model": source.read,
    "onnx": onnx_model.read,
    "description of a model": document.opened,
    "safetensors": safetensors.read,
    "saved stage": read_plan,
    "edgec.toml": config.load,
    "device": load_device,
    "labels": _lines,
    "chat template": read_template,
    "key": _key,
    "calibration": digest,
    "json": read_json,
    "arrays": read_arrays,
    "property": lambda path: vnnlib.read(path, {}, {}),
}


@pytest.fixture(params=["device", "pipe"])
def endless(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "endless.toml"
    if request.param == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    return path


@pytest.mark.parametrize("name", READERS)
def test_what_never_ends_is_refused(endless: Path, name: str) -> None:
    found: list[object] = []

    def read() -> None:
        try:
            found.append(READERS[name](endless))
        except (EdgecError, OSError) as error:  # callers of read_json say what they wanted to read
            found.append(error)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(20)
    assert found and isinstance(found[0], (EdgecError, OSError)), "it reads on"


def test_the_command_names_it(endless: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        from edgec.cli.main import main

        main(["inspect", os.fspath(endless.rename(endless.with_suffix(".onnx")))])
    assert end.value.code == 2 and "a device, a pipe or a socket" in " ".join(capsys.readouterr().err.split())

"""The generated C of two tiny models, compared as text: what changes here is what users will see in their diffs.

``pytest tests/golden --update-golden`` writes the new text; look at the difference before it is committed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from golden_models import MODELS

import edgec
from edgec.api import Context, resolve
from edgec.pipeline import run

HERE = Path(__file__).parent


def generated(name: str) -> dict[str, bytes]:
    """All files of the project of a model, by path."""
    make, device = MODELS[name]
    return dict(
        run(make().SerializeToString(), Context(resolve({"device": device, "name": name, "threads": 2})))["emit"].files
    )


def digest(files: dict[str, bytes]) -> str:
    return sha256(repr(sorted(files.items())).encode()).hexdigest()


def readable(files: dict[str, bytes]) -> dict[str, str]:
    """The model's own C, and what its weights hash to; the version of edgec and the model's hash are left out."""
    texts = {p: c.decode() for p, c in files.items() if p.endswith((".c", ".h")) and not p.startswith("ec_")}
    texts |= {f"{p}.sha256": sha256(c).hexdigest() + "\n" for p, c in files.items() if p.endswith(".bin")}
    texts = {p: t.replace(f"edgec {edgec.__version__}", "edgec VERSION") for p, t in texts.items()}
    return {p: re.sub(r'_MODEL_SHA256 "\w+"', '_MODEL_SHA256 "HASH"', t) for p, t in texts.items()}


@pytest.mark.parametrize("name", MODELS)
def test_text(name: str, update_golden: bool) -> None:
    folder = HERE / name
    texts = readable(generated(name))
    if update_golden:
        folder.mkdir(exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        for path, text in texts.items():
            (folder / path).write_text(text, encoding="utf-8")
    kept = {p.name: p.read_text(encoding="utf-8") for p in folder.iterdir()}
    assert kept.keys() == texts.keys()
    for path, text in texts.items():
        assert text == kept[path], f"{path} changed (pytest tests/golden --update-golden)"


@pytest.mark.parametrize("name", MODELS)
def test_same_bytes_whatever_came_before(name: str) -> None:
    first = generated(name)
    for other in MODELS:
        generated(other)
    assert generated(name) == first


def _in_another_process(hash_seed: str) -> list[str]:
    script = "import test_golden as t; print(*(t.digest(t.generated(n)) for n in t.MODELS))"
    path = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path},
    )  # fmt: skip
    return done.stdout.split()


@pytest.mark.parametrize("hash_seed", ["0", "1", "4711"])
def test_same_bytes_in_every_process(hash_seed: str) -> None:
    assert _in_another_process(hash_seed) == [digest(generated(name)) for name in MODELS]

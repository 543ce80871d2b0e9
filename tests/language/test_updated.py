"""Language models in the field: the program takes weights of another training, and no text that others computed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import plain
import pytest
from typer.testing import CliRunner

import edgec
from edgec.artifact.network import Network
from edgec.artifact.session import Session
from edgec.cli.main import app
from edgec.errors import UsageError


def test_another_training_is_taken(tmp_path: Path) -> None:
    drawn = [plain.draw("llama") for _ in range(2)]
    first, second = (plain.write_folder(tmp_path / f"m{k}", "llama", w) for k, w in enumerate(drawn))
    out, file, tokens = tmp_path / "out", tmp_path / "new.weights", [3, 14, 15, 9, 2]
    edgec.build(first, out, context=32, name="lm", weights="file")
    with Network(out) as opened:
        session = Session(opened)
        session.prefill(tokens)
        session.save(tmp_path / "text")
        Session(opened).restore(tmp_path / "text")
    done = CliRunner().invoke(app, ["update", str(out), str(second), "-o", str(file), "--json"])
    assert done.exit_code == 0, json.loads(done.stdout)["reasons"]
    other = plain.write_folder(tmp_path / "m2", "qwen2", plain.draw("qwen2"))
    done = CliRunner().invoke(app, ["update", str(out), str(other), "--json"])
    assert done.exit_code == 1 and "'cache_bytes' of the language model is" in done.output, done.output
    (out / "lm.weights").write_bytes(file.read_bytes())
    with Network(out) as opened:
        session = Session(opened)
        want = plain.evaluate("llama", drawn[1], tokens)[-1]
        np.testing.assert_allclose(session.prefill(tokens), want, rtol=1e-3, atol=1e-4)
        with pytest.raises(UsageError):
            session.restore(tmp_path / "text")
        session.save(tmp_path / "own")
        Session(opened).restore(tmp_path / "own")

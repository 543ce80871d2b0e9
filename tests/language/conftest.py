"""The small language model of `talking_model`, built once for several modules of tests."""

from __future__ import annotations

from pathlib import Path

import chat_templates as given
import pytest
from talking_model import CONTEXT, compiled_with_less_optimization, gguf

import edgec


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the model, built for two threads; its template is ChatML with a short system message."""
    where = tmp_path_factory.mktemp("talking")
    (where / "lm.gguf").write_bytes(gguf(given.CHATML.replace("You are a helpful AI assistant", "S")))
    with compiled_with_less_optimization():
        edgec.build(where / "lm.gguf", where / "out", context=CONTEXT, threads=2, name="lm")
    return where / "out"

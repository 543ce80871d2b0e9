"""Origins of language models, as `edgec inspect` says it: formats, architectures, names."""

from __future__ import annotations

from pathlib import Path

import lora_files as files
import plain
import pytest
from gguf_files import gguf_file

from edgec.frontend.gguf import parse
from edgec.frontend.source import read
from edgec.report.inspect import record

WEIGHTS = plain.draw("llama")


@pytest.mark.parametrize(("is_gguf", "opset"), [(True, "GGUF, llama"), (False, "safetensors, llama")])
def test_formats(is_gguf: bool, opset: str, tmp_path: Path) -> None:
    model = read(files.model_file(tmp_path, "llama", WEIGHTS, is_gguf))
    found = record(model, None, [], None)
    assert list(found["opsets"]) == [opset] and found["metadata"] == {} and not found["ok"]
    assert found["opsets"][opset] == (3 if is_gguf else 1)


def test_names_that_files_have() -> None:
    for name, shown in ((None, ""), ("Tiny", "Tiny"), ("a\x1b[1m", "a\\x1b[1m")):
        metadata = {"general.architecture": "llama"} | ({} if name is None else {"general.name": name})
        assert record(parse(gguf_file(metadata, {})), None, [], None)["producer"] == shown

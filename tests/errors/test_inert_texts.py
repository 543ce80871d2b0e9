"""Texts out of models and tools: bounded, inert, and never taken for success."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_models import model, node

import edgec
from edgec.errors import EdgecError, ToolchainError

HOSTILE = "[click](http://evil.example) <script>1</script> ![](x.png) `$(id)`"


def test_metadata_are_text_in_the_readme(tmp_path: Path) -> None:
    source = model([node("Relu", ["x"], ["y"])])
    for key in (HOSTILE, "plain"):
        source.metadata_props.add(key=key, value=f"# a title {HOSTILE}")
    edgec.build(source, tmp_path / "net", compile=False)
    lines = (tmp_path / "net" / "README.md").read_text().splitlines()
    told = [k for k, line in enumerate(lines) if "evil.example" in line]
    assert len(told) == 2 and all(lines[k].startswith("    ") for k in told), "a code block: nothing in it is obeyed"
    before = lines[: min(told)]
    assert before[max(k for k, line in enumerate(before) if line and not line.startswith("    ")) + 1] == ""


def test_errors_are_bounded() -> None:
    error = EdgecError("m" * 8_000_000, hint="h" * 8_000_000, where="w" * 8_000_000)
    assert len(str(error)) < 16_000 and "more characters" in str(error) and len(error.args[0]) <= 10_000
    with pytest.raises(EdgecError) as refused:
        edgec.build(model([node("N" * 4_000_000, ["x" * 1_000_000], ["y"])]), compile=False)
    assert len(str(refused.value)) < 16_000


@pytest.mark.parametrize("script", ["exit 0", ': > "$last"'])
def test_a_compiler_that_writes_nothing(tmp_path: Path, script: str) -> None:
    """It said that all was well, and the artefact had no library."""
    fake = tmp_path / "cc"
    fake.write_text(
        '#!/bin/sh\nfor last; do :; done\ncase "$*" in\n  --version) echo "gcc 12.2.0";;\n'
        f'  -dumpmachine) echo "$(uname -m)-linux-gnu";;\n  *) {script};;\nesac\n'
    )
    fake.chmod(0o755)
    with pytest.raises(ToolchainError, match="ended well and wrote nothing"):
        edgec.build(model([node("Relu", ["x"], ["y"])]), tmp_path / "net", compiler=str(fake))
    assert not (tmp_path / "net").exists()

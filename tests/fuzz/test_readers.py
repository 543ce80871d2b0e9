"""The readers in C under libFuzzer, briefly: each reader compiles, runs and finds nothing; what is planted is found."""

from __future__ import annotations

from pathlib import Path

import pytest
from needed import fuzzer

from benchmarks.robustness import readers


@pytest.mark.parametrize("name", readers.READERS)
def test_nothing_is_found(name: str, tmp_path: Path) -> None:
    fuzzer()
    cases, found = readers.run(name, tmp_path, 2)
    assert cases > 20 and not found, found


def test_what_is_planted_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A tokenizer that writes one token more than it has room for."""
    fuzzer()

    def planted(folder: Path) -> list[str]:
        (folder / "planted.c").write_text(
            "#include <stddef.h>\n#include <stdlib.h>\n"
            "int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {\n"
            "  int *tokens = malloc(size * sizeof *tokens);\n"
            "  for (size_t k = 0; size > 3 && k <= size; ++k) tokens[k] = data[0];\n"
            "  free(tokens);\n  return 0;\n}\n"
        )
        return [str(folder / "planted.c")]

    monkeypatch.setattr(readers, "READERS", {"planted": planted})
    _, found = readers.run("planted", tmp_path, 5)
    assert "heap-buffer-overflow" in found

"""Streamed text: whole characters, stop strings that are never shown in part, and the tokens that end a text."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest
from chance import RANDOM
from compiled import STRICT
from gguf_files import gguf_file
from test_tokenizer import metadata

from edgec.artifact.text_stream import ENDED, GOING, STOPPED, TextStream
from edgec.errors import UsageError
from edgec.frontend.gguf import parse
from edgec.frontend.gguf.vocabulary import vocabulary_of
from edgec.frontend.language.table import table_of

LANGUAGE = Path(__file__).resolve().parents[2] / "codegen_templates" / "language"
SOURCES = [str(LANGUAGE / f"ec_{module}.c") for module in ("stream", "tokenizer")]
BYTES = 2  # the first token of a byte in `metadata`


def table(**more: object) -> np.ndarray:
    vocabulary = vocabulary_of(parse(gguf_file({"general.architecture": "llama", **metadata(**more)}, {})))
    assert vocabulary is not None
    return np.frombuffer(table_of(vocabulary), np.uint8).copy()


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    out = tmp_path_factory.mktemp("stream") / "stream.so"
    subprocess.run(["gcc", *STRICT, "-shared", "-fPIC", "-o", str(out), *SOURCES], check=True)
    return ctypes.CDLL(str(out))


def expected(raw: bytes, stops: list[str]) -> tuple[str, int]:
    """The text up to the first stop string, and the status."""
    for end in range(len(raw) + 1):  # a stop string counts as soon as it is complete
        found = [raw[:end].find(s.encode()) for s in stops if s.encode() in raw[:end]]
        if found:
            return raw[: min(found)].decode("utf-8", "replace"), STOPPED
    return raw.decode("utf-8", "replace"), ENDED


def test_equals_python(library: ctypes.CDLL) -> None:
    """Random bytes, of which many are parts of characters and of stop strings, one token a byte."""
    words = table()
    parts = [b"ab", b"a", b"ba", "\u20ac".encode(), "\U0001f600".encode(), b"\xf0\x9f", b"\xe2", b"\x80"]
    parts += [b"\xed\xa0\x80", b"\xf4\x90", b"\xc0", b"\xff", b"STOP", b"ST", b"\n\n", b"\n"]
    stopped = 0
    for _ in range(500):
        raw = b"".join(parts[int(k)] for k in RANDOM.integers(0, len(parts), int(RANDOM.integers(0, 12))))
        some = RANDOM.permutation(np.array(["STOP", "aba", "\u20ac\U0001f600", "\n\n", "STX"], object))
        stops = [str(s) for s in some[: int(RANDOM.integers(0, 4))]]
        stream, shown = TextStream(library, words.ctypes.data, stops), ""
        want, status = expected(raw, stops)
        for byte in raw:
            piece = stream.put(BYTES + byte)
            assert "\ufffd" in want or "\ufffd" not in piece
            shown += piece
            assert want.startswith(shown)
            if stream.status != GOING:
                break
        shown += stream.finish()
        assert (shown, stream.status) == (want, status), (raw, stops)
        assert (stream.put(BYTES), stream.finish()) == ("", "")
        stopped += status == STOPPED
    assert 50 < stopped < 450


def test_nothing_waits_for_long(library: ctypes.CDLL) -> None:
    """Text is shown at once where it begins no stop string."""
    stream = TextStream(library, (words := table()).ctypes.data, ["</s>", "xyz"])
    assert [stream.put(BYTES + b) for b in b"a<b</sxy"] == ["a", "", "<b", "", "", "", "</s", ""]
    assert stream.finish() == "xy" and words.size


def test_every_token_that_ends(library: ctypes.CDLL) -> None:
    """The one that the file names for texts, the one for turns, and a control token that is known to end."""
    base = metadata()
    tokens = [*base["tokenizer.ggml.tokens"], "<|im_end|>", "<turn>", "<|end|>"]  # type: ignore[misc]
    count = len(tokens)
    kinds = [3, 3] + [1] * (count - 5) + [3, 3, 1]
    words = table(**{
        "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": kinds, "tokenizer.ggml.eot_token_id": count - 2,
    })  # fmt: skip
    ends = [k for k in range(count) if TextStream(library, words.ctypes.data).put(k) is not None and library.ec_is_end(
        ctypes.c_void_p(words.ctypes.data), k)]  # fmt: skip
    assert ends == [1, count - 3, count - 2]  # "<|end|>" is a text here, no control token
    stream = TextStream(library, words.ctypes.data, ["hex"])
    assert [stream.put(k) for k in (BYTES + ord("h"), count - 2)] == ["", "h"] and stream.status == ENDED


def test_refused(library: ctypes.CDLL) -> None:
    words = table()
    for stops in ([""], ["a\0"], ["x" * 1025], ["x"] * 65):
        with pytest.raises(UsageError, match="stop strings"):
            TextStream(library, words.ctypes.data, stops)
    with pytest.raises(UsageError, match="outside the vocabulary"):
        TextStream(library, words.ctypes.data).put(10**6)
    with pytest.raises(UsageError, match="outside the vocabulary"):
        TextStream(library, words.ctypes.data).put(-1)


MAIN = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ec_stream.h"
int main(void) {
  FILE *f = fopen("table.bin", "rb");
  static _Alignas(8) unsigned char table[1 << 20];
  if (!f || !fread(table, 1, sizeof table, f)) return 1;
  const char *const stops[] = {"aab", "\xe2\x82\xac", "hello"};
  for (int i = 0; i < 300; ++i) {
    const size_t size = i % 3 ? EC_STREAM_BYTES(5) : 16;
    ec_stream s = {table, stops, 3, malloc(size), size, 0, 0};
    size_t length;
    const char *text;
    for (int k = 0; k < 60; ++k) {
      const int32_t token = 2 + (rand() % 3 ? "ab\xe2\x82"[rand() % 4] & 0xff : rand() % 258);
      if (ec_stream_put(&s, token, &text, &length)) break;
      for (size_t b = 0; b < length; ++b) if (!text[b] && token != 2) return 2;
    }
    ec_stream_finish(&s, &text, &length);
    if (s.held) return 3;
    free(s.memory);
  }
  fclose(f);
  return 0;
}
"""


def test_stays_inside_its_buffers(tmp_path: Path) -> None:
    (tmp_path / "table.bin").write_bytes(table().tobytes())
    (tmp_path / "main.c").write_text(MAIN)
    flags = [*STRICT, "-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{LANGUAGE}"]
    subprocess.run(["gcc", *flags, "main.c", *SOURCES, "-o", "main"], cwd=tmp_path, check=True)
    subprocess.run([str(tmp_path / "main")], cwd=tmp_path, check=True)

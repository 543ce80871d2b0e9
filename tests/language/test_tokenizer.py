"""Tokenizers against the libraries that users have: byte-level BPE with four ways to split, and SentencePiece."""

from __future__ import annotations

import ctypes
import io
import json
import subprocess
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from chance import RANDOM
from compiled import STRICT
from gguf_files import gguf_file, llama

import edgec
from edgec.artifact.network import Network
from edgec.artifact.session import Session
from edgec.artifact.tokenizer import Tokenizer
from edgec.errors import ModelError, UsageError
from edgec.frontend.gguf import parse
from edgec.frontend.gguf.vocabulary import vocabulary_of
from edgec.frontend.language import vocabulary as v
from edgec.frontend.language.table import read, table_of, written
from edgec.report import build as build_page

ROOT = Path(__file__).resolve().parents[2]
C = ROOT / "codegen_templates" / "language" / "ec_tokenizer.c"
LINES = 600
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
SCRIPTS = [
    (0x20, 0x7E), (0xA0, 0x24F), (0x370, 0x5FF), (0x600, 0x6FF), (0x900, 0xDFF), (0x1100, 0x11FF), (0x2000, 0x27BF),
    (0x3000, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0x1F300, 0x1FAFF), (0x300, 0x36F), (0, 0x1F),
    (0x2150, 0x218F), (0xFF00, 0xFFEF),
]  # fmt: skip
WORDS = [
    "the",
    "of",
    "and",
    "I'm",
    "it's",
    "we'll",
    "they'VE",
    "2026",
    "12345",
    "3.14",
    "hello",
    "World",
    "naïve",
    "'s",
    "'S",
    "'ſ",
    "''s",
    "can't",
    "<|end|>",
    "<|en",
    "x++",
    "foo(bar)",
    "😀",
    "👩\u200d👧",
    "①②Ⅷ",
    "٣٤",
    "▁x",
]
BLANKS = [" ", "  ", "\n", "\n\n", "\t", " \n ", "\r\n", "   \u3000", "\u00a0", "\u2028", "\x0b", "\x1c", "\x85"]


def _pick(items: list[str]) -> str:
    return items[int(RANDOM.integers(0, len(items)))]


def line() -> str:
    """Mixed scripts, emoji, numbers, all kinds of blanks, long runs of one character."""
    out = ""
    for _ in range(int(RANDOM.integers(1, 14))):
        kind = RANDOM.random()
        if kind < 0.4:
            out += _pick(WORDS)
        elif kind < 0.6:
            out += _pick(BLANKS) * int(RANDOM.integers(1, 5))
        elif kind < 0.95:
            low, high = SCRIPTS[int(RANDOM.integers(0, len(SCRIPTS)))]
            codes = map(chr, RANDOM.integers(low, high + 1, int(RANDOM.integers(1, 9))).tolist())
            out += "".join(c for c in codes if unicodedata.category(c) not in ("Cn", "Cs"))
        else:
            out += _pick([*"ab -=."]) * int(RANDOM.integers(1, 300))
        out += " " * int(RANDOM.integers(0, 2))
    return out


def corpus() -> str:
    return "\n".join((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "ARCHITECTURE.md"))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    out = tmp_path_factory.mktemp("tokenizer") / "tokenizer.so"
    subprocess.run(["gcc", *STRICT, "-shared", "-fPIC", "-o", str(out), str(C)], check=True)
    found = ctypes.CDLL(str(out))
    found.ec_encode.restype = ctypes.c_size_t
    return found


def encoder(library: ctypes.CDLL, vocabulary: v.Vocabulary) -> Callable[[str, int], list[int]]:
    table = np.frombuffer(read(written(table_of(vocabulary))), np.uint8).copy()

    def encode(text: str, flags: int) -> list[int]:
        raw = text.encode()
        tokens, scratch = np.full(len(raw) + 8, -7, np.int32), np.empty(8 * (len(raw) + 8), np.uint64)
        count = library.ec_encode(
            ctypes.c_void_p(table.ctypes.data), raw, ctypes.c_size_t(len(raw)), flags,
            ctypes.c_void_p(tokens.ctypes.data), ctypes.c_size_t(len(tokens)), ctypes.c_void_p(scratch.ctypes.data),
        )  # fmt: skip
        assert (tokens[count:] == -7).all()
        return list(map(int, tokens[:count]))

    return encode


@pytest.fixture(scope="module")
def trained() -> tuple[dict[str, int], list[bytes]]:
    """A byte-level BPE of 1500 tokens, without tokens for two bytes: ids by token, and the merges."""
    tokenizers = pytest.importorskip("tokenizers", reason="the tokenizers package is not installed")
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = [c for c in tokenizers.pre_tokenizers.ByteLevel.alphabet() if c not in "\u0101\u0102"]
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=1500, special_tokens=["<|end|>"], initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator([corpus()], trainer)
    merges = json.loads(made.to_str())["model"]["merges"]
    return made.get_vocab(), [" ".join(pair).encode() for pair in merges]


@pytest.mark.parametrize("splitter", ["gpt-2", "smollm", "llama-bpe", "qwen2"])
def test_byte_level(splitter: str, library: ctypes.CDLL, trained: tuple[dict[str, int], list[bytes]]) -> None:
    import tokenizers
    from tokenizers import pre_tokenizers as split

    ids, merges = trained
    whole = splitter in v.WHOLE_PIECES
    reference = tokenizers.Tokenizer(
        tokenizers.models.BPE(ids, [tuple(m.decode().split(" ")) for m in merges], ignore_merges=whole)
    )
    usual, plain = split.ByteLevel(add_prefix_space=False), split.ByteLevel(add_prefix_space=False, use_regex=False)
    regex = LLAMA3 if splitter == "llama-bpe" else LLAMA3.replace("{1,3}", "")
    reference.pre_tokenizer = {
        "gpt-2": usual,
        "smollm": split.Sequence([split.Digits(individual_digits=True), usual]),
    }.get(splitter) or split.Sequence([split.Split(tokenizers.Regex(regex), "isolated"), plain])
    reference.add_special_tokens([tokenizers.AddedToken("<|end|>", special=True, normalized=False)])
    tokens = [t.encode() for t, _ in sorted(ids.items(), key=lambda item: item[1])]
    kinds = [v.CONTROL if t == b"<|end|>" else v.NORMAL for t in tokens]
    texts, pairs, bytes_of = v.byte_level(tokens, kinds, merges)
    encode = encoder(library, v.Vocabulary(texts, tuple(kinds), pairs, bytes_of, v.SPLITTERS[splitter], False, whole))
    for text in (line() for _ in range(LINES)):
        assert encode(text, 1) == reference.encode(text, add_special_tokens=False).ids, repr(text)


def test_sentence_pieces(library: ctypes.CDLL, tmp_path: Path) -> None:
    sentencepiece = pytest.importorskip("sentencepiece", reason="the sentencepiece package is not installed")
    model = io.BytesIO()
    (tmp_path / "corpus.txt").write_text(corpus())
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "corpus.txt"), model_writer=model, vocab_size=1500, model_type="bpe", byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, minloglevel=2,
        user_defined_symbols=["<tool>"], allow_whitespace_only_pieces=True, character_coverage=0.995,
    )  # fmt: skip
    reference = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    count = reference.get_piece_size()
    tokens = [reference.id_to_piece(k).encode() for k in range(count)]
    tests = ((v.CONTROL, reference.is_control), (v.UNKNOWN, reference.is_unknown), (v.BYTE, reference.is_byte),
             (v.UNUSED, reference.is_unused), (v.USER, lambda k: tokens[k] == b"<tool>"))  # fmt: skip
    kinds = [next((kind for kind, test in tests if test(k)), v.NORMAL) for k in range(count)]
    texts, pairs, bytes_of = v.sentence_pieces(tokens, kinds, [reference.get_score(k) for k in range(count)])
    vocabulary = v.Vocabulary(texts, tuple(kinds), pairs, bytes_of, 0, True, False, True, 1, False, 2, 0)
    encode, plain = encoder(library, vocabulary), encoder(library, replace(vocabulary, prefix_space=False))
    for text in (line() for _ in range(LINES)):
        assert encode(text, 0) == reference.encode(text), repr(text)
    assert plain("a", 0) != encode("a", 0)


def test_blanks_of_the_user_never_merge() -> None:
    """Gemma's tokens of several blanks are found in a text as they are; signs for blanks do not merge into them."""
    tokens = ["▁".encode(), b"a", "▁a".encode(), b"  "]
    _, pairs, _ = v.sentence_pieces(tokens, [v.NORMAL, v.NORMAL, v.NORMAL, v.USER], [-3.0, -2.0, -1.0, 0.0])
    assert {pair: token for pair, (_, token) in pairs.items()} == {(0, 1): 2}


def metadata(**more: object) -> dict[str, object]:
    """A vocabulary of bytes in GGUF, with a few merges."""
    printable = [chr(b) if 33 <= b < 127 or 161 <= b < 173 or b > 173 else "" for b in range(256)]
    rest = iter(range(256, 512))
    letters = [c or chr(next(rest)) for c in printable]
    tokens = ["<s>", "</s>", *letters, "he", "ll", "hell", "hello"]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3, 3] + [1] * (len(tokens) - 2),
        "tokenizer.ggml.merges": ["h e", "l l", "he ll", "hell o"],
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 1,
        "tokenizer.ggml.add_bos_token": True,
        **more,
    }


def test_in_an_artifact(tmp_path: Path) -> None:
    """From a file to a folder and back, beside the session that takes the tokens; streamed in whole characters."""
    path, face = tmp_path / "lm.gguf", "\U0001f600"
    path.write_bytes(llama("Q8_0", 1, vocabulary=262, **metadata()))
    built = edgec.build(path, tmp_path / "out", context=64, name="lm")
    model = build_page.record(built)["language_model"]
    assert model["context"] == 64 and model["cache_bytes"] == 2 * 4 * 2 * 64 * (64 + 63)
    with Network(tmp_path / "out") as network:
        tokenizer = Tokenizer(network)
        text = f"hello h\u00e9 {face}</s>"
        plain, special = tokenizer.encode(text, begin=True), tokenizer.encode(text, special=True)
        assert plain[0] == tokenizer.begin == 0 and special[-1] == tokenizer.end == 1
        assert special[0] == 261 and tokenizer.decode(plain) == text
        assert tokenizer.decode(special, special=True) == text
        pieces = list(tokenizer.stream(plain))
        assert "".join(pieces) == text and face in pieces
        assert b"".join(map(tokenizer.bytes_of, tokenizer.encode(b"\xff\x80h"))) == b"\xff\x80h"
        assert list(tokenizer.stream(tokenizer.encode(face)[:2])) == ["\ufffd"]
        with pytest.raises(UsageError, match="outside the vocabulary"):
            tokenizer.bytes_of(262)
        Session(network).prefill(plain)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"tokenizer.ggml.model": "t5"}, "kind 't5'"),
        ({"tokenizer.ggml.pre": "deepseek-coder"}, "'deepseek-coder'"),
        ({"tokenizer.ggml.token_type": [1, 2]}, "for each of"),
        ({"tokenizer.ggml.eos_token_id": 10**6}, "outside the vocabulary"),
        ({"tokenizer.ggml.tokens": 3}, "no such value"),
    ],
)
def test_refused(more: dict[str, object], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        vocabulary_of(parse(gguf_file({"general.architecture": "llama", **metadata(**more)}, {})))


MAIN = r"""
#include <stdio.h>
#include <stdlib.h>
#include "ec_tokenizer.h"
int main(void) {
  FILE *f = fopen("table.bin", "rb");
  static _Alignas(8) unsigned char table[1 << 20];
  if (!f || !fread(table, 1, sizeof table, f)) return 1;
  srand(1);
  for (int i = 0; i < 3000; ++i) {
    const size_t n = (size_t)(rand() % 60);
    char *text = malloc(n + !n);
    for (size_t k = 0; k < n; ++k) text[k] = (char)(rand() % 3 ? "hello \n\xe2\x96\x81"[rand() % 10] : rand());
    int32_t *tokens = malloc(4 * n + 4);
    void *scratch = malloc(EC_ENCODE_BYTES(n));
    const size_t count = ec_encode(table, text, n, rand() & 3, tokens, n + 1, scratch);
    size_t bytes = 0, length;
    for (size_t k = 0; k < count && k < n + 1; ++k) bytes += (ec_decode(table, tokens[k], 1, &length), length);
    if (count > n + 1 || bytes < n || ec_whole_characters(text, n) > n) return 2;
    free(text), free(tokens), free(scratch);
  }
  fclose(f);
  return 0;
}
"""


def test_stays_inside_its_buffers(tmp_path: Path) -> None:
    """Random bytes, most of them no UTF-8, under the sanitizers: scratch and tokens are as large as was asked for."""
    model = parse(gguf_file({"general.architecture": "llama", **metadata(**{"tokenizer.ggml.pre": "llama-bpe"})}, {}))
    vocabulary = vocabulary_of(model)
    assert vocabulary is not None
    (tmp_path / "table.bin").write_bytes(table_of(vocabulary))
    (tmp_path / "main.c").write_text(MAIN)
    flags = [*STRICT, "-fsanitize=address,undefined", "-fno-sanitize=null,object-size", f"-I{C.parent}"]
    subprocess.run(["gcc", *flags, "main.c", str(C), "-o", "main"], cwd=tmp_path, check=True)
    subprocess.run([str(tmp_path / "main")], cwd=tmp_path, check=True)

"""Vocabularies in llama2.c's form: tokens of texts as its own encoder finds them, and files that are refused."""

from __future__ import annotations

import struct
from itertools import pairwise
from pathlib import Path

import onnx
import pytest
from chance import RANDOM
from onnx_decoders import decoder

import edgec
from edgec.artifact.network import Network
from edgec.artifact.tokenizer import Tokenizer
from edgec.errors import ModelError
from edgec.frontend.language.llama2c import read_vocabulary

PIECES = [
    b" t",
    b"he",
    b" the",
    b"in",
    b"re",
    b" re",
    b"ing",
    b"\xc3\xa4",
    b"\n",
    *(bytes([c]) for c in range(32, 123)),
]
TEXTS = (b"<unk>", b"\n<s>\n", b"\n</s>\n", *(b"<0x%02X>" % b for b in range(256)), *PIECES)


def content(texts: tuple[bytes, ...] = TEXTS) -> bytes:
    scores = [0.0] * 259 + [-float(k) for k in range(len(texts) - 259)]
    return struct.pack("<i", 8) + b"".join(struct.pack("<fi", s, len(t)) + t for s, t in zip(scores, texts))


def encoded(text: str) -> list[int]:
    """As `encode` of llama2.c has it: characters, or bytes, of which the best pair merges until none does."""
    ids = {t: k for k, t in reversed([*enumerate(TEXTS)])}
    found = [1, *([ids[b" "]] if text else [])]
    for raw in (c.encode() for c in text):
        found += [ids[raw]] if raw in ids else [byte + 3 for byte in raw]
    while True:
        merged = [ids.get(TEXTS[a] + TEXTS[b]) for a, b in pairwise(found)]
        best = min((token, place) for place, token in enumerate([*merged, 1 << 30]) if token is not None)
        if best[0] == 1 << 30:
            return found
        found[best[1] : best[1] + 2] = [best[0]]


def test_beside_a_decoder(tmp_path: Path) -> None:
    model = decoder("plain", vocabulary=len(TEXTS))
    onnx.save(model, str(tmp_path / "lm.onnx"))
    (tmp_path / "tokenizer.bin").write_bytes(content())
    edgec.build(tmp_path / "lm.onnx", tmp_path / "out", context=24, name="lm")
    with Network(tmp_path / "out") as network:
        tokenizer = Tokenizer(network)
        drawn = ["".join(RANDOM.choice([*"the rein \n", "ä", "é", "😀"], 40)) for _ in range(50)]
        for text in ["", " ", "  the there", "rethe ring", *drawn]:
            tokens = tokenizer.encode(text, begin=True)
            assert tokens == encoded(text), text
            assert tokenizer.decode(tokens) in (text, f" {text}")


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "it has 0 tokens"),
        (content()[:-1], "token 358 has a length"),
        (content() + b"\0", "it ends inside token 359"),
        (content(TEXTS[:-1]), "it has 358 tokens of 359"),
        (content((*TEXTS[:3], b"<0x01>", *TEXTS[4:])), "other ones than bytes"),
        (struct.pack("<ifi", 8, 0.0, -1), "token 0 has a length of -1"),
        (struct.pack("<ifi", 8, float("nan"), 0), "a score of nan"),
        (struct.pack("<ifi", 8, 0.0, 1 << 30), "a length of 1073741824"),
        (b"x" * (1 << 21), "longer than 359 tokens can be"),
    ],
)
def test_refused(raw: bytes, message: str, tmp_path: Path) -> None:
    assert len(TEXTS) == 359
    (tmp_path / "tokenizer.bin").write_bytes(raw)
    with pytest.raises(ModelError, match=message):
        read_vocabulary(tmp_path / "tokenizer.bin", len(TEXTS))


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    path, whole = tmp_path / "tokenizer.bin", content()
    for length in (*range(64), *range(len(whole) - 64, len(whole))):
        path.write_bytes(whole[:length])
        with pytest.raises(ModelError, match=r"no vocabulary as llama2\.c writes it"):
            read_vocabulary(path, len(TEXTS))


def test_merges_come_by_their_scores(tmp_path: Path) -> None:
    """Every way to put a piece together of two, the better piece first."""
    (tmp_path / "tokenizer.bin").write_bytes(content())
    found = read_vocabulary(tmp_path / "tokenizer.bin", len(TEXTS))
    numbers = {t: k for k, t in reversed([*enumerate(TEXTS)])}
    wanted = {
        (numbers[t[:cut]], numbers[t[cut:]]): numbers[t]
        for t in PIECES
        for cut in range(1, len(t))
        if t[:cut] in numbers and t[cut:] in numbers
    }
    assert {pair: token for pair, (_, token) in found.pairs.items()} == wanted
    ranked = sorted(found.pairs.values())
    assert [token for _, token in ranked] == sorted(wanted.values())

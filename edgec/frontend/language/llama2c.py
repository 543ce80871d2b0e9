"""The vocabulary in a tokenizer.bin, as llama2.c writes it: a score and a text for each token."""

from __future__ import annotations

import math
import struct
from pathlib import Path

from edgec.errors import ModelError
from edgec.frontend.language.vocabulary import BYTE, CONTROL, NORMAL, SPLITTERS, UNKNOWN, Vocabulary, sentence_pieces
from edgec.untrusted import reason, regular

FILE = "tokenizer.bin"
#: A longer token is a mistake or an attack.
_LONGEST = 1 << 12
_FIRST_BYTE = 3


def read_vocabulary(path: Path, count: int) -> Vocabulary:
    """The vocabulary of a file, for a network of ``count`` tokens: unknown, begin, end, 256 bytes, pieces of texts.

    Raises ModelError where the file is not of this form.
    """
    try:
        if regular(path).stat().st_size > 4 + count * (8 + _LONGEST):
            raise _refused(path, f"it is longer than {count} tokens can be")
        content = path.read_bytes()
    except OSError as error:
        raise ModelError(f"cannot be read: {reason(error)}", where=str(path)) from None
    tokens: list[bytes] = []
    scores: list[float] = []
    at = 4
    while at < len(content):
        if at + 8 > len(content):
            raise _refused(path, f"it ends inside token {len(tokens)}")
        score, length = struct.unpack_from("<fi", content, at)
        at += 8
        if not 0 <= length <= min(_LONGEST, len(content) - at) or not math.isfinite(score):
            raise _refused(path, f"token {len(tokens)} has a length of {length} and a score of {score:g}")
        tokens.append(content[at : at + length].replace(b" ", "▁".encode()))
        scores.append(score)
        at += length
    named = [b"<0x%02X>" % byte for byte in range(256)]
    if len(tokens) != count or tokens[_FIRST_BYTE : _FIRST_BYTE + 256] != named:
        raise _refused(path, f"it has {len(tokens)} tokens of {count}, or other ones than bytes behind the first three")
    tokens[1:_FIRST_BYTE] = [b"<s>", b"</s>"]
    kinds = (UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, *[NORMAL] * (count - _FIRST_BYTE - 256))
    texts, pairs, bytes_of = sentence_pieces(tokens, kinds, scores)
    return Vocabulary(
        texts, kinds, pairs, bytes_of, SPLITTERS["none"], has_characters=True, prefix_space=True,
        begin=1, adds_begin=True, end=2, unknown=0, ends=(1, 2),
    )  # fmt: skip


def _refused(path: Path, what: str) -> ModelError:
    return ModelError(
        f"no vocabulary as llama2.c writes it: {what}",
        hint=f"without {FILE} beside it, the model is built without a tokenizer",
        where=str(path),
    )

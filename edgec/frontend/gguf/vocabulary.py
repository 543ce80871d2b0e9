"""The vocabulary in the metadata of a GGUF file."""

from __future__ import annotations

import numpy as np

from edgec.errors import ModelError
from edgec.frontend.gguf.reader import GgufModel
from edgec.frontend.language.vocabulary import (
    CONTROL,
    ENDS,
    NORMAL,
    SPLITTERS,
    WHOLE_PIECES,
    Vocabulary,
    byte_level,
    sentence_pieces,
)
from edgec.text import listed, printable

_KEY = "tokenizer.ggml"
#: No token is longer than this: a longer one is a mistake or an attack.
_LONGEST = 1 << 12


def vocabulary_of(model: GgufModel) -> Vocabulary | None:
    """The vocabulary of a file; None where it has none.

    Raises ModelError for kinds of vocabularies and ways of splitting that are not supported.
    """
    if f"{_KEY}.model" not in model.metadata:
        return None
    kind = model.text(f"{_KEY}.model")
    if kind == "no_vocab":
        return None
    tokens: tuple[bytes, ...] = model.value(f"{_KEY}.tokens", tuple)
    if not tokens or max(map(len, tokens)) > _LONGEST:
        raise ModelError("the file has no tokens, or longer ones than there are", where=model.where)
    kinds = tuple(_numbers(model, "token_type", len(tokens), NORMAL).astype(np.int64).tolist())
    if kind == "gpt2":
        splitter = model.value(f"{_KEY}.pre", str, "gpt-2")
        if splitter not in SPLITTERS:
            raise ModelError(
                f"texts are split as for '{printable(splitter)}', which is not supported",
                hint=f"supported are {listed(sorted(SPLITTERS))}",
                where=model.where,
            )
        texts, pairs, bytes_of = byte_level(tokens, kinds, model.value(f"{_KEY}.merges", tuple))
    elif kind == "llama":
        splitter = "none"
        scores = _numbers(model, "scores", len(tokens), 0.0).astype(np.float64).tolist()
        texts, pairs, bytes_of = sentence_pieces(tokens, kinds, scores)
    else:
        raise ModelError(f"the vocabulary is of kind '{printable(kind)}', which is not supported", where=model.where)
    return Vocabulary(
        texts, kinds, pairs, bytes_of, SPLITTERS[splitter], kind == "llama", splitter in WHOLE_PIECES,
        bool(model.value(f"{_KEY}.add_space_prefix", bool, kind == "llama")) and kind == "llama",
        _token(model, "bos", len(tokens)),
        bool(model.value(f"{_KEY}.add_bos_token", bool, kind == "llama" or splitter in WHOLE_PIECES)),
        _token(model, "eos", len(tokens)), _token(model, "unknown", len(tokens)), _ends(model, tokens, kinds),
    )  # fmt: skip


def _ends(model: GgufModel, tokens: tuple[bytes, ...], kinds: tuple[int, ...]) -> tuple[int, ...]:
    """Tokens that end a text: those that the file names, and control tokens that are known to."""
    named = (_token(model, name, len(tokens)) for name in ("eos", "eot", "eom"))
    known = (k for k, (token, kind) in enumerate(zip(tokens, kinds)) if kind == CONTROL and token in ENDS)
    return tuple(sorted({*(k for k in named if k is not None), *known}))


def _numbers(model: GgufModel, name: str, count: int, default: float) -> np.ndarray:
    found: np.ndarray = model.value(f"{_KEY}.{name}", np.ndarray, np.full(count, default))
    if found.shape != (count,) or not np.isfinite(found.astype(np.float64)).all():
        raise ModelError(f"'{_KEY}.{name}' does not have a number for each of {count} tokens", where=model.where)
    if name == "token_type" and not ((found >= 0) & (found < 256)).all():
        raise ModelError(f"'{_KEY}.{name}' has kinds of tokens that there are not", where=model.where)
    return found


def _token(model: GgufModel, name: str, count: int) -> int | None:
    if f"{_KEY}.{name}_token_id" not in model.metadata:
        return None
    token = model.integer(f"{_KEY}.{name}_token_id")
    if not 0 <= token < count:
        raise ModelError(f"token {token} ({name}) is outside the vocabulary of {count}", where=model.where)
    return token

"""The vocabulary of a language model, whatever file it came from: texts of tokens, and which pairs merge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgec.errors import ModelError

#: Kinds of tokens, by the numbers that GGUF has for them.
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
#: Ways to split a text into pieces before anything is merged, by their names in GGUF; the number is the table's.
SPLITTERS = {
    "none": 0, "gpt-2": 1, "gpt2": 1, "smollm": 2, "codeshell": 2, "refact": 2,
    "llama-bpe": 3, "llama3": 3, "llama-v3": 3, "qwen2": 4,
}  # fmt: skip
#: Of these, the ones that take a piece that is a token as it is.
WHOLE_PIECES = frozenset({"llama-bpe", "llama3", "llama-v3"})

#: Control tokens that end a text or a turn, by the texts that models have for them; files name one of them at most.
ENDS = frozenset(
    b"</s> <|endoftext|> <|end_of_text|> <|eot_id|> <|eom_id|> <|im_end|> <|end|> <end_of_turn> <|endofturn|>".split()
)


@dataclass(frozen=True)
class Vocabulary:
    """``texts`` are the bytes of each token; ``pairs`` maps two neighbors to (rank, merged token), the least first.

    ``byte_tokens`` are the 256 tokens of single bytes, -1 where there is none. With ``has_characters`` the symbols that
    merge are characters (SentencePiece), otherwise bytes. ``prefix_space``: a text begins with a space.
    """

    texts: tuple[bytes, ...]
    kinds: tuple[int, ...]
    pairs: Mapping[tuple[int, int], tuple[int, int]]
    byte_tokens: tuple[int, ...]
    splitter: int
    has_characters: bool = False
    whole_pieces: bool = False
    prefix_space: bool = False
    begin: int | None = None  # the token before a text, and whether it is added
    adds_begin: bool = False
    end: int | None = None
    unknown: int | None = None
    ends: tuple[int, ...] = ()  # further tokens that end a text: of a turn, of a message


def byte_level(
    tokens: Sequence[bytes], kinds: Sequence[int], merges: Sequence[bytes]
) -> tuple[tuple[bytes, ...], dict[tuple[int, int], tuple[int, int]], tuple[int, ...]]:
    """Texts, pairs and byte tokens of a byte-level BPE, whose tokens are written with a printable character a byte."""
    written = {t: k for k, t in reversed([*enumerate(tokens)])}
    pairs: dict[tuple[int, int], tuple[int, int]] = {}
    for rank, merge in enumerate(merges):
        left, _, right = merge.partition(b" ")
        found = written.get(left), written.get(right), written.get(left + right)
        if None not in found:
            pairs.setdefault((found[0], found[1]), (rank, found[2]))  # type: ignore[arg-type]
    letters = _printable_bytes()
    texts = tuple(t if kind in (CONTROL, USER) else _as_bytes(t, letters) for t, kind in zip(tokens, kinds))
    single = {letter.encode(): byte for letter, byte in letters.items()}
    bytes_of = [-1] * 256
    for letter, byte in single.items():
        bytes_of[byte] = written.get(letter, -1)
    return texts, pairs, tuple(bytes_of)


def sentence_pieces(
    tokens: Sequence[bytes], kinds: Sequence[int], scores: Sequence[float]
) -> tuple[tuple[bytes, ...], dict[tuple[int, int], tuple[int, int]], tuple[int, ...]]:
    """The same of a SentencePiece vocabulary: two tokens merge where their texts together are one."""
    texts, bytes_of = _pieces(tokens, kinds)
    # Blanks have a sign where texts merge: a token of the user's with blanks is found in the text, and never merged.
    mergeable = [k for k, t in enumerate(tokens) if kinds[k] in (NORMAL, USER) and b" " not in t]
    merging = {texts[k]: k for k in reversed(mergeable)}
    order = {score: rank for rank, score in enumerate(sorted({-s for s in scores}))}
    pairs: dict[tuple[int, int], tuple[int, int]] = {}
    for text, k in merging.items():
        for cut in range(1, len(text)):
            left, right = merging.get(text[:cut]), merging.get(text[cut:])
            if left is not None and right is not None:
                pairs[left, right] = order[-scores[k]], k
    return tuple(texts), pairs, tuple(bytes_of)


def merged_pieces(
    tokens: Sequence[bytes], kinds: Sequence[int], merges: Sequence[tuple[bytes, bytes]]
) -> tuple[tuple[bytes, ...], dict[tuple[int, int], tuple[int, int]], tuple[int, ...]]:
    """The same of such a vocabulary whose file lists the merges."""
    texts, bytes_of = _pieces(tokens, kinds)
    numbers = {t: k for k, t in reversed([*enumerate(tokens)])}
    pairs: dict[tuple[int, int], tuple[int, int]] = {}
    for rank, (left, right) in enumerate(merges):
        found = numbers.get(left), numbers.get(right), numbers.get(left + right)
        if None not in found:
            pairs.setdefault((found[0], found[1]), (rank, found[2]))  # type: ignore[arg-type]
    return tuple(texts), pairs, tuple(bytes_of)


def _pieces(tokens: Sequence[bytes], kinds: Sequence[int]) -> tuple[list[bytes], list[int]]:
    """Texts of pieces, with blanks for their sign, and the tokens of bytes."""
    texts = [t.replace("▁".encode(), b" ") for t in tokens]
    bytes_of = [-1] * 256
    for k, (token, kind) in enumerate(zip(tokens, kinds)):
        if kind == BYTE:
            try:
                byte = int(token[1:-1].decode("ascii"), 16)
            except ValueError:
                byte = -1
            if not 0 <= byte < 256:
                raise ModelError(f"token {k} is of the kind of bytes, and names none")
            bytes_of[byte], texts[k] = k, bytes([byte])
    return texts, bytes_of


def _printable_bytes() -> dict[str, int]:
    """The character that byte-level vocabularies write for each byte: itself where it is printable, else from 256."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    return {**{chr(b): b for b in printable}, **{chr(256 + k): b for k, b in enumerate(others)}}


def _as_bytes(token: bytes, letters: Mapping[str, int]) -> bytes:
    text = token.decode("utf-8", "replace")
    return bytes(letters[c] for c in text) if all(c in letters for c in text) else token

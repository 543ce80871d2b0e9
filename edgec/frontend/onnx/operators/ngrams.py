"""TfIdfVectorizer: counts of given token sequences in a text of token numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgec.frontend.onnx.call import Call, onnx
from edgec.frontend.onnx.strings import Strings, of_one_width, rows_of
from edgec.frontend.values import Value, check_table, concat, constant, full, select


@onnx("TfIdfVectorizer")
def tf_idf_vectorizer(call: Call) -> Value:
    """Counts, or weights, of n-grams whose tokens stand 1 to ``max_skip_count`` + 1 apart."""
    tokens, pool = _numbered(call)
    x = tokens.reshape(1, tokens.shape[0]) if tokens.rank == 1 else tokens
    starts = [*call.required("ngram_counts"), len(pool)]
    columns = np.asarray(call.required("ngram_indexes"), np.int64)
    shortest, longest = call.required("min_gram_length"), call.required("max_gram_length")
    farthest = call.required("max_skip_count") + 1
    counts, known = [], 0
    placed: list[np.ndarray] = []
    for n in range(1, len(starts)):
        grams = np.asarray(pool[starts[n - 1] : starts[n]], np.int64).reshape(-1, n)
        if shortest <= n <= longest and len(grams):
            steps = range(1, (1 if n == 1 else farthest) + 1)
            counts.append(_occurrences(x, grams, steps))
            placed.append(columns[known : known + len(grams)])
        known += len(grams)
    width = int(columns.max()) + 1
    where = np.concatenate(placed) if placed else np.zeros(0, np.int64)
    check_table(len(where), width)
    onto = np.zeros((len(where), width), np.float32)
    onto[np.arange(len(where)), where] = 1
    y = concat(counts, 1) @ constant(onto) if counts else full((x.shape[0], width), 0.0, "f32")
    y = _weighted(call, y)
    return y.reshape(width) if tokens.rank == 1 else y


def _numbered(call: Call) -> tuple[Value, Sequence[int]]:
    """Tokens as numbers, and the n-grams of these: words are numbered by those that n-grams name, others are -1."""
    if not call.attribute("pool_strings"):
        return call[0], call.required("pool_int64s")
    pool = call.required("pool_strings")
    words = {word: k for k, word in enumerate(dict.fromkeys(pool))}
    given, known = of_one_width([call.strings(0), Strings(constant(rows_of(np.array([*words], object))))])
    same = given.unsqueeze(-2).equals(known).reduce("and", [-1], keep=False)
    numbered = select(same, constant(np.arange(len(words))), -1).reduce("max", [-1], keep=False)
    return numbered, [words[w] for w in pool]


def _occurrences(x: Value, grams: np.ndarray, steps: range) -> Value:
    """[text, n-gram] how often each occurs with its tokens so far apart, as f32."""
    count, n = grams.shape
    total = full((x.shape[0], count), 0.0, "f32")
    given = x.shape[1]
    if not isinstance(given, int):  # behind the last token stand some that are in no n-gram
        behind = full((x.shape[0], max(steps) * (n - 1)), int(grams.min()) - 1, x.dtype)
        x = concat([x, behind], 1)
    for step in steps:
        places = given - step * (n - 1) if isinstance(given, int) else given
        if isinstance(places, int) and places <= 0:
            break
        hit: Value | None = None
        for j in range(n):
            tokens = x.part(1, j * step, j * step + places).cast("i64").unsqueeze(-1)
            same = tokens.equals(constant(grams[:, j]))
            hit = same if hit is None else hit & same
        assert hit is not None
        total = total + hit.cast("f32").sum([1], keep=False)
    return total


def _weighted(call: Call, counts: Value) -> Value:
    """By how often (TF), whether at all (IDF), or both; each column with its weight."""
    mode, weights = call.required("mode"), call.attribute("weights")
    if mode == "TF":
        return counts
    y = (counts > 0).cast("f32") if mode == "IDF" else counts
    return y if not weights else y * constant(np.asarray(weights, np.float32))

"""Operators on strings, which are rows of bytes: each is arithmetic on these."""

from __future__ import annotations

from math import prod

import numpy as np

from edgec.frontend.onnx import bounded
from edgec.frontend.onnx.call import Call, on_strings, onnx
from edgec.frontend.onnx.letter_case import changed, is_possible
from edgec.frontend.onnx.operators.classical import ML
from edgec.frontend.onnx.regular import table
from edgec.frontend.onnx.sequences import Item
from edgec.frontend.onnx.strings import Strings, of_one_width
from edgec.frontend.values import (
    Value,
    check_table,
    clip,
    concat,
    constant,
    emit,
    full,
    iota,
    maximum,
    minimum,
    select,
    size,
)
from edgec.ir import expr as X
from edgec.ir.expr import Extent
from edgec.ir.index import upper

#: What separates words where no delimiter is given: the blanks of ASCII.
_BLANKS = (9, 10, 11, 12, 13, 28, 29, 30, 31, 32)
#: Nodes that one operator may become: more take minutes to plan.
_MOST_STEPS = 2048
#: Operators that only move elements: what they do to positions, they do to strings.
_MOVES = (
    "Compress", "Concat", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Reshape", "ReverseSequence",
    "Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze", "Where",
)  # fmt: skip


@on_strings(*_MOVES)
@on_strings("ArrayFeatureExtractor", domain=ML)
def moved(call: Call) -> tuple[Strings, ...]:
    """The operator moves the positions of strings, then the strings are fetched."""
    given = [item for item in call.inputs if isinstance(item, Strings)]
    rows = [r.reshape(prod(r.shape[:-1]), r.shape[-1]) for r in of_one_width(given)]
    listed = concat(rows, 0)
    inputs: list[Item | None] = []
    before: Extent = 0
    for item in call.inputs:
        if isinstance(item, Strings):
            count = prod(item.shape)
            check_table(upper(count))
            inputs.append((iota(count, 0, 1) + size(before)).reshape(*item.shape))
            before = X.plain(before + count)
        else:
            inputs.append(item)
    results = call.on(inputs)
    return tuple(Strings(listed.gather(places, 0)) for places in results)


@on_strings("Shape", "Size")
def extents(call: Call) -> Value:
    given = call.strings(0)
    return call.on([given.rows.part(given.rows.rank - 1, 0, 1).squeeze(-1)])[0]


@on_strings("Equal")
def equal(call: Call) -> Value:
    x, y = of_one_width([call.strings(0), call.strings(1)])
    return x.equals(y).reduce("and", [-1], keep=False)


@onnx("StringConcat")
def string_concat(call: Call) -> Strings:
    """The bytes of the first string, and behind its end those of the second."""
    x, y = call.strings(0), call.strings(1)
    width = x.width + y.width
    shape = (x.lengths() + y.lengths()).shape
    check_table(*shape, width)
    after = iota(width, len(shape), len(shape) + 1) - x.lengths().broadcast(*shape).unsqueeze(-1)
    second = y.widened(y.width + 1).broadcast(*shape, y.width + 1)
    taken = emit("gather_elements", second, clip(after, 0, y.width), axis=len(shape))
    return Strings(select(after >= 0, taken, x.widened(width)))


@onnx("StringNormalizer")
def string_normalizer(call: Call) -> Strings:
    """Without the words that are named, in upper or lower case; one empty string where none is left."""
    x = call.strings(0)
    is_batch = len(x.shape) == 2 and x.shape[0] == 1
    if not is_batch and len(x.shape) != 1:
        raise call.error(f"strings of shape {list(x.shape)}", "they are [words] or [1, words]")
    rows = x.rows.squeeze(0) if is_batch else x.rows
    stop = Strings(constant(call.texts("stopwords"))) if call.attribute("stopwords") else None
    ignores_case = stop is not None and not call.attribute("is_case_sensitive")
    action = call.attribute("case_change_action", "NONE")
    if action not in ("LOWER", "UPPER", "NONE"):
        raise call.error(f"case_change_action '{action}' is none of LOWER, UPPER and NONE")
    for wanted in dict.fromkeys(case for case in (action, "LOWER" if ignores_case else "NONE") if case != "NONE"):
        call.require(is_possible(rows, wanted), "a letter has no upper or lower case of its own length")
    count: Value = constant(np.asarray(rows.shape[0], np.int64))
    if stop is not None:
        compared = Strings(changed(rows, "LOWER")) if ignores_case else Strings(rows)
        words, named = of_one_width([compared, Strings(changed(stop.rows, "LOWER")) if ignores_case else stop])
        same = words.unsqueeze(1).equals(named).reduce("and", [-1], keep=False)
        rows, count = bounded.compress(rows, ~same.reduce("or", [1], keep=False), 0)
    rows = changed(rows, action) if action != "NONE" else rows
    if rows.shape[0] == 0:
        rows = full((1, x.width), 0, "u8")
    rows = select(count > 0, rows, constant(np.zeros((), np.uint8)))
    rows = call.counted(rows, maximum(count, 1))
    return Strings(rows.unsqueeze(0) if is_batch else rows)


@onnx("StringSplit")
def string_split(call: Call) -> tuple[Strings, Value]:
    """The parts of each string, and how many there are; the data decide how many the longest list has."""
    x = call.strings(0)
    strings = prod(x.shape)
    delimiter, limit = call.attribute("delimiter", "").encode(), call.attribute("maxsplit")
    if limit is not None and limit < 0:
        limit = None
    rows = x.rows.reshape(strings, x.width)
    most = x.width // len(delimiter) + 1 if delimiter else (x.width + 1) // 2
    most = most if limit is None else min(most, limit + 1)
    if strings == 0:
        return Strings(full((*x.shape, 0, x.width), 0, "u8")), full(x.shape, 0, "i64")
    if 0 < len(delimiter) <= x.width and not rows.is_const:
        own = any(delimiter[:k] == delimiter[-k:] for k in range(1, len(delimiter)))
        _check_steps(call, len(delimiter) + (x.width * len(delimiter) if own else 0))
    part, counts = _by_delimiter(rows, delimiter, limit) if delimiter else _by_blanks(rows, limit)
    found = call.counted(cut(Strings(rows), part, most), counts.reduce("max", [0], keep=False), 1)
    return Strings(found.reshape(*x.shape, found.shape[1], x.width)), counts.reshape(*x.shape)


def cut(x: Strings, part: Value, most: int) -> Value:
    """Parts [string, ``most``, byte] of each string, by the number of the part [string, byte] that a byte is in."""
    strings = x.shape[0]
    check_table(upper(strings), most, x.width)
    mine = part.unsqueeze(1).equals(iota(most, 1, 3))  # [string, part, byte]
    places = iota(x.width, 2, 3)
    start = select(mine, places, x.width).reduce("min", [2])
    length = mine.cast("i64").sum([2])
    taken = minimum(start + places, x.width)
    padded = x.widened(x.width + 1).unsqueeze(1).broadcast(strings, most, x.width + 1)
    return select(places < length, emit("gather_elements", padded, taken, axis=2), 0)


def _check_steps(call: Call, count: int) -> None:
    if count > _MOST_STEPS:
        told = f"strings of {call.strings(0).width} bytes are too wide for this operator"
        raise call.error(told, f"it would take {count} steps, and {_MOST_STEPS} are the most: choose a smaller width")


def _by_blanks(rows: Value, limit: int | None) -> tuple[Value, Value]:
    """For each byte the number of its part (-1 for none), and how many parts there are: words between blanks."""
    in_word = rows > 0
    for blank in _BLANKS:
        in_word = in_word & ~rows.equals(blank)
    before = in_word.cast("i64").pad([0, 1], [0, -1])
    begun = _running((in_word & before.equals(0)).cast("i64"))
    count = begun.reduce("max", [1], keep=False)
    belongs = in_word
    if limit is not None:  # the last part is all that is left, with the blanks in it
        belongs = (in_word | (begun > limit)) & (rows > 0)
        begun, count = minimum(begun, limit + 1), minimum(count, limit + 1)
    return select(belongs, begun - 1, -1), count


def _by_delimiter(rows: Value, delimiter: bytes, limit: int | None) -> tuple[Value, Value]:
    """Likewise, between occurrences of the delimiter."""
    n, width = len(delimiter), rows.shape[1]
    if n > width:
        return select(rows > 0, 0, constant(np.asarray(-1, np.int64))), full((rows.shape[0],), 1, "i64")
    found: Value = full(rows.shape, True, "bool")
    for k, byte in enumerate(delimiter):
        found = found & rows.pad([0, 0], [0, n]).part(1, k, k + width).equals(byte)
    if any(delimiter[:k] == delimiter[-k:] for k in range(1, n)):
        found = _apart(found, n)
    ended = _running(found.cast("i64"))
    if limit is not None:
        found = found & (ended <= limit)
        ended = minimum(ended, limit)
    inside = found
    for k in range(1, n):
        inside = inside | found.cast("i64").pad([0, k], [0, -k]).equals(1)
    return select((rows > 0) & ~inside, ended, -1), found.cast("i64").sum([1], keep=False) + 1


def _apart(found: Value, n: int) -> Value:
    """From the left, those occurrences of a delimiter of ``n`` bytes that do not overlap one before."""
    if found.is_const:
        apart = np.zeros(found.shape, np.bool_)
        for k in range(found.shape[1]):
            apart[:, k] = found.node.value[:, k] & ~apart[:, max(k - n + 1, 0) : k].any(axis=1)
        return constant(apart)
    kept: list[Value] = []
    for k in range(found.shape[1]):
        here = found.part(1, k, k + 1)
        for earlier in kept[-(n - 1) :]:
            here = here & ~earlier
        kept.append(here)
    return concat(kept, 1)


def _running(counts: Value) -> Value:
    return emit("prefix", counts, combine="add", axis=1, exclusive=False, reverse=False)


@onnx("RegexFullMatch")
def regex_full_match(call: Call) -> Value:
    """A walk through the table of the pattern, one byte a step."""
    x = call.strings(0)
    following, matches = table(call.required("pattern"))
    if x.rows.is_const:  # one step a byte is many nodes
        places = np.zeros(x.shape, np.int32)
        for bytes_ in np.moveaxis(x.rows.node.value, -1, 0):
            places = following[places, bytes_]
        return constant(matches[places])
    _check_steps(call, x.width)
    state: Value = full(x.shape, 0, "i32")
    steps = constant(following.reshape(-1))
    for k in range(x.width):
        byte = x.rows.part(x.rows.rank - 1, k, k + 1).squeeze(-1)
        state = steps.gather(state * 256 + byte.cast("i32"), 0)
    return constant(matches).gather(state, 0)

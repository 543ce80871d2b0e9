"""Mutations that know what a file is made of: JSON, GGUF, flatbuffers, safetensors, and several files as one."""

from __future__ import annotations

import io
import json
import random as chance
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks.robustness.mutation import NUMBERS, TEXTS, of_bytes, of_text
from edgec import files

Random = chance.Random
#: What stands in place of other values in JSON.
_VALUES = (*NUMBERS, *TEXTS, None, True, False, 0.5, -1.5, 1e308, [], {}, [1, 2], {"a": 1}, "0" * 5000)
_FILE = b"\0FILE "


# ---- JSON


def of_json(random: Random, content: bytes) -> bytes:
    """A few values, names or members of a JSON text changed, removed, doubled or taken from elsewhere in it."""
    try:
        root = [json.loads(content)]
    except ValueError:
        return of_text(random, content)
    for _ in range(random.choice((1, 1, 2, 4))):
        holders = list(_holders(root))
        holder = random.choice(holders[: len(holders) // random.choice((1, 1, 4)) + 1])
        keys: list[Any] = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        other = random.choice(holders)
        values = list(other.values()) if isinstance(other, dict) else other
        value = random.choice(values) if values and random.random() < 0.4 else random.choice(_VALUES)
        if not keys:
            continue
        key, kind = random.choice(keys), random.randrange(5)
        if kind == 0 and holder is not root:
            del holder[key]
        elif kind == 1 and isinstance(holder, list) and holder is not root:
            holder.insert(key, json.loads(json.dumps(value)))
        elif kind == 1 and isinstance(holder, dict):
            holder[str(random.choice((*TEXTS, *keys)))] = holder.pop(key)
        else:
            holder[key] = json.loads(json.dumps(value))
    text = json.dumps(root[0])
    if random.random() < 0.05:
        text = text.replace("{", '{"twice": 1, "twice": 2, ', 1)
    return text.encode("utf-8", "surrogatepass")


def _holders(value: Any) -> Iterator[Any]:
    if isinstance(value, (dict, list)):
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _holders(inner)


def of_request(random: Random, content: bytes) -> bytes:
    """The JSON behind a line with the path of a request."""
    path, _, body = content.partition(b"\n")
    return path + b"\n" + of_json(random, body)


# ---- several files as one


def packed(files: Mapping[str, bytes]) -> bytes:
    """The files of a folder as one content."""
    return b"".join(_FILE + name.encode() + b"\0" + content for name, content in files.items())


def unpacked(content: bytes) -> dict[str, bytes]:
    """The files that `packed` packed."""
    found = {}
    for part in content.split(_FILE)[1:]:
        name, _, inner = part.partition(b"\0")
        found[name.decode("utf-8", "replace")] = inner
    return found


def of_files(random: Random, content: bytes) -> bytes:
    """One of several files changed as its kind is; or left out, or in the place of another, now and then."""
    parts = unpacked(content)
    name, other = random.choice(list(parts)), random.choice(list(parts))
    if (chosen := random.random()) < 0.03:
        del parts[name]
    elif chosen < 0.06:
        parts[name] = parts[other]
    else:
        ways: tuple[Callable[[Random, bytes], bytes], ...] = (of_bytes,)
        if name.endswith(".json"):
            ways = (of_json, of_json, of_text)
        elif name.endswith(".safetensors"):
            ways = (of_safetensors, of_safetensors, of_bytes)
        elif name.endswith(".gguf"):
            ways = (of_gguf, of_gguf, of_bytes)
        parts[name] = random.choice(ways)(random, parts[name])
    return packed(parts)


def of_safetensors(random: Random, content: bytes) -> bytes:
    """The description of tensors changed; their elements stay."""
    (length,) = struct.unpack_from("<Q", content)
    head = of_json(random, content[8 : 8 + length])
    return struct.pack("<Q", len(head)) + head + content[8 + length :]


# ---- arrays of numpy


def of_arrays(random: Random, content: bytes) -> bytes:
    """Arrays of an .npz file left out, doubled, renamed, or of other types, shapes and elements."""
    with np.load(io.BytesIO(content)) as file:
        arrays = dict(file)
    for _ in range(random.choice((1, 1, 2))):
        name = random.choice(list(arrays) or ["x"])
        array, kind = arrays.pop(name, np.zeros(3)), random.randrange(6)
        if kind == 1:
            arrays[random.choice((*TEXTS, "target", "labels")).replace("\0", "")] = array
        elif kind == 2 and array.dtype.kind in "iuf":
            arrays[name] = array.astype(random.choice(("f8", "f2", "i8", "u1", "?", "c8", "S4", "U3", "M8[s]")))
        elif kind == 3:
            arrays[name] = array.reshape(random.choice(((-1,), (1, *array.shape), array.shape[::-1])))
        elif kind == 4:
            arrays[name] = array[: random.choice((0, 1, -1))] if array.ndim else np.repeat(array, 3)
        elif kind == 5 and array.dtype.kind in "if":
            other = random.choice((np.nan, np.inf, 3e38) if array.dtype.kind == "f" else (0, 1, -1, 127, -128))
            arrays[name] = np.full_like(array, other)
    return files.npz(arrays)


# ---- texts that sessions saved


def of_head(random: Random, content: bytes) -> bytes:
    """The first bytes changed, where sizes and hashes are."""
    return of_bytes(random, content[:128]) + content[128:]


# ---- GGUF


def of_gguf(random: Random, content: bytes) -> bytes:
    """Entries of the description changed, removed, repeated or exchanged; the counts follow, mostly."""
    metadata, tensors, end = _entries(content)
    for _ in range(random.choice((1, 1, 2, 4))):
        entries = random.choice((metadata, metadata, tensors))
        if not entries:
            continue
        k, kind = random.randrange(len(entries)), random.randrange(7)
        if kind == 0:
            del entries[k]
        elif kind == 1:
            entries.insert(k, random.choice(entries))
        elif kind == 2:
            entries[k] = _renamed(entries[k], _name(random.choice((*metadata, *tensors, entries[k]))))
        elif kind == 3:
            entries[k] = _renamed(entries[k], random.choice(TEXTS).encode())
        else:  # behind the name stand types, counts, extents, offsets and values, mostly of 4 or 8 bytes
            head = 8 + len(_name(entries[k]))
            place = head + 4 * random.randrange((len(entries[k]) - head) // 4 + 1)
            number = random.choice((*NUMBERS, 3, 4, 5, 6, 8, 9, 10, 12)) % 2**64
            raw = number.to_bytes(8, "little")[: random.choice((4, 4, 8))]
            entries[k] = entries[k][:place] + raw + entries[k][place + len(raw) :]
    counts = [len(tensors), len(metadata)]
    if random.random() < 0.05:
        counts[random.randrange(2)] = random.choice(NUMBERS) % 2**64
    head_bytes = content[:8] + struct.pack("<QQ", *counts) + b"".join(metadata) + b"".join(tensors)
    return head_bytes + b"\0" * (-len(head_bytes) % 32) + content[end:]


def _entries(content: bytes) -> tuple[list[bytes], list[bytes], int]:
    """The entries of metadata and of tensors as bytes, and the place where elements begin."""
    count_tensors, count_metadata = struct.unpack_from("<QQ", content, 8)
    place, found = 24, []
    for k in range(count_metadata + count_tensors):
        start = place
        place += 8 + struct.unpack_from("<Q", content, place)[0]
        if k < count_metadata:
            kind = struct.unpack_from("<I", content, place)[0]
            place = _behind(content, place + 4, kind)
        else:
            rank = struct.unpack_from("<I", content, place)[0]
            place += 4 + 8 * rank + 4 + 8
        found.append(content[start:place])
    return found[:count_metadata], found[count_metadata:], place + -place % 32


def _behind(content: bytes, place: int, kind: int) -> int:
    """The place behind a value of a kind."""
    if kind == 8:
        return int(place + 8 + struct.unpack_from("<Q", content, place)[0])
    if kind == 9:
        inner, count = struct.unpack_from("<IQ", content, place)
        place += 12
        for _ in range(count):
            place = _behind(content, place, inner)
        return place
    return place + {0: 1, 1: 1, 7: 1, 2: 2, 3: 2, 10: 8, 11: 8, 12: 8}.get(kind, 4)


def _name(entry: bytes) -> bytes:
    return entry[8 : 8 + struct.unpack_from("<Q", entry)[0]]


def _renamed(entry: bytes, name: bytes) -> bytes:
    return struct.pack("<Q", len(name)) + name + entry[8 + len(_name(entry)) :]


# ---- flatbuffers


def of_flatbuffer(random: Random, content: bytes) -> bytes:
    """Fields of a TensorFlow Lite model changed, repeated, removed or taken from elsewhere in it."""
    import flatbuffers  # type: ignore[import-untyped]
    from ai_edge_litert import schema_py_generated as schema  # type: ignore[import-untyped]

    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))
    for _ in range(random.choice((1, 1, 2, 4))):
        tables = list(_tables(model))
        table = random.choice(tables)
        fields = [name for name, value in vars(table).items() if value is not None or random.random() < 0.1]
        if fields:
            name = random.choice(fields)
            setattr(table, name, _other(random, getattr(table, name), name, tables))
    builder = flatbuffers.Builder(1024)
    try:
        builder.Finish(model.Pack(builder), b"TFL3")
    except (TypeError, ValueError, AttributeError, AssertionError, OverflowError, struct.error, RecursionError):
        return of_bytes(random, content)  # no message can hold that
    return bytes(builder.Output())


def _tables(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for item in value:
            yield from _tables(item)
    elif hasattr(value, "__dict__"):
        yield value
        for inner in vars(value).values():
            yield from _tables(inner)


def _other(random: Random, value: Any, name: str, tables: list[Any]) -> Any:
    """Another value of a field, of the same kind."""
    alike = [vars(t)[name] for t in tables if name in vars(t)]
    if random.random() < 0.3:
        return random.choice(alike)
    if isinstance(value, (bool, np.bool_)):
        return not value
    if isinstance(value, (int, np.integer)):
        return random.choice((*NUMBERS, 3, 4, 5, 9, 17, 22, 25, value + 1))
    if isinstance(value, float):
        return random.choice((0.0, -1.0, float("nan"), float("inf"), 1e-45, 3e38))
    if isinstance(value, (bytes, str)):
        return random.choice(TEXTS)
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list):
        value, k = list(value), random.randrange(len(value) + 1)
        kind = random.randrange(4)
        if kind == 0:
            del value[k : k + 1]
        elif kind == 1 and value:
            value.insert(k, random.choice(value))
        elif kind == 2 and value and isinstance(value[0], int):
            value[k % len(value)] = random.choice(NUMBERS)
        else:
            random.shuffle(value)
        return value
    return random.choice([None, *(t for t in tables if type(t) is type(value))])

"""Mutations of a file: of its bytes, of the structure of a protobuf message, of values in a text."""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np
import onnx

#: Numbers at the borders of their types, which readers get wrong.
NUMBERS = (0, 1, -1, 2, 127, 128, 255, 256, 65535, 2**31 - 1, -(2**31), 2**31, 2**32, 2**53, 2**63 - 1, -(2**63))
#: Texts that are no plain names.
TEXTS = (
    "",
    "a\0b",
    "../x",
    "/etc/passwd",
    "x" * 5000,
    "\u202e",
    "*/",
    "%s%n",
    "'\"`$(x)",
    "\n# x",
    "-x",
    "é",
    '"*/ xEVILx',
)


def of_bytes(random: random.Random, content: bytes) -> bytes:
    """A few bytes changed, inserted, removed or repeated, or the end cut off."""
    data = bytearray(content)
    for _ in range(random.choice((1, 1, 2, 4, 16))):
        place = random.randrange(len(data) + 1)
        length = random.choice((1, 1, 2, 4, 8, 64))
        kind = random.randrange(6)
        if kind == 0 and data:
            data[place % len(data)] = random.randrange(256)
        elif kind == 1 and data:
            data[place % len(data)] ^= 1 << random.randrange(8)
        elif kind == 2:
            data[place:place] = random.randbytes(length)
        elif kind == 3:
            del data[place : place + length]
        elif kind == 4:
            data[place:place] = data[place : place + length] * random.choice((1, 2, 50))
        elif kind == 5:
            number = random.choice(NUMBERS) % 2**64
            data[place : place + 8] = number.to_bytes(8, "little")[: random.choice((1, 2, 4, 8))]
    return bytes(data[: random.randrange(len(data) + 1)]) if random.random() < 0.1 else bytes(data)


def of_text(random: random.Random, content: bytes) -> bytes:
    """A number, a quoted text or a line of a text file replaced by another one; or its bytes, now and then."""
    if random.random() < 0.2:
        return of_bytes(random, content)
    text = content.decode("utf-8", "replace")
    for _ in range(random.choice((1, 1, 2, 3))):
        found = list(re.finditer(r'-?\d+(\.\d+)?|"[^"\n]*"|^[^\n]*$|true|false|[\w.-]+(?= *[=:])', text, re.MULTILINE))
        if not found:
            break
        match = random.choice(found)
        values = [
            str(random.choice(NUMBERS)), f'"{random.choice(TEXTS)}"', "true", "[]", "{}", "[1, 2]", "nan", "inf",
            "1e999", "9" * 5000, "[" * 2000, match[0] * 2, "", random.choice(found)[0],
        ]  # fmt: skip
        text = text[: match.start()] + random.choice(values) + text[match.end() :]
    return text.encode("utf-8", "surrogatepass")


def of_model(random: random.Random, content: bytes) -> bytes:
    """Fields of an ONNX model changed, repeated, removed or taken from elsewhere in it; it stays a message."""
    model = onnx.ModelProto()
    model.ParseFromString(content)
    for _ in range(random.choice((1, 1, 2, 4))):
        messages = list(_messages(model))
        message = random.choice(messages)
        fields = [field for field, _ in message.ListFields()] if random.random() < 0.8 else message.DESCRIPTOR.fields
        if fields:
            _change(random, message, random.choice(list(fields)), messages)
    return bytes(model.SerializeToString())


def of_numbers(random: random.Random, content: bytes) -> bytes:
    """Numbers that operators get (attributes, constants, extents of inputs) replaced by others, or one more or less."""
    model = onnx.ModelProto()
    model.ParseFromString(content)
    lists = [a for n in model.graph.node for a in n.attribute if a.type in (a.INT, a.INTS, a.FLOAT, a.FLOATS)]
    constants = [t for t in model.graph.initializer if t.data_type in _COUNTS and 0 not in t.dims]
    extents = [d for i in model.graph.input for d in i.type.tensor_type.shape.dim if d.dim_value]
    for _ in range(random.choice((1, 1, 1, 2))):
        chosen: list[Any] = random.choice([k for k in (lists, lists, constants, constants, extents) if k] or [[]])
        if not chosen:
            break
        place = random.choice(chosen)
        if isinstance(place, onnx.AttributeProto):
            _other_attribute(random, place)
        elif isinstance(place, onnx.TensorProto):
            array = onnx.numpy_helper.to_array(place).copy()
            if not array.size:
                continue  # a change before this one left nothing
            array.reshape(-1)[random.randrange(array.size)] = _number(random, np.iinfo(array.dtype))
            array = np.resize(array, array.size + random.choice((-1, 1))) if random.random() < 0.1 else array
            place.CopyFrom(onnx.numpy_helper.from_array(array, place.name))
        else:
            place.dim_value = _number(random, np.iinfo(np.int64))
    return bytes(model.SerializeToString())


#: Types of constants that are sizes, places and axes.
_COUNTS = (onnx.TensorProto.INT64, onnx.TensorProto.INT32)


def _number(random: random.Random, kind: Any) -> int:
    numbers = (*NUMBERS, -2, -3, 3, 5, 100, 4097, 2**20, 2**24, 2**28, 2**40)
    return random.choice([n for n in numbers if kind.min <= n <= kind.max])


def _other_attribute(random: random.Random, attribute: onnx.AttributeProto) -> None:
    number = _number(random, np.iinfo(np.int64))
    real = random.choice((0.0, -1.0, 1e30, 1e-30, float("nan"), float("inf")))
    if attribute.type == attribute.INT:
        attribute.i = number
    elif attribute.type == attribute.FLOAT:
        attribute.f = real
    else:
        ints = attribute.type == attribute.INTS
        numbers: Any = attribute.ints if ints else attribute.floats
        value, kind = number if ints else real, random.randrange(6)
        if kind == 0 and numbers:
            del numbers[random.randrange(len(numbers))]
        elif kind == 1 or not numbers:
            numbers.append(value)
        else:
            numbers[random.randrange(len(numbers))] = value


def _messages(message: Any) -> Any:
    yield message
    for field, value in message.ListFields():
        if field.cpp_type == field.CPPTYPE_MESSAGE:
            for inner in value if _is_repeated(value) else (value,):
                yield from _messages(inner)


def _is_repeated(value: Any) -> bool:
    return hasattr(value, "append") or hasattr(value, "add")


def _change(random: random.Random, message: Any, field: Any, messages: list[Any]) -> None:
    value = getattr(message, field.name)
    if _is_repeated(value):
        kind = random.randrange(4)
        if kind == 0 and len(value):
            del value[random.randrange(len(value))]
        elif kind == 1 and len(value):
            value.extend([value[random.randrange(len(value))]] * random.choice((1, 1, 3)))
        elif field.cpp_type == field.CPPTYPE_MESSAGE:
            others = [m for m in messages if m.DESCRIPTOR is field.message_type]
            if others:
                value.add().CopyFrom(_copied(random.choice(others)))
        elif len(value):
            value[random.randrange(len(value))] = _scalar(random, field, messages)
        else:
            value.append(_scalar(random, field, messages))
    elif field.cpp_type == field.CPPTYPE_MESSAGE:
        others = [m for m in messages if m.DESCRIPTOR is field.message_type]
        if others and random.random() < 0.7:
            getattr(message, field.name).CopyFrom(_copied(random.choice(others)))
        else:
            message.ClearField(field.name)
    else:
        setattr(message, field.name, _scalar(random, field, messages))


def _copied(message: Any) -> Any:
    """A message of its own: one that is copied into a part of itself makes protobuf read freed memory."""
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def _scalar(random: random.Random, field: Any, messages: list[Any]) -> Any:
    if field.type == field.TYPE_BYTES:
        return random.choice([*(t.encode() for t in TEXTS), b"Relu", random.randbytes(16)])
    if field.cpp_type == field.CPPTYPE_STRING:
        names = [m.name for m in messages if getattr(m, "name", "")] + ["Relu", "Loop", "Conv", "x", "y"]
        return random.choice([*TEXTS, *names, *names])
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return random.choice((0.0, -1.0, float("nan"), float("inf"), 1e-45, 3e38))
    if field.cpp_type == field.CPPTYPE_ENUM:
        return random.choice([v.number for v in field.enum_type.values])
    low, high = (-(2**31), 2**31 - 1) if "INT32" in _kinds(field) else (-(2**63), 2**63 - 1)
    low = 0 if "UINT" in _kinds(field) else low
    return random.choice([n for n in (*NUMBERS, 3, 4, 5) if low <= n <= high])


def _kinds(field: Any) -> str:
    return str(next(n for n in dir(field) if n.startswith("CPPTYPE_") and getattr(field, n) == field.cpp_type))

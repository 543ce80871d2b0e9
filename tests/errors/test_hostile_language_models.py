"""Files of language models that an attacker wrote: an error of edgec's in little memory, and nothing is written."""

from __future__ import annotations

import json
import struct
import sys
import tempfile
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.append(str(Path(__file__).resolve().parents[1] / "language"))

import plain
from gguf_files import gguf_file

import edgec
from edgec.errors import EdgecError, ModelError
from edgec.frontend.gguf import parse
from edgec.frontend.hugging.document import parsed
from edgec.frontend.hugging.safetensors import tensors_of
from edgec.frontend.hugging.tokenizer import vocabulary_of

WEIGHTS = plain.draw("llama")
WHOLE = plain.gguf("llama", WEIGHTS)
SAFE = plain.safetensors(WEIGHTS)
#: More memory than reading these small files may take, whatever they claim.
MOST_BYTES = 64 << 20
EXAMPLES = settings(max_examples=60, deadline=None, derandomize=True)

numbers = st.one_of(
    st.integers(-3, 70), st.sampled_from([0, 1, -1, 2**31, 2**32 - 1, 2**53, 2**63, 10**30]),
    st.sampled_from([0.0, -0.0, 0.5, -1.5, 1e-300, 1e300, 3.5e38]),
)  # fmt: skip
scalars = st.one_of(st.none(), st.booleans(), numbers, st.text(max_size=8))
values = st.recursive(
    scalars, lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=6), inner)),
    max_leaves=12,
)  # fmt: skip


@contextmanager
def little_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
    finally:
        tracemalloc.stop()


def tried(model: Any) -> None:
    """Import a model: it is one, or an error of edgec's with words."""
    with little_memory():
        try:
            edgec.load(model, context=8)
        except EdgecError as error:
            assert str(error.message)


def damaged(data: st.DataObject, whole: bytes, head: int) -> bytes:
    """Bytes changed, cut, put in or doubled, in the part that describes the rest."""
    content = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, head - 1))
        count = data.draw(st.sampled_from([1, 2, 4, 8]))
        way = data.draw(st.sampled_from(["change", "cut", "insert", "double", "end"]))
        new = data.draw(st.one_of(st.binary(min_size=count, max_size=count), st.sampled_from([b"\xff", b"\0"])))
        if way == "change":
            content[at : at + len(new)] = new
        elif way == "cut":
            del content[at : at + count]
        elif way == "insert":
            content[at:at] = new
        elif way == "double":
            content[at:at] = content[at : at + 40]
        else:
            del content[at:]
    return bytes(content)


@EXAMPLES
@given(st.data())
def test_gguf_bytes(data: st.DataObject) -> None:
    tried(damaged(data, WHOLE, len(WHOLE) - sum(t.bytes for t in parse(WHOLE).tensors.values())))


def _metadata() -> dict[str, Any]:
    return {k: v for k, v in parse(WHOLE).metadata.items() if not isinstance(v, tuple)}


@EXAMPLES
@given(st.data())
def test_gguf_metadata(data: st.DataObject) -> None:
    """Well-formed files whose values are none: other types, none at all, too large, negative, infinite."""
    name = data.draw(st.sampled_from(sorted(plain.CONFIGS)))
    whole = parse(plain.gguf(name, WEIGHTS if name == "llama" else plain.draw(name)))
    metadata = dict(whole.metadata)
    some = st.one_of(
        st.integers(0, 70), st.sampled_from([2**31, 2**32 - 1]), st.booleans(), st.text(max_size=5),
        st.floats(width=32), st.lists(st.integers(-5, 5), min_size=1, max_size=3),
    )  # fmt: skip
    for key in data.draw(st.lists(st.sampled_from(sorted(metadata)), min_size=1, max_size=3)):
        metadata[key] = data.draw(some)
    tensors = {
        n: (t.format.name, t.shape, bytes(whole.content[t.start : t.start + t.bytes])) for n, t in whole.tensors.items()
    }
    tried(gguf_file(metadata, tensors))


@EXAMPLES
@given(st.data())
def test_safetensors_bytes(data: st.DataObject) -> None:
    (length,) = struct.unpack("<Q", SAFE[:8])
    with little_memory():
        try:
            for stored in tensors_of(damaged(data, SAFE, 8 + length), "file").values():
                stored.array()
        except EdgecError as error:
            assert str(error.message)


@EXAMPLES
@given(st.dictionaries(st.text(max_size=4), st.one_of(values, st.fixed_dictionaries(
    {"dtype": st.sampled_from(["F32", "BF16", "I8", "X"]), "shape": values, "data_offsets": values}))))  # fmt: skip
def test_safetensors_descriptions(described: dict[str, Any]) -> None:
    head = json.dumps(described).encode()
    try:
        for stored in tensors_of(struct.pack("<Q", len(head)) + head + bytes(64), "file").values():
            stored.array()
    except EdgecError as error:
        assert str(error.message)


@pytest.fixture(scope="module")
def folders() -> Iterator[dict[str, Path]]:
    with tempfile.TemporaryDirectory() as where:
        yield {name: plain.write_folder(Path(where) / name, name, plain.draw(name)) for name in plain.CONFIGS}


@EXAMPLES
@given(data=st.data())
def test_config(folders: dict[str, Path], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(folders)))
    config = {"model_type": {"gemma3": "gemma3_text"}.get(name, name.split()[0]), **plain.CONFIGS[name]}
    others = ["layer_types", "rope_parameters", "rope_scaling", "no_rope_layers", "use_sliding_window", "head_dim"]
    for key in data.draw(st.lists(st.sampled_from([*sorted(config), *others]), min_size=1, max_size=3)):
        config[key] = data.draw(values)
    (folders[name] / "config.json").write_text(json.dumps(config))
    tried(folders[name])


def test_a_head_that_is_not_there(tmp_path: Path) -> None:
    """config.json says that it is no copy of the table; it ended in a KeyError."""
    name = next(n for n in sorted(plain.CONFIGS) if "lm_head.weight" not in plain.draw(n))
    folder = plain.write_folder(tmp_path / "net", name, plain.draw(name))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": False}))
    with pytest.raises(ModelError, match=r"the weights have no 'lm_head\.weight'"):
        edgec.load(folder, context=8)


def _tokenizer() -> dict[str, Any]:
    letters = [chr(c) for c in range(33, 127)]
    vocab = {text: k for k, text in enumerate([*letters, "ab", "abc", "<s>"])}
    return {
        "added_tokens": [{"id": vocab["<s>"], "content": "<s>", "special": True}],
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}]},
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
        "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}]},
        "model": {"type": "BPE", "vocab": vocab, "merges": ["a b", ["ab", "c"]], "byte_fallback": False},
    }


@EXAMPLES
@given(st.data())
def test_tokenizer(data: st.DataObject) -> None:
    """Any value anywhere in the file."""
    made = _tokenizer()
    for _ in range(data.draw(st.integers(1, 2))):
        place: Any = made
        while True:
            keys = sorted(place) if isinstance(place, dict) else list(range(len(place)))
            key = data.draw(st.sampled_from(keys))
            if not isinstance(place[key], (dict, list)) or not place[key] or data.draw(st.booleans()):
                place[key] = data.draw(values)
                break
            place = place[key]
    with little_memory():
        try:
            vocabulary_of(parsed(json.dumps(made).encode(), "tokenizer.json"), {}, 200)
        except EdgecError as error:
            assert str(error.message)


def test_keys_given_twice() -> None:
    one = WHOLE.index(struct.pack("<Q", 20) + b"general.architecture")
    entry = WHOLE[one : one + 8 + 20 + 4 + 8 + 5]
    (keys,) = struct.unpack("<Q", WHOLE[16:24])
    twice = WHOLE[:16] + struct.pack("<Q", keys + 1) + WHOLE[24:one] + entry + WHOLE[one:]
    with pytest.raises(EdgecError, match=r"'general.architecture' is given twice"):
        edgec.load(twice)


def test_nothing_is_written(tmp_path: Path, folders: dict[str, Path]) -> None:
    (tmp_path / "lm.gguf").write_bytes(WHOLE[: len(WHOLE) // 2])
    folder = plain.write_folder(tmp_path / "lm", "qwen2", plain.draw("qwen2"))
    (folder / "tokenizer.json").write_text('{"model": {"type": "Unigram"}}')
    for model in (tmp_path / "lm.gguf", folder):
        with pytest.raises(EdgecError):
            edgec.build(model, tmp_path / "out", compile=False)
        assert not (tmp_path / "out").exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["lm", "lm.gguf"]

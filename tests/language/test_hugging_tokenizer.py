"""Vocabularies of tokenizer.json against the library that writes these files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx
import pytest
import tokenizers
from onnx_decoders import decoder
from test_tokenizer import LLAMA3, corpus, encoder, library, line
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import edgec
from edgec.artifact.language_model import LanguageModel
from edgec.errors import EdgecError, ModelError
from edgec.frontend.hugging.document import Document, opened, parsed
from edgec.frontend.hugging.tokenizer import tokens_beside, vocabulary_of
from edgec.frontend.language.chat import read_chat
from edgec.frontend.language.facts import CHAT, TOKENS
from edgec.frontend.language.vocabulary import Vocabulary

__all__ = ["library"]
LINES = 300
QWEN2 = LLAMA3.replace("{1,3}", "")


def trained(splitter: str) -> Tokenizer:
    """A tokenizer of 1200 tokens: of bytes with one of four ways to split, or of characters with a sign for blanks."""
    ends = [tokenizers.AddedToken("<s>", special=True), tokenizers.AddedToken("<|im_end|>", special=True)]
    if splitter == "pieces":
        made = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
        made.normalizer = normalizers.Replace(" ", "▁")
        made.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
        raw = [f"<0x{b:02X}>" for b in range(256)]
        special = ["<unk>", *raw, *ends]
        made.train_from_iterator(
            corpus().splitlines(), trainers.BpeTrainer(vocab_size=1200, special_tokens=special, show_progress=False)
        )
        entries = json.loads(made.to_str())  # bytes are tokens like others, which texts cannot name
        entries["added_tokens"] = [t for t in entries["added_tokens"] if t["content"] not in raw]
        return Tokenizer.from_str(json.dumps(entries))
    made = Tokenizer(models.BPE(ignore_merges=splitter == "llama3"))
    usual = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    pattern = Regex(LLAMA3 if splitter == "llama3" else QWEN2)
    made.pre_tokenizer = {
        "gpt-2": usual,
        "smollm": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), usual]),
    }.get(splitter) or pre_tokenizers.Sequence([pre_tokenizers.Split(pattern, "isolated"), plain])
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        [corpus()],
        trainers.BpeTrainer(vocab_size=1200, special_tokens=ends, initial_alphabet=alphabet, show_progress=False),
    )
    if splitter == "llama3":
        made.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", made.token_to_id("<s>"))]
        )
    return made


def vocabulary(made: Tokenizer | str, beside: Mapping[str, Any] = {}, most: int = 2000) -> Vocabulary:
    text = made if isinstance(made, str) else made.to_str()
    documents = {name: Document(values, name) for name, values in beside.items()}
    return vocabulary_of(parsed(text.encode(), "tokenizer.json"), documents, most)


@pytest.mark.parametrize("splitter", ["gpt-2", "smollm", "llama3", "qwen2", "pieces"])
def test_equal_to_the_library(splitter: str, library: Any) -> None:
    reference = trained(splitter)
    found = vocabulary(reference)
    encode = encoder(library, found)
    assert found.adds_begin == (splitter == "llama3") and found.has_characters == (splitter == "pieces")
    for text in (line() for _ in range(LINES)):
        assert encode(text, 1) == reference.encode(text, add_special_tokens=False).ids, repr(text)


def test_the_ends_of_a_text(tmp_path: Path) -> None:
    """From the files beside it: one token, or several, by number or by text; and those that are known to be ends."""
    made = trained("gpt-2")
    ids = {text: made.token_to_id(text) for text in ("<s>", "<|im_end|>", "a", "b")}
    beside: dict[str, Any] = {
        "tokenizer_config.json": {"bos_token": "<s>", "eos_token": {"content": "a"}, "add_bos_token": True},
        "generation_config.json": {"eos_token_id": [ids["a"], ids["b"], 10**6]},
        "genai_config.json": {"model": {"eos_token_id": ids["b"]}},
    }
    found = vocabulary(made, beside)
    assert found.end == ids["a"] and set(found.ends) == {ids["a"], ids["b"], ids["<|im_end|>"]}
    assert found.begin == ids["<s>"] and found.adds_begin
    assert not tokens_beside(tmp_path, 2000)
    made.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "config.json").write_text('{"eos_token_id": 3}')
    assert set(tokens_beside(tmp_path, 2000)) == {TOKENS}


def test_chat_templates(tmp_path: Path) -> None:
    """In a file of its own, or in the configuration: one, or the default of several."""
    trained("gpt-2").save(str(tmp_path / "tokenizer.json"))

    def source() -> str | None:
        found = tokens_beside(tmp_path, 2000).get(CHAT)
        return None if found is None else read_chat(found).template.source

    named = [{"name": "tool", "template": "t"}, {"name": "default", "template": "d"}, 3]
    for given, want in (("one", "one"), (named, "d"), ([], None), (None, None)):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": given}))
        assert source() == want
    (tmp_path / "chat_template.jinja").write_text("own")
    assert source() == "own"
    (tmp_path / "chat_template.jinja").write_bytes(b"\xff")
    with pytest.raises(ModelError, match="cannot be read"):
        source()
    (tmp_path / "chat_template.jinja").unlink()
    (tmp_path / "tokenizer_config.json").write_text('{"chat_template": 3}')
    with pytest.raises(ModelError, match="no such value"):
        source()


def test_a_conversation_beside_a_decoder(tmp_path: Path) -> None:
    """A decoder in ONNX, with the tokenizer and the chat template in the files beside it."""
    made = trained("gpt-2")
    onnx.save(decoder("plain", vocabulary=made.get_vocab_size()), str(tmp_path / "model.onnx"))
    made.save(str(tmp_path / "tokenizer.json"))
    template = "{% for m in messages %}<s>{{ m['role'] }}: {{ m['content'] }}<|im_end|>{% endfor %}<s>assistant: "
    config = {"chat_template": template, "eos_token": "<|im_end|>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    edgec.build(tmp_path / "model.onnx", tmp_path / "out", context=64, name="lm")
    assert (tmp_path / "out" / "lm_conversation.c").is_file()
    with edgec.load(tmp_path / "out") as model:
        assert isinstance(model, LanguageModel)
        tokens = model.conversation.tokens([{"role": "user", "content": "hello"}])
        assert tokens == made.encode("<s>user: hello<|im_end|><s>assistant: ").ids
        answer = model.chat([{"role": "user", "content": "hello"}], max_tokens=4)
        answer.text()
        assert answer.usage.prompt_tokens == len(tokens)


def _changed(**parts: Any) -> str:
    found = json.loads(trained("gpt-2").to_str())
    for key, value in parts.items():
        place, _, name = key.rpartition("__")
        (found[place] if place else found)[name] = value
    return json.dumps(found)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"model__type": "Unigram"}, "kind 'Unigram'"),
        ({"model__end_of_word_suffix": "</w>"}, "end_of_word_suffix"),
        ({"model__vocab": {"a": 5000}}, "the number 5000 of 2000"),
        ({"model__vocab": {"a": -1}}, "the number -1"),
        ({"model__vocab": {"a": True}}, "the number True"),
        ({"model__vocab": {"a": 2, "b": 2}}, "one number"),
        ({"model__vocab": {"a" * 5000: 2}}, "longer ones"),
        ({"model__vocab": {"\ud800": 2}}, "no text"),
        ({"model__merges": ["abc"]}, "no merge"),
        ({"model__merges": [["a"]]}, "no merge"),
        ({"model__merges": 3}, "no such value"),
        ({"normalizer": {"type": "Lowercase"}}, "changed by 'Lowercase'"),
        ({"pre_tokenizer": {"type": "Whitespace"}}, "split by 'Whitespace'"),
        ({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "x"}, "behavior": "Isolated"}}, "split by 'Split'"),
        ({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True}}, "a space is put"),
        ({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [3]}}, "no list of objects"),
        ({"added_tokens": [{"content": "a", "id": 2**70}]}, "larger than any number"),
    ],
)
def test_refused(parts: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        vocabulary(_changed(**parts))


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"\xff\xfe", b"{" * 100_000, b'{"a":' * 50_000, b'{"a": 1, "a": 2}', b'{"a": NaN}', b'{"a": 1e999}'],
)
def test_no_description(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(ModelError):
        parsed(content, "file")
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(EdgecError):
        opened(tmp_path / "tokenizer.json")

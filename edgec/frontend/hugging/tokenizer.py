"""The vocabulary in a tokenizer.json, as the `tokenizers` library writes it: BPE of bytes, or of SentencePiece."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec.errors import ModelError, UsageError
from edgec.frontend.hugging.document import Document, opened
from edgec.frontend.language.chat import chat_metadata, read_template
from edgec.frontend.language.facts import TOKENS
from edgec.frontend.language.table import table_of, written
from edgec.frontend.language.vocabulary import (
    BYTE,
    CONTROL,
    ENDS,
    NORMAL,
    SPLITTERS,
    UNKNOWN,
    UNUSED,
    USER,
    Vocabulary,
    byte_level,
    merged_pieces,
)
from edgec.text import printable

FILE = "tokenizer.json"
#: A chat template of its own.
TEMPLATE = "chat_template.jinja"
#: Files beside it that say which tokens begin and end a text.
BESIDE = ("tokenizer_config.json", "generation_config.json", "genai_config.json", "config.json")
#: No token is longer than this: a longer one is a mistake or an attack.
_LONGEST = 1 << 12
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
#: Patterns that split a text, and the names of the splitters that do the same.
_PATTERNS = {_LLAMA3: "llama3", _LLAMA3.replace("{1,3}", ""): "qwen2"}


def tokens_beside(folder: Path, most: int) -> dict[str, str]:
    """The metadata with the vocabulary of ``folder``; nothing where it has no tokenizer.json."""
    if not (folder / FILE).is_file():
        return {}
    beside = {name: opened(folder / name) for name in BESIDE if (folder / name).is_file()}
    vocabulary = vocabulary_of(opened(folder / FILE), beside, most)
    template = _template(folder, beside.get("tokenizer_config.json"))
    chat = chat_metadata(template, vocabulary) if template is not None else {}
    return {TOKENS: written(table_of(vocabulary)), **chat}


def _template(folder: Path, config: Document | None) -> str | None:
    """The chat template: a file of its own, or an entry of the configuration; of several, the one called default."""
    path = folder / TEMPLATE
    if path.is_file():
        try:
            return read_template(path)
        except UsageError as error:
            raise ModelError(error.message, where=error.where) from None
    found = config.value("chat_template", (str, list)) if config is not None and config.has("chat_template") else None
    if isinstance(found, list):
        named = (t for t in found if isinstance(t, dict) and t.get("name") == "default")
        found = next((t.get("template") for t in named), None)
    return found if isinstance(found, str) else None


def vocabulary_of(d: Document, beside: Mapping[str, Document], most: int) -> Vocabulary:
    """The vocabulary of a file, for a network of ``most`` tokens.

    Raises ModelError for kinds of vocabularies and ways of splitting that are not supported.
    """
    return _Tokenizer(d, beside, most).vocabulary()


@dataclass(frozen=True)
class _Tokenizer:
    document: Document
    beside: Mapping[str, Document]
    most: int

    def refused(self, what: str) -> ModelError:
        return ModelError(
            f"{what}, which is not supported",
            hint=f"without {FILE} beside it, the model is built without a tokenizer",
            where=self.document.where,
        )

    def vocabulary(self) -> Vocabulary:
        model = self.document.part("model")
        kind = model.text("type", "BPE")
        if kind != "BPE":
            raise self.refused(f"the vocabulary is of kind '{printable(kind)}'")
        for name in ("continuing_subword_prefix", "end_of_word_suffix"):
            if model.text(name, ""):
                raise self.refused(f"tokens have a '{name}'")
        splitter, is_prefixed = self.split()
        ids = self.ids(model)
        tokens, kinds = self.tokens(ids, model)
        merges = [self.pair(m) for m in model.value("merges", list, [])]
        has_bytes = splitter is not None
        if has_bytes:
            texts, pairs, single = byte_level(tokens, kinds, [b" ".join(m) for m in merges])
        else:
            texts, pairs, single = merged_pieces(tokens, kinds, merges)
        begin, adds_begin = self.begin(ids)
        end, ends = self.ends(ids, tokens, kinds)
        unknown = ids.get(model.text("unk_token", "")) if model.has("unk_token") else None
        return Vocabulary(
            texts, tuple(kinds), pairs, single, SPLITTERS[splitter or "none"], not has_bytes,
            model.flag("ignore_merges"), is_prefixed, begin, adds_begin, end, unknown, ends,
        )  # fmt: skip

    def ids(self, model: Document) -> dict[str, int]:
        """Tokens by their text; added ones stand beside the others."""
        found: dict[str, int] = {}
        entries = [*model.part("vocab").values.items()]
        entries += [(t.text("content"), t.integer("id")) for t in self.document.parts("added_tokens")]
        for text, number in entries:
            if type(number) is not int or not 0 <= number < self.most:
                raise ModelError(
                    f"token '{printable(text)[:40]}' has the number {printable(str(number))[:40]} of {self.most}",
                    where=self.document.where,
                )
            if found.setdefault(text, number) != number:
                raise ModelError(f"token '{printable(text)[:40]}' has two numbers", where=self.document.where)
        if len({*found.values()}) < len(found):
            raise ModelError("two tokens have one number", where=self.document.where)
        return found

    def tokens(self, ids: Mapping[str, int], model: Document) -> tuple[list[bytes], list[int]]:
        """Text and kind by number; numbers without a token are not used."""
        count = max(ids.values(), default=-1) + 1
        texts, kinds = [b""] * count, [UNUSED] * count
        for text, k in ids.items():
            texts[k], kinds[k] = self.raw(text), NORMAL
            if model.flag("byte_fallback") and len(text) == 6 and text.startswith("<0x") and text.endswith(">"):
                kinds[k] = BYTE
        if model.has("unk_token") and model.text("unk_token") in ids:
            kinds[ids[model.text("unk_token")]] = UNKNOWN
        for added in self.document.parts("added_tokens"):
            kinds[added.integer("id")] = CONTROL if added.flag("special") else USER
        if not count or max(map(len, texts)) > _LONGEST:
            raise ModelError("there are no tokens, or longer ones than there may be", where=self.document.where)
        return texts, kinds

    def raw(self, text: str) -> bytes:
        try:
            return text.encode()
        except UnicodeEncodeError:
            raise ModelError("a token is no text", where=self.document.where) from None

    def pair(self, merge: Any) -> tuple[bytes, bytes]:
        """A merge, in the two ways that files write it."""
        parts = merge.split(" ") if isinstance(merge, str) else merge
        if not isinstance(parts, list) or len(parts) != 2 or not all(isinstance(p, str) for p in parts):
            raise ModelError(f"'{printable(str(merge))[:40]}' is no merge of two tokens", where=self.document.where)
        return self.raw(parts[0]), self.raw(parts[1])

    def steps(self, name: str) -> Iterator[Document]:
        """The steps of ``name``, those of sequences one by one."""
        waiting = [self.document.part(name)] if self.document.has(name) else []
        while waiting:
            step = waiting.pop(0)
            inner = {"pre_tokenizer": "pretokenizers", "normalizer": "normalizers", "post_processor": "processors"}
            if step.text("type") == "Sequence":
                waiting = step.parts(inner[name]) + waiting
            else:
                yield step

    def split(self) -> tuple[str | None, bool]:
        """The name of the splitter (None: characters merge, blanks are letters), and whether a space comes first."""
        is_prefixed, has_digits, found = False, False, None
        for step in self.steps("normalizer"):
            kind = step.text("type")
            is_space = kind == "Replace" and step.part("pattern").values == {"String": " "}
            if kind == "Prepend" and step.text("prepend") == "▁":
                is_prefixed = True
            elif not (is_space and step.text("content") == "▁") and kind != "NFC":
                raise self.refused(f"texts are changed by '{printable(kind)}'")
        for step in self.steps("pre_tokenizer"):
            kind, pattern = step.text("type"), step.part("pattern").values
            if kind == "ByteLevel":
                if step.flag("add_prefix_space"):
                    raise self.refused("a space is put before every text")
                found = (found or "gpt-2") if step.flag("use_regex", True) else (found or "none")
            elif kind == "Digits" and step.flag("individual_digits"):
                has_digits = True
            elif kind == "Split" and pattern.get("Regex") in _PATTERNS and step.text("behavior") == "Isolated":
                found = _PATTERNS[pattern["Regex"]]
            elif kind == "Metaspace" and step.text("replacement", "▁") == "▁":
                is_prefixed = step.text("prepend_scheme", "always") != "never"
            elif not (kind == "Split" and pattern == {"String": " "}):
                raise self.refused(f"texts are split by '{printable(kind)}' {printable(str(pattern))[:80]}")
        if has_digits and found != "gpt-2":
            raise self.refused("texts are split at digits and by another pattern")
        return "smollm" if has_digits else found, is_prefixed

    def begin(self, ids: Mapping[str, int]) -> tuple[int | None, bool]:
        """The token before a text, and whether it is added."""
        for step in self.steps("post_processor"):
            first = step.parts("single")[:1] if step.text("type") == "TemplateProcessing" else []
            if first and first[0].has("SpecialToken"):
                return ids.get(first[0].part("SpecialToken").text("id")), True
        config = self.beside.get("tokenizer_config.json")
        if config is None:
            return None, False
        token = self.named(config, "bos_token", ids)
        return token, token is not None and config.flag("add_bos_token") and not self.document.has("post_processor")

    def named(self, config: Document, name: str, ids: Mapping[str, int]) -> int | None:
        """A token that a file names by its text, or by an object with it."""
        found = config.values.get(name)
        text = found.get("content") if isinstance(found, dict) else found
        return ids.get(text) if isinstance(text, str) else None

    def ends(self, ids: Mapping[str, int], tokens: list[bytes], kinds: list[int]) -> tuple[int | None, tuple[int, ...]]:
        """The token that ends a text, and all that do: those that files name, and control tokens that are known to."""
        numbers: list[int] = []
        for name, d in self.beside.items():
            about = d.part("model") if name == "genai_config.json" else d
            found = about.values.get("eos_token_id")
            numbers += [k for k in (found if isinstance(found, list) else [found]) if type(k) is int]
        config = self.beside.get("tokenizer_config.json")
        end = None if config is None else self.named(config, "eos_token", ids)
        inside = [k for k in numbers if 0 <= k < len(tokens)]
        known = [k for k, (token, kind) in enumerate(zip(tokens, kinds)) if kind == CONTROL and token in ENDS]
        end = inside[0] if end is None and inside else end
        return end, tuple(sorted({*inside, *known, *([] if end is None else [end])}))

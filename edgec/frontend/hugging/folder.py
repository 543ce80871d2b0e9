"""A folder of Hugging Face's: which files it has, and the tensors in them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from edgec.errors import ModelError, UsageError
from edgec.frontend.hugging import safetensors
from edgec.frontend.hugging.document import Document, opened
from edgec.frontend.hugging.safetensors import Stored
from edgec.text import identifier, printable

CONFIG, INDEX, TOKENIZER = "config.json", "model.safetensors.index.json", "tokenizer.json"
_MOST_FILES = 1000


@dataclass(frozen=True)
class HuggingModel:
    """The description of a model and its tensors, which stay in their files."""

    name: str
    where: str
    path: Path
    config: Document = field(repr=False)
    tensors: Mapping[str, Stored] = field(repr=False)
    files: tuple[Path, ...] = field(repr=False)

    @property
    def architecture(self) -> str:
        return self.config.text("model_type")

    def operator_counts(self) -> Counter[str]:
        """Number of tensors of every element type: a folder has no operators."""
        return Counter(t.kind for t in self.tensors.values())

    @property
    def weights_bytes(self) -> int:
        return sum(t.size for t in self.tensors.values())

    def digest(self) -> str:
        """SHA-256 of the description and of all files of weights."""
        found = sha256()
        for path in (self.path / CONFIG, *self.files):
            with path.open("rb") as file:
                while block := file.read(1 << 22):
                    found.update(block)
        return found.hexdigest()


def is_folder(path: Path) -> bool:
    """Is it a folder with a description of a model?"""
    return os.path.isfile(path / CONFIG)


def read(path: Path) -> HuggingModel:
    """The model in a folder; raises ModelError for a damaged one, UsageError for files that cannot be read."""
    where = printable(str(path))
    config = opened(path / CONFIG)
    files = _files(path, where)
    tensors: dict[str, Stored] = {}
    for file in files:
        for name, stored in safetensors.read(file).items():
            if name in tensors:
                raise ModelError(f"two tensors are named '{printable(name)}'", where=where)
            tensors[name] = stored
    name = identifier(path.resolve().name)
    return HuggingModel(name, where, path, config, tensors, files)


def trained_context(path: Path) -> int | None:
    """Most tokens that the model in a folder was trained for, as its descriptions tell; None where they do not."""
    places = (("genai_config.json", "model", "context_length"), (CONFIG, "", "max_position_embeddings"),
              (CONFIG, "", "n_positions"))  # fmt: skip
    for name, part, key in places:
        if (path / name).is_file():
            document = opened(path / name)
            document = document.part(part) if part else document
            if document.has(key):
                return max(document.integer(key), 1)
    return None


def _files(path: Path, where: str) -> tuple[Path, ...]:
    """The files of weights: those of the index, or all that are there."""
    if not (path / INDEX).is_file():
        found = tuple(sorted(path.glob("*.safetensors")))
        if not found:
            raise UsageError(
                "the folder has no weights in safetensors",
                hint="save them with save_pretrained(FOLDER, safe_serialization=True)",
                where=where,
            )
        return found
    places = opened(path / INDEX).part("weight_map").values
    names = sorted({str(name) for name in places.values()})
    if not names or len(names) > _MOST_FILES:
        raise ModelError(f"the index names {len(names)} files of weights", where=printable(str(path / INDEX)))
    for name in names:
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise ModelError(f"the index names '{printable(name)}', which is no file of the folder", where=where)
        if not (path / name).is_file():
            raise ModelError(f"the file of weights '{printable(name)}' is missing", where=where)
    return tuple(path / name for name in names)

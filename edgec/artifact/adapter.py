"""Low-rank adapters of a built language model: files of others, in the form that its sessions take."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from edgec.errors import ModelError, UsageError
from edgec.frontend import gguf
from edgec.frontend.gguf.adapter import adapter_of
from edgec.frontend.gguf.reader import read as read_gguf
from edgec.frontend.hugging.adapter import read_adapter
from edgec.frontend.language.adapter import arranged, check_arranged, is_arranged
from edgec.frontend.language.lora import Layout, read_layout
from edgec.text import printable
from edgec.untrusted import reason, regular

#: Cache lines, in bytes.
_ALIGNMENT = 64


class Adapter:
    """An adapter in memory, which any number of sessions of its model may use."""

    def __init__(self, content: bytes) -> None:
        raw = np.empty(len(content) + _ALIGNMENT, np.uint8)
        self.content = raw[-raw.ctypes.data % _ALIGNMENT :][: len(content)]
        self.content[:] = np.frombuffer(content, np.uint8)


def layout_for(facts: Mapping[str, Any], where: str) -> Layout:
    """The places of an adapter, by the facts of a built language model; raises UsageError where it has no room."""
    if not facts.get("lora"):
        raise UsageError("the model has no room for adapters", hint="build it with --lora 16", where=where)
    return read_layout(facts["lora"])


def read(path: str | Path, layout: Layout) -> bytes:
    """The bytes of an adapter as sessions take it, from a folder or file of PEFT's, from GGUF, or from such bytes.

    Raises ModelError for a file that is damaged or does not fit the model, UsageError for one that cannot be read.
    """
    path, where = Path(path), printable(str(path))
    try:
        if path.is_dir():
            return arranged(read_adapter(path), layout)
        with regular(path).open("rb") as file:
            start = file.read(8)
            if is_arranged(start):
                content = start + file.read(layout.bytes)
                check_arranged(content, layout, where)
                return content
        if gguf.is_gguf(start):
            return arranged(adapter_of(read_gguf(path, where)), layout)
        return arranged(read_adapter(path), layout)
    except (OSError, ValueError) as error:
        if isinstance(error, (ModelError, UsageError)):
            raise
        raise UsageError(f"cannot read the adapter: {reason(error)}", where=where) from None

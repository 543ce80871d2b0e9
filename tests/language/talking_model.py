"""A small language model that several modules of tests talk to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from gguf_files import llama
from test_tokenizer import metadata

from edgec.device import toolchain

#: Tokens of a text of the model.
CONTEXT = 90


def gguf(template: str | None, format: str = "Q4_1") -> bytes:
    """A decoder of one layer, whose tokens are bytes, a few words, and those that a conversation is marked by."""
    more = metadata()
    tokens = [*more["tokenizer.ggml.tokens"], "<|im_end|>", "<|im_start|>"]  # type: ignore[misc]
    more |= {"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": [3, 3, *[1] * 260, 3, 3]}
    more |= {} if template is None else {"tokenizer.chat_template": template}
    return llama(format, 1, vocabulary=len(tokens), **more)


@contextmanager
def compiled_with_less_optimization() -> Iterator[None]:
    """A model built inside costs the compiler less."""
    with pytest.MonkeyPatch.context() as patch:
        flags = tuple("-O1" if flag == "-O3" else flag for flag in toolchain.LANGUAGE_FLAGS)
        patch.setattr(toolchain, "LANGUAGE_FLAGS", flags)
        yield

"""The error that a cache adds is measured on a text that begins as texts do."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgec
from edgec.artifact.network import Network
from edgec.artifact.session import Session
from edgec.artifact.tokenizer import Tokenizer
from edgec.check.cache import cache_error
from edgec.progress import silent


def test_texts_begin_with_the_token_that_begins_texts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    class Reading(Session):
        def next(self, token: int, *more: Any) -> np.ndarray:
            read.append(token)
            return super().next(token, *more)

    monkeypatch.setattr(sys.modules[cache_error.__module__], "Session", Reading)
    with Network(folder) as network:
        begin = Tokenizer(network).begin
        for seed in (0, 1):
            cache_error("int8", network, network, seed, silent)
            assert begin is not None and read[:2] == [begin, begin] and len({*read}) > 2
            read.clear()


def test_without_such_a_token_texts_differ(tmp_path: Path) -> None:
    from gguf_files import llama

    (tmp_path / "lm.gguf").write_bytes(llama("Q4_1"))
    one, other = (edgec.check(tmp_path / "lm.gguf", samples=1, seed=s, context=48, cache="int8").cache for s in (0, 1))
    assert one is not None and other is not None and one.max_rel != other.max_rel

"""Reads out of an untrusted flatbuffer, whose tables may not say more than the file is long."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from edgec.errors import ModelError


class Cursor:
    """Bounded reads of vectors, numbers and strings out of the tables of an untrusted flatbuffer."""

    def __init__(self, package: Any, content: bytes, where: str) -> None:
        self.package = package
        self.content = content
        self.where = where
        #: Tables may share parts, so a small file could mean endless work: together they may say so much, no more.
        self.budget = 8 * len(content) + 1000

    def spend(self, count: int) -> int:
        self.budget -= count
        if count < 0 or self.budget < 0:
            raise ModelError("the file is damaged: its tables are longer than the file", hint="download it again")
        return count

    def each(self, table: Any, what: str) -> Iterator[Any]:
        """The elements of a vector of tables."""
        get = getattr(table, what)
        for k in range(self.spend(getattr(table, f"{what}Length")())):
            yield get(k)

    def numbers(self, table: Any, what: str) -> np.ndarray:
        """A vector of numbers; empty where it is absent."""
        self.spend(getattr(table, f"{what}Length")())
        found = getattr(table, f"{what}AsNumpy")()
        return found if isinstance(found, np.ndarray) else np.zeros(0, np.int32)

    def integers(self, table: Any, what: str) -> tuple[int, ...]:
        return tuple(int(v) for v in self.numbers(table, what))

    def text(self, raw: bytes | None) -> str:
        self.spend(len(raw or b""))
        return (raw or b"").decode("utf-8", "replace")

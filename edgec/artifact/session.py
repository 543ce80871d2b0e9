"""A text that a compiled language model reads and writes: its cache, and the position in it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgec import files
from edgec.artifact.adapter import Adapter, layout_for
from edgec.artifact.adapter import read as read_adapter
from edgec.artifact.folder import read_lock
from edgec.artifact.network import Network
from edgec.artifact.session_memory import memory_of
from edgec.errors import UsageError
from edgec.frontend.language.lora import read_layout
from edgec.options.typed import typed
from edgec.untrusted import reason, regular

_FULL, _LOST, _NOT_SAVED, _NOT_ADAPTER = 17, 18, 24, 25


def facts_of(folder: Path) -> Any:
    """The language model in the lock of a built folder; raises UsageError where it holds none."""
    facts = read_lock(folder).get("language_model")
    if not facts:
        raise UsageError("this is no language model", hint="build one from a GGUF file", where=str(folder))
    return facts


class Session:
    """One text. Sessions of one network share its weights, arena and threads, and wait for one another."""

    @typed
    def __init__(self, network: Network) -> None:
        """Begin an empty text; raises UsageError where the network is no language model."""
        facts = facts_of(network.folder)
        self.network = network
        self.context, self.vocabulary = int(facts["context"]), int(facts["vocabulary"])
        self.chunk = int(facts["chunk"])
        self.cache_bytes = int(facts["cache_bytes"])
        self._memory = memory_of(network, self.cache_bytes)
        self._held = np.empty(self.context, np.int32)
        self._layout = read_layout(facts["lora"]) if facts.get("lora") else None
        self._adapter: Adapter | None = None

    @property
    def past(self) -> int:
        """The number of tokens so far."""
        return self._memory.past

    @property
    def tokens(self) -> list[int]:
        """The tokens so far."""
        return [int(t) for t in self._held[: self.past]]

    def common(self, tokens: Sequence[int]) -> int:
        """The number of tokens at the start that are in the cache."""
        count = min(self.past, len(tokens))
        differs = np.flatnonzero(self._held[:count] != np.asarray(tokens[:count]))
        return int(differs[0]) if differs.size else count

    @typed
    def prefill(self, tokens: Sequence[int]) -> np.ndarray:
        """Append tokens; the logits [vocabulary] of the token after them.

        Raises UsageError for tokens outside the vocabulary, and where they do not fit the context.
        """
        given, logits = self._given(tokens), np.empty(self.vocabulary, np.float32)
        with self.network._lock:
            past = self.past
            self._check(
                self._call(
                    "prefill", ctypes.c_void_p(given.ctypes.data), ctypes.c_int64(len(given)),
                    ctypes.c_void_p(logits.ctypes.data),
                ), past, len(given),
            )  # fmt: skip
            self._held[past : past + len(given)] = given
        return logits

    @typed
    def extend(self, tokens: Sequence[int]) -> np.ndarray:
        """Make the text these tokens; those at the start that are in the cache already are not computed again.

        The logits [vocabulary] of the token after them; raises UsageError as `prefill` does.
        """
        given, logits = self._given(tokens), np.empty(self.vocabulary, np.float32)
        self._check(
            self._call(
                "extend", ctypes.c_void_p(self._held.ctypes.data), ctypes.c_void_p(given.ctypes.data),
                ctypes.c_int64(len(given)), ctypes.c_void_p(logits.ctypes.data),
            ), 0, len(given),
        )  # fmt: skip
        return logits

    def _given(self, tokens: Sequence[int]) -> np.ndarray:
        if not len(tokens):
            raise UsageError("no token is given")
        outside = [t for t in tokens if not 0 <= t < self.vocabulary]
        if outside:
            raise UsageError(f"token {outside[0]} is outside the vocabulary of {self.vocabulary}")
        return np.asarray(tokens, np.int32)

    @typed
    def next(self, token: int) -> np.ndarray:
        """Append one token; the logits of the one after it."""
        return self.prefill([token])

    @property
    def adapter(self) -> Adapter | None:
        """The adapter in use."""
        return self._adapter

    @typed
    def use_adapter(self, adapter: Adapter | str | Path | None) -> None:
        """Compute with an adapter from now on (None: without one); with another one than before, the text is empty.

        Raises ModelError for a file that does not fit the model, UsageError where it has no room for adapters; nothing
        is changed then.
        """
        if adapter is self._adapter:
            return
        if isinstance(adapter, (str, Path)):
            adapter = self.read_adapter(adapter)
        elif self._layout is None:
            layout_for({}, str(self.network.folder))
        content = adapter.content if adapter is not None else None
        pointer = ctypes.c_void_p(content.ctypes.data if content is not None else None)
        with self.network._lock:
            status = self._call("adapter", pointer, ctypes.c_size_t(content.size if content is not None else 0))
            if status == _NOT_ADAPTER:
                raise UsageError("the adapter was read for another model", where=str(self.network.folder))
            self._check(status)
            self._adapter = adapter

    @typed
    def read_adapter(self, path: str | Path) -> Adapter:
        """An adapter from a folder or file of PEFT's, a GGUF file, or a file of `edgec adapter`."""
        layout = self._layout or layout_for({}, str(self.network.folder))
        return Adapter(read_adapter(path, layout))

    def fork(self) -> Session:
        """Another session with the same text and adapter."""
        other = Session(self.network)
        with self.network._lock:
            other._check(other._call("fork", self._memory.pointer))
            other._held[...] = self._held
            other._adapter = self._adapter
        return other

    @typed
    def rewind(self, past: int = 0) -> None:
        """Go back to the first ``past`` tokens, which stay computed; raises UsageError for more than there are.

        Where windows keep no rows from which these could go on, the next tokens raise it, or on a GPU this.
        """
        with self.network._lock:
            self.network.require_open()
            if not 0 <= past <= self.past:
                raise UsageError(f"there are {self.past} tokens, and {past} of them are to stay")
            self._check(self._memory.rewind(past), past)

    @typed
    def save(self, path: str | Path) -> None:
        """Write the text and its part of the cache to a file, which is replaced as a whole where there is one."""
        with self.network._lock:
            saved = np.empty(self._saved_bytes(self.past), np.uint8)
            self._check(
                self._call(
                    "save", ctypes.c_void_p(self._held.ctypes.data), ctypes.c_void_p(saved.ctypes.data),
                    ctypes.c_size_t(saved.size),
                )
            )  # fmt: skip
        files.replace(path, saved.data)

    @typed
    def restore(self, path: str | Path) -> None:
        """Continue from a file that `save` wrote; raises UsageError for one that this very model did not write."""
        try:
            most = self._saved_bytes(self.context)
            with regular(path).open("rb") as file:
                saved = np.frombuffer(file.read(most + 1), np.uint8)  # one more than it can be is enough to be refused
        except (OSError, ValueError) as error:  # a ValueError: a path that cannot be one
            raise UsageError(f"cannot be read: {reason(error)}", where=str(path)) from None
        status = self._call(
            "restore", ctypes.c_void_p(self._held.ctypes.data), ctypes.c_void_p(saved.ctypes.data),
            ctypes.c_size_t(saved.size),
        )  # fmt: skip
        if status == _NOT_SAVED:
            raise UsageError(
                "was not saved by this model, with another adapter, or is not all there",
                hint="save the text again",
                where=str(path),
            )
        self._check(status)

    def _saved_bytes(self, past: int) -> int:
        """The size of a saved text of so many tokens."""
        size = self._function("saved_bytes")
        size.restype = ctypes.c_size_t
        return int(size(ctypes.c_int64(past)))

    def _function(self, name: str) -> ctypes._NamedFuncPointer:
        found: ctypes._NamedFuncPointer = getattr(self.network._net._library, f"{self.network.name}_{name}")
        return found

    def _call(self, name: str, *arguments: object) -> int:
        with self.network._lock:
            self.network.require_open()
            return int(self._function(name)(self._memory.pointer, *arguments))

    def _check(self, status: int, past: int = 0, count: int = 0) -> None:
        if status == _FULL:
            raise UsageError(
                f"{past} tokens and {count} more do not fit the context of {self.context}",
                hint="build with a larger --context",
            )
        if status == _LOST:
            raise UsageError(
                f"windows of the model keep no rows from which {past} tokens could go on",
                hint=f"go back by {self.chunk} tokens at most, or to 0",
            )
        if status:
            why = f": {net._why().decode(errors='replace')}" if hasattr(net := self.network._net, "_why") else ""
            raise UsageError(f"the model returned status {status}{why}", where=str(self.network.folder))

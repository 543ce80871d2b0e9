"""A built language model in Python: text in, text out, piece by piece."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from edgec.artifact.adapter import Adapter, layout_for
from edgec.artifact.adapter import read as read_adapter
from edgec.artifact.conversation import Conversation
from edgec.artifact.network import Network
from edgec.artifact.sampler import Mask, Sampler
from edgec.artifact.sampling import Sampling
from edgec.artifact.session import Session, facts_of
from edgec.artifact.text_stream import GOING
from edgec.artifact.tokenizer import Tokenizer
from edgec.errors import UsageError
from edgec.frontend.language.chat_template import Message
from edgec.options.typed import typed
from edgec.text import did_you_mean, one_of, printable

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Drawing(TypedDict, total=False):
    """The fields of `Sampling` as keywords."""

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    window: int
    seed: int | None


@dataclass
class Usage:
    """Tokens and seconds of a generation: tokens that the cache had already (``reused``) were not computed again."""

    prompt_tokens: int = 0
    reused_tokens: int = 0
    completion_tokens: int = 0
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0

    @property
    def tokens_per_second(self) -> float:
        """Tokens a second behind the first one, which the prompt's run gives; 0 where there is none."""
        return (self.completion_tokens - 1) / self.decode_seconds if self.completion_tokens > 1 else 0.0


class Generation:
    """An answer as it comes: an iterator over pieces of text, in whole characters.

    ``finish`` is None while it goes on, then "stop" (a stop string, or a token that ends a text) or "length".
    """

    def __init__(self, model: LanguageModel, tokens: Sequence[int], request: _Request) -> None:
        self.usage = Usage(prompt_tokens=len(tokens))
        self.finish: str | None = None
        network = model.network
        self._sampler = Sampler(network._net._library, model.vocabulary, request.sampling, request.mask)
        self._stream = model.tokenizer.text_stream(request.stops)
        self.seed = self._sampler.seed
        self._pieces = self._generate(model, tokens, request)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        return next(self._pieces)

    def close(self) -> None:
        """Stop, and give the session back."""
        self._pieces.close()

    def text(self) -> str:
        """All that is still to come."""
        return "".join(self)

    def _generate(self, model: LanguageModel, tokens: Sequence[int], request: _Request) -> Generator[str, None, None]:
        session = request.session or model._take(tokens, request.adapter)
        try:
            if request.session is None or request.adapter is not None:
                session.use_adapter(request.adapter)
            yield from self._run(session, tokens, request)
        finally:
            if request.session is None:
                model._give(session)

    def _run(self, session: Session, tokens: Sequence[int], request: _Request) -> Iterator[str]:
        begun = time.perf_counter()
        self.usage.reused_tokens = min(session.common(tokens), len(tokens) - 1)
        logits = session.extend(tokens)
        self._sampler.accept(tokens[-request.sampling.window :])
        self.usage.prefill_seconds = time.perf_counter() - begun
        most = session.context - len(tokens) + 1
        most = most if request.max_tokens is None else min(most, request.max_tokens)
        begun = time.perf_counter()
        while self.usage.completion_tokens < most:
            token = self._sampler.sample(logits)
            self._sampler.accept([token])
            piece = self._stream.put(token)
            self.usage.completion_tokens += 1
            self.usage.decode_seconds = time.perf_counter() - begun
            if self._stream.status != GOING:
                self.finish = "stop"
            if piece:
                yield piece
            if self.finish is not None:
                return
            if self.usage.completion_tokens < most:
                logits = session.next(token)
        if rest := self._stream.finish():
            yield rest
        self.finish = "length"


@dataclass(frozen=True)
class _Request:
    sampling: Sampling
    max_tokens: int | None
    stops: Sequence[str]
    mask: Mask | None
    session: Session | None
    adapter: Adapter | None


class LanguageModel:
    """A built language model. Generations in several threads are right: each has a session, and they take turns.

    Sessions are kept, and a prompt goes on from the one with the longest common beginning: a second turn of a
    conversation computes only what is new. Each session that is used at the same time has a cache of its own.
    """

    @typed
    def __init__(self, folder: str | Path, threads: int = 1) -> None:
        """Open a built folder; raises UsageError where it holds no language model with a tokenizer."""
        facts_of(Path(folder))
        self.network = Network(folder, threads)
        self._idle = [Session(self.network)]
        self._lock = threading.Lock()
        self.tokenizer = Tokenizer(self.network)
        self.context, self.vocabulary = self._idle[0].context, self._idle[0].vocabulary
        self._conversation: Conversation | None = None
        self._adapters: dict[str, Adapter] = {}
        self._adapter: Adapter | None = None

    def __str__(self) -> str:
        """The name, and the sizes of the context and the vocabulary in tokens."""
        return f"language model {self.network.name}\n  context {self.context} tokens, vocabulary {self.vocabulary}"

    __repr__ = __str__

    @property
    def conversation(self) -> Conversation:
        """The chat template; raises UsageError where the model has none."""
        if self._conversation is None:
            self._conversation = Conversation(self.network, self.tokenizer)
        return self._conversation

    @property
    def adapters(self) -> list[str]:
        """The names of the adapters that `add_adapter` has read."""
        return list(self._adapters)

    @typed
    def add_adapter(self, name: str, path: str | Path) -> None:
        """Read an adapter, for generations that name it: a folder or file of PEFT's, GGUF, or one of `edgec adapter`.

        Raises ModelError for one that does not fit the model, UsageError where the model has no room for adapters;
        those that were there stay.
        """
        self._adapters[name] = self._read(path)

    @typed
    def adapter(self, path: str | Path | None) -> None:
        """Use this adapter (None: none) for generations from now on that name no other; errors as of `add_adapter`."""
        self._adapter = None if path is None else self._read(path)

    def _read(self, path: str | Path) -> Adapter:
        facts = facts_of(self.network.folder)
        return Adapter(read_adapter(path, layout_for(facts, str(self.network.folder))))

    def session(self) -> Session:
        """A session of one's own, to give to `generate` and `chat`; it can be saved, restored and forked."""
        return Session(self.network)

    @typed
    def generate(
        self,
        prompt: str | Sequence[int],
        *,
        max_tokens: int | None = None,
        stop: str | Sequence[str] = (),
        mask: Mask | None = None,
        session: Session | None = None,
        special: bool = False,
        adapter: str = "",
        **sampling: Unpack[Drawing],
    ) -> Generation:
        """The continuation of a text, or of tokens: at most ``max_tokens``, up to a stop string, which is not shown.

        ``special``: texts of control tokens in the prompt become these tokens. ``adapter``: the name of one that was
        added, in place of the one in use; a session that is given keeps its own where none is named. The remaining
        keywords are those of `Sampling`. Raises UsageError for a prompt that does not fit the context, for an adapter
        that is not there, and for values outside their ranges.
        """
        is_text = isinstance(prompt, str)
        tokens = self.tokenizer.encode(prompt, begin=True, special=special) if is_text else [*prompt]  # type: ignore
        return self._generation(tokens, max_tokens, stop, mask, session, adapter, sampling)

    @typed
    def chat(
        self,
        messages: Sequence[Message | Mapping[str, Any]],
        *,
        max_tokens: int | None = None,
        stop: str | Sequence[str] = (),
        mask: Mask | None = None,
        session: Session | None = None,
        adapter: str = "",
        **sampling: Unpack[Drawing],
    ) -> Generation:
        """The answer to messages with ``role`` (system, user, assistant) and ``content``; keywords as in `generate`."""
        return self._generation(self.conversation.tokens(messages), max_tokens, stop, mask, session, adapter, sampling)

    def _generation(
        self,
        tokens: list[int],
        max_tokens: int | None,
        stop: str | Sequence[str],
        mask: Mask | None,
        session: Session | None,
        adapter: str,
        sampling: Drawing,
    ) -> Generation:
        names = [f.name for f in fields(Sampling)]
        for name in sorted(set(sampling) - set(names)):
            known = [*names, "max_tokens", "stop", "mask", "session", "adapter"]
            hint = did_you_mean(name, known, f"the settings are {', '.join(names)}")
            raise UsageError(f"there is no setting '{name}'", hint=hint)
        if max_tokens is not None and max_tokens < 1:
            raise UsageError(f"max_tokens is {max_tokens}: 1 or more are allowed")
        if not tokens:
            raise UsageError("the prompt has no token")
        outside = [t for t in tokens if not 0 <= t < self.vocabulary]
        if outside:
            raise UsageError(f"token {outside[0]} is outside the vocabulary of {self.vocabulary}")
        if len(tokens) > self.context:
            raise UsageError(
                f"the prompt has {len(tokens)} tokens, the context {self.context}", hint="build with a larger --context"
            )
        if adapter and adapter not in self._adapters:
            hint = one_of(adapter, self._adapters) if self._adapters else "none was added: add_adapter(PATH)"
            raise UsageError(f"there is no adapter '{printable(adapter)}'", hint=hint)
        chosen = self._adapters[adapter] if adapter else self._adapter if session is None else None
        stops = (stop,) if isinstance(stop, str) else tuple(stop)
        return Generation(self, tokens, _Request(Sampling(**sampling), max_tokens, stops, mask, session, chosen))

    def _take(self, tokens: Sequence[int], adapter: Adapter | None) -> Session:
        """The idle session of this adapter with the longest common beginning; a new one where all are used."""
        with self._lock:
            if not self._idle:
                return Session(self.network)
            best = max(self._idle, key=lambda s: s.common(tokens) if s.adapter is adapter else -1)
            self._idle.remove(best)
            return best

    def _give(self, session: Session) -> None:
        with self._lock:
            self._idle.append(session)

    def close(self) -> None:
        """Stop the threads; nothing can be generated afterwards."""
        self.network.close()

    def __enter__(self) -> LanguageModel:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

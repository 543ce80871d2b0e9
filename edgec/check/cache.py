"""The error that a cache in fewer bits adds to a language model: beside the same model with a cache in fp32.

The text is the model's own, drawn with its cache in fp32 at temperature 1; both read it token by token. It starts with
the token that begins texts, where the model has one: without it, a model may be far from what it was trained on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgec.artifact.folder import read_lock
from edgec.artifact.network import Network
from edgec.artifact.session import Session
from edgec.artifact.tokenizer import Tokenizer
from edgec.build import Built, rebuilt
from edgec.device.compilers import runs_here
from edgec.frontend.language.facts import facts_of
from edgec.progress import Progress

#: Tokens of the text, where the context has as many.
TOKENS = 192


@dataclass(frozen=True)
class CacheError:
    """Of ``tokens`` positions: the largest difference of logits over the largest logit, the mean divergence
    (Kullback-Leibler) of the next token's distribution in nats, the share of positions with the same likeliest token,
    and the perplexity of the text with either cache."""

    kind: str
    tokens: int
    max_rel: float
    divergence: float
    agrees: float
    perplexity: float
    fp32_perplexity: float
    bytes: int
    fp32_bytes: int


def added_error(built: Built, seed: int, progress: Progress) -> CacheError | None:
    """The error that the cache of a language model adds, where it has fewer bits than fp32 and runs here."""
    facts = facts_of(built.graph)
    if facts is None or facts.cache == "fp32" or built.compiler is None or built.parsed is None:
        return None
    if not runs_here(built.options.device, built.compiler):
        return None
    exact = rebuilt(built, progress, cache="fp32")
    return cache_error(facts.cache, built.network, exact.network, seed, progress)


def cache_error(kind: str, network: Network, exact: Network, seed: int, progress: Progress) -> CacheError:
    """The error of ``network``, whose cache is of ``kind``, beside ``exact``, whose cache is in fp32."""
    random = np.random.default_rng(seed)
    narrow, wide = Session(network), Session(exact)
    count = min(TOKENS, wide.context)
    token = _first(network, random, wide.vocabulary)
    apart, divergence, same, surprise = 0.0, 0.0, 0, np.zeros(2)
    for k in range(count):
        progress("check", f"cache in {kind}, token {k + 1}/{count}", k / count)
        logits = [session.next(token).astype(np.float64) for session in (narrow, wide)]
        logs = [y - y.max() - np.log(np.exp(y - y.max()).sum()) for y in logits]
        shares = np.exp(logs[1])
        apart = max(apart, float(np.abs(logits[0] - logits[1]).max() / np.abs(logits[1]).max()))
        divergence += float((shares * (logs[1] - logs[0])).sum())
        same += int(logits[0].argmax() == logits[1].argmax())
        token = int(random.choice(len(shares), p=shares / shares.sum()))
        surprise -= [log[token] for log in logs]
    perplexities = np.exp(surprise / count)
    return CacheError(
        kind, count, apart, divergence / count, same / count, float(perplexities[0]), float(perplexities[1]),
        narrow.cache_bytes, wide.cache_bytes,
    )  # fmt: skip


def _first(network: Network, random: np.random.Generator, vocabulary: int) -> int:
    """The token that begins texts, or any."""
    facts = read_lock(network.folder).get("language_model") or {}
    begin = Tokenizer(network).begin if facts.get("has_tokens") else None
    return begin if begin is not None else int(random.integers(vocabulary))

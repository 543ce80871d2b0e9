"""The facts of a language model that stay with its graph through all stages, in the metadata."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from edgec.ir.graph import Graph

#: The keys of the metadata: the facts, the table of the tokenizer (`edgec.frontend.language.table`), and the chat
#: template (`edgec.frontend.language.chat`).
KEY, TOKENS, CHAT = "language model", "tokens", "chat"
#: Likewise the places in an adapter (`edgec.frontend.language.lora`).
LORA = "lora"
#: Keys whose values are not for people.
LONG = frozenset({TOKENS, CHAT, LORA})


@dataclass(frozen=True)
class LanguageModel:
    """Most tokens of a text (``context``) and of one run (``chunk``), and the number of different tokens.

    ``cache`` is what keys and values are stored as. ``ring`` counts the rows of the smallest ring among the layers (0:
    all layers keep all rows): a text of more tokens can go back by a chunk at most, or to its start.
    """

    context: int
    chunk: int
    vocabulary: int
    cache: str = "fp32"
    ring: int = 0

    def described(self) -> dict[str, str]:
        """The entry of the metadata."""
        return {KEY: json.dumps(asdict(self))}


def facts_of(graph: Graph) -> LanguageModel | None:
    """The facts of a graph; None where it is no language model."""
    return LanguageModel(**json.loads(graph.metadata[KEY])) if KEY in graph.metadata else None

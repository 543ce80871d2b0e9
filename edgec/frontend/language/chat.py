"""The chat template of a language model in the metadata of its graph: its source, and its form where it has one."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

from edgec.errors import ModelError, UsageError
from edgec.frontend.language.chat_form import ChatForm, form_of, read_form
from edgec.frontend.language.chat_template import MOST_CHARACTERS, ChatTemplate
from edgec.frontend.language.facts import CHAT, facts_of
from edgec.frontend.language.vocabulary import Vocabulary
from edgec.ir.graph import Graph
from edgec.text import printable
from edgec.untrusted import reason, regular


@dataclass(frozen=True)
class Chat:
    """A template, and its form; without one, the ``reason``: conversations are then rendered in Python alone."""

    template: ChatTemplate
    form: ChatForm | None = None
    reason: str | None = None

    def written(self) -> str:
        """The chat as text."""
        t, form = self.template, self.form.written() if self.form is not None else None
        return json.dumps({"source": t.source, "begin": t.begin, "end": t.end, "form": form, "reason": self.reason})


def read_chat(text: str) -> Chat:
    """The chat that `Chat.written` wrote; raises UsageError for other texts."""
    try:
        found = json.loads(text)
        form = read_form(found["form"]) if found["form"] is not None else None
        texts = [found[key] for key in ("source", "begin", "end")]
        if not all(isinstance(t, str) for t in texts) or not isinstance(found["reason"], (str, type(None))):
            raise TypeError
        return Chat(ChatTemplate(*texts), form, found["reason"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise UsageError("this describes no chat template", hint="build the model again") from None


def chat_of(graph: Graph) -> Chat | None:
    """The chat of a graph; None where its model has no template."""
    return read_chat(graph.metadata[CHAT]) if CHAT in graph.metadata else None


def chat_metadata(source: str, vocabulary: Vocabulary) -> dict[str, str]:
    """The metadata of a graph whose model has a template in Jinja; its form is found later."""
    begin, end = (
        "" if k is None else vocabulary.texts[k].decode("utf-8", "replace") for k in (vocabulary.begin, vocabulary.end)
    )
    return {CHAT: Chat(ChatTemplate(source, begin, end)).written()}


def with_chat(graph: Graph, given: Path | None = None) -> Graph:
    """The graph of a language model with the form of its template; ``given`` is a file in place of the model's.

    Raises ModelError for a template beyond the bounds of time, memory and output, UsageError for a file that cannot be
    read or is not for this model.
    """
    if facts_of(graph) is None:
        if given is not None:
            where = "--chat-template"
            raise UsageError("only a language model has a chat template", hint=f"leave out {where}", where=where)
        return graph
    found = chat_of(graph)
    if given is not None:
        source = read_template(given)
        found = Chat(replace(found.template if found else ChatTemplate(""), source=source)) if source.strip() else None
    rest = {key: value for key, value in graph.metadata.items() if key != CHAT}
    if found is None:
        return replace(graph, metadata=rest) if CHAT in graph.metadata else graph
    try:
        form = form_of(found.template)
    except ModelError as error:
        error.where = error.where or str(given or graph.name)
        raise
    chat = (
        Chat(found.template, form) if isinstance(form, ChatForm) else Chat(found.template, None, printable(form, 300))
    )
    return replace(graph, metadata={**rest, CHAT: chat.written()})


def read_template(path: Path) -> str:
    """The text of a template's file; raises UsageError where it cannot be read."""
    try:
        with regular(path).open("rb") as file:
            raw = file.read(4 * MOST_CHARACTERS + 1)
        return raw.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot be read: {reason(error)}", where=str(path)) from None

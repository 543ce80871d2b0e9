"""The form of most chat templates: constant text between messages, which depends on the roles before and after it.

It is found by rendering probe conversations, and then held against the template on others. C programs need nothing else
(`codegen_templates/language/ec_chat.c`), and what people write cannot become a control token.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from edgec.frontend.language.chat_template import ChatTemplate, Message, Rendered, render

START, SYSTEM, USER, ASSISTANT, END = "start", "system", "user", "assistant", "end"
ROLES = (SYSTEM, USER, ASSISTANT)
#: What becomes of a content, bits as in ec_chat.h.
AFTER_THOUGHT, NO_LINES, STRIP_START, STRIP_END, NOT_EMPTY = 1, 2, 4, 8, 16
_THOUGHT = "</think>"
#: Characters of all texts between messages together.
_LONGEST = 1 << 15
_Order = tuple[str, ...]
#: Orders that every form has to have, and those that it may have: a system message, and unusual ones.
_NEEDED: tuple[_Order, ...] = ((USER,), (USER, ASSISTANT, USER), (USER, ASSISTANT, USER, ASSISTANT, USER))
_SYSTEM: tuple[_Order, ...] = ((SYSTEM, USER), (SYSTEM, USER, ASSISTANT, USER))
_UNUSUAL: tuple[_Order, ...] = (
    (USER, USER), (USER, ASSISTANT, ASSISTANT, USER), (USER, SYSTEM, USER), (ASSISTANT, USER),
    (SYSTEM, ASSISTANT, USER), (USER, ASSISTANT, SYSTEM, USER), (USER, ASSISTANT), (SYSTEM,), (SYSTEM, SYSTEM, USER),
)  # fmt: skip
_CONTENTS = (
    "plain", "", " ", "  both \n", "\n\nlines", "tab\t", "\u00a0\u3000wide\u2003", "{{ 1 }} {% if %}",
    "<b>&amp;'\"\\", "a\r\nb", "<|im_end|>", "ünï \U0001f600", "<think>a</think>\n\n b",
    "x</think>y</think>\n z \n", "</think>", "line\nline\n",
)  # fmt: skip


@dataclass(frozen=True)
class ChatForm:
    """The text ``between`` the roles before and after it, and the changes to contents by role."""

    between: Mapping[tuple[str, str], str]
    changes: Mapping[str, int]

    def text(self, messages: Sequence[Message]) -> str | None:
        """The text up to where the answer begins; None where the template has no such order of messages."""
        before, parts = START, []
        for m in messages:
            content = changed(m.content, self.changes.get(m.role, 0))
            if (before, m.role) not in self.between or (not content and self.changes.get(m.role, 0) & NOT_EMPTY):
                return None
            parts += [self.between[before, m.role], content]
            before = m.role
        return "".join([*parts, self.between[before, END]]) if (before, END) in self.between else None

    def written(self) -> str:
        """The form as text, for the metadata of a graph."""
        pairs = {" ".join(pair): text for pair, text in sorted(self.between.items())}
        return json.dumps({"between": pairs, "changes": dict(sorted(self.changes.items()))})


def read_form(text: str) -> ChatForm:
    """The form that `ChatForm.written` wrote; for others, a ValueError, LookupError, TypeError or AttributeError."""
    found = json.loads(text)
    pairs = {(before, after): t for pair, t in found["between"].items() for before, after in [pair.split(" ")]}
    changes = dict(found["changes"])
    if not all(isinstance(t, str) for t in pairs.values()) or not all(type(n) is int for n in changes.values()):
        raise TypeError("no form of a chat template")
    return ChatForm(pairs, changes)


def changed(content: str, changes: int) -> str:
    """A content as the template writes it."""
    if changes & AFTER_THOUGHT and _THOUGHT in content:
        content = content.rpartition(_THOUGHT)[2]
        content = content.lstrip("\n") if changes & NO_LINES else content
    content = content.lstrip() if changes & STRIP_START else content
    return content.rstrip() if changes & STRIP_END else content


@lru_cache(maxsize=16)
def form_of(template: ChatTemplate) -> ChatForm | str:
    """The form of a template, or the reason why it has none.

    Raises ModelError for a template that takes more time, memory or output than the bounds allow.
    """
    between = _between(template)
    if isinstance(between, str):
        return between
    usual, unusual = between
    if sum(map(len, (*usual.values(), *unusual.values()))) > _LONGEST:
        return f"it writes more than {_LONGEST} characters between messages"
    changes = _changes(template, usual)
    if isinstance(changes, str):
        return changes
    form = ChatForm({**unusual, **usual}, changes)
    if any("\0" in text or any("\ud800" <= c <= "\udfff" for c in text) for text in form.between.values()):
        return "it writes characters that no text has"
    if unusual and _differs(template, form, [*unusual]) is not None:
        form = ChatForm(usual, changes)
    order = _differs(template, form, [])
    return form if order is None else f"its text between messages is not constant in the order {', '.join(order)}"


def _probe(order: _Order) -> list[Message]:
    return [Message(role, f"Qz{k}xProbe{k}") for k, role in enumerate(order)]


def _pieces(order: _Order, rendered: Rendered) -> dict[tuple[str, str], str] | None:
    """Texts between the contents of a probe; None where a content is not there once, or one pair has two texts."""
    found: dict[tuple[str, str], str] = {}
    rest, before = rendered.text, START
    for message, after in zip([*_probe(order), None], (*order, END)):
        text, content, rest = rest.partition(message.content) if message else (rest, "", "")
        if (message and (not content or content in rest)) or found.setdefault((before, after), text) != text:
            return None
        before = after
    return found


def _between(template: ChatTemplate) -> tuple[dict[tuple[str, str], str], dict[tuple[str, str], str]] | str:
    """Texts between messages: of usual orders, and of others."""
    orders = (*_NEEDED, *_SYSTEM, *_UNUSUAL)
    usual: dict[tuple[str, str], str] = {}
    unusual: dict[tuple[str, str], str] = {}
    for order, rendered in zip(orders, render(template, [_probe(order) for order in orders])):
        if rendered.refusal is not None:
            if order in _NEEDED:
                return f"it refuses {', '.join(order)}: {rendered.refusal}"
            continue
        found = _pieces(order, rendered)
        fits = found is not None and all({**unusual, **usual}.get(pair, text) == text for pair, text in found.items())
        if order in _UNUSUAL:
            unusual |= {pair: text for pair, text in (found or {}).items() if fits and pair not in usual}
        elif not fits:
            return f"its text between messages is not constant in the order {', '.join(order)}"
        else:
            usual |= found or {}
    return usual, unusual


def _changes(template: ChatTemplate, between: Mapping[tuple[str, str], str]) -> dict[str, int] | str:
    """Changes to the contents of every role that the template takes."""
    orders = {USER: (USER,), ASSISTANT: (USER, ASSISTANT, USER), SYSTEM: (SYSTEM, USER)}
    roles = [role for role in ROLES if role != SYSTEM or (START, SYSTEM) in between]
    tried = [(role, content) for role in roles for content in _CONTENTS]

    def conversation(role: str, content: str) -> list[Message]:
        places = orders[role]
        return [Message(r, content if r == role and k == places.index(role) else "x") for k, r in enumerate(places)]

    rendered = dict(zip(tried, render(template, [conversation(*case) for case in tried])))
    thoughts = (0, AFTER_THOUGHT, AFTER_THOUGHT | NO_LINES)
    candidates = [t | s for s in (0, STRIP_START | STRIP_END, STRIP_START, STRIP_END) for t in thoughts]
    changes: dict[str, int] = {}
    for role in roles:

        def agrees(change: int, role: str = role) -> bool:
            form = ChatForm(between, {role: change})
            cases = ((form.text(conversation(role, c)), rendered[role, c]) for c in _CONTENTS)
            return all(text is None or (text == r.text and r.refusal is None) for text, r in cases)

        fitting = next((c for c in (*candidates, *(c | NOT_EMPTY for c in candidates)) if agrees(c)), None)
        if fitting is None:
            return f"it changes what {role} says in a way that edgec does not know"
        changes[role] = fitting
    return changes


def _differs(template: ChatTemplate, form: ChatForm, wanted: Sequence[tuple[str, str]]) -> _Order | None:
    """The roles of a drawn conversation that the template renders otherwise; None where all are equal.

    Conversations contain the pairs of roles ``wanted``, or are the usual ones: a system message perhaps, then turns.
    """
    draw = random.Random(0)
    conversations = [*_walks(form, draw, wanted)]
    for messages, rendered in zip(conversations, render(template, conversations)):
        text = form.text(messages)
        if text is not None and (rendered.refusal is not None or text != rendered.text):
            return tuple(m.role for m in messages)
    return None


def _walks(form: ChatForm, draw: random.Random, wanted: Sequence[tuple[str, str]]) -> Iterator[list[Message]]:
    def message(role: str) -> Message:
        return Message(role, draw.choice(_CONTENTS) + draw.choice(("", "word", "Some text.", "a\nb ")))

    for count in range(24):
        roles = [USER, *(r for _ in range(count % 4) for r in (ASSISTANT, USER))]
        roles = [SYSTEM, *roles] if count % 2 and (START, SYSTEM) in form.between else roles
        if wanted:
            roles = [START]
            while len(roles) < 8:
                steps = [after for before, after in form.between if before == roles[-1]]
                step = draw.choice(sorted(steps)) if steps else END
                if step == END:
                    break
                roles.append(step)
            del roles[0]
        if roles:
            yield [message(role) for role in roles]

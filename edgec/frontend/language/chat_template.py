"""The chat template of a model file, as the format has it: a program in Jinja that nobody has to trust.

It is rendered in a sandbox, in a process of its own with bounded time, memory and output.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgec.errors import ModelError
from edgec.text import printable

#: Bounds of a template and of what it does, for all conversations of a call together.
MOST_CHARACTERS, SECONDS, MOST_BYTES, LONGEST = 1 << 16, 3, 1 << 29, 1 << 20
_PROCESS = Path(__file__).with_name("template_process.py")


@dataclass(frozen=True)
class Message:
    """The content of ``system``, ``user`` or ``assistant``."""

    role: str
    content: str


@dataclass(frozen=True)
class ChatTemplate:
    """A template in Jinja, and the texts of the tokens that begin and end a text."""

    source: str
    begin: str = ""
    end: str = ""


@dataclass(frozen=True)
class Rendered:
    """The text of a conversation, or the template's reason to refuse it."""

    text: str
    refusal: str | None = None


def render(
    template: ChatTemplate, conversations: Sequence[Sequence[Message]], seconds: int = SECONDS
) -> list[Rendered]:
    """The text of every conversation up to where the answer begins.

    Raises ModelError for a template that takes more time, memory or output than the bounds allow.
    """
    if len(template.source) > MOST_CHARACTERS:
        raise ModelError(f"the chat template has {len(template.source)} characters; {MOST_CHARACTERS} are allowed")
    request = {
        "path": sys.path, "template": template.source, "seconds": seconds, "bytes": MOST_BYTES, "longest": LONGEST,
        "names": {"bos_token": template.begin, "eos_token": template.end, "tools": None, "documents": None},
        "conversations": [[{"role": m.role, "content": m.content} for m in c] for c in conversations],
    }  # fmt: skip
    command = [sys.executable, "-I", "-S", "-B", str(_PROCESS)]
    try:  # waiting for the machine counts too: other processes may have it for a while
        done = subprocess.run(
            command, input=json.dumps(request).encode(), capture_output=True, timeout=10 * seconds + 10, env={}
        )
    except subprocess.TimeoutExpired:
        raise _exceeded(f"it takes more than {10 * seconds + 10} seconds") from None
    if done.returncode:
        if done.returncode < 0:
            raise _exceeded(f"it takes more than {seconds} seconds")
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise _exceeded(printable(last[0], 200) if last else f"its process ended with {done.returncode}")
    found = []
    for answer in json.loads(done.stdout):
        if answer.get("is_limit"):
            raise _exceeded(answer["error"])
        found.append(Rendered(answer.get("text", ""), answer.get("error")))
    return found


def _exceeded(reason: str) -> ModelError:
    return ModelError(
        f"the chat template cannot be evaluated: {reason}",
        hint="give another one, or an empty file for none, with --chat-template FILE",
    )

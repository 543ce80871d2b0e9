"""The process that renders chat templates of model files: a program of its own, with limits that end it.

It reads one JSON object from standard input and writes one to standard output. It imports nothing of edgec, so that it
starts fast, and can write no file.
"""

from __future__ import annotations

import json
import resource
import sys
from typing import Any


def main() -> None:
    """Render every conversation of the request."""
    request = json.load(sys.stdin)
    sys.path[:] = request["path"]
    render = _renderer(request)
    for kind, most in (
        (resource.RLIMIT_CPU, request["seconds"]),
        (resource.RLIMIT_AS, request["bytes"]),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (most, most))
    answers = []
    for messages in request["conversations"]:
        try:
            answers.append({"text": render(messages)})
        except MemoryError:
            answers.append({"error": f"it needs more than {request['bytes'] >> 20} MiB of memory", "is_limit": True})
        except _TooLongError:
            answers.append({"error": f"it writes more than {request['longest']} characters", "is_limit": True})
        except RecursionError:
            answers.append({"error": "it calls itself without end", "is_limit": True})
        except Exception as error:
            answers.append({"error": f"{type(error).__name__}: {error}"[:300]})
    json.dump(answers, sys.stdout)


class _TooLongError(Exception):
    """The text is longer than any conversation."""


def _renderer(request: dict[str, Any]) -> Any:
    """A function from messages to their text; a template that cannot be read fails in every conversation."""
    import jinja2.ext
    import jinja2.sandbox

    def fail(message: object) -> None:
        raise jinja2.TemplateError(str(message))

    def as_json(value: object, indent: int | None = None, **other: object) -> str:
        return json.dumps(value, ensure_ascii=False, indent=indent)

    made = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols]
    )
    del made.globals["lipsum"]
    made.globals["raise_exception"] = fail
    made.filters["tojson"] = as_json
    longest: int = request["longest"]
    compiled: list[jinja2.Template] = []

    def render(messages: list[dict[str, str]]) -> str:
        parts, length = [], 0
        if not compiled:
            compiled.append(made.from_string(request["template"]))
        for part in compiled[0].generate(messages=messages, add_generation_prompt=True, **request["names"]):
            length += len(part)
            if length > longest:
                raise _TooLongError
            parts.append(part)
        return "".join(parts)

    return render


if __name__ == "__main__":
    main()

"""Commands that use a build: its page, a check of this very build, a benchmark, C, Python and apps."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from edgec.emit.apps import EXTRAS
from edgec.report.record import Record
from edgec.text import as_argument

Steps = list[dict[str, str]]


def steps(
    found: Record, asked: Sequence[str], extras: Sequence[str], start: str, peer: str, reopens: bool = False
) -> Steps:
    """Next steps with the build of the record ``found``: the purpose and the command, quoted for a shell.

    ``asked`` are the words that make the same build again, where the folder does not `reopen`: the model, then options.
    ``extras`` are its bindings and apps. A build that did not ``start`` at a model has nothing to be compared with,
    others are timed beside ``peer``.
    """
    folder, here = as_argument(found["folder"]), found["runs_here"]
    again = shlex.quote(folder) if reopens else shlex.join([as_argument(asked[0]), *asked[1:]])
    made: list[tuple[str, str]] = []
    if found["report"]:
        made.append(("look", shlex.quote(as_argument(found["report"]))))
    if start == "import":
        made.append(("check", f"edgec check {again}"))
        if here and (found["compiler"] or not found["language_model"]):
            timed = shlex.quote(folder) if found["language_model"] else f"{again} --vs {peer}"
            made.append(("time", f"edgec bench {timed}"))
    if found["cross"] is not None:
        source, build = shlex.quote(folder), shlex.quote(f"{folder}/build")
        cross = f" {found['cross']}" if found["cross"] else ""
        made.append(("use in C", f"cmake -S {source} -B {build}{cross} && cmake --build {build}"))
    if here and found["compiler"]:
        has_tokens = found["language_model"] and found["language_model"]["has_tokens"]
        if has_tokens:
            words = "" if found["language_model"]["chat"] else " --raw --prompt 'Once upon a time'"
            made.append(("chat", f"edgec chat {shlex.quote(folder)}{words}"))
        called = f"load({folder!r}).generate(...)" if has_tokens else f"Network({folder!r}).run({{...}})"
        made.append(("in Python", f"edgec.{called}"))
    for name in extras:
        made += [(name, _filled(step, folder, found["name"])) for step in EXTRAS[name].steps]
    return [{"for": purpose, "command": command} for purpose, command in made]


def _filled(step: str, folder: str, name: str) -> str:
    """A command with the folder and the name of a build, each of its words quoted."""
    words = [word.format(folder=folder, name=name) for word in step.split()]
    return " ".join(word if word == "&&" else shlex.quote(word) for word in words)


def draw(made: Steps) -> tuple[RenderableType, ...]:
    """A line a command, never broken: what is copied from a terminal has to run."""
    width = max((len(step["for"]) for step in made), default=0) + 2
    return tuple(
        Text.assemble((step["for"].ljust(width), "dim"), step["command"], no_wrap=True, overflow="ignore")
        for step in made
    )

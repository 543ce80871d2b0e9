"""Trust in an edgec.toml: its lines that run something, reach another machine or write elsewhere need the user's word.

A file that came with a model may hold `compiler = "any command"`. Such lines are followed after `edgec trust DIR`; on
the command line they need none. What was trusted is kept outside of the folder, as the hash of the file's path and of
these lines: other lines may change, and a changed command has to be trusted again.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from edgec import files
from edgec.artifact.names import is_built
from edgec.cli import config
from edgec.errors import UsageError
from edgec.options import OPTIONS, Option
from edgec.text import printable

#: Does the value of a key need trust? ``folder`` is that of the file.
Needs = Callable[[str, Path], bool]


def _always(value: str, folder: Path) -> bool:
    return True


def _elsewhere(value: str, folder: Path) -> bool:
    """Of a link, or DEVICE@LINK: is it one to another machine?"""
    return re.search(r"(^|@)(ssh|adb)\b", value) is not None


def _is_file_of_a_peer(value: str, folder: Path) -> bool:
    """Of peers: is one given a model of its own, which may name libraries to load?"""
    return "=" in value


def _outside(value: str, folder: Path) -> bool:
    """Of something that is written: is it outside of the folder?"""
    return not Path(os.path.realpath(folder / value)).is_relative_to(os.path.realpath(folder))


#: Options of single commands; those that all share say it in their table (`edgec.options.table`).
_OWN: Mapping[str, Needs] = {
    **dict.fromkeys(("metrics", "python", "scheduler"), _always),
    "vs": _is_file_of_a_peer,
    "link": _elsewhere,
    "on": _elsewhere,
    **dict.fromkeys(("html", "keep", "out", "save_stages", "trace"), _outside),
    **dict.fromkeys(("write_adapter", "write_masks", "write_onnx"), _outside),
}
#: The line with the model: a built folder is a library that is loaded.
MODEL = "model"


def _needs() -> dict[str, tuple[str, Needs]]:
    """By key of edgec.toml: the name of the parameter, and when its value needs trust."""
    found = {key: (key, needs) for key, needs in _OWN.items()}
    for keyword, option in OPTIONS.items():
        names = {option.flag, *(name.lstrip("-") for name in option.short)}
        found |= dict.fromkeys(names, (keyword, _as_said(option)))
    return found


def _as_said(option: Option) -> Needs:
    return lambda value, folder: option.runs(value) or (option.writes and _outside(value, folder))


def statements(found: config.Config) -> dict[str, Any]:
    """The lines of a file that need trust, by their place in it."""
    return {place: value for place, _, value in _walk(found)}


def _walk(found: config.Config) -> Iterator[tuple[str, str, Any]]:
    """(place in the file, parameter, value) of every line that needs trust."""
    needs, folder = _needs(), found.path.parent
    inner = {k: v for k, v in found.values.items() if isinstance(v, Mapping) and k.replace("-", "_") not in needs}
    if isinstance(model := found.values.get(MODEL), str) and is_built(folder / model):
        yield MODEL, MODEL, model
    tables = [("", found.values), *((f"{key}.", table) for key, table in inner.items())]
    for prefix, entries in tables:
        for key, value in entries.items():
            name, needed = needs.get(key.replace("-", "_"), ("", None))
            values = value if isinstance(value, list) else [value]
            if needed is not None and any(needed(str(v), folder) for v in values if not isinstance(v, Mapping)):
                yield f"{prefix}{key}", name, value


def require(found: config.Config, used: Collection[str]) -> None:
    """Raises UsageError where lines of a file for the parameters ``used``, or its model, need trust and have none."""
    needed = {place: value for place, name, value in _walk(found) if name in (*used, MODEL)}
    if needed and not _record_of(found).is_file():
        shown = ", ".join(
            printable(f"{place} = {json.dumps(value, default=str)}", 200) for place, value in needed.items()
        )
        raise UsageError(
            f"names what runs, or is written elsewhere, and is not trusted: {shown}",
            hint=f"read it, then: edgec trust {shlex.quote(str(found.path))}; or say it on the command line",
            where=str(found.path),
        )


def _record_of(found: config.Config) -> Path:
    """The file whose presence says that the lines of an edgec.toml are trusted."""
    from hashlib import sha256

    said = json.dumps([os.path.realpath(found.path), statements(found)], sort_keys=True, default=str)
    return files.user_folder("XDG_DATA_HOME", ".local/share") / "trusted" / sha256(said.encode()).hexdigest()


def trust(found: config.Config, given: bool = True) -> None:
    """Keep the user's word on a file's lines, or take it back."""
    kept = _record_of(found)
    with files.writing(kept):
        kept.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if given:
            files.replace(kept, f"{printable(os.path.realpath(found.path), 4096)}\n")
        else:
            kept.unlink(missing_ok=True)

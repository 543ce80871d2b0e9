"""Settings as plain data that can be stored beside other files: keys as in edgec.toml, paths relative to a folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgec.errors import UsageError
from edgec.options.keywords import FLAGS
from edgec.options.table import OPTIONS, Option


def said(settings: Mapping[str, Any], model: str | Path, folder: Path) -> dict[str, Any]:
    """Settings that differ from their defaults as plain data, with paths from ``folder``, that of the model among them.

    The keys are those of edgec.toml.
    """
    found: dict[str, Any] = {"model": relative(folder, model)}
    for keyword, value in settings.items():
        option = OPTIONS[keyword]
        plain = _plain(option, value, folder)
        if plain not in (None, [], {}, option.default):
            found[option.flag] = plain
    return found


def _plain(option: Option, value: Any, folder: Path) -> Any:
    """The value of an option as edgec.toml has it."""
    if value is None:
        return None
    if option.pair is not None:
        return {str(name): option.pair.write(inner) for name, inner in value.items()}
    if option.is_repeated:
        values = [value] if isinstance(value, (str, Path)) else value
        return [relative(folder, v) if option.is_path(str(v)) else str(v) for v in values]
    if option.is_path(str(value)):
        return relative(folder, value)
    if option.write is not None:
        value = option.write(value)
    return value if isinstance(value, (bool, int, float)) else str(value)


def relative(folder: Path, path: str | Path) -> str:
    """A path as seen from a folder."""
    return os.path.relpath(Path(path).absolute(), folder.absolute())


def told_again(found: Mapping[str, Any], folder: Path, where: str) -> dict[str, Any]:
    """Settings by keyword of what `said` made of them. Raises UsageError for data that it does not make."""
    settings: dict[str, Any] = {}
    for flag, value in found.items():
        if flag == "model":
            continue
        option = OPTIONS.get(FLAGS.get(flag, flag))
        if option is None:
            raise UsageError(f"there is no option '{flag}'", hint="build it again", where=where)
        settings[FLAGS.get(flag, flag)] = _read(option, value, folder)
    return settings


def _read(option: Option, value: Any, folder: Path) -> Any:
    if option.pair is not None and isinstance(value, Mapping):
        return dict(option.pair.parse(f"{name}={_text(inner)}") for name, inner in value.items())
    if option.is_repeated and isinstance(value, list):
        return tuple(_joined(folder, v) if option.is_path(v) else v for v in map(str, value))
    return str(_joined(folder, value)) if isinstance(value, str) and option.is_path(value) else value


def _joined(folder: Path, path: str) -> Path:
    """A path that `relative` made, from where it was made."""
    return Path(os.path.normpath(folder.absolute() / path))


def _text(value: Any) -> str:
    return ",".join(map(_text, value)) if isinstance(value, list) else str(value)

"""edgec.toml: what the command line can say, in a file beside the model.

A key is the long name of an option; what several commands share stands at the top, what belongs to one in a table of
its name. Options that take NAME=VALUE are tables, paths are relative to the file, and `[budget]` holds the budgets of
a build. What the command line says itself counts more.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.models import OptionInfo

from edgec.artifact.names import LOCK, is_divided
from edgec.errors import UsageError
from edgec.options import OPTIONS
from edgec.options.budgets import BUDGETS
from edgec.options.renamed import new_flag
from edgec.text import did_you_mean
from edgec.untrusted import regular

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: The name that is looked for in a folder.
FILE = "edgec.toml"
#: Bytes that it may have.
LARGEST = 1 << 20
#: A table whose keys are options of all commands: what `edgec serve` decides.
DECISIONS = "decide"
#: What it writes there.
DECIDED = ("disable_rule", "materialize", "override", "tile")

Parameters = Mapping[str, inspect.Parameter]


@dataclass(frozen=True)
class Config:
    """A file that was read: its path, and what it says."""

    path: Path
    values: Mapping[str, Any]

    @property
    def model(self) -> str:
        """The path of the model. Raises UsageError where the file names none."""
        named = self.values.get("model")
        if not isinstance(named, str):
            raise UsageError("names no model", hint='model = "net.onnx", relative to this file', where=str(self.path))
        return str(self.path.parent / named)


def is_config(given: str) -> bool:
    """Does an argument name a configuration, or a folder that should hold one, and no model?"""
    path = Path(given)
    if not path.is_dir() or (path / FILE).is_file():
        return given.endswith(".toml") or path.is_dir()
    from edgec.frontend.hugging.folder import is_folder

    return not (path / LOCK).is_file() and not is_divided(path) and not is_folder(path)


def load(given: str | Path) -> Config:
    """Read a file, or that of a folder. Raises UsageError where there is none or it is no TOML."""
    path = Path(given)
    path = path / FILE if path.is_dir() else path
    return parsed(path, text_of(path))


def text_of(path: Path) -> str:
    """The text of a file. Raises UsageError where there is none, or where it is larger than any that was written."""
    try:
        with regular(path).open("rb") as file:
            content = file.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise UsageError(f"is larger than {LARGEST:,} bytes", where=str(path))
        return content.decode()
    except FileNotFoundError:
        hint = f"name a model, or a folder that holds an {FILE} with model = ..."
        where = path.parent if path.name == FILE else path
        raise UsageError(f"there is no {FILE} here", hint=hint, where=str(where)) from None
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror or error}", where=str(path)) from None
    except ValueError as error:
        raise UsageError(f"is no TOML: {error}", where=str(path)) from None


def parsed(path: Path, text: str) -> Config:
    """The tables of a text of a file. Raises UsageError where it is no TOML."""
    try:
        return Config(path, tomllib.loads(text))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"is no TOML: {error}", where=str(path)) from None


def arguments(
    config: Config, command: str, own: Parameters, shared: Parameters, commands: Iterable[str] = ()
) -> dict[str, Any]:
    """Settings of a file for one command, by the names of its parameters.

    ``own`` and ``shared`` are the parameters of the command and of all; tables of other ``commands`` are left alone.
    Raises UsageError for a key that no option has, and for a value of another type than the option's.
    """
    of_all, folder = _keys(shared), config.path.parent
    found: dict[str, Any] = {}
    sections = {"model", "out", "budget", DECISIONS, *commands}

    def take(key: str, value: Any, known: Parameters, where: str, of: str = command) -> None:
        name = key.replace("-", "_")
        if name not in known:
            raise _unknown(key, (*known, *sections), where, of)
        found[known[name].name] = _value(known[name], value, folder, where)

    for key, value in config.values.items():
        where = f"{config.path}: {key}"
        inside = value if isinstance(value, Mapping) else None
        if key == command and inside is not None:
            for inner, what in inside.items():
                take(inner, what, {**of_all, **_keys(own)}, f"{where}.{inner}")
        elif key == DECISIONS and inside is not None:
            for inner, what in inside.items():
                take(inner, what, of_all, f"{where}.{inner}", "")
        elif key == "budget":
            budgets = _budgets(value, where)
            if "budget" in own:
                found.setdefault("budget", budgets)
        elif key == "out":
            if key in own:
                take(key, value, own, where)
        elif key == "model" or (key in sections and inside is not None):
            continue
        else:
            take(key, value, of_all, where, "")
    return found


def _budgets(given: Any, where: str) -> list[str]:
    """The table of budgets as the command line has them. Raises UsageError for one there is not."""
    if not isinstance(given, Mapping):
        hint = 'write latency_ms = 5 in a table [budget]; what compression may lose is max_loss = "top1_drop=0.5"'
        raise UsageError("the budgets of a build are a table", hint=hint, where=where)
    from edgec.compress.max_loss import FIGURES

    for name, bound in given.items():
        if name in FIGURES:
            hint = f'what compression may lose is max_loss = "{name}={_text(bound)}"'
            raise UsageError(f"there is no budget '{name}'", hint=hint, where=f"{where}.{name}")
        if name not in BUDGETS:
            raise _unknown(name, BUDGETS, f"{where}.{name}", "")
    return [f"{name}={_text(bound)}" for name, bound in given.items()]


def _unknown(key: str, known: Iterable[str], where: str, command: str) -> UsageError:
    names, new = sorted(set(known)), new_flag(key, command)
    hint = did_you_mean(key.replace("-", "_"), names, f"the keys are {', '.join(names)}")
    return UsageError(f"there is no option '{key}'", hint=f"it is called {new} now" if new else hint, where=where)


def _keys(parameters: Parameters) -> dict[str, inspect.Parameter]:
    """Options by the key a file has for them: their long name, with underscores."""
    found: dict[str, inspect.Parameter] = {}
    for parameter in parameters.values():
        option = _option(parameter)
        if not isinstance(option, OptionInfo):  # an argument
            continue
        declared = [option.default, *(option.param_decls or ())]  # in an annotation, the first name is "the default"
        long = [d.split("/")[0] for d in declared if isinstance(d, str) and d.startswith("--")]
        names = [d.lstrip("-").replace("-", "_") for d in long] or [parameter.name]
        found.update((name, parameter) for name in names)
    return found


def _option(parameter: inspect.Parameter) -> Any:
    return next(iter(getattr(parameter.annotation, "__metadata__", ())), None)


def _value(parameter: inspect.Parameter, value: Any, folder: Path, where: str) -> Any:
    """A value as the command line would have given it. ``folder`` is what paths are relative to."""
    kind, is_list = _kind(parameter)
    if is_list:
        if isinstance(value, Mapping):
            return [f"{key}={_text(inner)}" for key, inner in value.items()]
        values = value if isinstance(value, list) else [value]
        return [_scalar(kind, v, folder, where) for v in values]
    option = OPTIONS.get(parameter.name)
    if option is not None and option.takes_number and isinstance(value, (int, float)) and not isinstance(value, bool):
        value = str(value)
    found = _scalar(kind, value, folder, where)
    return str(folder / found) if kind is str and option is not None and option.is_path(found) else found


def _scalar(kind: type, value: Any, folder: Path, where: str) -> Any:
    fits = {
        bool: isinstance(value, bool),
        int: isinstance(value, int) and not isinstance(value, bool),
        float: isinstance(value, (int, float)) and not isinstance(value, bool),
    }.get(kind, isinstance(value, str))
    if not fits:
        word = {bool: "true or false", int: "a whole number", float: "a number"}.get(kind, "a string")
        raise UsageError(f"{value!r} is not {word}", where=where)
    return folder / value if kind is Path else kind(value)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(_text, value)) if isinstance(value, list) else str(value)


def _kind(parameter: inspect.Parameter) -> tuple[type, bool]:
    """The type of an option's value, and whether it may be given several times."""
    annotation = typing.get_args(parameter.annotation)[0]
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        annotation = next(a for a in typing.get_args(annotation) if a is not type(None))
    if typing.get_origin(annotation) is list:
        return typing.get_args(annotation)[0], True
    return annotation, False


def written(said: Mapping[str, Any]) -> dict[str, Any]:
    """Content of edgec.toml for `said`: decisions go into their table."""
    decisions = {key: value for key, value in said.items() if key in DECIDED}
    rest = {key: value for key, value in said.items() if key not in DECIDED}
    return {**rest, DECISIONS: decisions} if decisions else rest

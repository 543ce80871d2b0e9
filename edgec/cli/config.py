"""edgec.toml: what the command line can say, in a file beside the model.

A key is the long name of an option; what several commands share stands at the top, what belongs to one in a table of
its name. Options that take NAME=VALUE are tables, paths are relative to the file, and `[budget]` holds the budgets of
a build. What the command line says itself counts more.
"""

from __future__ import annotations

import difflib
import inspect
import os
import sys
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from typer.models import OptionInfo

from edgec.compress import FIGURES
from edgec.errors import UsageError
from edgec.report.budget import BUDGETS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: The name that is looked for in a folder.
FILE = "edgec.toml"
#: What settings are where nothing is said.
USUAL: Mapping[str, Any] = {
    "device": "host", "threads": 1, "name": "net", "numeric": "reassociates", "quantize": "float",
    "calibrate": "random", "observer": "minmax", "fuse": "planner", "tuned": True, "corrections": "auto",
    "prune_by": "obs",
}  # fmt: skip
#: A table whose keys are options of all commands: what `edgec serve` decides.
DECISIONS = "decide"

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
    return given.endswith(".toml") or Path(given).is_dir()


def load(given: str | Path) -> Config:
    """Read a file, or that of a folder. Raises UsageError where there is none or it is no TOML."""
    path = Path(given)
    path = path / FILE if path.is_dir() else path
    try:
        return Config(path, tomllib.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        hint = f"name a model, or a folder that holds an {FILE} with model = ..."
        raise UsageError(f"there is no {FILE} here", hint=hint, where=str(path.parent)) from None
    except OSError as error:
        raise UsageError(f"cannot be read: {error}", where=str(path)) from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"is no TOML: {error}", where=str(path)) from None


def arguments(
    config: Config, command: str, own: Parameters, shared: Parameters, commands: Iterable[str] = ()
) -> dict[str, Any]:
    """What a file says to one command, by the names of its parameters.

    ``own`` and ``shared`` are the parameters of the command and of all; tables of other ``commands`` are left alone.
    Raises UsageError for a key that no option has, and for a value of another type than the option's.
    """
    of_all, folder = _keys(shared), config.path.parent
    found: dict[str, Any] = {}

    def take(key: str, value: Any, known: Parameters, where: str) -> None:
        name = key.replace("-", "_")
        if name not in known:
            raise _unknown(key, (*known, *sections), where)
        found[known[name].name] = _value(known[name], value, folder, where)

    sections = {"model", "out", "budget", DECISIONS, *commands}
    for key, value in config.values.items():
        where = f"{config.path}: {key}"
        inside = value if isinstance(value, Mapping) else None
        if key == command and inside is not None:
            for inner, what in inside.items():
                take(inner, what, {**of_all, **_keys(own)}, f"{where}.{inner}")
        elif key == DECISIONS and inside is not None:
            for inner, what in inside.items():
                take(inner, what, of_all, f"{where}.{inner}")
        elif key == "budget" and inside is not None:
            for figure, bound in inside.items():
                if figure in FIGURES:  # what a compression may lose is an option of all
                    take("budget", f"{figure}={bound}", of_all, f"{where}.{figure}")
                elif figure not in BUDGETS:
                    raise _unknown(figure, (*BUDGETS, *FIGURES), f"{where}.{figure}")
                elif "limit" in own:
                    found.setdefault("limit", []).append(f"{figure}={bound}")
        elif key == "out":
            if key in own:
                take(key, value, own, where)
        elif key == "model" or (key in sections and inside is not None):
            continue
        else:
            take(key, value, of_all, where)
    return found


def _unknown(key: str, known: Iterable[str], where: str) -> UsageError:
    names = sorted(set(known))
    close = difflib.get_close_matches(key.replace("-", "_"), names, n=1)
    hint = f"did you mean {close[0]}?" if close else f"the keys are {', '.join(names)}"
    return UsageError(f"there is no option '{key}'", hint=hint, where=where)


def _keys(parameters: Parameters) -> dict[str, inspect.Parameter]:
    """Options by the key a file has for them: their long name, with underscores."""
    found: dict[str, inspect.Parameter] = {}
    for parameter in parameters.values():
        option = _option(parameter)
        if not isinstance(option, OptionInfo):  # an argument
            continue
        long = [d.split("/")[0] for d in option.param_decls or () if d.startswith("--")]
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
    found = _scalar(kind, value, folder, where)
    # Strings that may be paths, of options that take other words too.
    is_file = parameter.name == "device" and str(found).endswith(".toml")
    is_path = is_file or (parameter.name == "calibrate" and found != "random")
    return str(folder / found) if is_path else found


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


def said(settings: Mapping[str, Any], model: str | Path, folder: Path) -> dict[str, Any]:
    """Settings that differ from the usual ones as plain data, with the path of the model from ``folder``."""
    found: dict[str, Any] = {"model": os.path.relpath(Path(model).absolute(), folder.absolute())}
    for key, value in settings.items():
        plain = _plain(_from(folder, key, value))
        if plain not in (None, [], {}, USUAL.get(key)):
            found[key] = plain
    return found


#: What settings are called on the command line, where that is another word.
_OPTIONS = {"shapes": "shape", "dims": "dim", "values": "value", "states": "state", "loops": "loop", "tiles": "tile"}


def written(said: Mapping[str, Any]) -> dict[str, Any]:
    """Settings (as `said` gives them) by the keys of a file; decisions go into their table."""
    found: dict[str, Any] = {}
    for name, value in said.items():
        key = _OPTIONS.get(name, name)
        if key == "dim":
            value = {n: f"{low}..{high}:{step}" for n, (low, high, step) in value.items()}
        if key == "tile":
            value = {n: f"{rows}x{vectors}" for n, (rows, vectors) in value.items()}
        into = found.setdefault(DECISIONS, {}) if key in ("without", "apart", "choose", "tile") else found
        into[key] = value
    return found


def _from(folder: Path, key: str, value: Any) -> Any:
    """Paths among settings as they are from a folder."""
    if key in ("rules", "templates", "devices", "operators"):
        return [os.path.relpath(Path(path).absolute(), folder.absolute()) for path in value]
    is_path = (key == "calibrate" and value != "random") or (key == "device" and str(value).endswith(".toml"))
    return os.path.relpath(Path(value).absolute(), folder.absolute()) if is_path else value


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)

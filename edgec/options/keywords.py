"""Keywords of the Python interface: long options by either of their names, and the nearest right one in errors."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ParamSpec, TypeVar

from edgec.errors import UsageError
from edgec.options.renamed import new_keyword
from edgec.options.table import OPTIONS
from edgec.options.types import WORDS, fits_kind

Given = ParamSpec("Given")
Found = TypeVar("Found")

#: Types that annotations of parameters name and that a value is held against.
_PLAIN: dict[str, type] = {"int": int, "float": float, "str": str, "bool": bool, "Path": Path, "None": type(None)}
#: Keywords by the names of long options that differ from them: ``shape`` for ``shapes``.
FLAGS = {option.flag: key for key, option in OPTIONS.items() if option.flag != key}


def takes_options(function: Callable[Given, Found]) -> Callable[Given, Found]:
    """A function that takes the options of the table by their keywords, or by their names on the command line.

    Raises UsageError for a keyword that there is not, with the nearest one, and for an option that is given twice.
    """
    signature = inspect.signature(function)
    own = [name for name, p in signature.parameters.items() if p.kind is not p.VAR_KEYWORD]
    plain = {name: kinds for name in own if (kinds := plain_kinds(signature.parameters[name].annotation))}

    @functools.wraps(function)
    def run(*given: Given.args, **keywords: Given.kwargs) -> Found:
        for name in [n for n in keywords if n not in own and n not in OPTIONS]:
            key = FLAGS.get(name)
            if key is None:
                raise unknown(name, own)
            if key in keywords:
                raise UsageError(f"'{name}' and '{key}' are one option, and both are given", hint="leave one out")
            keywords[key] = keywords.pop(name)
        for name, value in (*zip(own, given), *keywords.items()):
            if name in plain and not any(fits_kind(value, kind) for kind in plain[name]):
                words = " or ".join(WORDS[kind] for kind in plain[name] if kind in WORDS)
                raise UsageError(f"'{name}' cannot be {value!r}", hint=f"it is {words}")
        return function(*given, **keywords)

    return run


def plain_kinds(annotation: str) -> tuple[type, ...]:
    """Types that the text of an annotation names ("float | None"); none where it names others than plain ones."""
    kinds = [_PLAIN.get(word) for word in annotation.split(" | ")]
    return tuple(kind for kind in kinds if kind is not None) if None not in kinds else ()


def unknown(name: str, own: Iterable[str] = ()) -> UsageError:
    """The error for a keyword that there is not; ``own`` are those of the function beside the options."""
    new = new_keyword(name)
    if new is not None:
        return UsageError(f"there is no option '{name}'", hint=f"it is called '{new}' now")
    known = (*own, *OPTIONS)
    near = difflib.get_close_matches(name.replace("-", "_"), (*known, *FLAGS), 1)
    hint = f"did you mean '{near[0]}'?" if near else f"the options are {', '.join(known)}"
    return UsageError(f"there is no option '{name}'", hint=hint)

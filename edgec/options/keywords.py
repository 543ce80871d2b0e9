"""Keywords of the Python interface: long options by either of their names, and the nearest right one in errors."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar

from edgec.errors import UsageError
from edgec.options.renamed import new_keyword
from edgec.options.table import OPTIONS
from edgec.options.typed import refusal_of
from edgec.text import did_you_mean

Given = ParamSpec("Given")
Found = TypeVar("Found")

#: Keywords by the names of long options that differ from them: ``shape`` for ``shapes``.
FLAGS = {option.flag: key for key, option in OPTIONS.items() if option.flag != key}


def takes_options(function: Callable[Given, Found]) -> Callable[Given, Found]:
    """A function that takes the options of the table by their keywords, or by their names on the command line.

    Raises UsageError for a keyword that there is not, with the nearest one, and for an option that is given twice.
    """
    signature = inspect.signature(function)
    own = [name for name, p in signature.parameters.items() if p.kind is not p.VAR_KEYWORD]
    refuse = refusal_of(function)

    @functools.wraps(function)
    def run(*given: Given.args, **keywords: Given.kwargs) -> Found:
        for name in [n for n in keywords if n not in own and n not in OPTIONS]:
            key = FLAGS.get(name)
            if key is None:
                raise unknown(name, own)
            if key in keywords:
                raise UsageError(f"'{name}' and '{key}' are one option, and both are given", hint="leave one out")
            keywords[key] = keywords.pop(name)
        refuse(given, keywords)
        return function(*given, **keywords)

    return run


def unknown(name: str, own: Iterable[str] = ()) -> UsageError:
    """The error for a keyword that there is not; ``own`` are those of the function beside the options."""
    new = new_keyword(name)
    if new is not None:
        return UsageError(f"there is no option '{name}'", hint=f"it is called '{new}' now")
    known = (*own, *OPTIONS)
    hint = did_you_mean(name.replace("-", "_"), (*known, *FLAGS), f"the options are {', '.join(known)}")
    return UsageError(f"there is no option '{name}'", hint=hint)

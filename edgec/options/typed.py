"""Types of arguments: what an annotation of plain types says, held against the values of a call."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, get_args, get_origin

from edgec.errors import UsageError

Given = ParamSpec("Given")
Found = TypeVar("Found")

#: Types that annotations of parameters name and that a value is held against.
_PLAIN: dict[str, Any] = {
    "int": int, "float": float, "str": str, "bytes": bytes, "bool": bool, "Path": Path, "None": type(None),
    "Sequence[int]": Sequence[int], "Sequence[str]": Sequence[str],
}  # fmt: skip
#: Types of numbers that count as others: those of numpy, and whole numbers where there may be fractions.
_NUMBERS: Mapping[Any, Any] = {int: Integral, float: Real}
#: Parameters that are never negative, whatever function takes them.
_COUNTS = ("seed",)
#: Types in words, for errors.
WORDS: Mapping[Any, str] = {
    int: "a whole number", float: "a number", str: "a text", bytes: "bytes", Path: "a path", bool: "True or False",
    Mapping: "a dictionary", Sequence: "a list", Iterable: "a list",
    Sequence[int]: "a list of whole numbers", Sequence[str]: "a list of texts",
}  # fmt: skip


def typed(function: Callable[Given, Found]) -> Callable[Given, Found]:
    """A function that raises UsageError for a value of another type than its annotation names, where that is plain."""
    refuse = refusal_of(function)

    @functools.wraps(function)
    def run(*given: Given.args, **keywords: Given.kwargs) -> Found:
        refuse(given, keywords)
        return function(*given, **keywords)

    return run


def refusal_of(function: Callable[..., Any]) -> Callable[[Sequence[Any], Mapping[str, Any]], None]:
    """A function of the arguments of a call that raises UsageError where one is not of the type of its parameter."""
    parameters = inspect.signature(function).parameters
    own = getattr(inspect.unwrap(function), "__globals__", {})
    plain = {name: kinds for name, p in parameters.items() if (kinds := plain_kinds(p.annotation, own))}
    in_order = [n for n, p in parameters.items() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]

    def refuse(given: Sequence[Any], keywords: Mapping[str, Any]) -> None:
        for name, value in (*zip(in_order, given), *keywords.items()):
            if name in plain:
                require(name, value, plain[name])

    return refuse


def require(name: str, value: Any, kinds: Sequence[Any]) -> None:
    """Raises UsageError for a value of none of these types."""
    if not any(fits(kind, value) for kind in kinds):
        words = " or ".join(WORDS.get(kind, f"a {kind.__name__}") for kind in kinds if kind is not type(None))
        raise UsageError(f"'{name}' cannot be {value!r}", hint=f"it is {words}")
    if name in _COUNTS and isinstance(value, Integral) and int(value) < 0:
        raise UsageError(f"'{name}' cannot be {value}", hint="it is 0 or more")


def plain_kinds(annotation: Any, own: Mapping[str, Any] = {}) -> tuple[Any, ...]:
    """Types that the text of an annotation names ("float | None"): plain ones, and edgec's classes among ``own`` names.

    None where it names others too.
    """
    kinds = [_PLAIN.get(word) or _class(own.get(word)) for word in str(annotation).split(" | ")]
    return tuple(kinds) if None not in kinds else ()


def _class(value: Any) -> Any:
    is_own = isinstance(value, type) and value.__module__.startswith("edgec.")
    return value if is_own and not getattr(value, "_is_protocol", False) else None


def fits(part: Any, value: Any) -> bool:
    """True for a value of a type, which may say what is inside: ``Sequence[int]``. A text is no list of texts."""
    kind, inside = get_origin(part) or part, get_args(part)
    if kind in (Sequence, Iterable):
        if kind is Iterable and isinstance(value, (str, Path)):  # one folder
            return True
        if not isinstance(value, Iterable) or isinstance(value, (str, bytes, Mapping)):
            return False
        is_read_once = iter(value) is value
        return is_read_once or all(any(fits(i, item) for i in get_args(inside[0]) or inside) for item in value)
    return fits_kind(value, kind)


def fits_kind(value: Any, kind: Any) -> bool:
    """True for a value of a plain type: a truth value is no number, a whole number is one with a fraction of 0."""
    if isinstance(value, bool) and kind in _NUMBERS:
        return False
    return isinstance(value, _NUMBERS.get(kind, kind))

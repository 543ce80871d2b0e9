"""The errors a user can meet. Each says where, what, and what to do about it."""

from __future__ import annotations

from typing import Any


class EdgecError(Exception):
    """Something the user can act on; `str()` is the whole text to show, and no traceback is needed.

    `message` is one sentence without a full stop (further lines may quote a tool), `hint` says what to do,
    `where` names the file, node or command the message is about.
    """

    def __init__(self, message: str, *, hint: str | None = None, where: str | None = None) -> None:
        super().__init__(bounded(message, 10_000))
        self.message = bounded(message, 10_000)
        self.hint = bounded(hint, 4_000) if hint is not None else None
        self.where = bounded(where, 1_000) if where is not None else None

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        advice = f"\n  hint: {self.hint}" if self.hint else ""
        return f"{place}{self.message}{advice}"


def bounded(text: str, most: int) -> str:
    """A text of at most ``most`` characters: names and values of a model may be megabytes."""
    return text if len(text) <= most else f"{text[: most - 60]} ... ({len(text) - most + 60:,} more characters)"


class InternalError(EdgecError):
    """A mistake in edgec itself: a stage left a result that contradicts itself."""


class UsageError(EdgecError):
    """The command or the call makes no sense as given."""


class ModelError(EdgecError):
    """The model is broken, or uses something that is not supported."""


class NotMet(ModelError, ValueError):
    """Inputs that a network was not built for, as only a run can tell: an index outside of its table, say."""

    def __init__(self, message: str, where: str | None = None) -> None:
        super().__init__(message, hint="give inputs that it takes, on a command line with --inputs FILE", where=where)


class Unequal(ModelError):
    """Extents that an operator needs to be equal are not: ``pairs`` of them, numbers or formulas of sizes.

    ``may_be_one``: an extent of 1 would do as well (it is broadcast).
    """

    def __init__(self, message: str, *pairs: tuple[Any, Any], may_be_one: bool = False) -> None:
        super().__init__(message)
        self.pairs = pairs
        self.may_be_one = may_be_one


class CheckError(EdgecError):
    """A result differs from its reference, or a budget is exceeded."""


class DeviceError(EdgecError):
    """A device file is unknown, broken, or contradicts itself."""


class ToolchainError(EdgecError):
    """No compiler for the device was found, or the compiler refused a source."""


class LimitError(EdgecError):
    """A stage takes more time, or makes more, than `--limits` allow."""


class LinkError(EdgecError):
    """A device cannot be reached, or went away in the middle."""


class EmulatorError(EdgecError):
    """An emulator ended by a mistake of its own, so that nothing is known of the program that it ran."""


class Undecided(EdgecError):
    """A question whose answer depends on sizes that are known only at run time."""

"""The frame of every answer, and the answer of a command that failed."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict, Union

#: A figure that may be infinite or NaN, which JSON has no word for.
Figure = Union[float, None]
#: A shape: extents, or formulas of sizes that are known only at run time.
Shape = list[Union[int, str]]


class Head(TypedDict):
    """The first keys of every object."""

    schema: Annotated[
        Literal[2],
        "version of this format. It increases when a key is removed or changes its meaning; new keys may be added at "
        "any time",
    ]
    edgec: Annotated[str, "version of edgec"]
    command: Annotated[str, '`"build"`, `"check"`, `"device list"`, ...']


class Answered(Head):
    """The object of a command that did what it was asked for."""

    warnings: Annotated[list[str], "sentences about oddities of the model that do not prevent a build"]


class Affinity(TypedDict):
    """Threads and cores of a build."""

    threads: Annotated[int, "the number of threads"]
    cores: Annotated[list[int], "the cores they are kept on; empty for any"]
    by: Annotated[Literal["sweep", "asked"], "where they are from: a sweep on the device, or options"]


class Problem(TypedDict):
    """An error."""

    kind: Annotated[str, "`UsageError`, `ModelError`, `DeviceError`, `ToolchainError`, `CheckError`, ..."]
    message: Annotated[str, "the problem, in one sentence"]
    hint: Annotated[Union[str, None], "a remedy"]
    where: Annotated[Union[str, None], "the file, node or option concerned"]


class Refused(Head):
    """The object of a command that failed."""

    ok: Annotated[Literal[False], "`false`"]
    error: Annotated[Problem, "the reason"]


class Port(TypedDict):
    """An input or an output."""

    name: str
    dtype: str
    shape: Shape

"""The levels of a library: the network for each of several processors, behind the interface of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec.device.device import Device
from edgec.emit.interface import described
from edgec.emit.language import Language
from edgec.emit.render import render
from edgec.emit.source import grouped
from edgec.errors import UsageError
from edgec.options.dispatch import level_name
from edgec.schedule.program import Part, Program

#: The files of a level, beside those of its kernels.
_PAGES = {
    "{name}.h": "project/dispatch/level.h.jinja",
    "{name}_kernels.h": "project/kernels.h.jinja",
    "{name}.c": "project/net.c.jinja",
    "{name}_needs.c": "project/dispatch/needs.c.jinja",
}
#: The choice among them, in place of a network's own page.
FRONT = {"{name}.c": "project/dispatch/net.c.jinja"}
#: Pages of a network that a library with levels has none of.
WITHOUT = ("{name}_kernels.h",)


@dataclass(frozen=True)
class LevelFiles:
    """A level: the prefix of its functions, the name of its processor, its files, and those that are compiled."""

    name: str
    processor: str
    device: Device
    files: Mapping[str, bytes]
    sources: list[str]
    kernels: int
    uses_tiles: bool
    headers: tuple[Path, ...]

    @property
    def cflags(self) -> Sequence[str]:
        return self.device.toolchain.cflags

    def described(self, level: Part) -> dict[str, Any]:
        """The entry in the lock, from which its sources are compiled."""
        tools = self.device.toolchain
        return {
            "name": self.processor, "needs": self.device.needs, "sources": self.sources, "cflags": list(tools.cflags),
            "zig_mcpu": tools.zig_mcpu, "kernels": self.kernels, "arena_bytes": level.program.arena_bytes,
            "weights_bytes": read_bytes(level.program),
        }  # fmt: skip


def level_files(
    program: Program, name: str, templates: Sequence[Path], language: Language, values: Mapping[str, Any]
) -> list[LevelFiles]:
    """The levels of a program, in its order; none for a program without. ``values`` are those of the whole project."""
    return [_level(level, name, templates, language, values) for level in program.levels]


def _level(
    level: Part, whole: str, templates: Sequence[Path], language: Language, values: Mapping[str, Any]
) -> LevelFiles:
    processor = level_name(level.device)
    name = f"{whole}_on_{processor}"
    own = described(level.program, name, templates, language)
    more = {
        **values, **own, "device": level.device, "vector_lanes": level.device.vector_lanes,
        "whole": whole, "WHOLE": whole.upper(), "metadata": {},
    }  # fmt: skip
    groups = grouped(own["sources"].functions)
    template, pattern = language.kernels
    kernels = [pattern.format(name=name, k=k) for k in range(len(groups))]
    files = {path.format(name=name): render(page, templates, **more).encode() for path, page in _PAGES.items()}
    for path, group in zip(kernels, groups):
        files[path] = render(template, templates, **more, group=group).encode()
    sources = [path for path in files if path.endswith(".c")]
    return LevelFiles(
        name,
        processor,
        level.device,
        files,
        sources,
        len(own["sources"].calls),
        own["uses_tiles"],
        tuple(own["sources"].headers),
    )


def read_bytes(program: Program) -> int:
    """Bytes of the weights that a program reads, its own and those that it shares with others."""
    own = {place: b.bytes for b, place in program.offsets.items() if b.space == "weights"}
    return sum(own.values())


def refuse_beside(beside: Sequence[str]) -> None:
    """Raises UsageError for something beside a library with levels whose build file knows no options of a source."""
    refused = [extra for extra in beside if extra not in ("cpp", "java", "android", "apk")]
    if refused:
        message = f"'{refused[0]}' compiles all sources with the same options, and each level has its own"
        raise UsageError(message, hint=f"leave out --dispatch, or {refused[0]}", where="--dispatch")

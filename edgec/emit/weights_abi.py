"""The number of the interface between code and a file of weights: a digest of all that the code assumes of the file.

Equal digests mean equal code, so weights of one build are right for the other. It takes in the C of the network
without comments and without the lines that name the model, places and types of the weights, and the target. The content
of the weights is no part of it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from hashlib import sha256

from edgec.device.device import Device
from edgec.schedule.program import Program

#: Programs around the network.
_AROUND = ("main.c", "runner.c")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
#: Lines that name a model or a version, on which no code depends.
_NAMES = re.compile(r"#define \w+_(?:MODEL_SHA256|EDGEC_VERSION) .*")


def code_of(files: Mapping[str, bytes], without: Collection[str]) -> dict[str, list[str]]:
    """Lines of the C of a network by its files, without comments, for comparison; ``without`` are files that hold the
    digest, or nothing that a run reads."""
    chosen = [p for p in sorted(files) if p.endswith((".c", ".h", ".S")) and "/" not in p]
    return {p: lines_of(files[p]) for p in chosen if p not in without and p not in _AROUND}


def lines_of(content: bytes) -> list[str]:
    """Lines of code with anything in them; line numbers are lost."""
    plain = _COMMENT.sub(" ", content.decode())
    return [line.strip() for line in plain.splitlines() if line.strip() and not _NAMES.match(line)]


def abi(
    files: Mapping[str, bytes],
    without: Collection[str],
    program: Program,
    device: Device,
    tables: Mapping[str, bytes] = {},
) -> bytes:
    """The digest of the files of a project but those ``without`` it; ``tables`` are others that it links."""
    found = sha256()

    def put(*words: object) -> None:
        found.update("\0".join(map(str, words)).encode() + b"\n")

    put(device.language, device.arch, device.vector_lanes, *device.toolchain.cflags)
    for level in program.levels:
        put(level.device.arch, level.device.vector_lanes, *level.device.toolchain.cflags)
    for buffer, offset in sorted(program.offsets.items(), key=lambda pair: (pair[1], pair[0].elements)):
        if buffer.space == "weights":
            put(offset, buffer.dtype, buffer.elements)
    for path, lines in code_of(files, without).items():
        put(path, len(lines), *lines)
    for path, content in sorted(tables.items()):
        put(path, sha256(content).hexdigest())
    return found.digest()

"""What the host of an OpenCL project knows of its kernels: the launches in order, and what each is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgec.emit.c_expression import extent_text, size_name
from edgec.emit.gpu.opencl import OpenClView
from edgec.emit.source import CallSite, Function, Sources
from edgec.ir.index import upper
from edgec.schedule.program import Buffer, Program

#: Options of the compiler in the driver: sums of products may keep the bits that a rounding between would lose.
BUILD_OPTIONS = "-cl-std=CL1.2 -cl-mad-enable"


@dataclass(frozen=True)
class Launch:
    """One kernel on its way to the device: its number, its name, the file it is in, and what it is given.

    ``operands`` are (memory object, place in bytes) pairs; objects are numbered weights, arena, inputs, outputs.
    """

    number: int
    name: str
    file: int
    first: int  # of its operands among those of all launches
    operands: tuple[tuple[int, int], ...]
    threads: int
    groups: str  # in C, for the sizes of a run
    most: int  # groups, for the greatest sizes
    sizes: tuple[str, ...]
    comment: str


@dataclass(frozen=True)
class Needs:
    """What a device must have to run the kernels."""

    threads: int  # of the largest work-group
    local_bytes: int  # of the work-group that has most
    extensions: tuple[str, ...]


def host_values(program: Program, sources: Sources, groups: Sequence[Sequence[Function]]) -> dict[str, Any]:
    """What the templates of the project see beside the names of all languages."""
    file = {f.name: k for k, group in enumerate(groups) for f in group}
    views = [_view(c) for c in sources.calls]
    text = "".join(f.text for f in sources.functions)
    extensions = [name for name, word in (("cl_khr_fp64", "double"), ("cl_khr_fp16", "half")) if word in text]
    needs = Needs(
        max((v.threads for v in views), default=1), max((v.local_bytes for v in views), default=0), tuple(extensions)
    )
    return {"launches": _launches(program, sources, file), "needs": needs, "build_options": BUILD_OPTIONS}


def _view(call: CallSite) -> OpenClView:
    assert isinstance(call.view, OpenClView)
    return call.view


def _launches(program: Program, sources: Sources, file: Mapping[str, int]) -> list[Launch]:
    ports = [b for _, b, _ in (*program.inputs, *program.outputs)]
    found: list[Launch] = []
    first = 0
    for call in sources.calls:
        kernel = call.kernel
        scratch, operands = kernel.operands[:1] if kernel.scratch_bytes else (), kernel.operands
        operands = (*operands[len(scratch) :], *scratch)
        places = tuple(_place(b, program, ports) for b in operands)
        for suffix, groups in _view(call).launches:
            name = call.function.name
            found.append(
                Launch(
                    len(found), f"{name}{suffix}", file[name], first, places, _view(call).threads, extent_text(groups),
                    upper(groups), tuple(map(size_name, kernel.sizes)), call.comment,
                )
            )  # fmt: skip
            first += len(places)
    return found


def _place(buffer: Buffer, program: Program, ports: Sequence[Buffer]) -> tuple[int, int]:
    if buffer.space in ("weights", "arena"):
        return int(buffer.space == "arena"), program.offsets[buffer]
    return 2 + ports.index(buffer), 0

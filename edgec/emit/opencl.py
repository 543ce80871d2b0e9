"""Data of the host of an OpenCL project: its launches in order, and the arguments of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgec.device.device import DOT_EXTENSIONS, Device
from edgec.emit.c_expression import extent_text
from edgec.emit.gpu.opencl import IMAGES, OpenClView, place_widths
from edgec.emit.source import CallSite, Function, Sources
from edgec.ir.index import upper
from edgec.schedule.gpu.loops import SUB_GROUPS
from edgec.schedule.program import Buffer, Kernel, Program

#: Options of the driver's compiler; multiply-adds may be fused.
BUILD_OPTIONS = "-cl-std=CL{version} -cl-mad-enable"
#: Extensions of OpenCL 1.2 that kernels need (any one of each), by a word of their text.
WORDS = {"double": ("cl_khr_fp64",), "half": ("cl_khr_fp16",), "sub_group_reduce": tuple(sorted(SUB_GROUPS))}
#: The word of kernels with int8 dot products, which need no extension but are faster with one.
BY_FOUR = "ec_dot"


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel: its number, name, file and arguments.

    ``objects`` are memory objects, numbered weights, arena, inputs, outputs, images; ``places`` are bytes into them,
    with zeros behind the last so that they are whole vectors.
    """

    number: int
    kernel: int  # of the network to which it belongs
    name: str
    file: int
    first: int  # of its objects among those of all launches
    objects: tuple[int, ...]
    from_place: int  # the first of its places, likewise
    places: tuple[int, ...]
    arguments: int  # before its sizes
    threads: int
    groups: str  # in C, for the sizes of a run
    most: int  # work-groups, for the greatest sizes
    sizes: tuple[str, ...]
    comment: str
    copied: tuple[
        int, int
    ]  # the objects of a state and its next value, where it only copies one to the other; else 0, 0


@dataclass(frozen=True)
class Needs:
    """Requirements of the kernels on a device."""

    threads: int  # of the largest work-group
    local_bytes: int  # of the work-group with the most
    extensions: tuple[str, ...]


def host_values(
    program: Program, sources: Sources, groups: Sequence[Sequence[Function]], device: Device
) -> dict[str, Any]:
    """Names that templates of the project see, in addition to those of all languages."""
    file = {f.name: k for k, group in enumerate(groups) for f in group}
    views = [_view(c) for c in sources.calls]
    text = "".join(f.text for f in sources.functions)
    used = [names for word, names in WORDS.items() if word in text]
    extensions = [next((n for n in names if n in device.gpu.opencl_extensions), names[0]) for names in used]
    version = "1.2" if SUB_GROUPS.isdisjoint(extensions) else "2.0"
    dots = next((e for e in DOT_EXTENSIONS if e in device.gpu.opencl_extensions), None)
    if dots is not None and BY_FOUR in text:
        extensions.append(dots)
        version = "3.0" if dots.startswith("cl_khr") else version  # which declares its functions
    options = BUILD_OPTIONS.format(version=version) + " -DEC_DOTS" * (dots in extensions)
    needs = Needs(
        max((v.threads for v in views), default=1), max((v.local_bytes for v in views), default=0), tuple(extensions)
    )
    used_images = {o for v in views for o in v.objects.values()} & set(IMAGES)
    return {
        "launches": _launches(program, sources, file), "needs": needs, "build_options": options,
        "images": [(k, image) for k, (name, image) in enumerate(IMAGES.items()) if name in used_images],
        "all_images": len(IMAGES),
    }  # fmt: skip


def _view(call: CallSite) -> OpenClView:
    assert isinstance(call.view, OpenClView)
    return call.view


def _launches(program: Program, sources: Sources, file: Mapping[str, int]) -> list[Launch]:
    ports = [b for _, b, _ in (*program.inputs, *program.outputs)]
    found: list[Launch] = []
    first = from_place = 0
    for number, call in enumerate(sources.calls):
        kernel, view = call.kernel, _view(call)
        scratch, operands = kernel.operands[:1] if kernel.scratch_bytes else (), kernel.operands
        buffers = dict(zip(view.operands, (*operands[len(scratch) :], *scratch)))
        objects = {o: _object(o, buffers[name], ports) for name, o in view.objects.items() if name in buffers}
        objects |= {"arena": 1} if view.record.locks else {}
        # The counters that work-groups synchronize by follow the arena.
        places = [program.offsets[buffers[n]] if n in buffers else program.arena_bytes for n in view.placed]
        widths = place_widths(len(places))
        places += [0] * (sum(widths) - len(places))
        for suffix, groups in view.launches:
            name = call.function.name
            found.append(
                Launch(
                    len(found), number, f"{name}{suffix}", file[name], first, tuple(objects.values()), from_place,
                    tuple(places), len(objects) + len(widths), view.threads, extent_text(groups), upper(groups),
                    tuple(view.given_sizes), call.comment, _copied(kernel, program, ports),
                )
            )  # fmt: skip
            first += len(objects)
            from_place += len(places)
    return found


def _copied(kernel: Kernel, program: Program, ports: Sequence[Buffer]) -> tuple[int, int]:
    """The objects of a state and its next value, where a kernel copies one to the other and no more."""
    source = kernel.schedule.copied
    if source is None or program.states.get(kernel.writes) is not source:
        return 0, 0
    return 2 + ports.index(source), 2 + ports.index(kernel.writes)


def _object(name: str, buffer: Buffer, ports: Sequence[Buffer]) -> int:
    if name in IMAGES:
        return 2 + len(ports) + list(IMAGES).index(name)
    if buffer.space in ("weights", "arena"):
        return int(buffer.space == "arena")
    return 2 + ports.index(buffer)

"""The project of a network for WebGPU: an ES module, its kernels in WGSL, and the weights, in the folder ``web``.

Arena, inputs and outputs are one buffer, so that a kernel has three bindings whatever it reads: the weights, that
memory, and the places of its operands in the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec.device.device import Device
from edgec.emit import extras
from edgec.emit.foreign import JAVASCRIPT
from edgec.emit.gpu.wgsl import WgslView
from edgec.emit.interface import Port, described
from edgec.emit.language import WGSL, refuse_large
from edgec.emit.license import licensed
from edgec.emit.picture import AS_IS, Preparation
from edgec.emit.project import sealed
from edgec.emit.render import render
from edgec.emit.source import CallSite, Function, grouped
from edgec.emit.weights import weights_of
from edgec.ir.index import upper
from edgec.resources import data_folder
from edgec.schedule.memory import ALIGNMENT
from edgec.schedule.program import Buffer, Program
from edgec.version import __version__

#: Bytes of a word, of which memory consists.
WORD = 4
#: The most work-groups in a row, and the alignment of a uniform structure, of every implementation.
MOST_IN_A_ROW, UNIFORM = 65_535, 256
_VOCABULARY = "ec_webgpu.wgsl"


@dataclass(frozen=True)
class Launch:
    """One launch: the entry point, its file of kernels, rows of work-groups, and the places of operands in words."""

    name: str
    file: int
    groups: tuple[int, int]  # in a row, and rows
    places: tuple[int, ...]
    comment: str


@dataclass(frozen=True)
class Place:
    """An input or output: its port, the JavaScript array of a caller, and the first of its words in memory."""

    port: Port
    array: str
    word: int


def webgpu_files(
    program: Program,
    device: Device,
    name: str = "net",
    templates: Sequence[Path] = (),
    facts: Mapping[str, Any] = {},
    beside: Sequence[str] = (),
    prepared: Preparation = AS_IS,
    place: str = "incbin",
) -> dict[str, bytes]:
    """Every file of the project, by relative path. The same program gives the same bytes.

    Raises UsageError for an addition or a place of weights that does not fit, DeviceError for what WGSL lacks.
    """
    wanted = extras.chosen(beside, device, name)
    WGSL.refuse(program)
    refuse_large(program, device)
    weights = weights_of(program, device, name, place, beside)
    values = described(program, name, templates, WGSL)
    inputs, outputs, sources = values["inputs"], values["outputs"], values["sources"]
    groups = grouped(sources.functions)
    starts = _starts(program)
    launches = _launches(sources.calls, groups, program, starts)
    ports = [
        Place(p, JAVASCRIPT[p.ctype], starts[b])
        for p, (_, b, _) in zip((*inputs, *outputs), (*program.inputs, *program.outputs))
    ]
    kernels = [WGSL.kernels[1].format(name=name, k=k) for k in range(len(groups))]
    values |= {
        "version": __version__, "device": device, "weights": weights, "weights_bytes": weights.size, "model": None,
        "launches": launches, "vocabulary": _VOCABULARY, "kernel_files": [Path(path).name for path in kernels],
        "places_in": ports[: len(inputs)], "places_out": ports[len(inputs) :],
        "memory_words": max(_end(program, starts), 1),
        "first_output": min((p.word for p in ports[len(inputs) :]), default=0),
        "stride": max([UNIFORM, *(-(-WORD * len(launch.places) // UNIFORM) * UNIFORM for launch in launches)]),
        "threads": max((_view(c).threads for c in sources.calls), default=1),
        "local_bytes": max((_view(c).local_bytes for c in sources.calls), default=0),
        "on_gpu": True, "has_package": "web" in beside,
    }  # fmt: skip
    pages, more = extras.pages(wanted, device, inputs, outputs, kernels, prepared, program.graph.metadata, None, name)
    result: dict[str, bytes] = {f"web/{path}": content for path, content in weights.files.items()}
    values |= more
    for path, page in (*WGSL.pages.items(), *pages.items()):
        result[path.format(name=name)] = render(page, templates, **values).encode()
    for path, group in zip(kernels, groups):
        result[path] = render(WGSL.kernels[0], templates, **values, group=group).encode()
    vocabulary = data_folder("codegen_templates") / "runtime" / "wgsl" / _VOCABULARY
    result[f"web/{_VOCABULARY}"] = vocabulary.read_bytes()
    result = {path: licensed(path, content) for path, content in result.items()}
    known = {f"web/{weights.file}": weights.sha256}
    facts_of = {
        "language": WGSL.name, "sources": [], "weights_bytes": weights.size,
        "weights": {"place": place, "file": f"web/{weights.file}"},
    }  # fmt: skip
    return sealed(result, program, device, name, inputs, outputs, {**facts_of, **facts}, known)


def _aligned(count: int) -> int:
    """Words up to the next place where a buffer may begin."""
    step = ALIGNMENT // WORD
    return -(-count // step) * step


def _ports(program: Program) -> list[Buffer]:
    return [b for _, b, _ in (*program.inputs, *program.outputs)]


def _starts(program: Program) -> dict[Buffer, int]:
    """The first word of every buffer: of weights among the weights, of others in memory, ports behind the arena."""
    found = {b: offset // WORD for b, offset in program.offsets.items()}
    end = _aligned(program.arena_bytes // WORD)
    for buffer in _ports(program):
        found[buffer] = end
        end = _aligned(end + buffer.elements)
    return found


def _end(program: Program, starts: Mapping[Buffer, int]) -> int:
    """The words of memory."""
    arena = program.arena_bytes // WORD
    return max([arena, *(_aligned(starts[b] + b.elements) for b in _ports(program))])


def _view(call: CallSite) -> WgslView:
    assert isinstance(call.view, WgslView)
    return call.view


def _launches(
    calls: Sequence[CallSite], groups: Sequence[Sequence[Function]], program: Program, starts: Mapping[Buffer, int]
) -> list[Launch]:
    file = {f.name: k for k, group in enumerate(groups) for f in group}
    found = []
    for call in calls:
        kernel, view = call.kernel, _view(call)
        scratch, operands = (
            (kernel.operands[:1], kernel.operands[1:]) if kernel.scratch_bytes else ((), kernel.operands)
        )
        places = tuple(starts[b] for b in (*operands, *scratch))
        for suffix, count in view.launches:
            name = call.function.name
            found.append(Launch(f"{name}{suffix}", file[name], in_rows(upper(count)), places, call.comment))
    return found


def in_rows(groups: int) -> tuple[int, int]:
    """(work-groups in a row, rows) for so many in all, or a few more: a row has limits."""
    rows = max(-(-groups // MOST_IN_A_ROW), 1)
    return -(-groups // rows), rows

"""The languages of kernels: their views, templates, and the files of a project."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from edgec.device.device import Device
from edgec.emit.gpu.attention import AttentionView
from edgec.emit.gpu.attention_gradients import AttentionGradientsView
from edgec.emit.gpu.contract import ContractView
from edgec.emit.gpu.few_queries import FewQueriesView
from edgec.emit.gpu.held_rows import HeldReduceView
from edgec.emit.gpu.loops import MapView
from edgec.emit.gpu.opencl import (
    OpenClAttention,
    OpenClContract,
    OpenClDots,
    OpenClMap,
    OpenClReduce,
    OpenClRegisters,
    OpenClWindow,
)
from edgec.emit.gpu.procedure import GpuProcedureView
from edgec.emit.gpu.together import TogetherView
from edgec.emit.gpu.vector import VectorView
from edgec.emit.gpu.wgsl import WgslContract, WgslMap, WgslReduce
from edgec.emit.views import VIEWS, View
from edgec.errors import DeviceError
from edgec.frontend.language.facts import KEY
from edgec.schedule.memory import ALIGNMENT
from edgec.schedule.program import Program


@dataclass(frozen=True)
class Language:
    """One back end: ``views`` by schedule, and the project around the kernels.

    ``pages`` are the files of a project and the templates they are rendered from, ``kernels`` the template and the
    name of a file of kernels, ``runtime`` patterns of files below ``codegen_templates/runtime`` that come along as they
    are. ``{name}`` and ``{k}`` stand for the prefix and the number of the file.
    """

    name: str
    suffix: str  # of files of kernels, and of the templates in the folder ``name``
    views: Mapping[str, Callable[..., View]]
    pages: Mapping[str, str]
    kernels: tuple[str, str]
    runtime: tuple[str, ...]
    sources: tuple[str, ...]  # compiled in addition to the kernels
    refuse: Callable[[Program], None] = lambda program: None
    shared: tuple[str, ...] = ()  # folders of templates that it shares with other languages
    compiles_kernels: bool = True  # else the driver does, when the network is opened
    alignment: int = ALIGNMENT  # of pointers that a program is given, in bytes
    bounds: Mapping[str, str] = field(default_factory=dict)  # pages of bounds, ``{step}`` being their program
    training: Mapping[str, str] = field(default_factory=dict)  # pages of a training, ``{step}`` being its program

    @property
    def shelves(self) -> tuple[tuple[str, str], ...]:
        """(name, suffix of templates) of the folders that kernel templates of the language are in, its own first."""
        return ((self.name, self.suffix), *((folder, folder) for folder in self.shared))


#: CPUs with 32-bit pointers, whose kernels count positions in 32 bits; those of GPUs always do.
_ARCHS_OF_32_BITS = ("arm", "thumb", "wasm32", "xtensa", "riscv32")


def _refuse_data_on_the_host(program: Program) -> None:
    """Raises DeviceError where the host would have to read results during a run: all kernels are launched at once."""
    guarded = next((k for k in program.kernels if k.guards), None)
    reasons = {
        "a branch that depends on data": guarded is not None,
        "a condition that outputs depend on": bool(program.demands),
    }
    for what, holds in reasons.items():
        if holds:
            raise DeviceError(
                f"the model has {what}, for which the GPU back end has no kernels yet",
                hint="build it for a processor, or fix the value with --value",
                where=", ".join(guarded.names) or None if guarded is not None and "branch" in what else None,
            )


def _refuse_beyond_webgpu(program: Program) -> None:
    """Raises DeviceError for what the host in JavaScript does not do yet."""
    _refuse_data_on_the_host(program)
    open_ports = [name for name, _, node in (*program.inputs, *program.outputs) if not node.type.is_fixed]
    reasons = {
        "a language model": KEY in program.graph.metadata,
        "states, which stay from one run to the next": bool(program.states),
        f"dimensions that are open until it runs ({', '.join(open_ports)})": bool(open_ports or program.sizes),
    }
    for what, holds in reasons.items():
        if holds:
            hint = "build it for WebAssembly (--device wasm32)"
            hint += ", or fix the dimensions with --shape or --value" if what.startswith("dimensions") else ""
            raise DeviceError(f"the model has {what}, for which the WebGPU back end has no host yet", hint=hint)


def refuse_large(program: Program, device: Device) -> None:
    """Raises DeviceError where kernels would have to count further than the integers of the device do."""
    if not device.is_gpu and device.arch not in _ARCHS_OF_32_BITS:
        return
    buffers = (b.elements for k in program.kernels for b in k.touches)
    loops = (extent for n in program.graph.nodes() for extent in n.type.bounds)
    largest = max((*buffers, *loops), default=0)
    if largest >= 2**31:
        raise DeviceError(
            f"kernels for '{device.name}' count in 32 bits, and the model has {largest} elements in a row",
            hint="build it for a 64-bit processor, or for smaller shapes",
        )


C = Language(
    "c",
    "c",
    VIEWS,
    {
        "{name}.h": "project/net.h.jinja",
        "{name}_kernels.h": "project/kernels.h.jinja",
        "{name}.c": "project/net.c.jinja",
        "main.c": "project/main.c.jinja",
        "runner.c": "project/runner.c.jinja",
        "CMakeLists.txt": "project/CMakeLists.txt.jinja",
        "{name}.py": "project/net.py.jinja",
        "README.md": "project/README.md.jinja",
    },
    ("project/kernels.c.jinja", "{name}_kernels_{k}.c"),
    ("ec_*",),
    ("{name}.c", "ec_pool.c"),
    bounds={
        "{step}.h": "project/net.h.jinja",
        "{step}_kernels.h": "project/kernels.h.jinja",
        "{step}.c": "project/net.c.jinja",
        "{name}_bounds.h": "bounds/bounds.h.jinja",
        "{name}_bounds.c": "bounds/bounds.c.jinja",
    },
    training={
        "{step}.h": "project/net.h.jinja",
        "{step}_kernels.h": "project/kernels.h.jinja",
        "{step}.c": "project/net.c.jinja",
        "{name}_training.h": "training/training.h.jinja",
        "{name}_training.c": "training/training.c.jinja",
    },
)

CUDA = Language(
    "cuda",
    "cu",
    {
        "map": MapView,
        "reduce": HeldReduceView,
        "contract": ContractView,
        "attention": AttentionView,
        "few_queries": FewQueriesView,
        "vector": VectorView,
        "together": TogetherView,
        "procedure": GpuProcedureView,
        "attention_gradients": AttentionGradientsView,
    },
    {
        "{name}.h": "project/cuda/net.h.jinja",
        "{name}_kernels.h": "project/cuda/kernels.h.jinja",
        "{name}.cu": "project/cuda/net.cu.jinja",
        "main.cpp": "project/cuda/main.cpp.jinja",
        "runner.cpp": "project/cuda/runner.cpp.jinja",
        "CMakeLists.txt": "project/cuda/CMakeLists.txt.jinja",
        "{name}.py": "project/cuda/net.py.jinja",
        "README.md": "project/cuda/README.md.jinja",
    },
    ("project/cuda/kernels.cu.jinja", "{name}_kernels_{k}.cu"),
    ("ec_scalar.h", "cuda/ec_*"),
    ("{name}.cu",),
    _refuse_data_on_the_host,
    shared=("gpu",),
    alignment=16,  # of the longest access
    training={
        "{step}.h": "project/cuda/net.h.jinja",
        "{step}_kernels.h": "project/cuda/kernels.h.jinja",
        "{step}.cu": "project/cuda/net.cu.jinja",
        "{name}_training.h": "training/cuda/training.h.jinja",
        "{name}_training.cu": "training/cuda/training.cu.jinja",
    },
    bounds={
        "{step}.h": "project/cuda/net.h.jinja",
        "{step}_kernels.h": "project/cuda/kernels.h.jinja",
        "{step}.cu": "project/cuda/net.cu.jinja",
        "{name}_bounds.h": "bounds/cuda/bounds.h.jinja",
        "{name}_bounds.cu": "bounds/cuda/bounds.cu.jinja",
    },
)

OPENCL = Language(
    "opencl",
    "cl",
    {
        "map": OpenClMap,
        "reduce": OpenClReduce,
        "contract": OpenClContract,
        "attention": OpenClAttention,
        "registers": OpenClRegisters,
        "dots": OpenClDots,
        "window": OpenClWindow,
    },
    {
        "{name}.h": "project/opencl/net.h.jinja",
        "{name}.c": "project/opencl/net.c.jinja",
        "{name}_program.S": "project/opencl/program.S.jinja",
        "main.c": "project/opencl/main.c.jinja",
        "runner.c": "project/opencl/runner.c.jinja",
        "CMakeLists.txt": "project/opencl/CMakeLists.txt.jinja",
        "{name}.py": "project/opencl/net.py.jinja",
        "README.md": "project/opencl/README.md.jinja",
    },
    ("project/opencl/kernels.cl.jinja", "{name}_kernels_{k}.cl"),
    ("ec_scalar.h", "opencl/ec_*"),
    ("{name}.c", "{name}_program.S"),
    _refuse_data_on_the_host,
    shared=("gpu",),
    compiles_kernels=False,
)

WGSL = Language(
    "wgsl",
    "wgsl",
    {"map": WgslMap, "reduce": WgslReduce, "contract": WgslContract},
    {
        "web/{name}.js": "project/wgsl/network.js.jinja",
        "web/{name}.d.ts": "project/wgsl/network.d.ts.jinja",
        "README.md": "project/wgsl/README.md.jinja",
    },
    ("project/wgsl/kernels.wgsl.jinja", "web/{name}_kernels_{k}.wgsl"),
    ("wgsl/ec_*",),
    (),
    _refuse_beyond_webgpu,
    compiles_kernels=False,
)

LANGUAGES: Mapping[str, Language] = {language.name: language for language in (C, CUDA, OPENCL, WGSL)}


def language_of(device: Device) -> Language:
    """The back end of a device; raises DeviceError where its language has none."""
    found = LANGUAGES.get(device.language)
    if found is None:
        raise DeviceError(
            f"device '{device.name}' is programmed in {device.language}, for which edgec has no back end yet",
            hint=f"there are back ends for {', '.join(LANGUAGES)}: edgec device list",
        )
    return found

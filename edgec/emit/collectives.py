"""Exchanges of values between GPUs: no kernels, but calls of a library between two kernels of a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from edgec.emit.gpu.base import GpuView
from edgec.emit.language import CUDA
from edgec.emit.source import Sources, generate, pointer_text
from edgec.errors import DeviceError
from edgec.ir.types import DTYPES
from edgec.schedule.procedure import ProcedureCall
from edgec.schedule.program import Kernel, Program, Ranks
from edgec.text import listed

#: Pages of a project for several GPUs in place of those for one.
PAGES = {
    "{name}.h": "project/ranks/net.h.jinja",
    "{name}.cu": "project/ranks/net.cu.jinja",
    "{name}.py": "project/ranks/net.py.jinja",
}
#: Types of elements as the runtime numbers them (`ec_ranks.h`).
TYPES = ("i8", "u8", "i32", "u32", "i64", "u64", "f16", "f32", "f64", "bf16")


@dataclass(frozen=True)
class Exchange:
    """An exchange before kernel number ``before``: pointers in C to what a rank gives, and to what it receives.

    ``elements`` are those that a rank gives, of the type with number ``type`` of the runtime.
    """

    before: int
    is_sum: bool
    given: str
    received: str
    elements: int
    type: int
    comment: str

    @property
    def bytes(self) -> int:
        """Bytes that a rank gives."""
        return self.elements * DTYPES[TYPES[self.type]].itemsize


def is_exchange(kernel: Kernel) -> bool:
    """Is a kernel of a program an exchange between ranks?"""
    return isinstance(kernel.schedule, ProcedureCall) and kernel.schedule.node.op == "collective"


def without_exchanges(program: Program) -> tuple[Program, tuple[Exchange, ...]]:
    """A program with its kernels alone, and the exchanges between them."""
    kernels: list[Kernel] = []
    found: list[Exchange] = []
    for k in program.kernels:
        if not is_exchange(k):
            kernels.append(k)
            continue
        assert isinstance(k.schedule, ProcedureCall)
        (given, type), to = k.schedule.arguments[0], k.schedule.store
        assert given.dtype == to.dtype, f"{given.dtype} is exchanged as {to.dtype}"
        is_sum = k.schedule.node.attributes["kind"] == "sum"
        dtype, elements = _moved(given.dtype, type.elements, is_sum)
        about = f"{'sum' if is_sum else 'all'} of {elements} {dtype} of every rank: {listed(k.names)}"
        found.append(
            Exchange(
                len(kernels), is_sum, pointer_text(given, program), pointer_text(to, program).replace("const ", ""),
                elements, TYPES.index(dtype), about,
            )
        )  # fmt: skip
    return replace(program, kernels=tuple(kernels)), tuple(found)


def _moved(dtype: str, elements: int, is_sum: bool) -> tuple[str, int]:
    """The type and number of the elements that are exchanged: bytes, where nothing is added."""
    if is_sum and dtype not in TYPES:
        raise DeviceError(f"sums of {dtype} over GPUs", hint="build it for one GPU")
    if is_sum or dtype in TYPES:
        return dtype, elements
    return "u8", elements * DTYPES[dtype].itemsize


def of_ranks(
    ranks: Ranks, exchanges: tuple[Exchange, ...], values: Mapping[str, Any], name: str, templates: Sequence[Path]
) -> dict[str, Any]:
    """Data of several GPUs for templates; ports are those of the whole network.

    Raises DeviceError where the code of two ranks would differ: they run the same kernels, on weights that lie in the
    same places.
    """
    known = _code(values["program"], exchanges, values["sources"])
    for number, other in enumerate(ranks.others, 1):
        stripped, own = without_exchanges(other)
        if _code(stripped, own, generate(stripped, name, templates, CUDA)) != known:
            raise DeviceError(
                f"the code of GPU {number} would differ from that of GPU 0",
                hint="parts of one element are numbers in the code: take another --split, or build it for one GPU",
            )
    whole = {str(n.attributes["name"]): n.type for n in ranks.graph.inputs}
    whole |= {f" {output}": n.type for output, n in ranks.graph.outputs}
    return {
        "ranks": 1 + len(ranks.others), "slices": ranks.slices, "exchanges": exchanges,
        "chunks": ranks.chunks, "chunked": ranks.chunked,
        "most_exchanged": max((x.bytes for x in exchanges), default=0),
        "inputs": [replace(p, type=whole[p.onnx_name]) for p in values["inputs"]],
        "outputs": [replace(p, type=whole[f" {p.onnx_name}"]) for p in values["outputs"]],
    }  # fmt: skip


def _code(program: Program, exchanges: tuple[Exchange, ...], sources: Sources) -> bytes:
    """A digest of the functions and calls of a program, and of its places in memory."""
    digest = sha256()
    for f in sources.functions:
        digest.update(f.text.encode())
    for c in sources.calls:
        grid = c.view.grid if isinstance(c.view, GpuView) else ""
        digest.update(f"{c.function.name}({c.arguments}) {grid}".encode())
    digest.update(f"{exchanges} {program.weights_bytes} {program.arena_bytes} {program.locks}".encode())
    return digest.digest()

"""A program as C callers see it: its inputs, outputs and sizes, and what templates need to know of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from edgec.emit.c_expression import extent_text
from edgec.emit.c_literal import STORAGE
from edgec.emit.c_text import size_name
from edgec.emit.function_comment import comment_text
from edgec.emit.host_values import Computed, Demand, Open, port_of, shared_ports
from edgec.emit.identifiers import identifier
from edgec.emit.language import Language
from edgec.emit.picture import steps
from edgec.emit.source import generate, pointer_text, size_value
from edgec.frontend.language.facts import LONG
from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.extent import sizes
from edgec.ir.graph import MODEL_SHA256, PREPROCESSING
from edgec.ir.sizes import dimensions, named
from edgec.ir.types import CODED, DTYPES, Type, plain
from edgec.schedule.program import Buffer, Program

#: Metadata of a graph that no comment lists: what is not for people, and what is a macro.
HIDDEN = LONG | {MODEL_SHA256, PREPROCESSING}
#: Bytes of a counter that thread blocks of a GPU kernel synchronize with; the counters follow the arena.
LOCK_BYTES = 4


@dataclass(frozen=True)
class Port:
    """An input or output of the artifact: its names in C and in ONNX, its type and size."""

    name: str
    onnx_name: str
    type: Type

    @property
    def dtype(self) -> str:
        return self.type.dtype

    @property
    def shape(self) -> tuple[Extent, ...]:
        shape: tuple[Extent, ...] = self.type.shape
        return shape

    @property
    def is_open(self) -> bool:
        """Is there an extent that is known only at run time?"""
        return not self.type.is_fixed

    @property
    def names(self) -> tuple[int | str, ...]:
        """The shape of an input, with the names of the dimensions it leaves open."""
        return named(self.type, dimensions([self.type]).values())

    @property
    def formulas(self) -> str:
        """The shape as a Python tuple, over the names that sizes have in C."""
        return "(" + "".join(f"{_python(extent)}, " for extent in self.shape) + ")"

    @property
    def shape_text(self) -> str:
        """The shape for a comment."""
        return "[" + ", ".join(_python(extent) for extent in self.shape) + "]"

    @property
    def ctype(self) -> str:
        """The C type of the caller's array; types without a C type are passed as unsigned integers of the same size."""
        return f"uint{DTYPES[self.dtype].itemsize * 8}_t" if self.dtype in CODED else STORAGE[self.dtype]

    @property
    def numpy(self) -> str:
        return plain(np.empty(0, DTYPES[self.dtype])).dtype.name

    @property
    def elements(self) -> int:
        return self.type.elements

    @property
    def bytes_text(self) -> str:
        """Its number of bytes as a C expression, for the sizes of the current run."""
        return f"{extent_text(X.plain(prod(self.shape)))} * sizeof({self.ctype})"

    @property
    def comment(self) -> str:
        return comment_text(self.onnx_name)


def ports(program: Program, prefix: str) -> tuple[list[Port], list[Port]]:
    taken = {"SIZES"}

    def port(entry: tuple[str, Buffer, Any], fallback: str) -> Port:
        name, _, node = entry
        return Port(identifier(name, taken, fallback, prefix), name, node.type)

    return [port(e, "input") for e in program.inputs], [port(e, "output") for e in program.outputs]


def described(program: Program, name: str, templates: Sequence[Path], language: Language) -> dict[str, Any]:
    """Values for the templates of a program whose functions begin with ``name``."""
    inputs, outputs = ports(program, name)
    chosen = dimensions(n.type for _, _, n in program.inputs)
    fields: set[str] = set()  # of the structure with sizes
    opened = [
        Open(d.name, identifier(d.name, fields, "size"), size_name(s), d.low, d.high, d.step) for s, d in chosen.items()
    ]
    computed = [
        Computed(
            s,
            identifier(s.value.name, fields, "size"),
            size_value(s, b, program),
            port_of(b, program),
            program.offsets.get(b, 0),
        )
        for s, b in program.sizes.items()
    ]
    is_open = bool(chosen or computed)
    sizes = [f"{name}_sizes *sizes"] if is_open else []
    return {
        "name": name, "NAME": name.upper(), "program": program,
        "arena_bytes": program.arena_bytes + LOCK_BYTES * program.locks,
        "inputs": inputs, "outputs": outputs, "sources": generate(program, name, templates, language),
        "metadata": {comment_text(k): comment_text(v) for k, v in program.graph.metadata.items() if k not in HIDDEN},
        "model_sha256": program.graph.metadata.get(MODEL_SHA256, ""),
        "quantization": {p.onnx_name: steps(p.onnx_name, program.graph.metadata) for p in (*inputs, *outputs)},
        "dimensions": opened, "shared_ports": shared_ports(program), "states": _states(program, inputs, outputs),
        "computed": computed,
        "demands": [Demand(comment_text(m), f"*({pointer_text(b, program)})") for m, b in program.demands],
        "is_open": is_open, "size_names": [*map(size_name, chosen), *(size_name(s) for s in program.sizes)],
        "parameters": ",\n    ".join(
            sizes + [f"const {p.ctype} *{p.name}" for p in inputs] + [f"{p.ctype} *{p.name}" for p in outputs]
        ),
        "arguments": ", ".join([*(["sizes"] if is_open else []), *(p.name for p in (*inputs, *outputs))]),
        "uses_tiles": any(k.schedule.uses_tiles for k in program.kernels),
        "levels": (),
        "sizes_parameter": "".join(f", {s}" for s in sizes),
    }  # fmt: skip


def _states(program: Program, inputs: Sequence[Port], outputs: Sequence[Port]) -> list[tuple[str, str]]:
    """The names in C of every state and of its next value."""
    names = {buffer: p.name for p, (_, buffer, _) in zip((*inputs, *outputs), (*program.inputs, *program.outputs))}
    return [(names[old], names[new]) for new, old in program.states.items()]


def _python(extent: Extent) -> str:
    """An extent as Python text; C differs only in the operator of division."""
    if not isinstance(extent, Expr):
        return str(extent)
    named = {s: X.size(size_name(s), s.value.low, s.value.high) for s in sizes(extent)}
    return X.show(X.substitute(extent, named))

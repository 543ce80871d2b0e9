"""Views of OpenCL kernels.

A kernel of OpenCL C 1.2 takes memory objects, which have no arithmetic: every operand is passed as an object and a byte
offset into it, of which the first lines of the kernel make a pointer. Every parameter of every launch costs time in the
driver (docs/results/opencl.md), so that weights and arena are passed once, and all offsets as one vector.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from edgec.emit.c_expression import Printer
from edgec.emit.c_literal import STORAGE
from edgec.emit.gpu.attention import AttentionView
from edgec.emit.gpu.base import GpuView
from edgec.emit.gpu.contract import ContractView
from edgec.emit.gpu.dots import DotsView
from edgec.emit.gpu.loops import MapView, ReduceView
from edgec.emit.gpu.printer import GpuPrinter
from edgec.emit.gpu.registers import RegistersView
from edgec.emit.gpu.slots import Slot
from edgec.emit.gpu.window import WindowView
from edgec.ir.expr import Expr, Extent
from edgec.ir.nest import coefficient
from edgec.schedule.contract.int8_dot import BYTES
from edgec.schedule.gpu.kernel import is_aligned
from edgec.schedule.program import Buffer


def suffix(buffer: Buffer) -> str:
    """The suffix of the names of loads and stores of floats, by their type in memory."""
    return f"_{buffer.dtype}" if buffer.dtype in ("f16", *BYTES) else ""


def place_widths(places: int) -> list[int]:
    """Widths of the vectors that pass so many offsets: vectors of 16, and one for the rest."""
    left = places % 16
    return [16] * (places // 16) + [1 << (left - 1).bit_length()] * (left > 0)


@dataclass(frozen=True)
class Image:
    """The weights as an image: OpenCL's channel type of a texel of four numbers, and its size."""

    channel: str
    texel_bytes: int


#: Images of the weights by name, and all objects that a session owns.
IMAGES = {"image_f32": Image("CL_FLOAT", 16), "image_f16": Image("CL_HALF_FLOAT", 8)}
OWN = ("weights", "arena", *IMAGES)


def image_of(buffer: Buffer) -> str:
    """The name of the image through which a buffer of the weights is read."""
    return f"image_{buffer.dtype}"


class OpenClPrinter(GpuPrinter):
    """Expressions in OpenCL C, whose vectors have ``lanes`` floats."""

    lanes = 4

    def _ctype(self, e: Expr) -> str:
        if self.is_vector(e):
            return f"{'int' if e.dtype == 'bool' else 'float'}{self.lanes}"
        return super()._ctype(e)

    def spread(self, text: str, dtype: str) -> str:
        return f"(int{self.lanes})({text} ? -1 : 0)" if dtype == "bool" else f"(float{self.lanes})({text})"

    def _load(self, e: Expr) -> str:
        half = suffix(e.value) if isinstance(e.value, Buffer) and e.dtype == "f32" else ""
        vector = self.is_vector(e) and self.lane is not None
        if not vector and not half:
            return super()._load(e)
        pointer, (address,) = self.parameters[e.value], e.args
        place = f"{pointer} + {self.position(address)}"
        if self.lane is None or not vector:
            return f"ec_load1{half}({place})"
        if is_aligned(address, self.lane, self.lanes):
            return f"ec_load{self.lanes}{half}({place})"
        return f"ec_gather{self.lanes}{half}({place}, {coefficient(address, self.lane)})"


class OpenClView(GpuView):
    """An OpenCL kernel: operands as (object, offset), and the launches that it consists of."""

    language = "opencl"
    qualifier = "__global "

    @property
    def images(self) -> dict[str, Buffer]:
        """Operands that are read as images of the weights, by name; offsets into them count texels."""
        return {}

    @property
    def operands(self) -> dict[str, str]:
        """The pointer type of each operand, by name; scratch memory and counters come last."""
        more = {"scratch_bytes": "__global unsigned char *"} if self.kernel.scratch_bytes else {}
        more |= {"locks": "__global volatile int *"} if self.record.locks else {}
        return {**self.declarations, **more}

    @cached_property
    def objects(self) -> dict[str, str]:
        """The parameter whose memory object holds each operand; inputs and outputs have one each."""
        spaces = {**{self.pointers[b]: b.space for b in self.buffers[:-1]}, self.target: self.buffers[-1].space}
        spaces |= {"scratch_bytes": "arena", "locks": "arena", **{n: image_of(b) for n, b in self.images.items()}}
        return {n: spaces[n] if spaces[n] in OWN else f"{n}_in" for n in self.operands}

    @property
    def placed(self) -> list[str]:
        """Operands that have an offset into their object, in the order of these."""
        return [n for n, o in self.objects.items() if o in OWN]

    @property
    def kernel_parameters(self) -> str:
        kinds = {
            o: "__read_only image2d_t " if o in IMAGES else "__global unsigned char *" for o in self.objects.values()
        }
        objects = [f"{kind}{o}" for o, kind in kinds.items()]
        widths = place_widths(len(self.placed))
        places = [f"uint{width if width > 1 else ''} at{k}" for k, width in enumerate(widths)]
        return ", ".join([*objects, *places, *(f"ec_int {s}" for s in self.given_sizes)])

    def scratch_as(self, element: str) -> str:
        return f"({element} *)scratch_bytes"

    @cached_property
    def prologue(self) -> list[str]:
        """Statements that make pointers of the operands."""
        widths, lines = place_widths(len(self.placed)), []
        for name, kind in self.operands.items():
            value = self.objects[name]
            if name in self.placed:
                vector, k = divmod(self.placed.index(name), 16)
                place = f"at{vector}" + (f".s{k:x}" if widths[vector] > 1 else "")
                if name in self.images:
                    lines.append(f"{kind}{name} = (ec_int){place} / {IMAGES[value].texel_bytes};")
                    continue
                value += f" + {place}"
            lines.append(f"{kind}{name} = ({kind.replace('restrict ', '')})({value});")
        return [*lines, *self.size_lines]

    @property
    def last_arguments(self) -> tuple[str, ...]:
        return ()

    def declared(self, name: str) -> str:
        return ""  # the host finds kernels by their names

    def printer(self, names: dict[Expr, str], lane: Expr | None = None, depth: int = 1) -> GpuPrinter:
        printer = OpenClPrinter(names, self.pointers, lane, depth=depth)
        printer.lanes = self.lanes
        return printer

    def store_line(self, printer: Printer, address: Expr, value: str, lane: Expr | None, count: str | None) -> str:
        half = suffix(self.buffers[-1])
        if lane is None and half != "_f16":
            return super().store_line(printer, address, value, lane, count)
        width = self.lanes if lane is not None else 1
        return f"ec_store{width}{half}({self.target} + {printer.position(address)}, {value});"


class OpenClMap(OpenClView, MapView):
    """A map."""

    @property
    def lanes(self) -> int:  # type: ignore[override]
        return self.params.width


class OpenClRegisters(OpenClView, RegistersView):
    """A matrix product blocked in registers."""

    @property
    def images(self) -> dict[str, Buffer]:
        return {self.pointers[self.params.l]: self.params.l} if self.params.l_image else {}

    @property
    def image(self) -> str:
        """The image through which L is read; empty where it is read as memory."""
        return image_of(self.params.l) if self.params.l_image else ""

    @property
    def declarations(self) -> dict[str, str]:
        return super().declarations | dict.fromkeys(self.images, "const ec_int ")

    @cached_property
    def panel(self) -> Slot:
        slot = super().panel
        if not self.image:
            return slot
        pointer, _, place = slot.value.partition(" + ")
        return replace(slot, value=f"{pointer} + {place} / {self.lanes}")

    @property
    def s_half(self) -> str:
        """The suffix of the names of loads of S."""
        return suffix(self.params.s)

    @property
    def l_half(self) -> str:
        """The suffix of the names of loads of L."""
        return suffix(self.params.l)

    @property
    def s_type(self) -> str:
        """The type of an element of S in memory."""
        return STORAGE[self.params.s.dtype]

    @property
    def l_type(self) -> str:
        """The type of an element of L in memory."""
        return STORAGE[self.params.l.dtype]


class OpenClDots(OpenClView, DotsView):
    """An int8 matrix product, four products at a time."""


class OpenClWindow(OpenClView, WindowView):
    """A window reduction, several outputs per work-item."""


class OpenClAttention(OpenClView, AttentionView):
    """Attention; neighboring work-items exchange scores through local memory."""

    @property
    def shuffles(self) -> bool:
        return False

    @property
    def local_bytes(self) -> int:
        return self.tile.shared_bytes + self.tile.exchange_bytes


class OpenClReduce(OpenClView, ReduceView):
    """Reductions along one loop."""

    @property
    def has_sub_groups(self) -> bool:
        return self.params.sub_groups

    @property
    def local_bytes(self) -> int:
        return sum(4 * self.threads for _ in self.params.reductions)


class OpenClContract(OpenClView, ContractView):
    """A matrix product in tiles of local memory; the last work-group or a second kernel adds up a sum in parts."""

    @property
    def partial_sum(self) -> str:
        return f"{self.qualifier}{'volatile ' * self.groups_can_sync}{self.number}"

    @property
    def launches(self) -> tuple[tuple[str, Extent], ...]:
        first = ("", self.groups)
        return (first, ("_sum", self.params.tiles)) if self.split > 1 and not self.groups_can_sync else (first,)

    @property
    def local_bytes(self) -> int:
        t = self.tile
        return 2 * t.k * (t.m + 4 + t.n + 4) * 4

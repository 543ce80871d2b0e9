"""Micro-kernels: the instruction that multiplies a step of a sum of products, and the C and the layouts around it.

A contraction runs one step for every row of a tile: S of the row is read and broadcast, multiplied by a vector of L,
and added to an accumulator. A micro-kernel is one frozen record of everything in this step that depends on the
instruction. The records of edgec are in `micro_kernels`, one module an instruction; a folder of a user's own adds more
(`load_micro_kernels`). Nothing else asks for an instruction by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Literal

import numpy as np

from edgec import files
from edgec.device.device import Device
from edgec.errors import UsageError
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.nest import coefficient
from edgec.schedule.flat import evaluate_over, is_constant

#: The types of factors: S in memory, and L to suit it.
Factors = Literal["fp32", "fp16", "bf16", "int8"]

#: Bytes of a lane.
LANE_BYTES = 4


@dataclass(frozen=True)
class Sum:
    """The facts about a sum of products over the loops ``k`` (innermost last) by which a micro-kernel is chosen.

    S is a load, or for fp32 any expression. For int8, ``signed`` tells whether the bytes of S are signed, and
    ``column_offset`` is the difference between L and the signed bytes stored in its panels. ``rows`` is the number of
    sums that use one column of L. ``own`` are the names of the user's own micro-kernels that may be chosen.
    """

    device: Device
    factors: Factors
    k: tuple[Expr, ...]
    s: Expr
    l: Expr
    rows: int
    signed: bool = True
    column_offset: int = 0
    own: tuple[str, ...] = ()

    @property
    def extent(self) -> int:
        """Elements of the innermost loop."""
        return int(self.k[-1].value.extent) if self.k and self.k[-1].op == "var" else 1

    @property
    def step(self) -> int:
        """Stride of the innermost loop in S, in elements; 0 where it is not known."""
        if self.s.op != "load" or not self.k or self.k[-1].op != "var":
            return 0
        return coefficient(self.s.args[0], self.k[-1]) or 0

    def steps(self, size: int) -> int:
        """Steps of the innermost loop where each multiplies ``size`` elements."""
        return -(-self.extent // size)

    @property
    def is_contiguous(self) -> bool:
        """Are neighbors in the sum neighbors in S?"""
        return self.step == 1

    @cached_property
    def has_plain_weights(self) -> bool:
        """Is L constant, stored in signed bytes without an offset?"""
        return is_constant(self.l) and self.column_offset == 0

    @cached_property
    def least_weight(self) -> int:
        """The least element of a constant L."""
        values: np.ndarray = evaluate_over(self.l, tuple(X.free_variables(self.l)))
        return int(values.min(initial=0))


@dataclass(frozen=True)
class InOrder:
    """The form of a micro-kernel for in-order cores: loads are interleaved with multiply-adds.

    ``suffix`` is that of the C functions that load parts of vectors (ec_low, ec_join, ec_first). One load of S is
    enough for ``steps`` steps. ``updates`` are the C statements for a row of S and a column of L, one for each pass
    over the rows; they multiply by lane ``{lane}`` of ``{s}``, and ``{p}`` is a temporary for the products of the row.
    """

    suffix: str
    steps: int
    updates: tuple[str, ...]
    by_column: bool = False  # a step multiplies the columns of a vector one by one, each into its own accumulator
    least_steps: int = 8  # sums with fewer steps use the plain form
    needs: str = ""  # an instruction set that the form requires
    dual_issue: bool = False  # a load issues together with a multiply-add: half a vector of S at a time


@dataclass(frozen=True)
class MicroKernel:
    """One instruction: the types that it multiplies, the sums that it can compute, and the C of a step.

    C texts are format strings with ``{c}`` (accumulator), ``{s}`` (the elements of S of one step), ``{l}`` (a vector of
    L) and ``{row}`` (number of the row among ``rows``). C types and functions are defined in the runtime headers, or in
    ``header``, a file next to the module.
    """

    name: str
    factors: tuple[Factors, ...]
    update: str  # C expression: the accumulator after the step
    suits: Callable[[Sum], bool] = lambda of: True  # can it compute this sum?
    signed: bool = True  # int8: does the instruction take signed bytes of S? Otherwise their sign bits are flipped
    size: int = 1  # elements of the sum per step
    rows: int = 1  # rows of S per step: 2 for matrix instructions
    columns: int = 1  # columns of L in a lane of 32 bits
    panel: str = ""  # the type of a packed L; by default that of weights in memory
    s_type: str = "ec_vf"  # C type of the elements of S of one step, broadcast
    l_type: str = "ec_vf"  # C type of a vector of L; a pointer to it where it does not fit into one register
    accumulator: str = "ec_vf"  # C type of an accumulator
    zero: str = "ec_set1(0.0f)"  # C expression: the initial accumulator
    initial: str = "{l}"  # int8, C expression: the initial accumulator from the first row of a panel
    finish: str = "{c}"  # C expression: a complete accumulator as a vector with one result per lane
    read: str = ""  # C function: S of one step, from pointers to ``rows`` rows
    read_partial: str = ""  # the same for fewer elements, whose number is the last argument
    read_last: str = ""  # the same for fewer elements, at the end of the ``size`` elements from the pointer on
    gather: str = ""  # the same from ``size`` single elements
    keeps_order: bool = False  # is the compiler asked not to reorder instructions?
    most_rows: Callable[[Device, bool], int] | None = None  # sums of a tile of one vector, at most
    reserved: Callable[[Device], int] = lambda device: 0  # registers that a step uses besides S, L and accumulators
    order: InOrder | None = None
    header: Path | None = None

    @property
    def panel_rows(self) -> int:
        """Rows of a panel per step, of 32 bits per lane each."""
        return self.size * {"int8": 1, "bf16": 2}.get(self.factors[0], LANE_BYTES) // LANE_BYTES

    @property
    def has_starts(self) -> bool:
        """Does a panel begin with a row of initial accumulators? Those of int8 do, with zero points and a bias."""
        return self.factors[0] == "int8"

    @property
    def in_fp16(self) -> bool:
        """Are products added up in fp16?"""
        return self.factors[0] == "fp16"

    @property
    def rounds_sums(self) -> bool:
        """Do the additions of a sum in floats round off more than its factors?"""
        return self.factors[0] == "fp32" and self.size == 1 and self.accumulator == "ec_vf"

    @property
    def adds_in_turn(self) -> bool:
        """Is a step one addition to its accumulator, and do the steps of a sum follow one another in its order?

        Products are rounded before it, or not: a compiler may put both into one instruction. Forms for in-order cores
        run through a sum by themselves, and a micro-kernel of a user's own may do anything.
        """
        return self.rounds_sums and self.order is None and self.name not in _own and self.sums_on_lanes

    @property
    def sums_on_lanes(self) -> bool:
        """Are accumulators vectors with one result per lane throughout, so that nothing remains to be added up?"""
        return self.finish == "{c}"

    @property
    def is_four_bytes(self) -> bool:
        """Is a step a dot product of four bytes per lane?"""
        return self.has_starts and self.size == LANE_BYTES and self.sums_on_lanes

    @property
    def work(self) -> int:
        """Products per step and lane."""
        return self.size * self.rows * self.columns


#: By name; micro-kernels of a user's own come before those of edgec.
_known: dict[str, MicroKernel] = {}
_own: set[str] = set()
_loaded: dict[Path, tuple[str, ...]] = {}


def in_order_forms(plain: MicroKernel, order: InOrder) -> tuple[MicroKernel, MicroKernel]:
    """The forms of a micro-kernel for in-order cores: single issue, and a load together with a multiply-add."""
    form = replace(plain, order=order, keeps_order=True)
    dual = replace(order, dual_issue=not order.by_column)
    return replace(form, name=f"{plain.name}_in_order"), replace(form, name=f"{plain.name}_dual_issue", order=dual)


def register(micro: MicroKernel, where: str, own: bool = False) -> None:
    """Make a micro-kernel known; raises UsageError for a name that is taken or no identifier of C."""
    if not micro.name.isidentifier() or not micro.name.isascii():
        raise UsageError(f"'{micro.name}' cannot be the name of a micro-kernel", hint="use a name of C", where=where)
    if micro.name in _known:
        raise UsageError(f"there is a micro-kernel '{micro.name}' already", hint="give it another name", where=where)
    _known[micro.name] = micro
    if own:
        _own.add(micro.name)


def is_known(name: str) -> bool:
    """Is there a micro-kernel of this name?"""
    return name in _known


def named(name: str) -> MicroKernel:
    """The micro-kernel of a name."""
    return _known[name]


def chosen(of: Sum) -> MicroKernel | None:
    """The micro-kernel for a sum: the user's own first, then the one with most products per step; or None."""
    offered = [m for m in _known.values() if m.order is None and (m.name not in _own or m.name in of.own)]
    found = [m for m in offered if of.factors in m.factors and m.suits(of)]
    return max(found, key=lambda m: (m.name in _own, m.work), default=None)


def in_order_form(micro: MicroKernel, dual_issue: bool) -> MicroKernel | None:
    """The form of a micro-kernel for in-order cores; None where it has none."""
    return _known.get(f"{micro.name}_{'dual_issue' if dual_issue else 'in_order'}")


def load_micro_kernels(folders: Iterable[Path | str]) -> tuple[str, ...]:
    """The names of the micro-kernels that Python files of folders define; each file is read once a process.

    The files are programs and run with the user's rights. Raises UsageError when a folder does not exist, a file
    fails or a name is taken.
    """
    names: list[str] = []
    for folder in folders:
        root = files.folder(folder, "micro-kernels").resolve()
        for file in sorted(root.glob("*.py")):
            if not file.name.startswith("_"):
                names += _loaded.get(file) or _load(file)
    return tuple(names)


def _load(file: Path) -> tuple[str, ...]:
    spec = spec_from_file_location(f"edgec_micro_{sha256(str(file).encode()).hexdigest()[:12]}", file)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever a user's file does wrong, the file is what to name
        raise UsageError(f"cannot load: {type(error).__name__}: {error}", where=str(file)) from error
    found = defined_in(module)
    for micro in found:
        if micro.header is not None and not micro.header.is_file():
            raise UsageError(f"the header of '{micro.name}' is missing: {micro.header.name}", where=str(file))
        register(micro, str(file), own=True)
    if not found:
        raise UsageError("the file defines no micro-kernel", hint="assign a MicroKernel to a name", where=str(file))
    _loaded[file] = tuple(m.name for m in found)
    return _loaded[file]


def defined_in(module: object) -> list[MicroKernel]:
    """The micro-kernels that a module defines, in order."""
    return list({m.name: m for m in vars(module).values() if isinstance(m, MicroKernel)}.values())

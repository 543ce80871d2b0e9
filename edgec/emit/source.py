"""The C sources of a program: kernel functions (equal ones once) and their calls in order."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from edgec import limits
from edgec.emit.barriers import Barriers
from edgec.emit.c_literal import STORAGE
from edgec.emit.c_text import size_name
from edgec.emit.function_comment import comment_of, describe
from edgec.emit.gpu.base import GpuView
from edgec.emit.gpu.together import TogetherView
from edgec.emit.language import C, Language
from edgec.emit.likeness import likeness
from edgec.emit.operand_names import TensorNames, renamed, replaced, tensor_names
from edgec.emit.registry import choose
from edgec.emit.render import render
from edgec.emit.views import View
from edgec.emit.views.chain import ChainView
from edgec.errors import DeviceError, UsageError
from edgec.ir.expr import Expr
from edgec.schedule.procedure import ProcedureCall
from edgec.schedule.program import Buffer, Kernel, Program
from edgec.text import listed

_NAME = "KERNEL_NAME"
#: Kernel sources are divided into about this many files, so that they can be compiled in parallel.
FILES = 8


@dataclass(frozen=True)
class Function:
    """One kernel function: its text, its declaration, and the comment that describes it."""

    name: str
    text: str
    prototype: str
    comment: str


@dataclass(frozen=True)
class ReadSize:
    """A run-time size that is read before a call: its name in C, and its value as a C expression."""

    name: str
    value: str


@dataclass(frozen=True)
class CallSite:
    """One call of a kernel, and the computed sizes that are read just before it."""

    function: Function
    view: View
    kernel: Kernel
    arguments: str
    barrier: bool
    comment: str
    sizes: tuple[ReadSize, ...] = ()
    condition: str = ""  # in C, after "thread < threads"

    @property
    def merge(self) -> str | None:
        """The function that is called with the same arguments after a barrier; None where there is none."""
        return self._named(self.view.merge)

    @property
    def round(self) -> str | None:
        """The function that does one round of a kernel whose rounds threads share; None elsewhere."""
        return self._named(self.view.round)

    def _named(self, found: str | None) -> str | None:
        return found.replace(_NAME, self.function.name) if found is not None else None


@dataclass(frozen=True)
class Sources:
    """All functions of a program and the calls in order."""

    functions: tuple[Function, ...]
    calls: tuple[CallSite, ...]
    headers: tuple[Path, ...] = ()  # of micro-kernels of a user's own


def generate(program: Program, prefix: str, templates: Sequence[Path] = (), language: Language = C) -> Sources:
    """Render every kernel; kernels whose text is equal share one function."""
    limits.hold("kernels", len(program.kernels))
    made = []
    written = 0
    render_once = Rendering(templates, language)
    for k in program.kernels:
        view, text, kind = render_once.of(k, _NAME, aliases_of(k, program))
        made.append((k, view, text, kind))
        written += len(text)
        limits.step(partial(listed, k.names))
        limits.hold("c_bytes", written, partial(listed, k.names))
    functions = _functions(made, prefix, tensor_names(program))
    calls: list[CallSite] = []
    barriers = Barriers(program)
    unread = dict(program.sizes)
    for kernel, view, text, _ in made:
        fresh = {s: unread.pop(s) for s in kernel.sizes if s in unread and s not in kernel.read_sizes}
        barrier = barriers.must_wait(kernel, fresh.values())
        guard = _unless_there(kernel, program) if language is not C else ""
        guard += "".join(f" && {'' if truth else '!'}*({_pointer(b, program, True)})" for b, truth in kernel.guards)
        sizes = tuple(ReadSize(size_name(s), size_value(s, b, program)) for s, b in fresh.items())
        calls.append(
            CallSite(
                functions[text],
                view,
                kernel,
                _arguments(kernel, view, program),
                barrier,
                describe(kernel),
                sizes,
                guard,
            )
        )
    return Sources(tuple(functions.values()), tuple(calls), headers_of(program))


def _unless_there(kernel: Kernel, program: Program) -> str:
    """The condition in C that a state is copied to its next value only where the two are apart."""
    copied = kernel.schedule.copied
    if copied is None or program.states.get(kernel.writes) is not copied:
        return ""
    return (
        f" && (const void *){_pointer(copied, program, True)} != (const void *){_pointer(kernel.writes, program, True)}"
    )


def headers_of(program: Program) -> tuple[Path, ...]:
    """Headers outside the runtime that kernels need; raises UsageError where two are called the same."""
    found: dict[str, Path] = {}
    for header in (s.schedule.header for k in program.kernels for s in k.steps):
        if header is not None and found.setdefault(header.name, header) != header:
            raise UsageError(f"two headers are called {header.name}", hint="rename one", where=str(header))
    return tuple(found.values())


def _functions(made: Sequence[tuple[Kernel, View, str, str]], prefix: str, tensors: TensorNames) -> dict[str, Function]:
    """Functions by their text, in order; kernels with equal text share one function."""
    users: dict[str, list[Kernel]] = {}
    first: dict[str, tuple[View, str]] = {}
    for kernel, view, text, kind in made:
        users.setdefault(text, []).append(kernel)
        first.setdefault(text, (view, kind))
    found: dict[str, Function] = {}
    for text, (view, kind) in first.items():
        name = f"{prefix}_{len(found)}_{kind}"
        names = renamed(text, users[text], _NAME, tensors)
        body, declared = (replaced(t, names).replace(_NAME, name) for t in (text, view.declared(_NAME)))
        found[text] = Function(name, body, declared, comment_of(users[text]))
    return found


class Rendering:
    """The text of kernels, each with its view; what is alike is rendered once."""

    def __init__(self, templates: Sequence[Path], language: Language) -> None:
        self.templates, self.language = templates, language
        self._known: dict[Hashable, tuple[str, str]] = {}

    def of(self, kernel: Kernel, name: str, aliases: frozenset[Buffer], is_part: bool = False) -> tuple[View, str, str]:
        """The view, the text and the template name of a kernel called ``name``; a chain has that of its last step.

        What ``is_part`` of a launch that several kernels share is a function of the number of a thread block.
        """
        language = self.language
        if kernel.template not in language.views:
            what = kernel.schedule.node.op if isinstance(kernel.schedule, ProcedureCall) else kernel.template
            where = ", ".join(kernel.names) or None
            hint = "build it for a processor: edgec device list"
            raise DeviceError(f"there is no {language.name} kernel for '{what}' yet", hint=hint, where=where)
        view = language.views[kernel.template](_without_scratch(kernel), name, aliases)
        if is_part and isinstance(view, GpuView):
            view.is_part = True
        kind = ""
        if isinstance(view, (ChainView, TogetherView)):
            for k, inner in enumerate(view.params.steps):
                shared, shares = aliases & set(inner.operands), isinstance(view, TogetherView)
                its_view, text, kind = self.of(inner, f"{name}_{k}", shared, shares)
                view.add(inner, its_view, text)
        # A user's own template may print whatever a kernel has, such as its name.
        key = likeness(kernel, aliases, (name, is_part)) if not self.templates else len(self._known)
        if key not in self._known:
            template = choose(kernel.template, view, language.name, self.templates)
            try:
                text = render(template.source, self.templates, k=view).lstrip("\n")  # comments leave empty lines
            except DeviceError as error:  # what its language lacks
                where = error.where or ", ".join(kernel.names) or None
                raise DeviceError(error.message, hint=error.hint, where=where) from None
            self._known[key] = text, kind or template.kernel
        return view, *self._known[key]


def pointer_text(buffer: Buffer, program: Program) -> str:
    """The C of a pointer to a buffer that is read."""
    return _pointer(buffer, program, const=True)


def size_value(size: Expr, buffer: Buffer, program: Program) -> str:
    """A computed size as a C expression, clamped to the range for which memory was planned."""
    value = f"*({_pointer(buffer, program, const=True)})"
    return f"ec_max_int({size.value.low}, ec_min_int({size.value.high}, (ec_int){value}))"


def _without_scratch(kernel: Kernel) -> Kernel:
    return replace(kernel, operands=kernel.operands[1:]) if kernel.scratch_bytes else kernel


def _extent(buffer: Buffer, program: Program) -> tuple[int, int]:
    start = program.offsets[buffer]
    return start, start + buffer.bytes


def aliases_of(kernel: Kernel, program: Program) -> frozenset[Buffer]:
    """Operands that share memory with the result, so that their pointers must not be ``restrict``."""
    out = kernel.writes
    if out.space != "arena":
        return frozenset({out, program.states.get(out, out)} & set(kernel.reads))
    low, high = _extent(out, program)
    found = set()
    for b in kernel.reads:
        if b.space == "arena":
            start, end = _extent(b, program)
            if start < high and low < end:
                found.add(b)
    return frozenset(found)


def _pointer(buffer: Buffer, program: Program, const: bool) -> str:
    kind = f"{'const ' if const else ''}{STORAGE[buffer.dtype]} *"
    if buffer.space == "weights":
        return f"({kind})(const void *)(call->weights + {program.offsets[buffer]})"
    if buffer.space == "arena":
        return f"({kind})(void *)(call->arena + {program.offsets[buffer]})"
    place = [b for _, b, _ in (program.inputs if buffer.space == "input" else program.outputs)].index(buffer)
    return f"call->{buffer.space}{place}"


def _arguments(kernel: Kernel, view: View, program: Program) -> str:
    operands = kernel.operands
    scratch = []
    if kernel.scratch_bytes:
        place = program.offsets[operands[0]]
        scratch = [f"call->arena + {place}"]
        if operands[0].bytes > kernel.scratch_bytes:  # otherwise one thread executes the kernel
            scratch[0] += f" + thread * {kernel.scratch_bytes}"
        operands = operands[1:]
    pointers = [_pointer(b, program, const=b not in view.written) for b in operands]
    sizes = (size_name(s) for s in kernel.sizes if s not in kernel.read_sizes)
    return ", ".join([*pointers, *scratch, *sizes, *view.last_arguments])


def grouped(functions: Sequence[Function]) -> list[list[Function]]:
    """Functions in order, divided into files of about equal length."""
    total = sum(len(f.text) for f in functions)
    share = max(total // FILES, 20_000)
    groups: list[list[Function]] = [[]]
    size = 0
    for f in functions:
        if size > share:
            groups.append([])
            size = 0
        groups[-1].append(f)
        size += len(f.text)
    return groups

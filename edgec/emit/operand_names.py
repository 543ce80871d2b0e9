"""Names of a kernel function's parameters, made from the tensors that its calls pass.

Kernels are rendered with placeholders for operands (`edgec.emit.views.base.View.operand`), so that equal kernels have
equal text and share one function. The placeholders are then replaced by what the tensors of all its calls are named
alike, or by the role of the operand where their names have nothing in common.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile

from edgec.emit.identifiers import is_free
from edgec.fuse.block import Block
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.resources import data_folder
from edgec.schedule.program import BlockSchedule, Buffer, Kernel, Program

#: Characters of a name, at most.
LONGEST = 32
#: The role of a constant by the operation that it is an operand of.
_ROLES = {"add": "bias", "sub": "offset", "mul": "scale", "max": "bound", "min": "bound"}
_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class TensorNames:
    """ONNX names of what is in buffers: of the nodes that compute ``values``, and of inputs and outputs (``ports``)."""

    values: Mapping[Buffer, str]
    ports: Mapping[Buffer, str]

    def tokens(self, buffers: Sequence[Buffer]) -> list[list[str]]:
        """The words of the names of one operand of a function, for each call; calls have nodes in common, not ports."""
        if len(buffers) == 1:
            names = [self.ports.get(buffers[0]) or self.values.get(buffers[0], "")]
        else:
            names = [self.values.get(b, "") for b in buffers]
        return [re.sub(r"[^0-9a-z]+", " ", name.lower()).split() for name in names if name]


def tensor_names(program: Program) -> TensorNames:
    """The names of all buffers; one that several kernels write is named after the node whose value is the whole."""
    blocks = [(s.writes, s.block) for kernel in program.kernels for s in kernel.steps if s.block is not None]
    writers = Counter(buffer for buffer, _ in blocks)
    names: dict[Buffer, str] = {}
    for node, view in sorted(program.views.items(), key=lambda entry: -int(entry[0].type.bytes)):
        for name in program.graph.names(node)[-1:] if writers[view.buffer] > 1 else ():
            names.setdefault(view.buffer, name)
    for buffer, block in blocks:
        names.setdefault(buffer, _value_name(program, block))
    return TensorNames(names, {buffer: name for name, buffer, _ in (*program.inputs, *program.outputs)})


def _value_name(program: Program, block: Block) -> str:
    """The ONNX name of a block's result; for a copy, which has none, that of what is copied."""
    for node, suffix in ((block.output, ""), *((n, " copy") for n in block.inputs)):
        own = program.graph.names(node) if node.op != "input" else (node.attributes["name"],)
        if own:
            return f"{own[-1]}{suffix}"
    return ""


def renamed(text: str, users: Sequence[Kernel], prefix: str, tensors: TensorNames) -> dict[str, str]:
    """The names for the placeholders of a text that all of ``users`` share; ``prefix`` begins the placeholders."""
    words = set(_WORD.findall(text)) | _words_of_macros()
    scopes: dict[str, set[str]] = {}
    names: dict[str, str] = {}
    for slots in zip(*(_operands(kernel, prefix) for kernel in users)):
        function, placeholder, role = slots[0][0], slots[0][1], slots[0][3]
        taken = scopes.setdefault(function, set(words))
        found = tensors.tokens([buffer for _, _, buffer, _ in slots])
        names[placeholder] = _unique(_common(found) or role, role, taken)
    return names


def replaced(text: str, names: Mapping[str, str]) -> str:
    """The text with other words in place of some."""
    return _WORD.sub(lambda word: names.get(word[0], word[0]), text)


def _operands(kernel: Kernel, function: str) -> Iterator[tuple[str, str, Buffer, str]]:
    """(function, placeholder, buffer, role) of the operands of a kernel and of its steps."""
    *read, result = kernel.operands[1:] if kernel.scratch_bytes else kernel.operands
    for k, buffer in enumerate(read):
        yield function, f"{function}_p{k}", buffer, _role(kernel, buffer)
    yield function, f"{function}_y", result, "result"
    for k, step in enumerate(kernel.schedule.steps):
        yield from _operands(step, f"{function}_{k}")


def _role(kernel: Kernel, buffer: Buffer) -> str:
    """The role of what a kernel reads: of constants, the largest are the weights of a sum or of a packed product."""
    if buffer.space != "weights":
        return "input"
    step = next(s for s in kernel.steps if buffer in s.reads)
    largest = max((b for b in step.reads if b.space == "weights"), key=lambda b: b.elements)
    bodies = step.schedule.bodies if isinstance(step.schedule, BlockSchedule) else ()
    inside = [e for body in bodies for e in X.walk(body)]
    if buffer is largest and (any(e.op == "reduce" for e in inside) or buffer not in {e.value for e in inside}):
        return "weights"
    roles = (_ROLES[e.op] for e in inside if e.op in _ROLES and any(_is_load(a, buffer) for a in e.args))
    return next(roles, "constants")


def _is_load(e: Expr, buffer: Buffer) -> bool:
    while e.op == "cast":
        (e,) = e.args
    return e.op == "load" and e.value is buffer


def _common(names: Sequence[list[str]]) -> str:
    """The last words that all names end with, or the first that they begin with, as an identifier."""
    ending = _agreed([name[::-1] for name in names])[::-1]
    words = [*_after_numbers(ending)] or _agreed(names)
    while len("_".join(words)) > LONGEST and len(words) > 1:
        words = [*_after_numbers(words[1:])] or words[1:]
    return "_".join(words)[:LONGEST].strip("_")


def _agreed(names: Sequence[list[str]]) -> list[str]:
    same = takewhile(lambda words: len(set(words)) == 1, zip(*names))
    return [words[0] for words in same]


def _after_numbers(words: list[str]) -> list[str]:
    """The text after numbers at the beginning: no identifier begins with one."""
    numbers = len(list(takewhile(str.isdecimal, words)))
    return words[numbers:]


def _unique(name: str, role: str, taken: set[str]) -> str:
    """The name, or one like it, that is an identifier and not ``taken``; it is from here on."""
    if not is_free(name):
        name = f"{role}_{name}"[:LONGEST].strip("_")
    base, k = name, 2
    while name in taken:
        name, k = f"{base}_{k}", k + 1
    taken.add(name)
    return name


@lru_cache(maxsize=1)
def _words_of_macros() -> frozenset[str]:
    """Every word in the definitions of macros that come with kernels: a parameter of that name would change them."""
    words: set[str] = set()
    for header in sorted((data_folder("codegen_templates") / "runtime").glob("ec_*.h")):
        text = header.read_text(encoding="utf-8").replace("\\\n", " ")
        words.update(*(_WORD.findall(line) for line in text.splitlines() if line.lstrip().startswith("#")))
    return frozenset(words)

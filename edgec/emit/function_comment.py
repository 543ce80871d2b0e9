"""Comments in generated C: operators and ONNX nodes of a kernel, shapes of its operands, its work and schedule."""

from __future__ import annotations

from collections.abc import Sequence

from edgec.fuse.cost_model import bytes_of, work
from edgec.schedule.program import Kernel

#: Columns of a comment line, at most.
_WIDTH = 118


def comment_of(users: Sequence[Kernel]) -> str:
    """The comment of a function that all of ``users`` call: the operators and nodes of the first, shapes and work."""
    kernel = users[0]
    lines = [f"{_operators(kernel)}{_nodes(kernel)}"]
    blocks = [s.block for s in kernel.steps if s.block is not None]
    shared = f"{len(users)} kernels, each " if len(users) > 1 else ""
    if blocks:
        results = {b.output for b in blocks}
        read = dict.fromkeys(n for b in blocks for n in b.inputs if n not in results)
        lines.append(f"{', '.join(str(n.type) for n in read) or 'nothing'} -> {blocks[-1].output.type}")
        shared += f"{_figure(sum(map(work, blocks)), 'FLOP')}, {_figure(sum(map(bytes_of, blocks)), 'B')}: "
    steps = [f"after {', '.join(s.template for s in kernel.steps[:-1])}"] if len(kernel.steps) > 1 else []
    return _comment([*lines, f"{shared}{kernel.main.describe}", *steps])


def _comment(lines: Sequence[str]) -> str:
    return "/* " + "\n * ".join(comment_text(line, _WIDTH) for line in lines) + " */"


def _figure(amount: float, unit: str) -> str:
    """Three digits, and a unit with its prefix."""
    for limit, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if amount >= limit:
            return f"{amount / limit:.3g} {prefix}{unit}"
    return f"{amount:.0f} {unit}"


def describe(kernel: Kernel) -> str:
    """The comment at the call of a kernel: operators, result, and the ONNX nodes it came from."""
    if kernel.block is None:
        return f"border of {', '.join(map(comment_text, kernel.names)) or 'a padded value'}"
    return f"{_operators(kernel)} -> {kernel.block.output.type}{_nodes(kernel)}"


def _operators(kernel: Kernel) -> str:
    blocks = [s.block for s in kernel.steps if s.block is not None]
    return ", then ".join(" ".join(dict.fromkeys(n.op for n in b.nodes)) for b in blocks) or "border"


def _nodes(kernel: Kernel) -> str:
    names = ", ".join(comment_text(n) for n in kernel.names[:6]) + (", ..." if len(kernel.names) > 6 else "")
    return f"  [{names}]" if names else ""


def comment_text(name: str, limit: int = 80) -> str:
    """A model's own text inside a C comment: nothing of it may end the comment or start another line."""
    safe = "".join(c if c.isprintable() and c.isascii() and c != "\\" else "?" for c in name)
    safe = safe.replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?")
    return safe if len(safe) <= limit else f"{safe[: limit - 4]} ..."

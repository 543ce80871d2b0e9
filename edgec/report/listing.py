"""Plans, programs and projects as text for people: what --save-stages keeps and `explain` quotes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256

from edgec.emit.project import Project
from edgec.fuse import Block, Plan
from edgec.ir import expr as X
from edgec.ir.graph import Formula, Node
from edgec.ops import meaning
from edgec.schedule.program import Buffer, Program, View
from edgec.text import printable

#: Formulas longer than this are cut: a block may compose hundreds of operators.
SHOWN = 2000


def numbered(nodes: Iterable[Node]) -> dict[Node, str]:
    """Short names: inputs by their own, the rest by number."""
    names: dict[Node, str] = {}
    for n in nodes:
        names[n] = printable(n.attributes["name"]) if n.op == "input" else f"%{len(names)}"
    return names


def formula_text(block: Block, names: Mapping[Node, str]) -> str:
    """The composed formula of a block, or the procedure it is; what it loads from is named as in ``names``."""
    if block.is_procedure:
        args = [names.get(a, repr(a)) for a in block.output.args]
        return f"{names.get(block.output, '?')} = {procedure_text(block.output, args)}"
    variables = ", ".join(X.show(v) for v in block.formula.variables)
    body = X.show(block.formula.body, lambda node: names.get(node, repr(node)))
    text = f"{names.get(block.output, '?')}[{variables}] = {body}"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def procedure_text(node: Node, args: Iterable[str]) -> str:
    return f"{node.op}({', '.join([*args, *(f'{key}={value!r}' for key, value in node.attrs)])})"


def operator_text(node: Node, limit: int) -> str:
    """The formula of one operator over its operands ``x0``.., cut to so many characters."""
    derived = meaning(node)
    if isinstance(derived, Formula):
        variables = ", ".join(X.show(v) for v in derived.variables)
        text = f"y[{variables}] = {X.show(derived.body, lambda slot: f'x{slot}')}"
    else:
        text = f"y = {procedure_text(node, (f'x{k}' for k in range(len(node.args))))}"
    return text if len(text) <= limit else f"{text[:limit]}..."


def show_plan(plan: Plan) -> str:
    """One block a paragraph: kind, operators, formula, and where placed values live."""
    known = dict.fromkeys(plan.graph.nodes())
    known |= dict.fromkeys(b.output for b in plan.blocks)
    names = numbered(known)
    lines = [f"plan {plan.graph.name}: {len(plan.blocks)} blocks, {len(plan.graph.operations())} operators", ""]
    for k, block in enumerate(plan.blocks):
        origin = dict.fromkeys(o for n in block.nodes for o in plan.graph.names(n))
        lines.append(
            f"block {k} {block.kind}: {' '.join(n.op for n in block.nodes)}  # {', '.join(map(printable, origin))}"
        )
        lines.append(f"  {block.meaning.type} {formula_text(block, names)}")
        place = plan.placements.get(block.output)
        if place is not None:
            lines.append(f"  lives in {names.get(place.parent, '?')} at {list(place.offset)}")
    lines += [f"output {printable(name)} = {names[n]}" for name, n in plan.outputs]
    return "\n".join(lines) + "\n"


def describe_view(view: View) -> str:
    """The storage of a value: buffer, and dimensions from the slowest to the fastest."""
    order = sorted(range(len(view.shape)), key=lambda d: (-view.strides[d], d))
    layout = ",".join(map(str, order))
    at = f" + {view.offset}" if view.offset else ""
    return f"{printable(view.buffer.name)}{at}, dimensions {layout or 'none'} slowest first"


def describe_buffer(buffer: Buffer, program: Program) -> str:
    place = f"{buffer.space} {program.offsets[buffer]}" if buffer in program.offsets else buffer.space
    return f"{printable(buffer.name)}@{place}:{buffer.dtype}[{buffer.elements}]"


def show_program(program: Program) -> str:
    """Sizes, then one kernel a paragraph: template, operands with their place, ONNX names."""
    lines = [
        f"program {program.graph.name}: {len(program.kernels)} kernels, threads {program.threads}",
        f"arena {program.arena_bytes} bytes (lower bound {program.arena_lower_bound_bytes}), "
        f"weights {program.weights_bytes} bytes",
        "",
    ]
    for k, kernel in enumerate(program.kernels):
        lines.append(f"kernel {k} {kernel.describe}  # {', '.join(map(printable, kernel.names))}")
        reads = ", ".join(describe_buffer(b, program) for b in kernel.reads)
        lines.append(f"  {describe_buffer(kernel.writes, program)} <- {reads or 'nothing'}")
        if kernel.block is not None:
            lines.append(f"  {kernel.block.output.type}: {describe_view(program.views[kernel.block.output])}")
    return "\n".join(lines) + "\n"


def show_project(project: Project) -> str:
    """Every file with its size and content hash."""
    rows = [f"{len(content):>12} {sha256(content).hexdigest()[:16]} {path}" for path, content in project.files.items()]
    return "\n".join(rows) + "\n"

"""Plans, programs and projects as text for people: what --save-stages keeps and `explain` quotes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

from edgec.emit.project import Project
from edgec.fuse import Block, Plan
from edgec.ir import expr as X
from edgec.ir.graph import Formula, Node
from edgec.ir.nest import extent
from edgec.ops import meaning
from edgec.schedule.attention.attention import Attention
from edgec.schedule.chain import Chain
from edgec.schedule.contract import Contract
from edgec.schedule.gpu.kernel import GpuKernel
from edgec.schedule.halo_fill import Border
from edgec.schedule.map import Map
from edgec.schedule.nibbles import Nibbles
from edgec.schedule.procedure import ProcedureCall
from edgec.schedule.program import Buffer, Kernel, Program, View
from edgec.schedule.row import Row
from edgec.schedule.sparse import Sparse
from edgec.schedule.window import Window
from edgec.schedule.winograd import Winograd
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


def describe_template(kernel: Kernel) -> str:
    """The template of a kernel and the parameters that shape its loops."""
    p: Any = kernel.params
    if isinstance(p, Attention):
        return f"attention M={extent(p.m)} N={extent(p.n)} K={p.features} D={extent(p.d)}"
    if isinstance(p, Nibbles):
        sizes = f"M={p.m_extent} N={p.n_extent} K={p.k[0].value.extent * p.group}"
        return f"weights of 4 bits {sizes}, groups of {p.group}, tile {p.rows} rows x {p.vectors} vectors of {p.lanes}"
    if isinstance(p, Sparse):
        sizes = f"M={p.m_extent} N={p.n_extent}"
        kept = f"{p.index.elements} rows of weights kept, {p.stride} a step"
        return f"sparse {sizes}, {kept}, tile {p.rows} rows x {p.vectors} vectors of {p.lanes}"
    if isinstance(p, Contract):
        sizes = f"M={p.m_extent} N={p.n_extent} K={p.k_extent}"
        return f"contract {sizes}, tile {p.rows} rows x {p.vectors} vectors of {p.lanes}, lane factor {p.l_mode}"
    if isinstance(p, Winograd):
        forms = " x ".join(f"F({side.toom.outputs}, {side.toom.taps})" for side in p.sides)
        sizes = f"{p.tiles} tiles, N={p.n_extent} K={p.k_extent}"
        return (
            f"winograd {forms}, {sizes}, {p.block} tiles a block, tile {p.rows} rows x {p.vectors} vectors of {p.lanes}"
        )
    if isinstance(p, Window):
        taps = [v.value.extent for v in p.taps.names] if p.taps else [v.extent for v in p.reduction.value[1]]
        return f"window of {'x'.join(map(str, taps)) or '1'}, tile {p.rows} outputs x {p.lanes} lanes"
    if isinstance(p, Row):
        combines = ", ".join(combine for combine, _ in p.reductions)
        return f"row of {p.row.value.extent}, passes {combines or 'none'}, {len(p.saved)} values kept"
    if isinstance(p, Map):
        return f"map over {[v.value.extent for v in p.loops]}" + (
            f", lanes along {p.lane.value.extent}" if p.lane is not None else ", scalar"
        )
    if isinstance(p, GpuKernel):
        return f"{kernel.template} {p.describe}"
    if isinstance(p, ProcedureCall):
        tasks = p.procedure.tasks
        return f"{p.node.op}, {f'{tasks} tasks' if tasks > 1 else 'a single task'}"
    if isinstance(p, Chain):
        return ", then ".join(map(describe_template, p.steps))
    if isinstance(p, Border):
        return f"border of {p.value}, {len(p.slabs)} slabs"
    return kernel.template


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
        lines.append(f"kernel {k} {describe_template(kernel)}  # {', '.join(map(printable, kernel.names))}")
        reads = ", ".join(describe_buffer(b, program) for b in kernel.reads)
        lines.append(f"  {describe_buffer(kernel.writes, program)} <- {reads or 'nothing'}")
        if kernel.block is not None:
            lines.append(f"  {kernel.block.output.type}: {describe_view(program.views[kernel.block.output])}")
    return "\n".join(lines) + "\n"


def show_project(project: Project) -> str:
    """Every file with its size and content hash."""
    rows = [f"{len(content):>12} {sha256(content).hexdigest()[:16]} {path}" for path, content in project.files.items()]
    return "\n".join(rows) + "\n"

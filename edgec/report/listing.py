"""Blocks, formulas and places in memory in a few words, as `explain` and the page quote them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from edgec.fuse import Block
from edgec.ir import expr as X
from edgec.ir.graph import Formula, Node
from edgec.ops import meaning
from edgec.schedule.program import View
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


def describe_view(view: View) -> str:
    """The storage of a value: buffer, and dimensions from the slowest to the fastest."""
    order = sorted(range(len(view.shape)), key=lambda d: (-view.strides[d], d))
    layout = ",".join(map(str, order))
    at = f" + {view.offset}" if view.offset else ""
    return f"{printable(view.buffer.name)}{at}, dimensions {layout or 'none'} slowest first"

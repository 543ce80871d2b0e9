"""Plans as text that reads back to the same plan."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from edgec.fuse.aliasing import Plan
from edgec.ir import expr as X
from edgec.ir.graph import Array, Formula, Node
from edgec.ir.records.classes import Classes, reachable
from edgec.ir.records.reader import read
from edgec.ir.records.writer import Written, write


def complaint(record: object) -> str | None:
    """A sentence on what is wrong with a record out of a file, or None."""
    if not isinstance(record, Formula):
        return None
    if len(record.variables) != record.type.rank or record.body.dtype != record.type.dtype:
        return f"the formula gives no {record.type}"
    loops = [v.value.extent if v.op == "var" else 1 for v in record.variables]
    if loops != list(record.type.shape) or X.free_variables(record.body) - set(record.variables):
        return f"the formula's loops are not those of {record.type}"
    for e in X.loads(record.body):
        if not isinstance(e.value, Node) or len(e.args) != e.value.type.rank or e.dtype != e.value.type.dtype:
            return "the formula loads what is no element of a node"
    return None


@cache
def _classes() -> Classes:
    return reachable(Plan)


def write_plan(plan: Plan) -> Written:
    """The text of a plan: its graph, then one block a paragraph, then where values live and why."""
    return write(plan, _classes())


def read_plan(text: str, constants: Mapping[str, Array]) -> Plan:
    """The plan that a text holds; raises ModelError with the number of the line for what is malformed."""
    found: Plan = read(text, Plan, _classes(), constants, complaint)
    return found

"""The planner's record of one block: what it holds together, and why its neighbors are not part of it."""

from __future__ import annotations

from collections.abc import Container

from edgec.fuse import Block, Plan
from edgec.fuse.choice import Choice, Variant
from edgec.fuse.decisions import Verdict
from edgec.ir.graph import Node
from edgec.report.record import Record
from edgec.text import printable

#: Neighbors that are named where the same is true of many.
SHOWN = 2


class Index:
    """Look-ups over a plan: the last verdict on each pair, the readers of each value, the values that are stored."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        last = {
            (v.writer, v.reader): v for v in plan.decisions.verdicts
        }.values()  # a later one replaces an earlier one
        self.by_writer: dict[Node, list[Verdict]] = {}
        for v in last:
            self.by_writer.setdefault(v.writer, []).append(v)
        self.readers: dict[Node, list[Block]] = {}
        for block in plan.blocks:
            for value in block.inputs:
                self.readers.setdefault(value, []).append(block)
        self.aliased = plan.filled
        self.written = {b.output for b in plan.blocks}
        self.stored = self.written | self.aliased | set(plan.aliases)

    def computed(self, block: Block) -> dict[Node, None]:
        """The operators of a block, with the movement that is an index in it, in an order that is always the same."""
        found = dict.fromkeys(block.nodes)
        stack = list(block.nodes)
        inputs = set(block.inputs)
        while stack:
            for a in stack.pop().args:
                if a not in found and a not in inputs and a not in self.stored and a.op not in ("input", "const"):
                    found[a] = None
                    stack.append(a)
        return found

    def apart(self, value: Node, readers: Container[Node]) -> list[Verdict]:
        return [v for v in self.by_writer.get(value, ()) if v.reader in readers and not v.fused]


def held(index: Index, block: Block) -> list[Verdict]:
    """The verdicts on pairs of operators inside a block: the reasons why they are one kernel."""
    mine = index.computed(block)
    order = {v: k for k, v in enumerate(block.nodes)}
    writers = sorted(mine, key=lambda n: order.get(n, len(order)))
    return [v for w in writers for v in index.by_writer.get(w, ()) if v.fused and v.reader in mine]


def borders(index: Index, block: Block) -> list[Verdict]:
    """The verdicts on a block and its neighbors, writers first: the reasons why they are other kernels."""
    found: list[Verdict] = []
    mine = index.computed(block)
    for value in block.inputs:
        if value in index.written or value in index.aliased:
            found += index.apart(value, mine)
    for other in index.readers.get(block.output, ()):
        if other is not block:
            found += index.apart(block.output, index.computed(other))
    found += [v for v in index.by_writer.get(block.output, ()) if v.reader in index.aliased and v.fused]
    return list(dict.fromkeys(found))


# ---- as data and as sentences


def verdict_record(plan: Plan, verdict: Verdict) -> Record:
    """One verdict as plain data (docs/guide/json.md)."""
    cell = verdict.cell
    return {
        "writer": title(plan, verdict.writer),
        "reader": title(plan, verdict.reader),
        "fused": verdict.fused,
        "cell": {"first": cell.first.label, "second": cell.second.label, "color": cell.color.name.lower()},
        "constraint": verdict.constraint,
        "why": verdict.why,
        "choice": choice_record(verdict.choice) if verdict.choice is not None else None,
    }


def choice_record(choice: Choice) -> Record:
    return {
        "kind": choice.kind,
        "source": choice.source,
        "taken": _variant(choice.taken),
        "others": [_variant(w) for w in choice.others],
    }


def _variant(variant: Variant) -> Record:
    return {"name": variant.name, "us": variant.seconds * 1e6}


def sentences(index: Index, block: Block) -> list[str]:
    """The same as sentences."""
    plan = index.plan
    said = [f"one kernel: {v.why}{_prices(v.choice)}" for v in held(index, block)]
    grouped: dict[tuple[bool, str], list[Verdict]] = {}
    for v in borders(index, block):
        grouped.setdefault((v.writer is block.output, v.why), []).append(v)
    for (is_writer, reason), verdicts in grouped.items():
        others = list(dict.fromkeys(title(plan, v.reader if is_writer else v.writer) for v in verdicts))
        more = f" and {len(others) - SHOWN} more" if len(others) > SHOWN else ""
        link = f"{'is read by' if is_writer else 'reads'} {', '.join(others[:SHOWN])}{more}"
        first = verdicts[0]
        apart = "" if first.fused else f"two kernels, because {reason} [{first.constraint}; {first.cell}]"
        said.append(f"{link}: {apart or reason}{_prices(first.choice)}")
    return list(dict.fromkeys(said))


def _prices(choice: Choice | None) -> str:
    if choice is None:
        return ""
    variants = ", ".join(f"{w.name} {w.seconds * 1e6:.1f} us" for w in (choice.taken, *choice.others))
    return f"; {choice.source}: {variants}"


def title(plan: Plan, node: Node) -> str:
    """A value by the last ONNX node it comes from, else by its operator and the nearest such node or input before."""
    names = plan.graph.names(node)
    if names:
        return f"{node.op} '{printable(names[-1])}'"
    reached = [a for a in node.args if not a.is_const]
    for before in reached:
        known = plan.graph.names(before) or ((str(before.attributes["name"]),) if before.op == "input" else ())
        if known:
            return f"{node.op} after '{printable(known[-1])}'"
        reached += [a for a in before.args if not a.is_const and a not in reached]
    return node.op

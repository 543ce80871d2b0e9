"""The history of a node of the model: its core operators, the rules, its kernel, and the reasons for that kernel."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from edgec.errors import UsageError
from edgec.frontend.source import Parsed, nodes_with_outputs
from edgec.fuse import Block, Plan, classify
from edgec.ir.graph import Graph, Node
from edgec.ops import meaning
from edgec.pipeline.run import Run
from edgec.report import facts, rules, why
from edgec.report.kernels import kernel_cost
from edgec.report.listing import describe_view, formula_text, numbered, operator_text
from edgec.report.record import Record, head
from edgec.report.terminal import number, pairs, size
from edgec.rewrite import Rule, consider, load_rules
from edgec.rewrite.names import cover
from edgec.schedule.program import Kernel, Program
from edgec.text import did_you_mean, printable

#: Formulas are cut at this length.
_FORMULA = 400


def explain(run: Run, model: Parsed, name: str) -> Record:
    """Everything that is known of the node ``name``, of the kernel of that number, or of the rule of that name.

    Raises UsageError when there is none of that name.
    """
    graph = run.graph
    names = dict.fromkeys(printable(o) for found in graph.origin.values() for o in found)
    names |= dict.fromkeys(label for label, _, _ in nodes_with_outputs(model))
    written = [n for n in graph.operations() if name in map(printable, graph.names(n))]
    program: Program = run["schedule"]
    if name not in names and name.isdecimal() and int(name) < len(program.kernels):
        return _of_kernel(run, int(name))
    rule = next((r for r in load_rules(run.context.options.rules) if r.name == name), None)
    if name not in names and rule is not None:
        return _of_rule(run, rule)
    if name not in names:
        inside = [o for o in names if name.lower() in o.lower()]
        otherwise = did_you_mean("", inside, "names are those that other tools show for the model", most=3, cutoff=0.0)
        hint = did_you_mean(name, names, otherwise, most=3, cutoff=0.4)
        raise UsageError(f"there is no node called '{printable(name)}'", hint=hint, where=model.where)
    planned: Graph = run["fuse"].graph
    kept = [n for n in planned.operations() if name in map(printable, planned.names(n))]
    applied = [str(a) for a in run.applied if name in map(printable, getattr(a, "origin", ()))]
    mine = [(k, kernel) for k, kernel in enumerate(program.kernels) if name in map(printable, kernel.names)]
    plan: Plan = run["fuse"]
    filled = plan.filled
    return {
        **head("explain"),
        "node": name,
        "imported_as": [_core(n) for n in written],
        "rules": applied,
        "planned_as": [_core(n) for n in kept],
        "part_of": [o.name for o in cover(planned) if o.nodes.intersection(kept) and len(o.nodes) > 1],
        "aliased": [_aliased(plan, n) for n in kept if n in plan.aliases]
        + [_filled(n) for n in kept if n in filled and n not in plan.aliases],
        "inside_others": [_inlined(plan, n) for n in kept if not _homes(plan, n) and n not in filled],
        "kernels": [_kernel(run, k, kernel) for k, kernel in mine],
        "rule": None,
    }


def _of_kernel(run: Run, k: int) -> Record:
    """The same for one kernel, with all nodes that it computes."""
    nothing: dict[str, list[str]] = {"imported_as": [], "rules": [], "part_of": [], "aliased": [], "inside_others": []}
    kernel = run["schedule"].kernels[k]
    planned = [_core(n) for n in kernel.block.nodes if n.op != "copy"] if kernel.block is not None else []
    return {**head("explain"), "node": f"kernel {k}", **nothing, "planned_as": planned,
            "kernels": [_kernel(run, k, kernel)], "rule": None}  # fmt: skip


def _of_rule(run: Run, rule: Rule) -> Record:
    """The places where a rule changed the network, and its verdicts on the operators that are left."""
    nothing: dict[str, list[str]] = {"imported_as": [], "part_of": [], "aliased": [], "inside_others": []}
    planned: Graph = run["fuse"].graph
    applied = [a for a in run.applied if a.rule == rule.name]
    refused: dict[str, list[str]] = {}
    for node in planned.operations():
        if node.op in rule.ops:
            for found in consider(planned, node, [rule]):
                reason = found.outcome if isinstance(found.outcome, str) else "the network would not be cheaper"
                refused.setdefault(reason, []).append(_title(planned, node))
    told = {
        **rules.described(rule),
        "times": len(applied),
        "disabled": rule.name in run.context.options.disable_rules,
        "refused": [{"why": why, "nodes": nodes} for why, nodes in refused.items()],
    }
    steps = [str(a) for a in applied]
    return {
        **head("explain"),
        "node": rule.name,
        **nothing,
        "rules": steps,
        "planned_as": [],
        "kernels": [],
        "rule": told,
    }


def _title(graph: Graph, node: Node) -> str:
    names = graph.names(node)
    return f"{node.op} '{printable(names[-1])}'" if names else node.op


def _core(node: Node) -> Record:
    derived = meaning(node)
    return {
        "operator": node.op,
        "type": str(node.type),
        "operands": [str(a.type) for a in node.args],
        "formula": operator_text(node, _FORMULA),
        "mapping": classify.mapping(node).label,
        "flops": classify.flops(derived),
        "macs": facts.multiply_adds(derived),
    }


def _homes(plan: Plan, node: Node) -> list[Block]:
    return [b for b in plan.blocks if node in b.nodes]


def _aliased(plan: Plan, node: Node) -> str:
    place = plan.aliases[node]
    if place.is_view and node.op == "slice":
        return f"slice is not computed: it lies where the {place.parent.op} before it does"
    if node.op == "pad":
        return f"pad is not computed: the buffer of the {place.parent.op} before it has room for the padding around it"
    return f"{node.op} writes straight into the buffer of the {place.parent.op} after it, at {list(place.offset)}"


def _filled(node: Node) -> str:
    return f"{node.op} is not computed: whoever computes its parts writes them where they belong in its buffer"


def _inlined(plan: Plan, node: Node) -> str:
    """A value that no kernel computes by itself: movement is an index in its readers, cheap work is repeated there."""
    readers = []
    pending, seen = [node], set()
    users = plan.graph.users()
    while pending:
        for user in users.get(pending.pop(), ()):
            if user not in seen:
                seen.add(user)
                homes = _homes(plan, user)
                readers += homes
                if not homes:
                    pending.append(user)
    names = dict.fromkeys(printable(o) for b in readers for o in plan.graph.names(b.output))
    where = f"the kernels of {', '.join(names)}" if names else "its readers"
    if classify.is_movement(node):
        return f"{node.op} costs nothing: it is an index inside {where}"
    return f"{node.op} is computed wherever it is read, inside {where}"


def _kernel(run: Run, k: int, kernel: Kernel) -> Record:
    program: Program = run["schedule"]
    plan: Plan = run["fuse"]
    record: dict[str, Any] = {
        "kernel": k,
        "template": kernel.describe,
        "nodes": [printable(n) for n in kernel.names],
        "scratch_bytes": kernel.scratch_bytes,
        **kernel_cost(kernel),
    }
    block = kernel.block
    index = why.Index(plan)
    if block is None:
        told = "the border is written once; its inside is written in place by whoever computes it"
        return {
            **record,
            "kind": "border",
            "operators": ["border"],
            "formula": "",
            "reads": [],
            "writes": "",
            "why": [told],
            "verdicts": [],
        }
    names = numbered(dict.fromkeys((*plan.graph.nodes(), block.output)))
    text = formula_text(block, names)
    return {
        **record,
        "kind": block.kind,
        "operators": [n.op for n in block.nodes],
        "formula": text if len(text) <= _FORMULA else f"{text[:_FORMULA]}...",
        "reads": [_read(program, names, n) for n in block.inputs],
        "writes": f"{block.output.type} {describe_view(program.views[block.output])}",
        "why": why.sentences(index, block),
        "verdicts": [why.verdict_record(plan, v) for v in (*why.held(index, block), *why.borders(index, block))],
    }


def _read(program: Program, names: dict[Node, str], node: Node) -> str:
    if node.is_const:
        return f"{names.get(node, '?')}: {node.type} weights"
    return f"{names.get(node, '?')}: {node.type} {describe_view(program.views[node])}"


# ---- drawn for a terminal


def draw(record: Record) -> RenderableType:
    """The history of a node: operators it became, rules, kernels; or that of a rule."""
    parts: list[RenderableType] = [Text(record["node"], style="bold")]
    if record["rule"]:
        return _draw_rule(record)
    nothing = "  nothing: its result is known at build time, it changes nothing, or nobody reads it"
    if record["imported_as"] or not record["kernels"]:
        parts += ["", "[bold]Imported as[/]", *(list(map(_core_text, record["imported_as"])) or [nothing])]
    if record["rules"]:
        parts += ["", "[bold]Rules applied[/]", *(f"  {escape(rule)}" for rule in record["rules"])]
    if record["planned_as"] != record["imported_as"]:
        changed = [_core_text(core) for core in record["planned_as"]]
        parts += ["", "[bold]After simplifying[/]", *(changed or ["  nothing: other nodes took it over"])]
    if record["part_of"]:
        parts += ["", f"[bold]Part of[/] {escape(', '.join(record['part_of']))}"]
    for line in (*record["aliased"], *record["inside_others"]):
        parts.append(f"  {escape(line)}")
    for k in record["kernels"]:
        rows: list[tuple[str, RenderableType]] = [
            ("operators", " ".join(k["operators"])),
            ("ONNX nodes", escape(", ".join(k["nodes"]))),
            ("template", escape(k["template"])),
            ("formula", escape(k["formula"])),
            ("reads", escape("\n".join(k["reads"]))),
            ("writes", escape(k["writes"])),
            ("cost", f"{number(k['flops'])} FLOPs, reads {size(k['bytes_read'])}, writes {size(k['bytes_written'])}"),
            ("why", escape("\n".join(k["why"]))),
        ]
        parts += ["", f"[bold]Kernel {k['kernel']}[/] ({k['kind']})", pairs(rows)]
    return Group(*parts)


def _draw_rule(record: Record) -> RenderableType:
    """The places where a rule changed the network, and the reasons why it did not elsewhere."""
    rule = record["rule"]
    times = "nowhere" if not rule["times"] else "once" if rule["times"] == 1 else f"{rule['times']} times"
    told = f"{times}{', because this build disables it' if rule['disabled'] else ''}"
    rows: list[tuple[str, RenderableType]] = [
        ("says", escape(rule["summary"])),
        ("form", escape(rule["statement"])),
        ("family", f"{escape(rule['family'])}, {rule['numeric']}"),
        ("applied", told),
    ]
    parts: list[RenderableType] = [Text(record["node"], style="bold"), pairs(rows)]
    if record["rules"]:
        parts += ["", "[bold]Applied[/]", *(f"  {escape(step)}" for step in record["rules"])]
    if rule["refused"]:
        parts += ["", "[bold]Not applied to what is left[/]"]
    for r in rule["refused"]:
        more = f" and {len(r['nodes']) - 4} more" if len(r["nodes"]) > 4 else ""
        parts.append(f"  {escape(r['why'])}: {escape(', '.join(r['nodes'][:4]))}{more}")
    return Group(*parts)


def _core_text(core: Record) -> str:
    operands = escape(", ".join(core["operands"]))
    return (
        f"  {core['operator']}({operands}) -> {escape(core['type'])}, {core['mapping']}, "
        f"{number(core['flops'])} FLOPs\n    {escape(core['formula'])}"
    )

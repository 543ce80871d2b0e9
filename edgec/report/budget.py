"""Budgets of a build: bounds of its costs, and the largest contributors to a cost that exceeds its bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import RenderableType
from rich.text import Text

from edgec.bench.timing import Benched
from edgec.build import Built
from edgec.check.fidelity import Fidelity
from edgec.check.network import Checked
from edgec.options.budgets import Budget
from edgec.report import traffic
from edgec.report.fit import fit
from edgec.report.kernels import kernel_record
from edgec.report.record import Record
from edgec.report.terminal import duration, size
from edgec.text import printable

#: Number of contributors that are named.
NAMED = 3


def needs(budgets: Sequence[Budget], name: str) -> bool:
    """True if one of the budgets has this name, so that its figure has to be measured."""
    return any(b.name == name for b in budgets)


def held(
    built: Built,
    budgets: Sequence[Budget],
    *,
    benched: Benched | None = None,
    seconds: Sequence[float | None] = (),
    checked: Checked | None = None,
    fidelity: Fidelity | None = None,
    certified: float | None = None,
) -> list[Record]:
    """Each budget with the figure found, and the largest contributors; a budget without a figure is not met."""
    memory = fit(built.program, built.options.device)
    plan = built.stages.plan if needs(budgets, "traffic_kb") else None
    moved = traffic.of_plan(plan).together / 1024 if plan is not None else None
    worst = [d.max_rel for d in checked.outputs] if checked is not None else []
    amounts: Mapping[str, float | None] = {
        "latency_ms": benched.timing.median_ms if benched is not None else None,
        "ram_kb": memory["ram"]["bytes"] / 1024,
        "flash_kb": memory["flash"]["bytes"] / 1024,
        "traffic_kb": moved,
        "max_error": max(worst, default=None),
        "certified_error": certified,
    }
    found = []
    for budget in budgets:
        amount = amounts[budget.name]
        ok = amount is not None and amount <= budget.limit
        found.append(
            {
                "name": budget.name,
                "limit": budget.limit,
                "found": amount,
                "ok": ok,
                "limit_text": _text(budget.name, budget.limit),
                "found_text": _text(budget.name, amount) if amount is not None else "not measured",
                "largest": [] if ok else _largest(built, budget.name, seconds, checked),
            }
        )
    return found


def _largest(built: Built, name: str, seconds: Sequence[float | None], checked: Checked | None) -> list[Record]:
    """The largest contributors, largest first: kernels by time, weights, bytes or error, values by their bytes."""
    program = built.program
    amounts: list[tuple[float, str]]
    if name == "ram_kb":
        writers = {kernel.writes: kernel for kernel in program.kernels}
        arena = [b for b in program.offsets if b.space == "arena"]
        ports = [b for _, b, _ in (*program.inputs, *program.outputs)]
        names = {b: writers[b].names if b in writers else () for b in (*arena, *ports)}
        amounts = [(b.bytes / 1024, _value_of(b.name, nodes)) for b, nodes in names.items()]
    else:
        known = {b.kernel: b.max_rel for b in checked.blocks} if checked is not None else {}
        amounts = []
        for k, kernel in enumerate(program.kernels):
            if name == "latency_ms":
                amount = (seconds[k] or 0.0) * 1e3 if k < len(seconds) else 0.0
            elif name == "flash_kb":
                amount = sum(b.bytes for b in dict.fromkeys(kernel.reads) if b.space == "weights") / 1024
            elif name in ("max_error", "certified_error"):
                amount = known.get(k, 0.0)
            else:
                amount = traffic.of_kernel(kernel).together / 1024
            row = kernel_record(kernel)
            amounts.append((amount, f"kernel {k}: {' '.join(row['operators'][:4])} '{', '.join(row['nodes'][-2:])}'"))
    amounts.sort(key=lambda a: -a[0])
    named = [(amount, what) for amount, what in amounts[:NAMED] if amount > 0]
    return [{"what": what, "amount": amount, "amount_text": _text(name, amount)} for amount, what in named]


def _value_of(name: str, nodes: Sequence[str]) -> str:
    return f"what '{', '.join(map(printable, nodes[-2:]))}' gives" if nodes else printable(name)


def _text(name: str, amount: float) -> str:
    if name == "latency_ms":
        return duration(amount)
    return size(round(amount * 1024)) if name.endswith("_kb") else f"{amount:.3g}"


def draw(found: Sequence[Record]) -> list[RenderableType]:
    """Each budget, and the largest contributors to one that is exceeded."""
    parts: list[RenderableType] = [""] if found else []
    for b in found:
        mark = Text("met    " if b["ok"] else "MISSED ", style="green" if b["ok"] else "bold red")
        parts.append(Text.assemble(mark, f"budget {b['name']}: {b['found_text']} of {b['limit_text']}"))
        parts += [Text(f"         {c['amount_text']} {c['what']}") for c in b["largest"]]
    return parts

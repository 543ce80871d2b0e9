"""Every kernel of a program: its operators, formula and source, its costs and measurements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from edgec.artifact.compile import resources
from edgec.build import Built
from edgec.emit.language import language_of
from edgec.emit.partitioned import part_names
from edgec.emit.source import Sources, generate
from edgec.errors import EdgecError
from edgec.fuse import Block, Plan
from edgec.report import why
from edgec.report.document.roofs import computes
from edgec.report.kernels import blocks_of, kernel_cost, kernel_record
from edgec.report.launches import launch
from edgec.report.listing import formula_text, numbered
from edgec.report.predicted import marks, predicted_seconds
from edgec.report.record import Record
from edgec.schedule.program import Kernel

#: Formulas are cut at this length.
FORMULA = 600


def kernels(built: Built, seconds: Sequence[float | None], errors: Mapping[int, float]) -> tuple[list[Record], Record]:
    """All kernels in order, and the texts of their functions by name."""
    program, plan = built.program, built.stages["fuse"]
    calls = _sources(built)
    numbers = {b.output: k for k, b in enumerate(plan.blocks)}
    names, index = numbered(plan.graph.nodes()), why.Index(plan)
    said = resources(built.folder)
    rows, texts = [], {}
    for k, kernel in enumerate(program.kernels):
        function = calls.calls[k].function if calls is not None else None
        if function is not None:
            texts[function.name] = function.text
        blocks = blocks_of(kernel)
        planned = [b for b in blocks if b.output in numbers]
        measured = seconds[k] if k < len(seconds) else None
        launched = launch(calls.calls[k], program, built.options.device, said) if calls is not None else None
        rows.append({
            "kernel": k,
            **kernel_record(kernel),
            **kernel_cost(kernel),
            "kind": kernel.steps[-1].template,
            "blocks": [numbers[b.output] for b in planned],
            "function": function.name if function is not None else None,
            "formulas": [_cut(formula_text(b, names)) for b in blocks],
            "type": str(blocks[-1].output.type) if blocks else None,
            "precision": precision(blocks),
            "computes": computes(kernel, built.options.device),
            "sparsity": sparsity(kernel),
            "weights_bytes": kernel.weights_bytes,
            "scratch_bytes": kernel.scratch_bytes,
            "predicted_us": predicted_us(kernel, launched, built),
            "measured_us": measured * 1e6 if measured is not None else None,
            "launch": launched,
            "max_rel": errors.get(k),
            "why": [line for b in planned for line in why.sentences(index, b)],
        })  # fmt: skip
    found = marks([r["measured_us"] for r in rows], [r["predicted_us"] for r in rows])
    return [{**row, **mark} for row, mark in zip(rows, found)], texts


def predicted_us(kernel: Kernel, launched: Record | None, built: Built) -> float:
    """Microseconds by the model of a launch on a GPU, or by the price of the blocks."""
    if launched is not None:
        return float(launched["predicted_us"])
    return predicted_seconds(kernel, built.options.device) * 1e6


def _cut(text: str) -> str:
    return text if len(text) <= FORMULA else f"{text[:FORMULA]}..."


def _sources(built: Built) -> Sources | None:
    """The functions of every kernel; None where a language cannot render one alone."""
    o = built.options
    try:
        named = zip(part_names(built.program, o.name), built.program.parts)
        shared = [(p.program, name, p.device) for name, p in named] or [(built.program, o.name, o.device)]
        found = [generate(program, name, o.templates, language_of(device)) for program, name, device in shared]
        return Sources(tuple(f for s in found for f in s.functions), tuple(c for s in found for c in s.calls))
    except EdgecError:
        return None


def precision(blocks: Iterable[Block]) -> str:
    """The types that a kernel reads, the widest work first: "f32", "u8 i8"."""
    found = dict.fromkeys(n.type.dtype for b in blocks for n in b.inputs if n.type.elements > 1)
    return " ".join(found) or "none"


def sparsity(kernel: Kernel) -> float | None:
    """The share of zeros among the weights of a kernel's products; None without any."""
    zeros = total = 0
    for block in blocks_of(kernel):
        for node in block.inputs:
            if node.is_const and node.type.rank > 1:
                zeros += node.type.elements - int(np.count_nonzero(node.value))
                total += node.type.elements
    return zeros / total if total else None


def refusals(plan: Plan) -> list[Record]:
    """Neighbors that are two kernels, the last word on each pair, and why."""
    last = {(v.writer, v.reader): v for v in plan.decisions.verdicts}
    found: list[Record] = []
    for v in last.values():
        if not v.fused:
            found.append(why.verdict_record(plan, v))
    return found


def choices(plan: Plan) -> list[Record]:
    """The choices that were made by price, with their alternatives."""
    found: list[dict[str, Any]] = []
    for c in plan.decisions.choices:
        found.append({"key": c.key, "about": why.title(plan, c.node), **why.choice_record(c)})
    return found


def templates_used(rows: Sequence[Record]) -> dict[str, int]:
    """The number of kernels of each schedule."""
    counts: dict[str, int] = {}
    for row in rows:
        counts[row["kind"]] = counts.get(row["kind"], 0) + 1
    return dict(sorted(counts.items(), key=lambda item: -item[1]))


__all__ = ["choices", "kernels", "refusals", "templates_used"]

"""A check against a reference: outputs, the error ledger, kernels alone, and where an error comes in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from edgec.check.network import Checked
from edgec.report.record import Record, head
from edgec.report.terminal import error_text, pairs, table, verdict
from edgec.text import counted, on_threads

#: A cost of compression, relative to the largest value, that is shown as a warning.
LARGE = 0.1


def record(checked: Checked) -> Record:
    """Errors as absolute values and relative to the largest value of the tensor."""
    located = checked.located
    return {
        **head("check"),
        "ok": checked.ok,
        "verdict": checked.verdict,
        "unproven": dict(checked.unproven),
        "compression": [{"name": d.name, "max_abs": d.max_abs, "max_rel": d.max_rel} for d in checked.compression],
        "reference": checked.reference,
        "executed_stage": checked.executed_stage,
        "samples": checked.samples,
        "threads": list(checked.threads),
        "tolerance": checked.tolerance,
        "mismatch_tolerance": checked.mismatch_tolerance,
        "outputs": [
            {**asdict(d), "ok": d.within(checked.tolerance, checked.mismatch_tolerance)} for d in checked.outputs
        ],
        "stages": [asdict(e) for e in checked.stages],
        "located": asdict(located) if located is not None else None,
        "blocks": [asdict(b) for b in checked.blocks],
        "cache": asdict(checked.cache) if checked.cache is not None else None,
        "notes": list(checked.notes),
    }


def draw(found: Record) -> RenderableType:
    """The outputs, the error ledger of the stages and, if they were checked, the kernels."""
    outputs = table("output", ">max |d|", ">relative", "")
    for o in found["outputs"]:
        mark = verdict(o["ok"]) if not o["note"] else Text(f"{o['note']}", style="red")
        if o["group_rel"] > o["max_rel"] and not o["ok"]:
            mark.append(f"  {error_text(o['group_rel'])} of the largest of {o['group']}", style="red")
        if o["excused"]:
            mark.append(f"  {o['excused']}", style="dim")
        if o["mismatches"]:
            mark.append(f"  {o['mismatches']} of {o['elements']} differ", style="dim" if o["ok"] else "red")
        outputs.add_row(escape(o["name"]), error_text(o["max_abs"]), error_text(o["max_rel"]), mark)
    stages = table("stage", ">max |d|", ">relative", ">added", title="Error ledger")
    for e in found["stages"]:
        cells = (error_text(e["max_abs"]), error_text(e["max_rel"]), error_text(e["added_rel"]))
        stages.add_row(e["stage"], *cells)
    said = found["verdict"]
    mark = verdict(found["ok"]) if said in ("ok", "FAILED") else Text(said, style="bold yellow")
    beside = "the compressed graph" if found["compression"] else found["reference"]
    line = Text.assemble(
        mark, f"  {counted(found['samples'], 'sample')} beside {beside}, "
        f"{on_threads(found['threads'])}, tolerance {found['tolerance']:.0e}",
    )  # fmt: skip
    parts: list[RenderableType] = [line, outputs, "", stages]
    if found["blocks"]:
        parts += ["", _draw_kernels(found["blocks"])]
    if found["cache"]:
        parts += ["", _draw_cache(found["cache"])]
    for d in found["compression"]:
        parts.append(Text(cost_text(d, found["reference"]), style="yellow" if d["max_rel"] > LARGE else ""))
    parts += [Text(f"note: {note}", style="yellow") for note in found["notes"]]
    for name, why in found["unproven"].items():
        advice = "give --inputs REAL.npz to check what came before it"
        parts.append(Text(f"note: '{name}' {why}, so it proves nothing; {advice}", style="yellow"))
    if found["located"]:
        parts += ["", _draw_located(found["located"])]
    return Group(*parts)


def cost_text(d: Record, beside: str) -> str:
    """A sentence about the distance of a compressed network from the floats of the reference ``beside``."""
    told = f"compression costs {error_text(d['max_rel'])} of the largest value of '{d['name']}'"
    return f"{told} beside {beside}; that fails nothing: --max-loss bounds it, --data scores it"


def _draw_cache(found: Record) -> RenderableType:
    """The error that the cache adds, beside one in fp32."""
    rows: list[tuple[str, RenderableType]] = [
        ("bytes", f"{found['bytes']:,} instead of {found['fp32_bytes']:,}"),
        ("logits", f"{found['max_rel']:.1e} of the largest apart, at most"),
        ("divergence", f"{found['divergence']:.1e} nats a token"),
        ("likeliest token", f"the same at {found['agrees']:.1%} of positions"),
        ("perplexity", f"{found['perplexity']:.4f} instead of {found['fp32_perplexity']:.4f}"),
    ]
    title = f"Cache in {found['kind']} beside fp32, {counted(found['tokens'], 'token')} of the model's own"
    return Group(Text(title, style="bold"), pairs(rows))


def _draw_kernels(found: Sequence[Record]) -> RenderableType:
    """The kernels with the largest errors, and all that are wrong."""
    drawn = table(">kernel", "template", "operators", ">max |d|", ">relative", "", title="Kernels alone")
    ranked = sorted(found, key=lambda b: (b["ok"], -(b["max_rel"] if b["max_rel"] is not None else 1e30)))
    shown = [b for k, b in enumerate(ranked) if not b["ok"] or k < 5]
    for b in shown:
        errors = (error_text(b["max_abs"]), error_text(b["max_rel"]))
        words = (escape(b["template"].split(",")[0]), escape(" ".join(b["operators"][:6])))
        drawn.add_row(str(b["kernel"]), *words, *errors, verdict(b["ok"]))
    right = sum(b["ok"] for b in found)
    of = counted(len(found), "kernel")
    return Group(drawn, f"what their operators compute: {right} of {of}; shown are the worst")


def _draw_located(found: Record) -> RenderableType:
    """The first stage and nodes with an error, and the reproducer."""
    rows: list[tuple[str, RenderableType]] = [
        ("stage", found["stage"]),
        ("where", escape(found["what"])),
        ("node", escape(", ".join(found["nodes"])) or "none of its own"),
        ("relative error", error_text(found["max_rel"])),
    ]
    if found["reproducer"]:
        rows.append(("reproducer", escape(found["reproducer"])))
    rows += [("", escape(line)) for line in found["notes"]]
    return Group(Text("Where the error comes in", style="bold"), pairs(rows))

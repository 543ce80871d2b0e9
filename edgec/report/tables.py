"""What commands answer, drawn for a terminal from the same records that --json prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from edgec.report import partition, sparsity
from edgec.report.record import Record


def table(*columns: str, title: str | None = None) -> Table:
    """A plain table; columns whose name begins with '>' are aligned to the right."""
    drawn = Table(title=title, title_justify="left", title_style="bold", box=None, header_style="dim", pad_edge=False)
    for name in columns:
        right = name.startswith(">")
        drawn.add_column(name.lstrip(">"), justify="right" if right else "left", overflow="fold", no_wrap=right)
    return drawn


def pairs(rows: Sequence[tuple[str, RenderableType]]) -> Table:
    drawn = Table.grid(padding=(0, 2))
    drawn.add_column(style="dim", no_wrap=True)
    drawn.add_column(overflow="fold")
    for name, value in rows:
        drawn.add_row(name, value)
    return drawn


def size(count: int) -> str:
    """Bytes as people read them."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.2f} GiB"


def number(count: float) -> str:
    """A large number with its unit: 1.4 M."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(count) >= limit:
            return f"{count / limit:.1f} {unit}"
    return f"{count:.0f}"


def duration(ms: float) -> str:
    return f"{ms * 1e3:.1f} us" if ms < 1 else f"{ms:.2f} ms" if ms < 100 else f"{ms:.0f} ms"


def error_text(value: float | None) -> str:
    return "differs" if value is None else f"{value:.1e}"


def verdict(ok: bool) -> Text:
    return Text("ok", style="green") if ok else Text("FAILED", style="bold red")


def build(record: Record, model: str, asked: str = "") -> RenderableType:
    """``asked``: the options that other commands need to know what was built."""
    seconds = record["seconds"]
    spent = "  ".join(f"{name} {s:.2f}" for name, s in seconds.items() if name != "total" and s >= 0.005)
    moved, least = record["traffic"]["read"] + record["traffic"]["written"], record["traffic"]["lower_bound"]
    bound = record["arena_lower_bound_bytes"]
    over = f"{record['arena_bytes'] / bound:.2f}x its lower bound" if bound else "nothing to keep"
    rows: list[tuple[str, RenderableType]] = [
        ("kernels", f"{record['kernels']} for {record['operators']} operators, {record['rules']} rules applied"),
        ("arena", f"{size(record['arena_bytes'])} ({over})"),
        ("weights", size(record["weights_bytes"])),
        *memory(record["memory"]),
        (
            "traffic",
            f"{size(moved)} a run, {moved / max(least, 1):.2f}x the least that inputs, weights and outputs are",
        ),
        ("seconds", f"{seconds['total']:.2f}: {spent}"),
        ("compiler", escape(record["compiler"]) if record["compiler"] else "none: sources only"),
    ]
    heaviest = table(">kernel", "template", "operators", ">FLOPs", ">bytes", title="Largest kernels")
    for k in record["largest_kernels"]:
        moved = size(k["bytes_read"] + k["bytes_written"])
        template, operators = escape(k["template"].split(",")[0]), " ".join(k["operators"][:4])
        heaviest.add_row(str(k["kernel"]), template, operators, number(k["flops"]), moved)
    folder, name = escape(record["folder"]), record["name"]
    done = "replaced the earlier build in" if record["replaced"] else "written to"
    here, cross = record["runs_here"], f" {record['cross']}" if record["cross"] else ""
    further: list[tuple[str, RenderableType]] = []
    if record["started_at"] == "import":  # else there is no model to hold it against
        further.append(("check", escape(f"edgec check {model}{asked}")))
        further += [("time", escape(f"edgec bench {model}{asked} --vs onnxruntime"))] if here else []
    if record["cross"] is not None:
        further.append(("use in C", f"cmake -S {folder} -B {folder}/build{cross} && cmake --build {folder}/build"))
    further += [("in Python", f"edgec.Network({record['folder']!r}).run({{...}})")] if here else []
    if record["report"]:
        further.insert(0, ("look", escape(record["report"])))
    title = Text.assemble((escape(model), "bold"), f" -> {record['device']}, {record['threads']} thread(s)")
    parts: list[RenderableType] = [
        title,
        pairs(rows),
        "",
        heaviest,
        "",
        *((*partition.draw(record["placement"]), "") if record["placement"] else ()),
        *((*compression(record["compression"]), "") if record["compression"] else ()),
        *((*sparsity.draw(record["sparsity"], record["pruned"]), "") if record["sparsity"] or record["pruned"] else ()),
        f"{done} [bold]{folder}/[/], API in {name}.h",
        pairs(further),
    ]
    return Group(*parts, *budgets(record["budgets"]))


def budgets(found: Sequence[Record]) -> list[RenderableType]:
    """Each budget, and the largest contributors to one that is exceeded."""
    parts: list[RenderableType] = [""] if found else []
    for b in found:
        mark = Text("met    " if b["ok"] else "MISSED ", style="green" if b["ok"] else "bold red")
        parts.append(Text.assemble(mark, f"budget {b['name']}: {b['found_text']} of {b['limit_text']}"))
        parts += [Text(f"         {c['amount_text']} {c['what']}") for c in b["largest"]]
    return parts


#: Layers that a terminal shows, of those with the largest errors.
SHOWN = 12


def compression(record: Record) -> tuple[RenderableType, ...]:
    """What became of the layers: those that stayed floats, and those that the error comes from."""
    layers = record["layers"]
    halves = sum(row["precision"] == "bf16" for row in layers)
    title = (
        f"{record['precision']}: {sum(row['precision'] == 'int8' for row in layers)} of {len(layers)} layers in bytes"
    )
    title += f", {halves} in bf16" if halves else ""
    if record["max_loss"] is not None:
        title += f"; {record['max_loss'].partition('=')[0]} {record['value']:.4g}, at most {record['max_loss']}"
    drawn = table("layer", "in", ">share of error", ">gain", "corrections, or why not", title=title)
    first = sorted(layers, key=lambda row: (not row["reason"], -row["share"]))
    for row in first[:SHOWN]:
        why = row["reason"] or ", ".join(row["corrections"])
        gain = f"{row['gain_us']:.1f} us"
        drawn.add_row(escape(row["name"]), row["precision"], f"{row['share']:.1%}", gain, escape(why))
    rest = [f"and {len(layers) - SHOWN} more (--json has them all)"] if len(layers) > SHOWN else []
    return (drawn, *rest)


def memory(record: Record) -> list[tuple[str, RenderableType]]:
    """How much of the device's memories a network needs, where they are known."""
    rows: list[tuple[str, RenderableType]] = []
    for name, what in (("ram", "arena, inputs and outputs"), ("flash", "weights; code comes on top")):
        need = record[name]
        if need["fits"] is not None:
            text = f"{size(need['bytes'])} of {size(need['of'])}: {what}"
            mark = Text(text) if need["fits"] else Text(f"{text}: DOES NOT FIT", style="bold red")
            rows.append((name.upper() if name == "ram" else name, mark))
    if (stripes := record["stripes"]) is not None:
        until = "x".join(map(str, stripes["shape"]))
        more = f"{stripes['work'] - 1:.0%} more arithmetic, {size(stripes['ram_without'])} of RAM without"
        rows.append(("", f"in {stripes['count']} stripes up to {until}: {more}"))
    if record["ram"]["fits"] is False:
        for value in record["largest"]:
            rows.append(
                ("", f"{size(value['bytes'])} for what {escape(', '.join(value['nodes'])) or 'a border'} gives")
            )
    return rows


def score(record: Record) -> RenderableType:
    first = record["variants"][0]
    title = f"{record['metric']} of '{record['output']}' on {record['samples']} samples; labels of {record['labels']}"
    drawn = table("", ">percent", ">points", ">agrees", title=title)
    for v in record["variants"]:
        apart = "" if v is first else f"{v['value'] - first['value']:+.2f}"
        drawn.add_row(escape(v["name"]), f"{v['value']:.2f}", apart, f"{v['agrees']:.1f}%")
    notes = [Text(note, style="dim") for note in record["notes"]]
    return Group(drawn, *notes, "", verdict(record["ok"]))


def check(record: Record) -> RenderableType:
    outputs = table("output", ">max |d|", ">relative", "")
    for o in record["outputs"]:
        mark = verdict(o["ok"]) if not o["note"] else Text(f"{o['note']}", style="red")
        if o["mismatches"]:
            mark.append(f"  {o['mismatches']} of {o['elements']} differ", style="dim" if o["ok"] else "red")
        outputs.add_row(escape(o["name"]), error_text(o["max_abs"]), error_text(o["max_rel"]), mark)
    stages = table("stage", ">max |d|", ">relative", ">added", title="Error ledger")
    for e in record["stages"]:
        cells = (error_text(e["max_abs"]), error_text(e["max_rel"]), error_text(e["added_rel"]))
        stages.add_row(e["stage"], *cells)
    threads = " and ".join(map(str, record["threads"])) or "no"
    line = Text.assemble(
        verdict(record["ok"]), f"  {record['samples']} sample(s) beside {record['reference']}, "
        f"{threads} thread(s), tolerance {record['tolerance']:.0e}",
    )  # fmt: skip
    parts: list[RenderableType] = [line, outputs, "", stages]
    if record["blocks"]:
        parts += ["", blocks(record["blocks"])]
    parts += [Text(f"note: {note}", style="yellow") for note in record["notes"]]
    if record["located"]:
        parts += ["", located(record["located"])]
    return Group(*parts)


def blocks(found: Sequence[dict[str, Any]]) -> RenderableType:
    """Kernels alone: the worst ones, and all that are wrong."""
    drawn = table(">kernel", "template", "operators", ">max |d|", ">relative", "", title="Kernels alone")
    ranked = sorted(found, key=lambda b: (b["ok"], -(b["max_rel"] if b["max_rel"] is not None else 1e30)))
    shown = [b for k, b in enumerate(ranked) if not b["ok"] or k < 5]
    for b in shown:
        errors = (error_text(b["max_abs"]), error_text(b["max_rel"]))
        words = (escape(b["template"].split(",")[0]), escape(" ".join(b["operators"][:6])))
        drawn.add_row(str(b["kernel"]), *words, *errors, verdict(b["ok"]))
    right = sum(b["ok"] for b in found)
    return Group(drawn, f"{right} of {len(found)} kernels compute what their operators do; the {len(shown)} worst")


def located(found: dict[str, Any]) -> RenderableType:
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


def bench(record: Record) -> RenderableType:
    drawn = table("", ">median", ">10 %", ">90 %", ">calls")
    figures = [("edgec", record), *([(record["peer"]["name"], record["peer"])] if record["peer"] else [])]
    for name, t in figures:
        times = (duration(t[key]) for key in ("median_ms", "p10_ms", "p90_ms"))
        drawn.add_row(name, *times, str(t["calls"]))
    pinned = ", pinned" if record["pinned"] else ""
    where = f" over {record['link']}" if record["link"] else f"{pinned}, {record['rounds']} rounds in turns"
    parts: list[RenderableType] = [f"{record['threads']} thread(s){where}", drawn]
    if record["kernels"]:
        parts += ["", slowest(record["kernels"])]
    if record["ratio"] is not None:
        word = "faster" if record["ratio"] < 1 else "slower"
        factor = 1 / record["ratio"] if record["ratio"] < 1 else record["ratio"]
        peer, far = record["peer"]["name"], record["max_rel"]
        parts.append(f"[bold]{factor:.2f}x {word}[/] than {peer}; largest difference {far:.1e}")
    return Group(*parts)


def slowest(kernels: Sequence[Record], most: int = 10) -> RenderableType:
    """The kernels that took the most time."""
    whole = sum(k["ms"] for k in kernels) or 1.0
    drawn = table(">kernel", ">time", ">share", "computes", title=f"{len(kernels)} kernels, the slowest")
    for k in sorted(kernels, key=lambda k: -k["ms"])[:most]:
        drawn.add_row(str(k["kernel"]), duration(k["ms"]), f"{k['ms'] / whole:.0%}", escape(k["name"]))
    return drawn


def device_run(record: Record) -> RenderableType:
    rows: list[tuple[str, RenderableType]] = [("written to", escape(record["file"]))]
    for name, port in record["outputs"].items():
        rows.append(("output", escape(f"{name}: {port['dtype']}{port['shape']}")))
    times = sorted(record["milliseconds"])
    rows.append(("time", f"{duration(times[len(times) // 2])} a run, {len(times)} sample(s)"))
    return pairs(rows)


def farm(record: Record) -> RenderableType:
    drawn = table("device", "", ">tuned", ">relative error", ">a run", ">took")
    for d in record["devices"]:
        verdict = "[green]ok[/]" if d["ok"] else "[red]lost[/]" if d["error"] else "[red]wrong[/]"
        error = "" if d["max_rel"] is None else f"{d['max_rel']:.1e}"
        time = "" if d["median_ms"] is None else duration(d["median_ms"])
        tuned = "" if d["measured"] is None else str(d["measured"])
        drawn.add_row(escape(d["place"]), verdict, tuned, error, time, f"{d['seconds']:.1f} s")
    lost = [Text(f"{d['place']}: {d['error']}", style="red") for d in record["devices"] if d["error"]]
    done = sum(d["ok"] for d in record["devices"])
    return Group(drawn, f"{done} of {len(record['devices'])} devices are right", *lost)


def inspect(record: Record) -> RenderableType:
    opsets = ", ".join(f"{domain} {version}" for domain, version in record["opsets"].items())
    rows: list[tuple[str, RenderableType]] = [("file", escape(record["where"])), ("opset", escape(opsets))]
    if record["producer"]:
        rows.append(("producer", escape(record["producer"])))
    for kind in ("inputs", "outputs"):
        for v in record[kind] or ():
            shape = escape(f"[{','.join(map(str, v['shape']))}]")
            rows.append((kind[:-1], f"{escape(v['name'])}: {v['dtype']}{shape}"))
    rows.append(("weights", size(record["weights_bytes"])))
    if record["macs"] is not None:
        a = record["activations"]
        rows.append(("multiply-adds", number(record["macs"])))
        together, largest = size(a["bytes"]), size(a["largest_bytes"])
        rows.append(("activations", f"{a['tensors']} tensors, {together}, the largest {largest}"))
    if record["memory"]:
        rows += memory(record["memory"])
    rows += [(escape(k), escape(v)) for k, v in record["metadata"].items()]
    kinds = table("operator", ">times", title=f"{record['operators_total']} operators")
    for name, times in record["operators"].items():
        kinds.add_row(escape(name), str(times))
    parts: list[RenderableType] = [pairs(rows), "", kinds]
    if record["traffic"]:
        parts += ["", traffic(record["traffic"])]
    if record["unsupported"]:
        missing = table("node", "operator", "what to do", title=f"{len(record['unsupported'])} not supported")
        for u in record["unsupported"]:
            missing.add_row(escape(u["node"]), escape(u["operator"]), escape(u["hint"]))
        parts += ["", missing]
    elif record["problem"]:
        hint = f"\n  hint: {record['problem']['hint']}" if record["problem"]["hint"] else ""
        parts += ["", Text(f"cannot be built as it is: {record['problem']['message']}{hint}", style="yellow")]
    else:
        parts += ["", Text("every operator is supported", style="green")]
    return Group(*parts)


def traffic(ledger: dict[str, Any]) -> RenderableType:
    """The byte ledger: every kernel, and the sums."""
    drawn = table(">kernel", "operators", ">reads", ">writes", title="Bytes, every element once a kernel")
    for k in ledger["kernels"]:
        cells = (escape(" ".join(k["operators"][:6])), size(k["bytes_read"]), size(k["bytes_written"]))
        drawn.add_row(str(k["kernel"]), *cells)
    together = ledger["read"] + ledger["written"]
    beside = f"unfused {size(ledger['unfused'])}, {ledger['unfused'] / max(together, 1):.2f} times as much"
    return Group(drawn, f"together {size(together)}; {beside}; no plan moves less than {size(ledger['lower_bound'])}")


def device(record: Record) -> RenderableType:
    rows = []
    for key, value in record.items():
        if isinstance(value, (list, tuple)):
            value = " ".join(map(str, value))
        elif isinstance(value, dict):
            value = ", ".join(f"{k} {v:g}" for k, v in value.items())
        elif key.endswith("_bytes") and value and key != "vector_bytes":
            value = size(value)
        if value not in ("", 0, None):
            rows.append((key, escape(str(value))))
    return pairs(rows)


def demo(record: Record) -> RenderableType:
    bound = f"{size(record['arena_bytes'])} arena, {size(record['weights_bytes'])} weights"
    right = round(record["accuracy"] * record["pictures"])
    far = error_text(record["max_rel"])
    beside = "onnxruntime is not installed: nothing to compare with" if record["max_rel"] is None else (
        f"largest difference {error_text(record['max_abs'])}, {far} of the largest value, beside {record['reference']}"
    )  # fmt: skip
    rows: list[tuple[str, RenderableType]] = [
        ("network", f"handwritten digits: {record['operators']} operators in {record['kernels']} kernels, {bound}"),
        ("built in", f"{record['seconds']['total']:.2f} s by {escape(record['compiler'] or 'no compiler')}"),
        ("accuracy", f"[bold]{record['accuracy']:.1%}[/]: {right} of {record['pictures']} pictures it has never seen"),
        ("error", escape(beside)),
    ]
    sources = f"The C is in [bold]{escape(record['folder'])}/[/]: start with {record['name']}.h and main.c"
    return Group(pairs(rows), "", bench(record["bench"]), "", sources)


def devices(records: Sequence[Record]) -> RenderableType:
    drawn = table("device", "architecture", ">vectors", ">cores", "description")
    for r in records:
        drawn.add_row(r["name"], r["arch"], f"{r['vector_bytes']} B", str(r["cores"]), escape(r["description"]))
    return drawn


def doctor(record: Record) -> RenderableType:
    drawn = table("", "", "")
    for c in record["checks"]:
        mark = Text("ok", style="green") if c["ok"] else Text("missing", style="yellow" if c["optional"] else "red")
        drawn.add_row(c["name"], mark, escape(c["detail"] if c["ok"] else c["hint"]))
    last = "everything that is needed is here" if record["ok"] else "something that is needed is missing"
    return Group(drawn, Text(last, style="green" if record["ok"] else "red"))


def explain(record: Record) -> RenderableType:
    parts: list[RenderableType] = [Text(record["node"], style="bold")]
    if record["rule"]:
        return _rule(record)
    nothing = "  nothing: its result is known at build time, it changes nothing, or nobody reads it"
    if record["imported_as"] or not record["kernels"]:
        parts += ["", "[bold]Imported as[/]", *(list(map(_core, record["imported_as"])) or [nothing])]
    if record["rules"]:
        parts += ["", "[bold]Rules applied[/]", *(f"  {escape(rule)}" for rule in record["rules"])]
    if record["planned_as"] != record["imported_as"]:
        changed = [_core(core) for core in record["planned_as"]]
        parts += ["", "[bold]After simplifying[/]", *(changed or ["  nothing: other nodes took it over"])]
    if record["part_of"]:
        parts += ["", f"[bold]Part of[/] {escape(', '.join(record['part_of']))}"]
    for line in (*record["placed"], *record["inside_others"]):
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


def _rule(record: Record) -> RenderableType:
    """Where a rule changed the network, and why not elsewhere."""
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


def _core(core: Record) -> str:
    operands = escape(", ".join(core["operands"]))
    return (
        f"  {core['operator']}({operands}) -> {escape(core['type'])}, {core['mapping']}, "
        f"{number(core['flops'])} FLOPs\n    {escape(core['formula'])}"
    )

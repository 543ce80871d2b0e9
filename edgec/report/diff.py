"""Two builds side by side: kernels, bytes, latency, error, size; as data, and drawn in a terminal and in Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from edgec.report.record import Record, head
from edgec.report.terminal import duration, error_text, number, size, table
from edgec.text import counted

#: Kernels that are named.
NAMED = 12
#: A change of less than this share is noise, in what is measured.
NOISE = 0.03


def diff(before: Record, after: Record) -> Record:
    """Differences between two documents (`edgec.report.document`)."""
    return {
        **head("diff"),
        "before": _title(before),
        "after": _title(after),
        "totals": [t for t in (_total(*row, before, after) for row in _TOTALS) if t is not None],
        "settings": _settings(before, after),
        "rules": _counts(before["rules"], after["rules"], lambda rule: rule["rule"]),
        "schedules": _counts(before["kernels"], after["kernels"], lambda k: k["kind"]),
        "precisions": _counts(before["kernels"], after["kernels"], lambda k: k["precision"]),
        "kernels": _kernels(before["kernels"], after["kernels"]),
    }


def _title(document: Record) -> Record:
    build = document["build"]
    return {
        "model": document["model"],
        "device": build["device"],
        "threads": build["threads"],
        "folder": build["folder"],
    }


def _error(document: Record) -> float | None:
    found = [o["max_rel"] for o in document["check"]["outputs"]] if document["check"] else []
    return max((e for e in found if e is not None), default=None)


#: Name, figure, text of a figure, whether it is measured: all are better when they are less.
_TOTALS: tuple[tuple[str, Callable[[Record], Any], Callable[[Any], str], bool], ...] = (
    ("kernels", lambda d: d["build"]["kernels"], lambda n: str(int(n)), False),
    ("latency", lambda d: d["bench"]["median_ms"] if d["bench"] else None, duration, True),
    ("predicted", lambda d: sum(k["predicted_us"] for k in d["kernels"]) / 1e3, duration, False),
    ("FLOPs", lambda d: sum(k["flops"] for k in d["kernels"]), number, False),
    ("bytes moved", lambda d: d["build"]["traffic"]["read"] + d["build"]["traffic"]["written"], size, False),
    ("arena", lambda d: d["build"]["arena_bytes"], size, False),
    ("weights", lambda d: d["build"]["weights_bytes"], size, False),
    ("files", lambda d: sum(d["build"]["files"].values()), size, False),
    ("rules", lambda d: len(d["rules"]), lambda n: str(int(n)), False),
    ("error", _error, error_text, False),
)  # fmt: skip


def _total(
    name: str, figure: Callable[[Record], float | None], text: Callable[[Any], str], is_measured: bool, before: Record,
    after: Record,
) -> Record | None:  # fmt: skip
    old, new = figure(before), figure(after)
    if old is None and new is None:
        return None
    return {
        "name": name,
        "before": old,
        "after": new,
        "before_text": text(old) if old is not None else "unknown",
        "after_text": text(new) if new is not None else "unknown",
        **_change(old, new, NOISE if is_measured else 0.0),
    } | ({"better": None} if name == "rules" else {})


def _change(old: float | None, new: float | None, noise: float) -> Record:
    """The ratio, and whether less has become of it: None where nothing changed or one is unknown."""
    if old is None or new is None or not old:
        return {"ratio": None, "better": None if old is None or new is None or old == new else False}
    ratio = new / old
    return {"ratio": ratio, "better": None if abs(ratio - 1) <= noise else ratio < 1}


def _settings(before: Record, after: Record) -> list[Record]:
    old, new = before["settings"], after["settings"]
    keys = dict.fromkeys((*old, *new))
    return [{"name": k, "before": old.get(k), "after": new.get(k)} for k in keys if old.get(k) != new.get(k)]


def _counts(before: list[Record], after: list[Record], key: Callable[[Record], str]) -> list[Record]:
    """The numbers of occurrences that changed, the largest change first."""
    old, new = Counter(map(key, before)), Counter(map(key, after))
    rows = [{"name": k, "before": old[k], "after": new[k]} for k in dict.fromkeys((*old, *new)) if old[k] != new[k]]
    return sorted(rows, key=lambda r: -abs(r["after"] - r["before"]))


def _kernels(before: list[Record], after: list[Record]) -> Record:
    """Kernels that compute the same nodes of the model are one and the same; the others came or went."""
    old, new = _by_nodes(before), _by_nodes(after)
    both = [key for key in old if key in new]
    rows = []
    for key in both:
        a, b = old[key], new[key]
        is_measured = a["measured_us"] is not None and b["measured_us"] is not None
        us = "measured_us" if is_measured else "predicted_us"
        change = _change(a[us], b[us], NOISE if is_measured else 0.0)
        differs = a["template"] != b["template"] or a["precision"] != b["precision"]
        if differs or change["better"] is not None:
            rows.append({**_brief(b), "before_us": a[us], "after_us": b[us], "is_measured": is_measured,
                         "before_template": a["template"], "after_template": b["template"], **change})  # fmt: skip
    rows.sort(key=lambda r: -abs(r["after_us"] - r["before_us"]))
    return {
        "same": len(both) - len(rows),
        "changed": rows,
        "gone": [_brief(old[key]) for key in old if key not in new],
        "new": [_brief(new[key]) for key in new if key not in old],
    }


def _by_nodes(kernels: list[Record]) -> dict[tuple[Any, ...], Record]:
    found: dict[tuple[Any, ...], Record] = {}
    for k in kernels:
        key = (*k["nodes"],)
        count = sum(other[:-1] == key for other in found)
        found[(*key, count)] = k
    return found


def _brief(kernel: Record) -> Record:
    return {
        "kernel": kernel["kernel"],
        "nodes": kernel["nodes"],
        "template": kernel["template"],
        "us": kernel["measured_us"] if kernel["measured_us"] is not None else kernel["predicted_us"],
    }


# ---- drawn


def percent(ratio: float | None) -> str:
    if ratio is None:
        return ""
    if ratio >= 1000:
        return f"{ratio:.0e}x"
    return f"{ratio:.1f}x" if ratio > 10 else f"{(ratio - 1) * 100:+.1f} %"


def name_of(kernel: Mapping[str, Any]) -> str:
    return ", ".join(kernel["nodes"][-2:]) or f"kernel {kernel['kernel']}"


def draw(record: Record) -> RenderableType:
    before, after = record["before"], record["after"]
    title = f"{before['folder']} -> {after['folder']}"
    drawn = table("", ">before", ">after", ">change")
    for t in record["totals"]:
        style = {True: "green", False: "red", None: ""}[t["better"]]
        drawn.add_row(t["name"], t["before_text"], t["after_text"], Text(percent(t["ratio"]), style=style))
    parts: list[RenderableType] = [Text(title, style="bold"), drawn]
    for s in record["settings"]:
        parts.append(escape(f"{s['name']}: {s['before']} -> {s['after']}"))
    for what in ("schedules", "precisions", "rules"):
        if record[what]:
            told = ", ".join(f"{r['name']} {r['before']} -> {r['after']}" for r in record[what][:6])
            parts.append(escape(f"{what}: {told}"))
    kernels = record["kernels"]
    parts.append(
        f"kernels: {kernels['same']} the same, {len(kernels['changed'])} changed, "
        f"{len(kernels['gone'])} gone, {len(kernels['new'])} new"
    )
    if kernels["changed"]:
        rows = table("changed", ">before", ">after", ">change", "template")
        for k in kernels["changed"][:NAMED]:
            moved = k["after_template"] if k["before_template"] == k["after_template"] else (
                f"{k['before_template'].split(',')[0]} -> {k['after_template'].split(',')[0]}")  # fmt: skip
            times = duration(k["before_us"] / 1e3), duration(k["after_us"] / 1e3)
            rows.add_row(escape(name_of(k)), *times, percent(k["ratio"]), escape(moved.split(",")[0]))
        parts += ["", rows]
    for what in ("gone", "new"):
        if kernels[what]:
            rows = table(what, ">time", "template")
            for k in sorted(kernels[what], key=lambda k: -k["us"])[:NAMED]:
                rows.add_row(escape(name_of(k)), duration(k["us"] / 1e3), escape(k["template"].split(",")[0]))
            parts += ["", rows]
    return Group(*parts)


def markdown(record: Record) -> str:
    """The same for a pull request."""
    after = record["after"]
    lines = [f"### {_cell(after['model'])} on {_cell(after['device'])}, {counted(after['threads'], 'thread')}", ""]
    lines += ["| | before | after | change |", "|---|---:|---:|---:|"]
    for t in record["totals"]:
        mark = {True: " ✅", False: " ⚠️", None: ""}[t["better"]]
        lines.append(f"| {t['name']} | {t['before_text']} | {t['after_text']} | {percent(t['ratio'])}{mark} |")
    if record["settings"]:
        rows = [[_cell(str(s[key])) for key in ("name", "before", "after")] for s in record["settings"]]
        lines += ["", "Settings: " + "; ".join(f"`{name}`: {old} → {new}" for name, old, new in rows)]
    kernels = record["kernels"]
    counts = ", ".join(f"{len(kernels[what])} {what}" for what in ("changed", "gone", "new"))
    lines += ["", f"<details><summary>Kernels: {kernels['same']} the same, {counts}</summary>", ""]
    lines += ["| nodes | before | after | change | template |", "|---|---:|---:|---:|---|"]
    for k in kernels["changed"][:NAMED]:
        times = f"{duration(k['before_us'] / 1e3)} | {duration(k['after_us'] / 1e3)} | {percent(k['ratio'])}"
        lines.append(f"| {_cell(name_of(k))} | {times} | {_cell(k['after_template'].split(',')[0])} |")
    for what in ("gone", "new"):
        for k in sorted(kernels[what], key=lambda k: -k["us"])[:NAMED]:
            time = duration(k["us"] / 1e3)
            pair = f"{time} | " if what == "gone" else f" | {time}"
            lines.append(f"| {_cell(name_of(k))} | {pair} | {what} | {_cell(k['template'].split(',')[0])} |")
    return "\n".join([*lines, "", "</details>", ""])


def _cell(text: str) -> str:
    """A model's own text inside a table of Markdown."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("`", "'")

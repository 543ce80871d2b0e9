"""Certificates: verdicts, margins and bounds of outputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from edgec.certify.certified import Certificate, Certified
from edgec.report.record import Record, head
from edgec.report.terminal import error_text, pairs, table
from edgec.text import counted, listed, printable

#: Certificates that are drawn, and elements of an output whose bounds are in a record.
SHOWN, ELEMENTS = 20, 1024
_STYLES = {"holds": "green", "violated": "bold red", "unknown": "bold yellow"}


def record(found: Certified, saved: str | None) -> Record:
    """The verdict of every set of inputs; ``saved`` is the file with inputs that violate one."""
    return {
        **head("certify"),
        "ok": found.ok,
        "what": found.what,
        "certified_share": found.share,
        "replayed": found.replayed,
        "kernels": found.kernels,
        "any_order": list(found.any_order),
        "seconds": found.seconds,
        "counterexamples": saved,
        "certificates": [_row(c) for c in found.certificates],
    }


def _row(c: Certificate) -> Record:
    return {
        "verdict": c.verdict.status,
        "margin": c.verdict.margin,
        "seconds": c.verdict.seconds,
        "parts": c.verdict.parts,
        "reason": c.verdict.reason,
        "label": c.label,
        "radius": c.radius,
        "outputs": [
            {
                "name": o.name,
                "widest": float(np.max(o.high - o.low, initial=0.0)),
                "rounding": o.rounding,
                "low": o.low.reshape(-1)[:ELEMENTS].tolist(),
                "high": o.high.reshape(-1)[:ELEMENTS].tolist(),
            }
            for o in c.outputs
        ],
        "differences": [
            {
                "name": d.name,
                "most": d.most,
                "met": d.met,
                "low": d.low.reshape(-1)[:ELEMENTS].tolist(),
                "high": d.high.reshape(-1)[:ELEMENTS].tolist(),
            }
            for d in c.differences
        ],
    }


def draw(found: Record) -> RenderableType:
    """The share, then a row for every set of inputs."""
    rows = found["certificates"]
    if any(c["differences"] for c in rows):
        return _draw_differences(found)
    counts = {s: sum(c["verdict"] == s for c in rows) for s in _STYLES}
    told = ", ".join(f"{n} {s}" for s, n in counts.items() if n)
    line = Text.assemble((f"{told or 'nothing'}", "bold"), f" of {len(rows)}: {found['what']}")
    drawn = table(">set", "verdict", ">class", ">margin", ">radius", ">widest bounds", ">parts", ">seconds", "")
    for k, c in enumerate(rows[:SHOWN]):
        widest = max((o["widest"] or 0.0 for o in c["outputs"]), default=0.0)
        drawn.add_row(
            str(k), Text(c["verdict"], style=_STYLES[c["verdict"]]), "" if c["label"] is None else str(c["label"]),
            f"{c['margin']:.3g}", "" if c["radius"] is None else f"{c['radius']:.3g}", f"{widest:.3g}",
            f"{c['parts']:,}", f"{c['seconds']:.1f}", escape(c["reason"]),
        )  # fmt: skip
    rounding = max((o["rounding"] or 0.0 for c in rows for o in c["outputs"]), default=0.0)
    facts: list[tuple[str, RenderableType]] = [
        (
            "arithmetic",
            f"{counted(found['kernels'], 'kernel')} in fp32, {_orders(found)}; outputs rounded by "
            f"{error_text(rounding)}",
        ),
        ("violations", "run in the compiled code" if found["replayed"] else "run in numpy: it is for another machine"),
    ]
    if found["counterexamples"]:
        facts.append(("inputs", escape(str(found["counterexamples"]))))
    more = _more(rows)
    return Group(line, drawn, *more, "", pairs(facts))


def _orders(found: Record) -> str:
    """The order of additions that rounding is counted for."""
    names = found["any_order"]
    return "sums as the code adds them up" + (f", but in any order {escape(listed(names[:3]))}" if names else "")


def _more(rows: Sequence[Record]) -> list[RenderableType]:
    return [Text(f"and {len(rows) - SHOWN} more", style="dim")] if len(rows) > SHOWN else []


def _draw_differences(found: Record) -> RenderableType:
    """A row for every box and output: the difference that is proved, and the one that was met."""
    rows = found["certificates"]
    drawn = table(">set", "verdict", "output", ">at most", ">met", ">seconds", "")
    for k, c in enumerate(rows[:SHOWN]):
        for d in c["differences"]:
            most = d["most"] if d["most"] is not None else float("inf")
            drawn.add_row(
                str(k), Text(c["verdict"], style=_STYLES[c["verdict"]]), escape(printable(d["name"])), f"{most:.4g}",
                f"{d['met']:.4g}", f"{c['seconds']:.1f}", escape(c["reason"]),
            )  # fmt: skip
    held = sum(c["verdict"] == "holds" for c in rows)
    line = Text.assemble((f"{held} hold", "bold"), f" of {len(rows)}: {found['what']}")
    facts: list[tuple[str, RenderableType]] = [
        ("arithmetic", f"{counted(found['kernels'], 'kernel')}, {_orders(found)}")
    ]
    return Group(line, drawn, *_more(rows), "", pairs(facts))

"""Speeds of a language model and its peers, and the share of the machine's memory speed."""

from __future__ import annotations

from dataclasses import asdict

from rich.console import Group, RenderableType
from rich.markup import escape

from edgec.bench.language import Decoding
from edgec.report.record import Record, head
from edgec.report.terminal import duration, size, table
from edgec.text import counted

#: What an option `--numeric` makes of the activations of products by weights of few bits.
ARITHMETIC = {
    "exact": "fp32 activations",
    "reassociates": "activations as exact as fp32",
    "approximates": "activations rounded to 8 bits, as the peers do",
}


def record(found: Decoding) -> Record:
    """Tokens per second, milliseconds and bytes; the first of ``engines`` is edgec."""
    engines = []
    for speed in found.speeds:
        entry = asdict(speed)
        entry.pop("chosen")
        alike = sum(a == b for a, b in zip(speed.chosen, found.speeds[0].chosen))
        engines.append({**entry, "same_tokens": None if speed.error else alike})
    return {
        **head("bench"),
        "prompt": found.prompt,
        "tokens": found.tokens,
        "threads": found.threads,
        "rounds": found.rounds,
        "numeric": found.numeric,
        "token_bytes": found.token_bytes,
        "read_gbps": found.read_gbps,
        "no_read_speed": found.why_not,
        "share": found.share,
        "engines": engines,
    }


def draw(found: Record) -> RenderableType:
    """A line for each engine, and how near generating tokens is to the speed of memory."""
    rows = table("", ">prefill", ">first token", ">decode", ">resident", ">same tokens")
    lines: list[RenderableType] = []
    for e in found["engines"]:
        if e["error"]:
            lines.append(f"[red]{e['engine']} failed:[/] {escape(e['error'])}")
            continue
        rows.add_row(
            f"{e['engine']} {escape(e['version'])}", f"{e['prefill_per_second']:.0f} tok/s",
            duration(e["first_token_ms"]), f"{e['decode_per_second']:.1f} tok/s", size(e["resident_bytes"]),
            f"{e['same_tokens']} of {found['tokens'] + 1}",
        )  # fmt: skip
    bytes_read = size(found["token_bytes"])
    if found["share"] is None:
        memory = f"a token reads {bytes_read}; the speed of memory is not known: {escape(str(found['no_read_speed']))}"
    else:
        memory = f"a token reads {bytes_read}, at {found['share']:.0%} of the {found['read_gbps']:.1f} GB/s of memory"
    title = (
        f"{counted(found['prompt'], 'token')} of prompt, {found['tokens']} more; {counted(found['threads'], 'thread')}"
    )
    return Group(f"{title}, {found['rounds']} rounds in turns; {ARITHMETIC[found['numeric']]}", rows, memory, *lines)

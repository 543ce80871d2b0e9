"""The page of networks over two processes, from its rows."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.alone import Row
from benchmarks.table import markdown

#: A prediction is near what is measured within this part of it; arithmetic dominates from so many milliseconds on.
NEAR, LONG_MS = 0.15, 20.0
LINKS = {"loopback": "loopback", "1G": "1 Gbit", "100M": "100 Mbit"}
COLUMNS = [
    "network", "link", "asked for", "taken", "ms a frame", "predicted", "off", "frames/s", "predicted", "off",
    "x of one", "KiB a frame", "MiB a worker", "error",
]  # fmt: skip
PAGE = """# Several devices

Written by `{command}`, on two cores of one machine.

Two workers are processes of this machine, each kept on one core; the coordinator runs on the same two cores. Slower
links are those of network namespaces, kept at their speed by the kernel (token buckets). "x of one" is frames a second
over those of one process on one core, which has the frames itself. The error is the largest difference from that
process, over the largest value, of three runs. Weights are drawn. `pipeline`, `rows` and `tensor` are forced, so rows
where they lose are among them; `auto` takes one device where it predicts no gain. That device too gets its frames from
the coordinator, over the link: a slow link makes it slower than a process that has the frames. "off" is how much more
(+) or less (-) the prediction is than what was measured; {near} of {all} are within 15 %. "MiB a worker" are resident,
Python's included. [Boards](several-devices-simulated.md) have a page of their own. Each line is one run of
{seconds:g} s.

`yolov8n_shape` has the layers and sizes of YOLOv8n at 320 x 320, drawn by hand, with other weights. `bert_4x768` are
four of the twelve layers of BERT-base at 128 tokens. `llama_4x1024` is one token of a decoder in Llama's form: 4
layers, width 1024, 16 heads, 8192 words, caches of 256 tokens in fp32. Each worker holds the caches of its layers, or
of its heads. Its stream is of tokens that are given, as those of a prompt are; an answer has one token after the other,
in the time of a frame alone.

{table}

## Overlap

A single frame waits for each transfer. In a stream, transfers go on while other frames are computed, and a worker
receives its next request and sends its last answer while it computes. Frames a second of pipelines: one frame at a
time; several, where a worker does one after the other (`edgec worker --no-overlap`); and several with overlap, beside
one at a time.

{overlap}

In a frame alone, values cross in panels (tensors divided for latency): while one is computed, those before it are on
their way, and on to their readers. A row has the frame in milliseconds without panels (`edgec build --no-overlap`) and
with them, the median of three turns each, with the same bits. Networks and links that are missing have none: where
values that cross are small or few, no panels are predicted to pay, or parts with them took longer when they were built.

{panels}

## More than one process may keep

Weights and arenas of a worker are limited (`--memory`). One process would need more, and is refused. What a worker
keeps is by the manifest, what one process would by its lock; what is resident has Python and messages beside it.

{limited}
{refused}"""


def off(predicted: float, measured: float) -> float:
    return predicted / measured - 1


def text(rows: Sequence[Row], command: str) -> str:
    """The page."""
    there = [r for r in rows if "refused" not in r]
    pairs = [off(r[f"{what}_predicted"], r[what]) for r in there for what in ("ms", "per_s")]
    overlap = [
        [
            r["network"],
            LINKS[r["link"]],
            f"{1e3 / r['ms']:.4g}",
            f"{r['per_s_waiting']:.4g}",
            f"{r['per_s']:.4g}",
            f"{r['per_s'] * r['ms'] / 1e3:.2f}",
        ]
        for r in there
        if r["taken"] == "pipeline" and r["split"] == "pipeline"
    ]
    panels = [
        [r["network"], LINKS[r["link"]], str(p["count"]), f"{p['ms_whole']:.3g}", f"{p['ms_whole_predicted']:.3g}",
         f"{p['ms']:.3g}", f"{p['ms_predicted']:.3g}", f"{p['ms_whole'] / p['ms']:.2f}"]
        for r in there if (p := r.get("panels"))
    ]  # fmt: skip
    limited = [
        [r["network"], LINKS[r["link"]], r["split"], r["memory"], _mib(r["one"]), _mib(r["kept"]), _mib(r["resident"]),
         f"{r['ms']:.3g}", f"{r['per_s']:.4g}"]
        for r in there if r["memory"]
    ]  # fmt: skip
    refused = [f"* `{r['name']}`: {r['refused']}" for r in rows if "refused" in r]
    return PAGE.format(
        command=command,
        near=sum(abs(p) <= NEAR for p in pairs),
        all=len(pairs),
        seconds=rows[0]["seconds"] if rows else 0,
        table=markdown(COLUMNS, [_line(r) for r in there], 4),
        overlap=markdown(["network", "link", "one at a time", "without overlap", "overlap", "gain"], overlap, 2),
        panels=markdown(
            ["network", "link", "panels", "ms without", "predicted", "ms with", "predicted", "gain"], panels, 2
        ),
        limited=markdown(
            ["network", "link", "split", "limit", "MiB of one", "MiB kept", "MiB resident", "ms a frame", "frames/s"],
            limited,
            4,
        ),
        refused="\n".join(["\nRefused:\n", *refused, ""]) if refused else "",
    )


def _line(r: Row) -> list[str]:
    return [
        r["network"], LINKS[r["link"]], f"{r['split']}, {r['goal']}", f"{r['taken']} on {r['workers']}",
        f"{r['ms']:.3g}", f"{r['ms_predicted']:.3g}", f"{off(r['ms_predicted'], r['ms']):+.0%}",
        f"{r['per_s']:.4g}", f"{r['per_s_predicted']:.4g}", f"{off(r['per_s_predicted'], r['per_s']):+.0%}",
        f"{r['per_s'] * r['alone_ms'] * 1e-3:.2f}", f"{r['bytes'] / 1024:.0f}", _mib(r["resident"]),
        f"{r['error']:.1e}",
    ]  # fmt: skip


def _mib(sizes: Sequence[int]) -> str:
    return " + ".join(f"{n / (1 << 20):.0f}" for n in sizes)

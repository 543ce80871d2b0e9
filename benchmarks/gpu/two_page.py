"""The page of networks on two GPUs, from its rows."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.alone import Row
from benchmarks.table import markdown

HEAD = """# Two GPUs

An encoder of BERT-large's form ({layers} layers, width 1024, 16 heads, random weights) in fp16 on two GPUs of one
machine, `edgec build --gpus 2`, beside one GPU and beside PyTorch. Milliseconds are of the GPU, the slower one of two:
the median of seven times many runs of CUDA graphs, with the spread (the largest less the smallest) behind it. By
tensors, each GPU has half of the heads and of the columns, and two sums a layer cross: through NCCL, or through peer
memory by edgec's own kernel. By rows, each GPU has half of the batch and all weights, and nothing crosses. PyTorch
divides in the same ways, in two processes, with NCCL inside its CUDA graphs; its kernels are cuBLAS's and those of
its attention, not compiled further. NVLink multicast is off. Errors are beside PyTorch in fp32, over the largest value.
"""
#: The columns: a row's system and way, and the exchange of values.
COLUMNS = {
    "edgec, one": ("edgec one", "one"), "edgec, tensor, NCCL": ("edgec tensor", "nccl"),
    "edgec, tensor, peer memory": ("edgec tensor", "peer"), "edgec, rows": ("edgec rows", "peer"),
    "PyTorch, one": ("torch one", "one"), "PyTorch, tensor, NCCL": ("torch tensor", "tensor"),
    "PyTorch, rows": ("torch rows", "rows"),
}  # fmt: skip


def text(rows: Sequence[Row]) -> str:
    """The page."""
    shapes = dict.fromkeys((r["batch"], r["length"]) for r in rows)
    known = {(r["batch"], r["length"], r["way"]): r for r in rows}
    table = []
    for batch, length in shapes:
        alone = _ms(known.get((batch, length, "edgec one")), "one")
        theirs = _ms(known.get((batch, length, "torch one")), "one")
        for title, (way, exchange) in COLUMNS.items():
            row = known.get((batch, length, way))
            ms = _ms(row, exchange)
            if row is None or ms is None:
                continue
            own = alone if way.startswith("edgec") else theirs
            table.append(
                [f"{batch} x {length}", title, f"{ms:.3f} ± {row['spread'][exchange]:.3f}",
                 f"{own / ms:.2f}" if own else "-", f"{theirs / ms:.2f}" if theirs else "-",
                 f"{row['errors'][exchange]:.0e}"]
            )  # fmt: skip
    layers = ", ".join(str(n) for n in dict.fromkeys(r["layers"] for r in rows))
    head = ["shape", "way", "ms", "over one GPU", "over PyTorch on one", "error"]
    parts = [HEAD.format(layers=layers or 24), markdown(head, table, text_columns=2)]
    told = [[f"{r['batch']} x {r['length']}", r["way"], r["verdict"]] for r in rows if r.get("verdict")]
    if told:
        parts.append(
            "## Predictions of the builds\n\n" + markdown(["shape", "way", "prediction"], told, text_columns=3)
        )
    failed = [[r["name"], key, str(r[key])] for r in rows for key in r if key.endswith("_failed")]
    failed += [[r["name"], "row", _reason(r)] for r in rows if not r.get("ms")]
    if failed:
        parts.append("## Not timed\n\n" + markdown(["row", "part", "reason"], failed, text_columns=3))
    machine = next((r["machine"] for r in rows if "machine" in r), {})
    said = "\n".join(dict.fromkeys(f"python -m benchmarks.gpu.two {r['command']}" for r in rows if "command" in r))
    parts.append(
        f"{machine.get('date')}; two {machine.get('gpu')}; PyTorch {machine.get('torch')}.\n\n```sh\n{said}\n```"
    )
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _ms(row: Row | None, exchange: str) -> float | None:
    found = (row or {}).get("ms", {}).get(exchange)
    return float(found) if found is not None else None


def _reason(row: Row) -> str:
    return str(row.get("error_message") or row.get("late") or f"it ended at '{row.get('step')}'").replace("|", "/")[
        :200
    ]

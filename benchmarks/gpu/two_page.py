"""The page of networks on two GPUs, from its rows."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.alone import Row
from benchmarks.table import markdown

HEAD = """# Two GPUs

An encoder of BERT-large's form ({layers} layers, width 1024, 16 heads, random weights; batch x tokens) and one token
of a decoder of the form of Llama's 1B ({layers} of its 16 layers, width 2048, 32 heads, 256 tokens before it, without
embedding and head) in fp16 on two GPUs of one machine, `edgec build --gpus 2`, beside one GPU and beside PyTorch.
Milliseconds are of the GPU, the slower one of two: the median of seven times many runs of CUDA graphs, with the spread
(the largest less the smallest) behind it. By tensors, each GPU has half of the heads and of the columns, and two sums a
layer cross: through NCCL, or through peer memory by a kernel of edgec. With overlap the batch is in two parts, and sums
of one cross while kernels of the other run, where that is predicted to be faster. By rows, each GPU has half of the
batch and all weights, and nothing crosses. PyTorch divides in the same ways, in two processes, with NCCL inside its
CUDA graphs; its kernels are cuBLAS's and those of its attention, not compiled further. NVLink multicast is off. Errors
are beside PyTorch in fp32, over the largest value.
"""
#: Ways in words.
WAYS = {
    "edgec one": "edgec, one GPU", "edgec nccl": "edgec, tensor, NCCL", "edgec at-once": "edgec, tensor, peer memory",
    "edgec peer": "edgec, tensor, peer memory, overlap",
    "edgec rows": "edgec, rows", "torch one": "PyTorch, one GPU", "torch tensor": "PyTorch, tensor, NCCL",
    "torch rows": "PyTorch, rows",
}  # fmt: skip


def text(rows: Sequence[Row]) -> str:
    """The page."""
    shapes = dict.fromkeys(r["shape"] for r in rows)
    known = {(r["shape"], r["way"]): r for r in rows}
    table = []
    for shape in shapes:
        alone = {system: known.get((shape, f"{system} one"), {}).get("ms") for system in ("edgec", "torch")}
        for way, words in WAYS.items():
            row = known.get((shape, way), {})
            if row.get("ms"):
                own, theirs = alone[way.split()[0]], alone["torch"]
                table.append(
                    [_words(shape), words, f"{row['ms']:.3f} ± {row['spread']:.3f}",
                     f"{own / row['ms']:.2f}" if own else "-", f"{theirs / row['ms']:.2f}" if theirs else "-",
                     f"{row['error']:.0e}"]
                )  # fmt: skip
    layers = ", ".join(str(n) for n in dict.fromkeys(r["sizes"]["layers"] for r in rows))
    head = ["shape", "way", "ms", "over one GPU", "over PyTorch on one", "error"]
    parts = [HEAD.format(layers=layers), markdown(head, table, text_columns=2)]
    told = [[_words(r["shape"]), WAYS[r["way"]], r["verdict"]] for r in rows if r.get("verdict")]
    if told:
        parts.append(
            "## Predictions of the builds\n\n" + markdown(["shape", "way", "prediction"], told, text_columns=3)
        )
    graphs = [[r["name"], str(r["exchange"][1])] for r in rows if r.get("exchange") and r["exchange"][1]]
    if graphs:
        parts.append("Launched one by one, without CUDA graphs:\n\n" + markdown(["row", "reason"], graphs))
    failed = [[r["name"], _reason(r)] for r in rows if not r.get("ms")]
    if failed:
        parts.append("## Not timed\n\n" + markdown(["row", "reason"], failed, text_columns=2))
    machine = next((r["machine"] for r in rows if "machine" in r), {})
    said = "\n".join(dict.fromkeys(f"python -m benchmarks.gpu.two {r['command']}" for r in rows if "command" in r))
    made = f"{machine.get('date')}; two {machine.get('gpu')}; PyTorch {machine.get('torch')}."
    parts.append(f"{made}\n\n```sh\n{said}\n```")
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _words(shape: str) -> str:
    return shape.replace("x", " x ")


def _reason(row: Row) -> str:
    return str(row.get("error_message") or row.get("late") or f"it ended at '{row.get('step')}'").replace("|", "/")[
        :200
    ]

"""The page of language models: speed beside peers, the share of the speed of memory, and accuracy."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from benchmarks.alone import Row
from benchmarks.table import markdown

_HEAD = """\
# Language models on CPU

Written by `python -m benchmarks.language_models --python PEERS --write docs/results/language-models.md`, which makes
or fetches the models, builds each with two kinds of arithmetic and measures it beside the peers. Every measurement has
a process of its own, and engines take turns. The best turn counts.

* **prefill**: tokens of the prompt over the time to the first token. **decode**: tokens after the first over their
  time, {tokens} of them. Greedy; the prompt is random tokens.
* **share**: bytes of weights and cache that a token reads, times tokens per second, over the speed at which a C program
  reads a buffer as large as the weights on as many threads, in the same run.
* **resident**: memory of the process at its end, Python and what is mapped from files included.
* **fp32** (`--numeric reassociates`, the default): activations are as exact as fp32: integers of 23 bits in single
  tokens, three bf16 each in many rows where the CPU has AMX. **8 bits** (`--numeric approximates`): integers of 8 bits
  in single tokens, one bf16 in many rows. The peers round activations to 8 bits: compare them with the rows **8 bits**.
* GPT-2 (random weights in fp16, a folder) and stories260K (ONNX) are measured without peers, which read GGUF files.
* **llama.cpp-plain** is llama.cpp with weights as the file has them (`use_extra_bufts` off): neither repacked nor for
  AMX.
* **difference**: the largest difference of logits over the largest logit, against a plain fp32 evaluation of the
  dequantized weights in numpy, over a prompt of random tokens and the tokens after it; **after the prompt** alone, that
  of the first. **same** counts the greedy tokens that the evaluation would choose too. Random tokens are far from text:
  logits lie close together there.
"""
_NAMES = {"reassociates": "edgec, fp32", "approximates": "edgec, 8 bits"}


def text(rows: Sequence[Row], note: str = "") -> str:
    """The page of all rows; ``note`` are sentences about the run."""
    models = list(dict.fromkeys(r["model"] for r in rows))
    tokens = next((r["tokens"] for r in rows if r["step"] == "speed"), 0)
    parts = [_HEAD.format(tokens=tokens), _machine(), *([f"{note}\n"] if note else [])]
    for model in models:
        parts += [f"\n## {model}\n", _about([r for r in rows if r["model"] == model])]
        parts += _tables([r for r in rows if r["model"] == model and r["step"] == "speed"])
    return "\n".join(parts) + "\n"


def _machine() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"CPU: {names[0]}, {len(names)} cores.\n" if names else ""


def _about(rows: Sequence[Row]) -> str:
    """Sizes, time of the build, and accuracy."""
    found = []
    for r in rows:
        kind = _NAMES[r["numeric"]]
        if "error" in r:
            if r["step"] != "speed":
                found.append(f"* {kind}: {r['step']} failed: {r['error']}")
        elif r["step"] == "build":
            read = r["read_bytes"] / 1e6
            found.append(
                f"* {kind}: {r['kernels']} kernels, {r['weights_bytes'] / 1e6:.0f} MB of weights, of which a token "
                f"reads {read:.0f}; built in {r['cpu_s']:.0f} s of CPU time without the C compiler"
            )
        elif r["step"] == "accuracy":
            found.append(
                f"* {kind}: difference {r['max_rel']:.1e} ({r['prefill_rel']:.1e} after the prompt), "
                f"same {r['same']} of {r['of']}"
            )
    return "\n".join(found) + "\n"


def _tables(rows: Sequence[Row]) -> list[str]:
    """A table for each number of threads and length of the prompt."""
    heads = ["engine", "prefill tok/s", "first token ms", "decode tok/s", "share", "resident MB"]
    found = []
    for place in sorted({(r["threads"], r["prompt"]) for r in rows}):
        lines, failed = [], []
        for r in (r for r in rows if (r["threads"], r["prompt"]) == place):
            if "error" in r:
                failed.append(f"{_NAMES[r['numeric']]} failed: {r['error']}.")
                continue
            for e in r["engines"]:
                is_own = e["engine"] == "edgec"
                if e["error"]:
                    told = re.sub(r"/\S*/", "", e["error"])  # files by their names alone
                    failed.append(f"{e['engine']} failed: {told.rstrip('.')}.")
                    continue
                share = f"{r['share']:.0%}" if is_own and r["share"] is not None else ""
                name = _NAMES[r["numeric"]] if is_own else f"{e['engine']} {e['version']}"
                lines.append([
                    name, f"{e['prefill_per_second']:.0f}", f"{e['first_token_ms']:.0f}",
                    f"{e['decode_per_second']:.1f}", share, f"{e['resident_bytes'] / 1e6:.0f}",
                ])  # fmt: skip
        threads, prompt = place
        found += [f"{threads} thread{'s' * (threads > 1)}, a prompt of {prompt} tokens:\n", markdown(heads, lines), ""]
        found += [f"{line}\n" for line in dict.fromkeys(failed)]
    return found


def sentence(row: Row) -> str:
    """One line about a row."""
    if "error" in row:
        return f"{row['name']}: ERROR: {row['error']}"
    if row["step"] != "speed":
        keys = ("cpu_s", "max_rel", "same")
        return f"{row['name']}: {', '.join(f'{k} {row[k]:.3g}' for k in keys if k in row)}"
    return f"{row['name']}: {'; '.join(map(_speed, row['engines']))}"


def _speed(engine: Row) -> str:
    """Tokens per second of an engine, or why it has none."""
    if engine["error"]:
        return f"{engine['engine']} failed: {engine['error']}"
    return f"{engine['engine']} {engine['prefill_per_second']:.0f}, {engine['decode_per_second']:.1f} tok/s"

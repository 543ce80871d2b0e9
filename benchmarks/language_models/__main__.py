"""Language models on this CPU: tokens per second, memory and accuracy, beside llama.cpp and others in turns.

    python -m benchmarks.language_models [--python PEERS] [--only PATTERN] [--write docs/results/language-models.md]

Each build and each measurement has a process of its own; what was found is a line of language_models.jsonl in the
cache folder, and a run goes on after the last line. ``--python`` is a Python with the peers; ``--peer`` names each
(``onnxruntime-genai=DIR`` a model of its own, for the model that ``--only`` selects).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from datetime import date
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from benchmarks.alone import Row, alone, append_row, read_rows
from benchmarks.language_models import page
from benchmarks.language_models.models import MODELS, Model, file_of
from benchmarks.networks.wheels import Unreachable, default_cache

#: Tokens that are generated after a prompt, and the peers that are tried.
TOKENS, PEERS = 32, ("llama.cpp", "llama.cpp-plain", "openvino-genai")
#: Kinds of steps.
STEPS = ("build", "accuracy", "speed")
#: Prompt and tokens of the measurement of accuracy.
ACCURACY = (48, 16)


def jobs(model: Model, file: Path, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The steps of a model, in order: each with the name of its row."""
    contexts = [c for c in model.contexts if c in options.contexts]
    threads = max(options.threads)
    for numeric in model.numerics:
        shared = {
            "file": str(file), "folder": str(options.cache / f"{model.name}-{numeric}"), "numeric": numeric,
            "python": options.python,
        }  # fmt: skip
        about = f"{model.name}, {numeric}"
        yield {
            **shared, "name": f"{about}, build", "step": "build", "threads": threads,
            "context": max([*contexts, sum(ACCURACY)]) + TOKENS,
        }  # fmt: skip
        if model.is_gguf:
            prompt, tokens = ACCURACY
            yield {
                **shared, "name": f"{about}, accuracy", "step": "accuracy", "threads": threads, "prompt": prompt,
                "tokens": tokens,
            }  # fmt: skip
        # What a peer computes does not depend on how edgec was built: once is enough.
        named = [p if "=" in p else f"{p}={file}" for p in options.peer if model.is_gguf or "=" in p]
        peers = ",".join(named) if numeric == model.numerics[-1] else ""
        for count in options.threads:
            for context in contexts:
                yield {
                    **shared, "name": f"{about}, {count} threads, {context}", "step": "speed", "threads": count,
                    "prompt": context, "tokens": TOKENS, "rounds": options.rounds, "peers": peers,
                }  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--cache", type=Path, default=default_cache().with_name("language_models"))
    p.add_argument("--python", help="a Python with the peers and with the packages of models")
    p.add_argument("--peer", action="append", help=f"peers, NAME or NAME=PATH: {', '.join(PEERS)} by default")
    p.add_argument("--only", default="*", metavar="PATTERN", help="models")
    p.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    p.add_argument("--contexts", type=int, nargs="+", default=[128, 512, 2048], help="tokens of prompts")
    p.add_argument("--steps", nargs="+", default=STEPS, choices=STEPS, help="kinds of steps")
    p.add_argument("--rounds", type=int, default=1, help="turns of each engine")
    p.add_argument("--patience", type=float, default=600, help="seconds that a step may take")
    p.add_argument("--again", action="store_true", help="repeat steps that have a row already")
    p.add_argument("--list", action="store_true", help="print the names of the steps alone")
    p.add_argument("--note", default="", help="sentences about the run, for the page")
    p.add_argument("--write", type=Path, help="write the page of all rows so far")
    options = p.parse_args(arguments)
    options.peer = list(PEERS) if options.peer is None else [w for w in options.peer if w]
    options.cache.mkdir(parents=True, exist_ok=True)
    target = options.cache / "language_models.jsonl"
    known = {} if options.again else read_rows(target)
    for model in (m for m in MODELS if fnmatch(m.name, options.only)):
        if options.list:
            print("\n".join(j["name"] for j in jobs(model, Path(), options)))
            continue
        try:
            file = file_of(model, options.cache, options.python)
        except Unreachable as problem:
            print(f"{model.name}: left out: {problem}", flush=True)
            continue
        for job in jobs(model, file, options):
            done = job["name"] in known and "error" not in known[job["name"]]
            if done or job["step"] not in options.steps:
                continue
            facts: Row = {k: job[k] for k in ("name", "step", "numeric", "threads", "prompt", "tokens") if k in job}
            row: Row = {
                **facts, "model": model.name, "date": date.today().isoformat(),
                **alone("benchmarks.language_models.single", job, options.patience),
            }  # fmt: skip
            row |= facts
            append_row(target, row)
            print(page.sentence(row), flush=True)
            if job["step"] == "build" and "error" in row:
                break
    if options.write:
        options.write.write_text(page.text(list(read_rows(target).values()), options.note), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

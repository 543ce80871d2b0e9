"""One step of the benchmark in a process of its own: a build, a measurement of speed, or one of accuracy."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import edgec
from benchmarks.alone import Row, write
from benchmarks.language_models.reference import reference
from edgec.artifact.folder import read_lock
from edgec.artifact.network import Network
from edgec.artifact.session import Session
from edgec.bench.language import bench_language_model, peers_of
from edgec.bench.language_worker import prompt_of
from edgec.report.language import record


def built(job: dict[str, Any]) -> Row:
    """The folder of a model, and seconds of its build."""
    begun = time.process_time()
    edgec.build(job["file"], job["folder"], context=job["context"], threads=job["threads"], numeric=job["numeric"])
    lock = read_lock(Path(job["folder"]))
    return {
        "cpu_s": time.process_time() - begun, "weights_bytes": lock["weights_bytes"], "kernels": lock["kernels"],
        **lock["language_model"],
    }  # fmt: skip


def speed(job: dict[str, Any]) -> Row:
    """Tokens per second of edgec and the peers in turns."""
    folder = Path(job["folder"])
    found = bench_language_model(
        folder, prompt=job["prompt"], tokens=job["tokens"], threads=job["threads"], rounds=job["rounds"],
        peers=peers_of(job["peers"], folder), python=job["python"],
    )  # fmt: skip
    return record(found)


def accuracy(job: dict[str, Any]) -> Row:
    """Largest difference of logits from a plain fp32 evaluation, after the prompt and after each further token.

    ``same`` counts the tokens that edgec chooses among those that the evaluation, given edgec's tokens, chooses too.
    """
    count, threads = job["tokens"], job["threads"]
    with Network(job["folder"], threads) as network:
        session = Session(network)
        tokens = prompt_of(job["prompt"], session.vocabulary, 0)
        logits = [session.prefill(tokens)]
        while len(logits) < count:
            tokens.append(int(logits[-1].argmax()))
            logits.append(session.next(tokens[-1]))
    want = reference(Path(job["file"])).logits(tokens, count)
    got = np.stack(logits)
    return {
        "max_rel": float(np.abs(got - want).max() / np.abs(want).max()),
        "prefill_rel": float(np.abs(got[0] - want[0]).max() / np.abs(want[0]).max()),
        "same": int((got.argmax(1) == want.argmax(1)).sum()),
        "of": count,
    }


STEPS = {"build": built, "speed": speed, "accuracy": accuracy}


def main() -> None:
    asked, answer = map(Path, sys.argv[1:])
    job = json.loads(asked.read_text(encoding="utf-8"))
    write(STEPS[job["step"]](job), answer)


if __name__ == "__main__":
    main()

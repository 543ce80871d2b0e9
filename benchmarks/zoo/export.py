"""Networks of the catalog as ONNX files, made where torch is.

    python -m benchmarks.zoo.export

Reads jobs, a line of JSON each: an entry, the path of its file, and seconds that it may take. Answers each with a line
of JSON: ``problem``, which is what the package or its exporter said where it cannot make the network, or null. Every
network is made in a process of its own, a copy of this one, which has imported torch and the packages.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import signal
import sys
import warnings
import zlib
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.zoo import hugging, vision, weights
from benchmarks.zoo.entries import Entry

#: Bytes of addresses that making a network may take, of which its packages alone reserve some.
MEMORY = 14 * 10**9
MAKERS = {"timm": vision.make_timm, "torchvision": vision.make_torchvision, "transformers": hugging.make}
_COPIES = multiprocessing.get_context("fork")


def made(entry: Entry) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A module with random weights and its inputs, the same at every call; raises ValueError where results overflow."""
    torch.manual_seed(zlib.crc32(entry.model.encode()))
    network, inputs = MAKERS[entry.source](entry.model)
    network.eval()
    with torch.no_grad():
        weights.draw(network)
        weights.calibrate(network, inputs)
        found = network(*inputs)
        parts = [found] if isinstance(found, torch.Tensor) else [v for v in found if isinstance(v, torch.Tensor)]
        if not all(bool(torch.isfinite(v).all()) for v in parts if v.is_floating_point()):
            raise ValueError("its results are not finite with random weights")
    return network, inputs


def export(entry: Entry, network: nn.Module, inputs: tuple[Tensor, ...], path: Path) -> None:
    with torch.no_grad():
        dynamo = entry.exporter == "dynamo"
        settings = {"external_data": False} if dynamo else {}
        torch.onnx.export(network, inputs, str(path), opset_version=entry.opset, dynamo=dynamo, **settings)  # type: ignore[arg-type]


def problem_of(job: dict[str, Any]) -> str | None:
    """The reason why a network was not made; None where its file is there now."""
    ours, theirs = _COPIES.Pipe(duplex=False)
    process = _COPIES.Process(target=_made, args=(job, theirs))
    process.start()
    theirs.close()
    if not ours.poll(job["patience"]):
        process.kill()
        process.join()
        return f"it took more than {job['patience']:.0f} s"
    try:
        said: str | None = ours.recv()
        process.join()
    except EOFError:
        process.join()
        said = f"killed by {signal.Signals(-(process.exitcode or -signal.SIGKILL)).name}"
    return said


def _made(job: dict[str, Any], answer: Connection) -> None:
    """Make the network of a job, and send what went wrong."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    path = Path(job["path"])
    part = path.with_suffix(".part")
    try:
        entry = Entry(**job["entry"])
        export(entry, *made(entry), part)
    except Exception as problem:  # whatever an exporter meets is what there is to say about it
        lines = [line for line in str(problem).splitlines() if line.strip()] or [""]
        part.unlink(missing_ok=True)
        answer.send(f"{type(problem).__name__}: {lines[0][:300]}")
        return
    part.replace(path)
    answer.send(None)


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)  # a copy of a process has one thread only
    vision.timm()
    hugging.load()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # exporters print there
    for line in sys.stdin:
        print(json.dumps({"problem": problem_of(json.loads(line))}), file=answers, flush=True)


if __name__ == "__main__":
    main()

"""One cell of the matrix, built, run and judged in a process of its own.

    python -m benchmarks.matrix.single JOB.json ROW.json

The row is written after every step; ``step`` is the one that began last. ``verdict`` is right, wrong, refused (in
words, by the build or for its options), or void where there is nothing to compare with. Everything else ends as an
``error``.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import edgec
from benchmarks.alone import Row, write
from benchmarks.engines.peer import Peer
from benchmarks.matrix.cells import BATCH, DEVICES, OPTIONS, Option, Target
from benchmarks.matrix.peers import ANGLE, COSINE, cosine, loss, opened_batch, peer_file
from benchmarks.zoo.single import DOUBT, sensitivity
from edgec.bench.remote import connect
from edgec.build import Built
from edgec.check.compare import TOLERANCES, compare_all, quantized_outputs, tolerance_of
from edgec.errors import EdgecError, ToolchainError, UsageError
from edgec.execute.executor import PlanRun, run_graph
from edgec.execute.samples import random_inputs
from edgec.progress import silent

#: The first seed of test inputs, which no calibration draws, and the sets that are run here and on an emulator.
SEED, SAMPLES, EMULATED = 102, 2, 1
#: Loss of a compressed network that is always allowed, and the most times that of the peer.
FLOOR, TIMES = 0.03, 1.5
#: The most that compiled code may differ from its own compressed network, over what compression loses.
OWN = 0.5
#: The largest number of fp16.
FP16_LARGEST = float(np.finfo(np.float16).max)
#: Times the effect of rounding all weights that a build in 16 bits may lose.
ROUNDED = 4.0

Arrays = dict[str, np.ndarray]


def run(job: Mapping[str, Any], target: Path) -> None:
    row: Row = {"cell": job["name"]}
    option, device = OPTIONS[job["option"]], DEVICES[job["device"]]

    def step(name: str) -> None:
        row["step"] = name
        write(row, target)

    step("build")
    try:
        with _limited(job["memory"]):
            path = _file(Path(job["path"]), option, Path(job["folder"]))
            begun = time.perf_counter()
            built = _built(path, job, option, device)
            row["build_seconds"] = round(time.perf_counter() - begun, 1)
        row["kernels"] = built.kernels
        step("run")
        sets = _inputs(built, option, device)
        found = _results(built, device, sets, job["patience"])
        step("judge")
        _judge(row, job, built, option, path, sets, found)
    except EdgecError as problem:
        words = " ".join(str(problem).split())[:600]
        by_compiler = isinstance(problem, ToolchainError) and "refused it" in words
        if "does not fit" in words or isinstance(problem, UsageError) or (row["step"] == "build" and not by_compiler):
            row["verdict"], row["message"] = "refused", words
        else:
            row["error"] = f"{type(problem).__name__}: {words}"
    except Void as reason:
        row["verdict"], row["message"] = "void", str(reason)
    except Exception as problem:
        place = traceback.extract_tb(problem.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        row["error"] = f"{type(problem).__name__} at {where}: {' '.join(str(problem).split())[:400]}"
    step("done" if "error" not in row else row["step"])


class Void(Exception):
    """There is nothing to hold the cell against; the message says why."""


@contextmanager
def _limited(memory: int) -> Iterator[None]:
    """A limit of this process's memory, which emulators that it starts later do not have."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (memory, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def _file(path: Path, option: Option, folder: Path) -> Path:
    if not option.has_open_batch:
        return path
    target = folder / f"{path.stem}-open-batch.onnx"
    opened_batch(path, target, "batch")
    return target


def _built(path: Path, job: Mapping[str, Any], option: Option, device: Target) -> Built:
    settings: dict[str, Any] = {"shapes": job["shapes"], "values": job["values"], **device.settings, **option.settings}
    if option.has_open_batch:
        settings |= {"dims": {"batch": BATCH}, "shapes": {}}
    if option.ram is not None:
        planned = edgec.build(path, compile=False, **settings).program
        ends = (*planned.inputs, *planned.outputs)
        settings["ram"] = int(option.ram * (planned.arena_bytes + sum(node.type.bytes for _, _, node in ends)))
    return edgec.build(path, compile=device.link is None, **settings)


def _inputs(built: Built, option: Option, device: Target) -> list[Arrays]:
    count = EMULATED if device.link is not None else SAMPLES
    return [random_inputs(built.stages.graph, SEED + k) for k in range(count + option.has_open_batch)]


def _results(built: Built, device: Target, sets: Sequence[Arrays], patience: float) -> list[Arrays]:
    if device.link is None:
        return [built.network.run(arrays) for arrays in sets]
    with connect(built, device.link, None, patience, silent) as there:
        return [ran.outputs for ran in there.run(sets)]


def _judge(
    row: Row, job: Mapping[str, Any], built: Built, option: Option, path: Path, sets: list[Arrays], found: list[Arrays]
) -> None:
    """The verdict, and the figures that it rests on."""
    reference = _reference(path, job, option)
    want = [reference(arrays) for arrays in sets]
    precision = built.options.device.precision
    rough = TOLERANCES[precision] if precision != "fp32" else 0.0
    if option.kind == "same":
        bound = tolerance_of(built.stages.graph, precision)
        right, row["loss"] = _within(built, found, want, bound)
        if not right and precision == "fp32":
            graph = built.stages.graph
            row["allowed"] = DOUBT * max(sensitivity(reference, a, w, graph) for a, w in zip(sets, want))
            right = row["loss"] <= row["allowed"]
        elif not right:
            _check_range(built, sets, found, precision)
            row["allowed"] = ROUNDED * _worst(_peer(option.peer or precision, job, path, option, sets), want)
            right = row["loss"] <= row["allowed"]
    else:
        of_graph = [run_graph(built.stages["compress"].graph, arrays) for arrays in sets]
        row["loss"], row["own"] = loss(found, want), loss(found, of_graph)
        if option.kind == "pruned":
            right, row["own"] = _within(built, found, of_graph, tolerance_of(built.stages.graph, precision))
        else:
            _check_range(built, sets, found, precision)
            is_mixed = option.peer == "mixed"
            peer = loss(_peer("int8" if is_mixed else option.peer, job, path, option, sets), want)
            row["peer"], row["allowed"] = peer, FLOOR + TIMES * peer + rough
            own = FLOOR + TIMES * ANGLE + rough if is_mixed else OWN * row["allowed"]  # bf16 is of kernels alone
            right = row["loss"] <= row["allowed"] and row["own"] <= max(FLOOR + rough, own)
            if is_mixed:
                row["cosine"] = _cosine_where_calibrated(built, reference)
                right = right and row["cosine"] >= COSINE
    row["verdict"] = "right" if right else "wrong"


def _cosine_where_calibrated(built: Built, reference: Callable[[Mapping[str, Any]], Arrays]) -> float:
    """The least cosine of the compressed network on inputs that it was calibrated with, for which bounds are kept."""
    graph = built.stages["compress"].graph
    sets = [random_inputs(built.stages.graph, seed) for seed in range(SAMPLES)]
    return min(cosine(run_graph(graph, arrays), reference(arrays)) for arrays in sets)


def _check_range(built: Built, sets: list[Arrays], found: list[Arrays], precision: str) -> None:
    """Raises Void where results are not finite and a stored value, computed in fp32, exceeds all that fp16 holds."""
    if precision != "fp16" or all(np.isfinite(a).all() for f in found for a in f.values() if a.dtype.kind == "f"):
        return
    greatest = 0.0
    for arrays in sets:
        run = PlanRun(built.stages["fuse"], arrays)
        stored = (run.step(k) for k in range(len(run.plan.blocks)))
        floats = (np.abs(a) for a in stored if a is not None and a.dtype == np.float32 and a.size)
        greatest = max(greatest, *(float(a.max(where=np.isfinite(a), initial=0.0)) for a in floats))
    if greatest > FP16_LARGEST:
        raise Void(f"values of the network reach {greatest:.2g}, beyond {FP16_LARGEST:.0f}, the largest of fp16")


def _within(built: Built, found: list[Arrays], want: list[Arrays], bound: float) -> tuple[bool, float]:
    steps = quantized_outputs(built.stages.graph)
    differences = [d for f, w in zip(found, want) for d in compare_all(f, w, steps)]
    return all(d.within(bound) for d in differences), max((d.max_rel for d in differences), default=0.0)


def _worst(found: list[Arrays], want: list[Arrays]) -> float:
    return max((d.max_rel for f, w in zip(found, want) for d in compare_all(f, w)), default=0.0)


def _reference(path: Path, job: Mapping[str, Any], option: Option) -> Callable[[Mapping[str, Any]], Arrays]:
    """The file in onnxruntime; raises Void where that does not run it."""
    values = {name: np.asarray(v) for name, v in job["values"].items()}
    opened: list[Peer] = []

    def call(arrays: Mapping[str, Any]) -> Arrays:
        problem: Exception | None = None
        for optimize in (True, False) if not opened else (True,):
            try:
                if not opened:
                    opened.append(Peer(path, {} if option.has_open_batch else job["shapes"], 1, optimize))
                typed = {i.name: values[i.name] for i in opened[0].session.get_inputs() if i.name in values}
                return opened[0].run({**arrays, **typed})
            except Exception as error:  # onnxruntime's errors share no base class
                opened.clear()
                problem = error
        raise Void(f"onnxruntime: {' '.join(str(problem).split())[:300]}")

    return call


def _peer(how: str, job: Mapping[str, Any], path: Path, option: Option, sets: list[Arrays]) -> list[Arrays]:
    """Results of the peer's file, which is kept for other cells of the network; raises Void where there is none."""
    target = Path(job["peers"]) / f"{path.stem}-{how}.onnx"
    if not target.is_file():
        part = target.with_suffix(".made.onnx")
        try:
            peer_file(how, path, part)
        except Exception as problem:
            raise Void(f"the peer's {how}: {' '.join(str(problem).split())[:300]}") from None
        part.replace(target)
    reference = _reference(target, job, option)
    return [reference(arrays) for arrays in sets]


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("job", type=Path)
    p.add_argument("row", type=Path)
    options = p.parse_args()
    run(json.loads(options.job.read_text(encoding="utf-8")), options.row)


if __name__ == "__main__":
    main()

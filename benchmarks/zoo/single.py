"""One network of the zoo, built, checked and timed in a process of its own.

    python -m benchmarks.zoo.single JOB.json ROW.json

The row is written after every step, so that what is known survives a crash; ``step`` is the one that began last.
"""

from __future__ import annotations

import resource
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import edgec
from benchmarks import measure
from benchmarks.alone import Row, serve, write
from benchmarks.engines.peer import Peer
from edgec.artifact.network import Network
from edgec.bench.profile import kernel_seconds
from edgec.bench.timing import thread_seconds, wall_seconds
from edgec.build import Built
from edgec.check.compare import compare, compare_all, quantized_outputs, tolerance_of, worst
from edgec.check.judge import in_both_precisions
from edgec.check.litert import LitertReference
from edgec.errors import EdgecError
from edgec.execute.invariants import RepeatedWork
from edgec.execute.samples import random_inputs
from edgec.frontend.onnx.model import Model as OnnxModel
from edgec.frontend.tflite.model import TfliteModel
from edgec.ir.graph import Graph
from edgec.report.predicted import by_price

#: Sets of random inputs that results are compared on, and kernels of a network that are kept.
SAMPLES, WORST = 2, 10
#: Seconds that timing may take, as a multiple of those asked for, before a slow network gets fewer turns.
SLOW = 5
#: Kernels that take less are told apart badly from the call of them.
RESOLVED_US = 5.0
#: Relative change of inputs that shows how far a network's results follow the rounding of its values, by the type of
#: its narrowest floats.
NEAR = {"bf16": 2.0**-8, "f16": 2.0**-11, "f32": 2e-7}
#: Weights from here on are masks.
LARGE = 1e30
#: Multiple of the peer's disagreement with itself that passes.
DOUBT = 2.0

Arrays = Mapping[str, np.ndarray]


def run(job: Mapping[str, Any], target: Path) -> None:
    row: Row = {}
    begun = time.perf_counter()

    def step(name: str) -> None:
        row.setdefault("began", {})[name] = round(time.perf_counter() - begun, 1)
        row["step"] = name
        write(row, target)

    step("build")
    try:
        built = built_in(row, job, threads=2)
        step("check")
        with Network(built.folder, 1) as one, Network(built.folder, 2) as two:
            check(built, job, row, (one.run, two.run))
        step("time")
        _time(built, job, row)
        step("profile")
        if job["seconds"]:
            found = kernel_seconds(built, min(0.3, job["seconds"]))
            ranked = by_price(built.program, built.options.device, found)
            row["worst_kernels"] = sorted(ranked, key=lambda k: bool(k["measured_us"] < RESOLVED_US))[:WORST]
    except EdgecError as refusal:
        row["refused" if row["step"] == "build" else "error"] = " ".join(str(refusal).split())[:600]
    except Exception as problem:
        row["error"] = f"{type(problem).__name__}: {' '.join(str(problem).split())[:400]}"
    step("done" if "error" not in row and "refused" not in row else row["step"])


def built_in(row: Row, job: Mapping[str, Any], **settings: Any) -> Built:
    """The network, built on one core; the time that it computes, and the peak of its memory or of the C compiler's."""
    begun, used = time.perf_counter(), time.process_time()
    with measure.on_cores(1):
        built = edgec.build(job["path"], shapes=job["shapes"], values=job["values"], **settings)
    row["elapsed_seconds"] = round(time.perf_counter() - begun, 2)
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    row["compiler_seconds"] = round(children.ru_utime + children.ru_stime, 2)
    row["build_seconds"] = round(time.process_time() - used + row["compiler_seconds"], 2)
    row["build_mb"] = max(own.ru_maxrss, children.ru_maxrss) // 1024
    row["kernels"] = built.kernels
    row["operators"] = built.operators
    return built


def check(built: Built, job: Mapping[str, Any], row: Row, runs: Sequence[Callable[[Arrays], Arrays]]) -> None:
    """Errors of ``runs`` against the reference with and without its optimizations, and of the two against each other.

    Sets row["right"].
    """
    graph = built.stages.graph
    quantized, bound = quantized_outputs(graph), tolerance_of(graph, built.options.device.precision)
    errors: dict[str, float] = {"plain": 0.0, "optimized": 0.0, "own": 0.0, "rounding": 0.0}
    is_right = {"plain": True, "optimized": True}
    references = {name: _reference(built, job, 1, name == "optimized") for name in ("plain", "optimized")}
    for seed in range(SAMPLES):
        arrays = random_inputs(graph, seed, greatest=True)
        ours = [run(arrays) for run in runs]
        theirs: dict[str, Any] = {}
        for name, reference in references.items():
            try:
                theirs[name] = reference(arrays)
            except Exception as problem:  # onnxruntime's errors share no base class
                row[f"peer_{name}"] = " ".join(str(problem).split())[:300]
                continue
            for found in ours:
                differences = compare_all(found, theirs[name], quantized)
                errors[name] = max(errors[name], worst(differences).max_rel)
                is_right[name] &= all(d.within(bound) for d in differences)
        if len(theirs) == 2:
            errors["own"] = max(errors["own"], worst(compare_all(theirs["optimized"], theirs["plain"])).max_rel)
        if not all(is_right.values()) and "plain" in theirs:
            errors["own"] = max(errors["own"], sensitivity(references["plain"], arrays, theirs["plain"], graph))
            errors["own"] = max(errors["own"], sensitivity_to_weights(built, job, arrays, theirs["plain"]))
            errors["rounding"] = max(errors["rounding"], rounding_of(graph, arrays))
    known = [name for name in references if f"peer_{name}" not in row]
    if not known:
        raise RuntimeError(f"the peer fails: {row['peer_plain']}")
    row["error_plain"], row["error_optimized"] = (errors[n] if n in known else None for n in ("plain", "optimized"))
    row["own_disagreement"], row["own_rounding"] = errors["own"], errors["rounding"]
    # Where the peer is far from itself, or the file's own rounding from exact arithmetic (a peer that computes files of
    # 16 bits in 32 rounds less), there is nothing to hold a result against.
    doubt = DOUBT * max(errors["own"], errors["rounding"])
    row["right"] = any(is_right[n] for n in known) or min(errors[n] for n in known) <= doubt


def rounding_of(graph: Graph, arrays: Arrays) -> float:
    """Distance of the network with every value rounded as the file says from the same in double precision."""
    found = in_both_precisions(graph, arrays).values()
    return max((compare("", v.astype(np.float64), exact).max_rel for v, exact in found), default=0.0)


def sensitivity(reference: Callable[[Arrays], Arrays], arrays: Arrays, usual: Arrays, graph: Graph) -> float:
    """Change of the reference's own results where its inputs of floats change in their last digits.

    A network that rounds to integers, or chooses, may answer a tiny difference with a large one. onnxruntime computes
    networks in fp16 with floats, and rounds less often than they say.
    """
    used = {n.type.dtype for n in graph.operations()}
    step = next((by for dtype, by in NEAR.items() if dtype in used), NEAR["f32"])
    chance = np.random.default_rng(1)
    found = 0.0
    for _ in range(3):
        near = {
            n: (a * (1 + step * chance.uniform(-1, 1, a.shape))).astype(a.dtype) if a.dtype.kind == "f" else a
            for n, a in arrays.items()
        }
        found = max(found, worst(compare_all(reference(near), usual)).max_rel)
    return found


def sensitivity_to_weights(built: Built, job: Mapping[str, Any], arrays: Arrays, usual: Arrays) -> float:
    """Change of the reference's own results where the weights of its file change in their last digits.

    A network of tokens has no inputs of floats; one that rounds to integers may answer a tiny difference with a large
    one. 0 for files of other formats than ONNX.
    """
    if not isinstance(built.parsed, OnnxModel):
        return 0.0
    found = 0.0
    for seed in range(3):
        chance, proto = np.random.default_rng(seed), onnx.load(job["path"])
        for tensor in proto.graph.initializer:
            if tensor.data_type == onnx.TensorProto.FLOAT:
                array = onnx.numpy_helper.to_array(tensor)
                near = array * (1 + NEAR["f32"] * chance.uniform(-1, 1, array.shape))
                near = np.where(np.abs(array) < LARGE, near, array).astype(np.float32)  # masks stay finite
                tensor.CopyFrom(onnx.numpy_helper.from_array(near, tensor.name))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "near.onnx"
            onnx.save(proto, path)
            reference = _reference(built, {**job, "path": str(path)}, 1, optimized=False)
            apart = worst(compare_all(reference(arrays), usual)).max_rel
            found = max(found, apart if np.isfinite(apart) else 0.0)
    return found


def _reference(built: Built, job: Mapping[str, Any], threads: int, optimized: bool) -> Callable[[Arrays], Arrays]:
    if isinstance(built.parsed, TfliteModel):
        interpreter = LitertReference(built.parsed, job["shapes"], job["values"], threads, fast=optimized)
        return interpreter.run
    values = {name: np.asarray(v) for name, v in job["values"].items()}
    opened: list[Peer] = []

    def call(arrays: Arrays) -> Arrays:
        if not opened:
            opened.append(Peer(Path(job["path"]), job["shapes"], threads, optimized))
        typed = {i.name: values[i.name] for i in opened[0].session.get_inputs() if i.name in values}
        return opened[0].run({**arrays, **typed})

    return call


def _time(built: Built, job: Mapping[str, Any], row: Row) -> None:
    """Ours and the peer's in turns, on one thread and on two: minima, medians and spreads in milliseconds."""
    if not job["seconds"]:
        return
    arrays = random_inputs(built.stages.graph, 0, greatest=True)
    for threads in job["threads"]:
        with measure.on_cores(threads), Network(built.folder, threads) as network:
            ours, _ = network.bind(arrays)
            clock = thread_seconds if threads == 1 else wall_seconds
            taken = measure.take_turns(
                (ours, _peer_call(built, job, arrays, threads)), job["seconds"], clock, SLOW * job["seconds"]
            )
        lows = [min(t) * 1e3 for t in taken]
        row[f"ms_{threads}"], row[f"peer_ms_{threads}"] = (round(v, 5) for v in lows)
        row[f"ratio_{threads}"] = round(lows[0] / lows[1], 4)
        row[f"spread_{threads}"] = [round(float(np.percentile(t, 90) / min(t)) - 1, 3) for t in taken]


def _peer_call(built: Built, job: Mapping[str, Any], arrays: Arrays, threads: int) -> Callable[[], Any]:
    """The peer on these inputs; bound once, where it can bind them."""
    if isinstance(built.parsed, TfliteModel):
        interpreter = LitertReference(built.parsed, job["shapes"], job["values"], threads, fast=True)
        interpreter.feed(arrays)
        return interpreter.invoke
    feeds = {**arrays, **{name: np.asarray(v) for name, v in job["values"].items()}}
    for optimize in (True, False):
        try:
            peer = Peer(Path(job["path"]), job["shapes"], threads, optimize)
            peer.run(feeds)
            break
        except Exception:  # some files run only without optimizations
            if not optimize:
                raise
    try:
        binding = peer.session.io_binding()
        for name, array in feeds.items():
            binding.bind_cpu_input(name, array)
        for name in peer.outputs:
            binding.bind_output(name, "cpu")
        peer.session.run_with_iobinding(binding)
    except Exception:  # a file that declares another rank than it gives cannot be bound
        return lambda: peer.session.run(None, feeds)
    return lambda: peer.session.run_with_iobinding(binding)


def main() -> None:
    warnings.simplefilter("error", RepeatedWork)
    serve(run, __doc__)


if __name__ == "__main__":
    main()

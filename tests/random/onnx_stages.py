"""Random ONNX models through the pipeline: the first stage that is wrong, and the least model that still is."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
from compiled import Compiled, compile_c, target, write_graphs
from onnx import printer
from onnx_drawn import Drawn
from onnx_reference import Rejected
from small_graphs import doubled

from edgec import pipeline
from edgec.compress import Compressed
from edgec.errors import EdgecError, Undecided
from edgec.execute.executor import run_graph, run_plan, run_program
from edgec.execute.invariants import verify_plan, verify_program, warn_of_repeats
from edgec.ir import evaluate
from edgec.ir.graph import Graph
from edgec.ir.verify import verify
from edgec.options import resolve

#: What may differ beyond what rounding explains (``Tensor.slack``), relative to the largest element.
TOLERANCE = {"float64": 1e-9, "float32": 2e-5, "float16": 4e-3}
#: Where one side rounds all to 0, the other may keep what is left of numbers around 1: a gate that is all but shut.
_NOTHING = 1e-14
Arrays = Mapping[str, np.ndarray]


class Refused(Exception):
    """A model that edgec may refuse: what it does depends on the size of open dimensions."""


@dataclass(frozen=True)
class Sample:
    """A model at every size it is run at."""

    drawn: Drawn
    sizes: tuple[Drawn, ...]

    @staticmethod
    def of(drawn: Drawn) -> Sample:
        if not drawn.open:
            return Sample(drawn, (drawn,))
        found = [drawn]
        ((name, (low, high, _)),) = drawn.ranges.items()
        for seed, size in enumerate({low, high, (low + high) // 2}):
            try:
                found.append(drawn.at({name: size}, seed))
            except Rejected:
                continue
        return Sample(drawn, tuple(found))


def imported(drawn: Drawn) -> Graph:
    """The simplified graph. Raises Refused where open dimensions are too much."""
    context = _context(drawn)
    try:
        graph = pipeline.import_(drawn.proto(), context)
        verify(graph)
        graph = pipeline.simplify(graph, context).graph
        verify(graph)
    except (EdgecError, Undecided) as error:
        if drawn.open:
            raise Refused(str(error)) from error
        raise
    return graph


def _context(drawn: Drawn) -> pipeline.Context:
    dims = dict(drawn.ranges) if drawn.open else {}
    return pipeline.Context(replace(resolve({}), device=target("host").device, threads=3, dims=dims))


def difference(drawn: Drawn, got: Arrays, precise: Arrays | None = None) -> str | None:
    """Description of the errors of results, or None.

    ``precise``: what double precision gives, which is believed where onnxruntime is off by little: it loses digits
    where it sums squares in single precision, or subtracts a mean from what is nearly the mean.
    """
    for name in drawn.outputs:
        tensor, result = drawn.tensors[name], np.asarray(got[name])
        want = tensor.array
        if precise is not None and want.dtype.kind == "f" and want.shape == precise[name].shape:
            close = np.abs(precise[name] - want.astype(np.float64)) <= 1e-2 * tensor.most
            want = np.where(close, precise[name].astype(want.dtype), want)
        if result.shape != want.shape or result.dtype != want.dtype:
            return f"{name} is {result.dtype}{result.shape}, not {want.dtype}{want.shape}"
        allowed = 3 * tensor.slack if want.dtype.kind == "f" else tensor.slack
        allowed += TOLERANCE.get(tensor.dtype, 0) * tensor.most
        allowed += _NOTHING if want.dtype.kind == "f" else 0
        with np.errstate(invalid="ignore"):
            near = np.abs(result.astype(np.float64) - want.astype(np.float64)) <= allowed
        wrong = np.argwhere(~(near | (result == want) | ((result != result) & (want != want))))
        if len(wrong):
            k = tuple(map(int, wrong[0]))
            first = f"{list(k)}: {result[k]} for {want[k]} (+-{allowed:.2g})"
            return f"{name}: {len(wrong)} of {want.size} differ, first {first}"
    return None


# ---- stages one by one


def stages(sample: Sample) -> Iterator[tuple[str, Callable[[Arrays], Arrays]]]:
    """Every stage but the last, and what executes its result."""
    context = _context(sample.drawn)
    graph = pipeline.import_(sample.drawn.proto(), context)
    verify(graph)
    yield "import", lambda inputs: run_graph(graph, inputs)
    simpler = pipeline.simplify(graph, context).graph
    verify(simpler)
    yield "simplify", lambda inputs: run_graph(simpler, inputs)
    plan = pipeline.fuse(Compressed(simpler), context)
    verify_plan(plan)
    yield "fuse", lambda inputs: run_plan(plan, inputs)
    program = pipeline.schedule(plan, context)
    verify_program(program)
    warn_of_repeats(program)
    yield "schedule", lambda inputs: run_program(program, inputs)


def _precise(sample: Sample, drawn: Drawn) -> Arrays | None:
    try:
        graph = pipeline.import_(sample.drawn.proto(), _context(sample.drawn))
        precise = doubled(graph)
    except (EdgecError, AssertionError):  # what is written for one type alone
        return None
    if graph.sizes:
        return None
    wide = {k: v.astype(np.float64) if v.dtype == np.float32 else v for k, v in drawn.feeds.items()}
    return evaluate.run(precise, wide)


def _difference(sample: Sample, drawn: Drawn, got: Arrays) -> str | None:
    found = difference(drawn, got)
    return difference(drawn, got, _precise(sample, drawn)) if found else None


def first_wrong(sample: Sample, most: int | None = None) -> tuple[str, str] | None:
    """The first stage in numpy that is wrong, of all or the first ``most``, and how; errors count as well."""
    name = "import"
    try:
        for name, run in islice(stages(sample), most):
            for drawn in sample.sizes:
                found = _difference(sample, drawn, run(drawn.feeds))
                if found:
                    return name, found
    except Exception as error:
        # An error of a stage comes while the next name is unknown: the text says enough.
        return f"{name} or after", f"{type(error).__name__}: {error}"
    return None


# ---- compiled


def compiled(samples: Mapping[str, Sample], folder: Path) -> dict[str, str | None]:
    """Errors of each model when it is compiled and run, on one thread and on three."""
    graphs, found = {}, {}
    for name, sample in samples.items():
        try:
            graphs[name] = imported(sample.drawn)
        except Refused as why:
            found[name] = f"refused: {why}"
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"
    for name, network in _networks(graphs, folder).items():
        found[name] = network if isinstance(network, str) else _run(network, samples[name])
    return {name: found[name] for name in samples}


def _networks(graphs: Mapping[str, Graph], folder: Path) -> dict[str, Compiled | str]:
    """One library; where the compiler does not take it, halves of it."""
    if not graphs:
        return {}
    where = target("host")
    folder.mkdir(parents=True)
    try:
        made = write_graphs(graphs, folder, where.device, threads=3)
        library = ctypes.CDLL(str(compile_c(folder, "all.c", "all.so", [*where.flags, "-shared", "-fPIC"])))
    except Exception as error:
        if len(graphs) == 1:
            return dict.fromkeys(graphs, f"{type(error).__name__}: {error}")
        names = list(graphs)
        halves = names[: len(names) // 2], names[len(names) // 2 :]
        parts = [_networks({n: graphs[n] for n in half}, folder / f"{k}") for k, half in enumerate(halves)]
        return {**parts[0], **parts[1]}
    return {
        n: f"{type(w).__name__}: {w}"
        if isinstance(w, EdgecError)
        else Compiled(library, w.prefix, w.program, w.weights)
        for n, w in made.items()
    }


def _run(network: Compiled, sample: Sample) -> str | None:
    for drawn in sample.sizes:
        try:
            got, shared = network(drawn.feeds), network(drawn.feeds, 3)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        found = _difference(sample, drawn, got)
        if found:
            return found
        if not all(np.array_equal(shared[n], a, equal_nan=a.dtype.kind == "f") for n, a in got.items()):
            return "other results on 3 threads"
    return None


# ---- the least model


def smallest(sample: Sample, fails: Callable[[Sequence[Sample]], Sequence[bool]]) -> Sample:
    """A model with as few nodes as can be that still fails: results are left out, computed values become inputs."""
    while True:
        drawn = sample.drawn
        candidates = []
        for part in _parts(drawn):
            closed = drawn.open and not part.open
            if closed or len(part.steps) < len(drawn.steps) or len(part.outputs) < len(drawn.outputs):
                try:
                    candidates.append(Sample.of(part))
                except Rejected:
                    continue
        candidates.sort(key=lambda s: (len(s.drawn.steps), len(s.drawn.outputs)))
        wrong = [s for s, failed in zip(candidates, fails(candidates)) if failed]
        if not wrong:
            return sample
        sample = wrong[0]


def _parts(drawn: Drawn) -> Iterator[Drawn]:
    made = [o for s in drawn.steps for o in s.node.output if o]
    if drawn.open:
        yield replace(drawn, open={}, ranges={})
    for name in made:
        yield drawn.part([name])
        if not drawn.open:
            yield drawn.part(drawn.outputs, [name])
    for left in drawn.outputs:
        if len(drawn.outputs) > 1:
            yield drawn.part([n for n in drawn.outputs if n != left])


def reproducer(sample: Sample, number: str, folder: Path) -> str:
    """The model as text, and where it and its inputs are saved."""
    kept = Path(os.environ.get("EDGEC_RANDOM_FAILURES", folder))
    kept.mkdir(parents=True, exist_ok=True)
    proto = sample.drawn.proto()
    (kept / f"{number}.onnx").write_bytes(proto.SerializeToString())
    for k, drawn in enumerate(sample.sizes):
        np.savez(kept / f"{number}.{k}.npz", **drawn.feeds)
    ranges = f"dims: {dict(sample.drawn.ranges)}\n" if sample.drawn.open else ""
    return f"{ranges}{printer.to_text(proto)}\nsaved as {kept / number}.onnx and .npz"

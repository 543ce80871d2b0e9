"""The check of a whole network: outputs beside the reference, the error ledger, and where an error comes in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from edgec.artifact.folder import refuse_gpus
from edgec.artifact.network import Network
from edgec.bench.remote import Remote
from edgec.build import Built
from edgec.check.bisect import Located
from edgec.check.bisect import locate as search
from edgec.check.blocks import KernelCheck, blocks_alone
from edgec.check.cache import CacheError
from edgec.check.compare import TOLERANCES, Difference, compare_all, quantized_outputs, tolerance_of
from edgec.check.drawn import NUDGE, both_sides, scaled, telling_scale, unmoved
from edgec.check.float64 import rounding
from edgec.check.judge import UNSURE, Judge, says_nothing
from edgec.check.ledger import Entry, ledger
from edgec.check.lively import is_small, wrong_kernels
from edgec.check.narrow import narrow_of
from edgec.check.reference import open_reference, unoptimized
from edgec.check.reference_error import error_by_rounding, own_error
from edgec.check.unavailable import Unavailable
from edgec.compress.calibrate import RANDOM
from edgec.compress.calibrate import samples as calibration_samples
from edgec.device.compilers import runs_here
from edgec.errors import EdgecError, UsageError
from edgec.execute.executor import Executor, executor, run_graph
from edgec.execute.samples import given_inputs, random_inputs
from edgec.execute.samples import samples as split_samples
from edgec.frontend import states
from edgec.frontend.language.facts import facts_of
from edgec.frontend.onnx.model import Model
from edgec.frontend.tflite.model import TfliteModel
from edgec.ir.graph import Graph
from edgec.media.way import Way
from edgec.pipeline.run import STAGES, Run, Step
from edgec.progress import Progress
from edgec.text import counted, on_threads

Arrays = dict[str, np.ndarray]
#: Relative errors up to this may be rounding that a network amplifies; beyond it, something is wrong.
ROUNDING = 1e-2
#: Random inputs of one check at most: all are in memory.
MOST_SAMPLES = 10_000
#: Name of the reference where no runtime is one.
IN_NUMPY = "the graph in numpy"


@dataclass(frozen=True, repr=False)
class Checked:
    """The result of a check. ``outputs`` are the worst over all samples and numbers of threads.

    ``reference`` says what they were held against, ``executed_stage`` is the stage whose result was run: ``emit`` is
    the compiled code.
    """

    ok: bool
    outputs: tuple[Difference, ...]
    stages: tuple[Entry, ...]
    reference: str
    executed_stage: str
    samples: int
    threads: tuple[int, ...]
    tolerance: float
    #: The fraction of integers and booleans that may differ: none, unless a tolerance was asked for.
    mismatch_tolerance: float
    notes: tuple[str, ...] = ()
    located: Located | None = None
    #: Every kernel alone, where that was asked for.
    blocks: tuple[KernelCheck, ...] = ()
    link: str | None = None  # to the device it ran on
    #: Outputs that say nothing on these inputs, and why: a saturated softmax is right whatever came before it.
    unproven: Mapping[str, str] = field(default_factory=dict)
    #: Of a compressed network, how far its graph is from the floats: the worst of every output. It fails nothing.
    compression: tuple[Difference, ...] = ()
    #: What a cache in fewer bits adds to the error of a language model.
    cache: CacheError | None = None

    @property
    def verdict(self) -> str:
        """In words: ok, FAILED, not run (the code is for another machine) or proves nothing (no output does)."""
        if not self.ok:
            return "FAILED"
        if not self.threads:
            return "not run"
        return "proves nothing" if self.outputs and len(self.unproven) == len(self.outputs) else "ok"

    def __str__(self) -> str:
        """The verdict, and a line for every output: its largest difference, and what is to be said of it."""
        beside = "the compressed graph" if self.compression else self.reference
        told = f"{counted(self.samples, 'sample')} beside {beside}, {on_threads(self.threads)}"
        rows = [f"check {self.verdict}: {told}, tolerance {self.tolerance:.0e}"]
        for o in self.outputs:
            row = f"  {o.name}  max|d| {o.max_abs:.1e}, relative {o.max_rel:.1e}"
            row += f", {o.mismatches} of {o.elements} differ" if o.mismatches else ""
            said = dict.fromkeys((o.note, o.excused, self.unproven.get(o.name, "")))
            fails = not o.within(self.tolerance, self.mismatch_tolerance)
            rows.append(": ".join(filter(None, (row, *said, "FAILED" if fails else ""))))
        return "\n".join(rows)

    __repr__ = __str__


def inputs_for(
    graph: Graph, given: str | Path | Mapping[str, np.ndarray] | None, samples: int, seed: int, way: Way = Way()
) -> list[Arrays]:
    """The inputs to check with: those given (``way`` is that from pictures and sounds), or ``samples`` random ones."""
    if given is None:
        if not 1 <= samples <= MOST_SAMPLES:
            raise UsageError(f"{samples} samples cannot be checked", hint=f"give 1 to {MOST_SAMPLES}")
        return [random_inputs(graph, seed + k) for k in range(samples)]
    return given_inputs(graph, given, way) if isinstance(given, (str, Path)) else split_samples(graph, given)


def followed(graph: Graph, reference: Executor, sets: list[Arrays]) -> tuple[list[Arrays], list[Arrays]]:
    """Inputs and what the reference gives for them, in order: states are as the runs before left them."""
    known, fed, wanted = states.initial(graph), [], []
    for arrays in sets:
        fed.append({**arrays, **known})
        wanted.append(reference(fed[-1]))
        known = states.advanced(graph, fed[-1], wanted[-1])
    return fed, wanted


def reference_for(built: Built, notes: list[str]) -> tuple[str, Executor]:
    """Reference results by name: from the model's own runtime if it runs the model, else from the imported graph."""
    graph = built.stages.graph
    if built.parsed is not None:
        try:
            if facts_of(graph) is not None:
                raise Unavailable("a language model has other inputs than its file")
            if any(n.op == "random" for n in graph.nodes()):
                raise Unavailable("its results are random, and other runtimes draw other numbers")
            session = open_reference(built.parsed, built.options.shapes, built.options.values, graph)
            session.run(random_inputs(graph, 0))
            session.reset()
            return session.name, session.run
        except Unavailable as error:
            notes.append(f"{error.message}; the model's own formulas in numpy are the reference instead")
    return IN_NUMPY, executor(run_graph, graph)


def check(
    built: Built,
    *,
    inputs: str | Path | Mapping[str, np.ndarray] | None,
    samples: int,
    seed: int,
    tolerance: float | None,
    locate: bool,
    blocks: bool,
    reproducer: str | Path | None,
    progress: Progress,
    on: Remote | None = None,
) -> Checked:
    """See `edgec.check`; ``on`` is the network on its device, where it is to run there."""
    is_usual, mismatch_tolerance = tolerance is None, tolerance or 0.0
    tolerance = _usual_tolerance(built) if tolerance is None else tolerance
    if not tolerance >= 0:
        raise UsageError(f"{tolerance} is no tolerance", hint="give a small positive number")
    notes: list[str] = []
    real = None if inputs is not None else _calibration(built, samples)
    sets = real or inputs_for(built.stages.graph, inputs, samples, seed, built.options.way)
    if real:
        notes.append(f"inputs are the first {len(real)} of the calibration data")
    progress("check", "reference")
    name, reference = reference_for(built, notes)
    remembers = bool(states.initial(built.stages.graph))  # a reference that keeps states is not run out of order
    if (
        inputs is None
        and not real
        and not remembers
        and (scale := telling_scale(built.stages.graph, reference, sets[0], tolerance)) != 1
    ):
        sets = [scaled(built.stages.graph, arrays, scale) for arrays in sets]
        notes.append(f"inputs were drawn {scale} times as large as usual: more outputs depend on those")
    if inputs is None and not real and not remembers:
        near = both_sides(
            built.stages.graph,
            reference,
            sets,
            lambda k: random_inputs(built.stages.graph, seed + samples + k),
            _halvings(built),
        )
        if near:
            notes.append(f"{len(near)} of the inputs are near each other on both sides of a decision")
        sets = [*sets, *near]
    sets, wanted = followed(built.stages.graph, reference, sets)
    # The code of a compressed network is held against the compressed graph; a tolerance of one's own, against floats.
    smaller = compressed_of(built.stages) if is_usual else None
    graph, held = built.stages.graph, wanted
    if smaller is not None:
        progress("check", "the compressed graph")
        graph, held = smaller[0], [smaller[1](arrays) for arrays in sets]
    narrow = narrow_of(graph, built.options.device, tolerance) if is_usual else None
    tolerance = narrow.least if narrow is not None else tolerance
    from_runtime = smaller is None and isinstance(built.parsed, (Model, TfliteModel)) and name != IN_NUMPY
    own = (lambda arrays, want: own_error(built, arrays, want)) if from_runtime else None
    if smaller is not None:
        own = partial(error_by_rounding, graph)
    plain = unoptimized(built) if from_runtime and isinstance(built.parsed, Model) else None
    judge = Judge(graph, tolerance, mismatch_tolerance, quantized_outputs(graph), is_usual, narrow, own, plain)
    found: dict[str, Difference] = {}
    executors, threads = _executors(built, notes) if on is None else _there(built, on, sets)
    for label, execute in executors.items():
        for k, (arrays, want) in enumerate(zip(sets, held), 1):
            progress("check", f"{label}, sample {k}/{len(sets)}")
            for d in judge.differences(execute(arrays), want, arrays):
                if d.name not in found or farther(d, found[d.name], judge):
                    found[d.name] = d
    last = list(executors.values())[-1]
    executed_stage = "emit" if threads else "schedule"
    worst = max(range(len(sets)), key=lambda k: _error(last, sets[k], wanted[k])) if len(sets) > 1 and locate else 0
    run = _with_emit(built.stages) if threads else _without_emit(built.stages)
    stages = ledger(run, sets[worst], wanted[worst], {"emit": last} if threads else {},
                    lambda step: progress("check", f"stage {step.stage.name}"))  # fmt: skip
    ok = all(judge.within(d) for d in found.values())
    fixed = [] if remembers else unmoved(built.stages.graph, reference, sets[0], wanted[0], tolerance)
    unproven = dict.fromkeys(fixed, f"does not depend on the inputs: {NUDGE:.0%} of change in them does not show")
    unproven |= {name: why for name in found if name in wanted[0] and (why := says_nothing([w[name] for w in wanted]))}
    unproven |= {d.name: d.excused for d in found.values() if d.excused.startswith(UNSURE)}
    if not ok and smaller is None:
        notes += _conditioning(built, found, tolerance, sets, wanted)
    if blocks:
        refuse_gpus(built.folder)
    if blocks and built.program.parts:
        hint = "check it with --place cpu, then gpu"
        raise UsageError("kernels of two devices are not run one by one yet", hint=hint)
    if blocks and threads and built.options.device.is_gpu:
        notes.append("kernels of a GPU are not called one by one: each was run alone by its formula in numpy")
    most = narrow.most if narrow is not None else tolerance
    alone = blocks_alone(_ready(built, threads), sets[0], most, progress) if blocks else ()
    ok = ok and all(a.ok for a in alone)
    if ok and is_usual and threads and on is None and is_small(built):
        late = list(wrong_kernels(built, sets, most, progress))
        notes, ok = [*notes, *late], not late
    located = None
    if locate and not ok and not built.program.parts:
        progress("locate", "")
        folder = Path(reproducer) if reproducer is not None else None
        located = search(built, stages, sets[worst], tolerance, folder, progress)
    outputs, link = tuple(found.values()), on.link.name if on is not None else None
    return Checked(ok, outputs, stages, name, executed_stage, len(sets), threads, tolerance, mismatch_tolerance,
                   tuple(notes), located, alone, link, unproven,
                   compression=cost_of(held, wanted) if smaller is not None else ())  # fmt: skip


def _usual_tolerance(built: Built) -> float:
    """That of the device's precision, or of bf16, where some layers of a compressed network multiply in that."""
    usual = tolerance_of(built.stages.graph, built.options.device.precision)
    compressed = built.stages.compressed
    return max(usual, TOLERANCES["bf16"]) if compressed is not None and compressed.bf16_layers else usual


def _halvings(built: Built) -> int:
    """Halvings of the distance of inputs with different decisions: rounding to few bits must not change a decision."""
    types = {n.type.dtype for n in built.stages.graph.operations()}
    is_fine = built.options.device.precision == "fp32" and types <= {"f32", "f64", "i64", "i32", "bool"}
    return 8 if is_fine and built.stages.compressed is None else 0


def _calibration(built: Built, most: int) -> list[Arrays]:
    """The first real inputs that the network was compressed with; none where it was not, or they were drawn."""
    source = built.options.calibrate
    if source is None or str(source) == RANDOM or built.stages.compressed is None:
        return []
    return [dict(arrays) for arrays in islice(calibration_samples(source, built.stages.graph), max(most, 0))]


def compressed_of(stages: Run) -> tuple[Graph, Executor] | None:
    """The graph that a compressed network computes, and its meaning in numpy; None where nothing was compressed."""
    found = stages.compressed
    if found is None or not found.is_changed:
        return None
    step = next(s for s in stages.steps if s.stage.name == "compress")
    return found.graph, step.stage.executor(step.value, stages.context)


def cost_of(compressed: list[Arrays], floats: list[Arrays]) -> tuple[Difference, ...]:
    """The worst difference of every output over all samples."""
    worst: dict[str, Difference] = {}
    for got, want in zip(compressed, floats):
        for d in compare_all(got, want):
            if d.name not in worst or d.max_rel > worst[d.name].max_rel:
                worst[d.name] = d
    return tuple(worst.values())


def _conditioning(
    built: Built, found: Mapping[str, Difference], tolerance: float, sets: list[Arrays], wanted: list[Arrays]
) -> list[str]:
    """A sentence when the reference itself is about as far from the exact result as we are from the reference."""
    late = [d for d in found.values() if d.mismatches is None and not d.within(tolerance)]
    if any(d.max_rel > ROUNDING for d in late):
        return []
    try:
        own = [rounding(built.stages.graph, arrays, want) for arrays, want in zip(sets, wanted)]
    except EdgecError:
        return []  # an operator that has no meaning in double precision
    notes = []
    for d in late:
        far = max((errors.get(d.name, 0.0) for errors in own), default=0.0)
        if far > tolerance / 4:
            notes.append(
                f"this network amplifies rounding: on '{d.name}' the reference itself is {far:.1e} "
                "from what double precision gives"
            )
    return notes


def farther(a: Difference, b: Difference, judge: Judge) -> bool:
    """Is ``a`` worse than ``b``: does it fail alone, is it farther off, or as far in more elements?"""
    ranks = [(not judge.within(d), max(d.max_rel, d.group_rel), d.mismatches or 0) for d in (a, b)]
    return ranks[0] > ranks[1]


def _error(execute: Executor, arrays: Arrays, want: Arrays) -> float:
    return max((d.max_rel for d in compare_all(execute(arrays), want)), default=0.0)


def _executors(built: Built, notes: list[str]) -> tuple[dict[str, Executor], tuple[int, ...]]:
    """The compiled network on one thread and on all; the program in numpy where the code does not run here."""
    if built.compiler is None or not runs_here(built.options.device, built.compiler):
        notes.append(f"code for '{built.options.device.name}' does not run here: its program was run in numpy instead")
        step = next(s for s in built.stages.steps if s.stage.name == "schedule")
        return {"schedule": step.stage.executor(step.value, built.stages.context)}, ()
    threads = tuple(sorted({1, built.options.threads}))
    return {counted(t, "thread"): Network(built.folder, t).executor() for t in threads}, threads


def _there(built: Built, on: Remote, sets: list[Arrays]) -> tuple[dict[str, Executor], tuple[int, ...]]:
    """The network on its device, which runs all samples at once."""
    known = {id(arrays): ran.outputs for arrays, ran in zip(sets, on.run(sets))}
    alone = on.executor()

    def run(arrays: Mapping[str, np.ndarray]) -> Arrays:
        return known[id(arrays)] if id(arrays) in known else alone(arrays)

    return {on.link.name: run}, (built.options.threads,)


def _ready(built: Built, threads: tuple[int, ...]) -> Built:
    """The build to take kernels from: without compiled code where that does not run here."""
    return built if threads else replace(built, compiler=None)


def _without_emit(run: Run) -> Run:
    return Run(tuple(s for s in run.steps if s.stage.name != "emit"), run.context, run.graph, run.given)


def _with_emit(run: Run) -> Run:
    """The run with a step for its code, which was written before where the run has none."""
    if "emit" in run:
        return run
    return Run((*run.steps, Step(STAGES[-1], None, 0.0)), run.context, run.graph, run.given)

"""The Python interface: load a model, build it, check it, time it.

import edgec
net = edgec.build("mobilenet.onnx", threads=2)
scores = net(image)
"""

from __future__ import annotations

import shutil
import tempfile
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

import numpy as np
import onnx

from edgec import artefact, pipeline, tuning
from edgec.artefact import Network
from edgec.check.tuning_there import tune_there
from edgec.compress.prune import Pruning, stored
from edgec.compress.prune import prune as prune_graph
from edgec.emit.extras import chosen as choose_extras
from edgec.emit.picture import AS_IS, Preparation
from edgec.errors import UsageError
from edgec.export_onnx import runnable
from edgec.frontend import source as reader
from edgec.frontend.model import Model as OnnxModel
from edgec.frontend.source import Parsed, Source
from edgec.ir.graph import Graph
from edgec.ir.types import Type
from edgec.locking import lock_facts, locked
from edgec.options import Options, Settings, resolve
from edgec.pipeline import Context, Progress, Project, Run, silent
from edgec.report.facts import operator_counts
from edgec.schedule.program import Program
from edgec.schedule.ways import Ways
from edgec.tuning import Tuned, prices_for

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from edgec.check.latency import Benched
    from edgec.check.remote import Ran, Remote
    from edgec.check.score import Scored
    from edgec.check.verdict import Checked


@dataclass(frozen=True, eq=False)
class Model:
    """A model and the graph of core operators it means."""

    parsed: Parsed
    graph: Graph

    @property
    def name(self) -> str:
        return self.parsed.name

    @property
    def inputs(self) -> dict[str, Type]:
        """Types of the inputs by the name the model gives them."""
        return {n.attributes["name"]: n.type for n in self.graph.inputs}

    @property
    def outputs(self) -> dict[str, Type]:
        return {name: n.type for name, n in self.graph.outputs}

    @property
    def operators(self) -> dict[str, int]:
        """How often the model uses every operator."""
        return operator_counts(self.parsed)


#: What can be built: a file, its bytes, a parsed model, or one that was loaded.
Buildable = Union[Source, Model]


@dataclass(frozen=True, eq=False)
class Built:
    """A network as C in ``folder``, and as a function on numpy arrays.

    Call it with arrays in the order of the model's inputs, or by their names; it returns the output, or a dictionary of
    all of them by name. ``seconds`` are those of every stage and of the C compiler.
    """

    parsed: Parsed | None
    run: Run = field(repr=False)
    folder: Path
    seconds: Mapping[str, float]
    compiler: str | None = None
    replaced: bool = False

    @property
    def options(self) -> Options:
        return self.run.context.options

    @property
    def onnx(self) -> OnnxModel | None:
        """The model, where it is one in ONNX."""
        return self.parsed if isinstance(self.parsed, OnnxModel) else None

    @property
    def program(self) -> Program:
        project: Project = self.run["emit"]
        return project.program

    @property
    def graph(self) -> Graph:
        """The graph that was planned: simplified, and compressed where that was asked for."""
        graph: Graph = self.program.graph
        return graph

    @property
    def kernels(self) -> int:
        return len(self.program.kernels)

    @property
    def operators(self) -> int:
        """Operators of the model, or those of the saved graph that the build started from."""
        if self.parsed is None:
            return len(self.run.graph.operations())
        return sum(operator_counts(self.parsed).values())

    @property
    def arena_bytes(self) -> int:
        return self.program.arena_bytes

    @property
    def arena_lower_bound_bytes(self) -> int:
        return self.program.arena_lower_bound_bytes

    @property
    def weights_bytes(self) -> int:
        return self.program.weights_bytes

    @cached_property
    def network(self) -> Network:
        """The loaded artefact that calls run on; it has ``threads`` threads."""
        if self.compiler is None:
            raise UsageError("the artefact is not compiled", hint="build it with compile=True", where=str(self.folder))
        return Network(self.folder, self.options.threads)

    def write_onnx(self, path: str | Path) -> None:
        """The network that was planned as an ONNX model: pruned, with fewer channels where channels went.

        Raises UsageError for operators that have no ONNX form here.
        """
        onnx.save(runnable(self.run["compress"]), str(path))

    @property
    def masks(self) -> Mapping[str, np.ndarray]:
        """By layer, which weights stayed ([outputs, inputs, taps..] of truth); empty where nothing was pruned."""
        return self.run.context.pruned.masks if self.run.context.pruned is not None else {}

    def write_masks(self, path: str | Path) -> None:
        """Masks as an .npz file, for a training loop and for `masks`. Raises UsageError where there are none."""
        if not self.masks:
            raise UsageError("nothing was pruned, so there are no masks", hint="prune by a kind of zeros, no channels")
        stored.save(Path(path), self.masks)

    def __call__(self, *arrays: np.ndarray, **named: np.ndarray) -> Any:
        """Run once. Raises UsageError or ModelError for inputs that do not fit."""
        names = [p.onnx_name for p in self.network.inputs]
        if len(arrays) > len(names):
            raise UsageError(f"{len(arrays)} arrays are given, and the network has {len(names)} inputs")
        inputs = dict(zip(names, arrays))
        twice = sorted(set(inputs) & set(named))
        if twice:
            raise UsageError(f"input '{twice[0]}' is given twice")
        results = self.network.run({**inputs, **named})
        return next(iter(results.values())) if len(results) == 1 else results


def load(source: Source, **settings: Unpack[Settings]) -> Model:
    """Read a model: the path of an ONNX or TensorFlow Lite file, its bytes, or an ONNX ModelProto.

    Raises ModelError for a model that is broken or not supported, UsageError for shapes that are missing or do not fit.
    """
    options = resolve(settings)
    parsed = reader.read(source)
    return Model(parsed, pipeline.import_(parsed, Context(options)))


def build(
    model: Buildable,
    out: str | Path | None = None,
    *,
    compile: bool = True,
    beside: Sequence[str] = (),
    prepared: Preparation = AS_IS,
    save_stages: str | Path | None = None,
    start: str = "import",
    lock: str | Path | None = None,
    ways: Mapping[str, str] | None = None,
    tune: float = 0,
    progress: Progress = silent,
    **settings: Unpack[Settings],
) -> Built:
    """Compile a model to C in the folder ``out``; without one, in a temporary folder that goes with the result.

    ``compile=False`` leaves the sources uncompiled. ``beside`` names what is written beside them: bindings ("cpp",
    "python", "rust", "java") and apps (`edgec.emit.extras`), which prepare pictures as ``prepared`` says.
    ``save_stages`` keeps the text of every stage; such a text is the ``model`` when the build is to ``start`` at a
    later stage.

    ``lock`` is an earlier artefact (or its edgec.lock) whose choices are made again, whatever is known now; ``ways``
    says which way products go, by their keys (`edgec.schedule.ways`), and what was measured does not. ``tune`` measures
    what the planner asks for first, for so many seconds, and keeps the times in the profile database.

    Raises EdgecError (see `edgec.errors`); nothing is written then.
    """
    options = resolve(settings)
    if out is not None:
        artefact.refuse_foreign(Path(out))  # before the work, not after it
    is_compiled = options.device.hosted or "web" in beside
    compiler = artefact.compiler_for(options.device, options.compiler) if compile and is_compiled else None
    parsed = read(model) if start == "import" else None
    choose_extras(beside, options.device, options.name)
    context = Context(options, progress, lock_facts(options, parsed, start), beside=tuple(beside), prepared=prepared)
    if lock is not None:
        frozen = locked(Path(lock), context.facts)
        context.prices, context.ways = prices_for(options, frozen), Ways(frozen=frozen)
    elif ways is not None:
        context.ways = Ways(frozen=ways)
    elif tune > 0:
        tune_model(model, tune, start=start, progress=progress, **settings)
    source = parsed if parsed is not None else model
    save = Path(save_stages) if save_stages is not None else None
    run = pipeline.run(source, context, start, save=save)
    project: Project = run["emit"]
    folder = Path(out) if out is not None else Path(tempfile.mkdtemp(prefix="edgec-"))
    seconds = dict(run.seconds)

    def finish(fresh: Path) -> None:
        if compiler is None:
            return
        begun = time.perf_counter()
        progress("compile")
        artefact.compile_all(
            fresh, options.device, compiler, beside, lambda path, done, of: progress("compile", path.name, done / of)
        )
        seconds["compile"] = time.perf_counter() - begun

    try:
        replaced = artefact.publish(project.files, folder, finish)
    except BaseException:
        if out is None:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    built = Built(parsed, run, folder, seconds, str(compiler) if compiler else None, replaced)
    if out is None:
        weakref.finalize(built, shutil.rmtree, folder, True)
    return built


def tune(
    model: Buildable,
    budget: float = 60.0,
    *,
    start: str = "import",
    progress: Progress = silent,
    **settings: Unpack[Settings],
) -> Tuned:
    """Measure what planning a model (on a GPU: scheduling it) has choices about, for about ``budget`` seconds."""
    options = resolve(settings)
    if options.device.is_gpu and artefact.runs_here(options.device, options.compiler):
        return tune_there(model, budget, link="local", start=start, progress=progress, **settings)
    source = read(model) if start == "import" else model
    graph = pipeline.run(source, Context(options, progress), start, until="compress").result
    return tuning.tune(graph, options, budget, progress)


tune_model = tune


def masks(model: Buildable, **settings: Unpack[Settings]) -> dict[str, np.ndarray]:
    """Which weights a training loop should keep: arrays of truth [outputs, inputs, taps..] by the names of layers.

    ``prune`` and ``sparsity`` say how many of all weights go, ``calibrate`` and ``prune_by`` which; every layer is
    pruned, whether its kernel gains on this device or not, small ones less than large ones. Raises UsageError where
    there is nothing to prune.
    """
    options = resolve(settings)
    if options.prune is None:
        raise UsageError("zeros of no kind are asked for", hint='give prune="vector" and a sparsity')
    graph = pipeline.run(read(model), Context(options), until="simplify").result
    asked = Pruning(options.prune, options.sparsity, options.prune_by, options.calibrate)
    return dict(prune_graph(graph, asked, None).masks)


def read(model: Buildable) -> Parsed:
    """The parsed model behind whatever can be built."""
    return model.parsed if isinstance(model, Model) else reader.read(model)


def _built(model: Buildable | Built, progress: Progress, settings: Settings) -> Built:
    """What is to be checked or timed, built now where it is not yet."""
    if isinstance(model, Built):
        if settings:
            raise UsageError(f"'{next(iter(settings))}' cannot be changed after the build", hint="give it to build()")
        return model
    options = resolve(settings)
    runs = artefact.runs_here(options.device, options.compiler)
    return build(model, compile=runs, progress=progress, **settings)


def _written(model: Buildable | Built, progress: Progress, settings: Settings) -> Built:
    """The sources of what is to run elsewhere."""
    return (
        _built(model, progress, settings)
        if isinstance(model, Built)
        else build(model, compile=False, progress=progress, **settings)
    )


@contextmanager
def there(
    built: Built, link: str, keep: str | Path | None, timeout: float, progress: Progress, profile: bool = False
) -> Iterator[Remote]:
    """A network on its device; with ``profile`` it tells how long each kernel takes."""
    from edgec.check.remote import Remote
    from edgec.link import open_link

    with open_link(built.options.device, None if link == "device" else link) as way:
        folder = Path(keep) if keep is not None else None
        yield Remote(built, way, timeout=timeout, keep=folder, profile=profile, progress=progress)


def run_on_device(
    model: Buildable | Built,
    inputs: str | Path | Mapping[str, np.ndarray],
    *,
    link: str = "device",
    keep: str | Path | None = None,
    timeout: float = 600.0,
    progress: Progress = silent,
    **settings: Unpack[Settings],
) -> list[Ran]:
    """Run a network on its device: the outputs of every sample that ``inputs`` hold, and the nanoseconds it took."""
    from edgec.check.verdict import inputs_for

    built = _written(model, progress, settings)
    sets = inputs_for(built.run.graph, inputs, 1, 0)
    with there(built, link, keep, timeout, progress) as on:
        return on.run(sets)


def check(
    model: Buildable | Built,
    *,
    inputs: str | Path | Mapping[str, np.ndarray] | None = None,
    samples: int = 3,
    seed: int = 0,
    tolerance: float | None = None,
    locate: bool = False,
    blocks: bool = False,
    reproducer: str | Path | None = None,
    link: str | None = None,
    keep: str | Path | None = None,
    timeout: float = 600.0,
    progress: Progress = silent,
    **settings: Unpack[Settings],
) -> Checked:
    """Hold a network, built or to be built, against onnxruntime (a TensorFlow Lite model against its interpreter).

    Inputs are random, or those given; a network with states starts anew and takes the samples one after the other.
    Every output must be within ``tolerance`` of the reference, on one thread and on all: floats relative to the largest
    value, integers and truth values in the part of them that may differ, which is 0 if no tolerance is given.
    ``locate`` looks for the stage and the node where an error comes in, and writes the smallest model that shows it
    to the folder ``reproducer``. ``blocks`` runs every kernel alone too, beside the operators it was fused from.

    With a ``link`` ("device" for the one of the device's file; see `edgec.link`) the network runs on its device, each
    batch of samples for at most ``timeout`` seconds; what comes back is kept in the folder ``keep``, behind which the
    same call goes on when the device vanished.
    """
    from edgec.check import verdict  # here, because it knows everything the rest of this module does

    def judge(built: Built, on: Remote | None = None) -> Checked:
        return verdict.check(
            built, inputs=inputs, samples=samples, seed=seed, tolerance=tolerance,
            locate=locate, blocks=blocks, reproducer=reproducer, progress=progress, on=on,
        )  # fmt: skip

    if link is None:
        return judge(_built(model, progress, settings))
    with there(built := _written(model, progress, settings), link, keep, timeout, progress) as on:
        return judge(built, on)


def score(
    model: Buildable,
    data: str | Path,
    metric: str = "top1",
    *,
    metrics: Iterable[str | Path] = (),
    output: str | None = None,
    drop: float = 1.0,
    link: str | None = None,
    keep: str | Path | None = None,
    timeout: float = 600.0,
    progress: Progress = silent,
    **settings: Unpack[Settings],
) -> Scored:
    """A network on labelled data: its reference, compiled in floats and, where that is asked for, quantized.

    With a ``link`` it is built for its device and runs there, as `check` says, in batches of what ``data`` hold.

    ``data`` is an .npz file or a folder of them: inputs by name, one or several along a first dimension, and
    ``labels``; without labels, the decisions of the reference are taken for right. ``metric`` is one of
    `edgec.check.metrics`, or of the folders ``metrics``, of the ``output`` (the first one). It is ok when no compiled
    network is more than ``drop`` points below the reference.
    """
    from edgec.check.metrics import metrics as known_metrics
    from edgec.check.score import score as scored

    known = known_metrics(metrics)
    if link is not None:
        built = build(model, compile=False, progress=progress, **settings)
        with there(built, link, keep, timeout, progress) as on:
            return scored(built, None, Path(data), metric, known, output, drop, progress, on)
    quantize = settings.get("quantize", "float")
    narrow = build(model, progress=progress, **settings) if quantize != "float" else None
    plain: Settings = {**settings, "quantize": "float", "loss_budget": None}
    floats = build(model, progress=progress, **plain)
    return scored(floats, narrow, Path(data), metric, known, output, drop, progress)


def bench(
    model: Buildable | Built,
    *,
    vs: str | None = None,
    seconds: float = 2.0,
    rounds: int = 5,
    seed: int = 0,
    link: str | None = None,
    timeout: float = 600.0,
    progress: Progress = silent,
    **settings: Unpack[Settings],
) -> Benched:
    """Time a network, built or to be built; with ``vs`` (onnxruntime or litert) in turns with it, on equal inputs.

    With a ``link`` ("device" for the one of the device's file) it is timed on its device, by the device's own clock.
    """
    from edgec.check import latency

    if link is not None:
        if vs is not None:
            raise UsageError("a peer is timed on this machine only", hint="leave out --vs, or the link")
        built = _written(model, progress, settings)
        with there(built, link, None, timeout, progress, profile=True) as on:
            return latency.bench_there(built, on, seconds=seconds, seed=seed)
    built = _built(model, progress, settings)
    return latency.bench(built, vs=vs, seconds=seconds, rounds=rounds, seed=seed, progress=progress)

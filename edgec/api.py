"""The Python interface: load a model, build it, check it, time it.

import edgec
net = edgec.build("mobilenet.onnx", threads=2)
scores = net(image)
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

import numpy as np

from edgec import files, pipeline
from edgec.artifact.folder import read_lock
from edgec.artifact.language_model import LanguageModel
from edgec.artifact.names import LOCK, is_built
from edgec.artifact.network import Network
from edgec.artifact.trainer import Trainer
from edgec.bench import latency
from edgec.bench.answers import Ran
from edgec.bench.remote import Remote, connect
from edgec.bench.timing import Benched
from edgec.build import Buildable, Built, Model, read
from edgec.build import build as build_network
from edgec.check import network
from edgec.check.cache import added_error
from edgec.check.metrics import metrics as known_metrics
from edgec.check.network import Checked, inputs_for
from edgec.check.score import Scored
from edgec.check.score import score as scored
from edgec.compress.prune import Pruning
from edgec.compress.prune import prune as prune_graph
from edgec.device.compilers import runs_here
from edgec.emit.picture import AS_IS, Preparation, preparation
from edgec.errors import UsageError
from edgec.frontend import source as reader
from edgec.frontend.source import Source
from edgec.options import Settings, resolve
from edgec.options.keywords import takes_options
from edgec.pipeline.context import Context
from edgec.progress import Progress, silent
from edgec.pytorch.export import exported
from edgec.report.progress import shown
from edgec.reuse import remembered, reopened
from edgec.tune import local
from edgec.tune.local import Tuned
from edgec.tune.on_device import tune_on_device
from edgec.tune.search import TRIALS

if TYPE_CHECKING:
    from typing_extensions import Unpack

Given = ParamSpec("Given")
Found = TypeVar("Found")


def interface(function: Callable[Given, Found]) -> Callable[Given, Found]:
    """A function of the Python interface: its options have all their names, and long work shows a bar.

    The bar is drawn in a terminal or notebook, unless ``progress`` is given. Where memory ends it is a UsageError.
    """
    checked = files.system()(takes_options(function))
    if "progress" not in inspect.signature(function).parameters:
        return checked

    @functools.wraps(function)
    def run(*given: Given.args, **keywords: Given.kwargs) -> Found:
        if "progress" in keywords:
            return checked(*given, **keywords)
        with shown() as keywords["progress"]:
            return checked(*given, **keywords)

    return run


@overload
def load(source: str | Path, **settings: Unpack[Settings]) -> Any: ...
@overload
def load(source: Source, **settings: Unpack[Settings]) -> Model: ...
@interface
def load(source: Source, **settings: Unpack[Settings]) -> Model | LanguageModel | Network | Trainer:
    """Read a model: the path of an ONNX, TensorFlow Lite or GGUF file, its bytes, or an ONNX ModelProto.

    The folder of a build is opened instead: a `LanguageModel` where it holds one that knows texts, a `Trainer` where
    it has a training step, a `Network` otherwise; ``threads`` is the only setting then. Raises ModelError for a
    model that is broken or not supported, UsageError for shapes that are missing or do not fit.
    """
    if isinstance(source, (str, Path)) and os.path.isfile(Path(source) / LOCK):
        return _opened(Path(source), **settings)
    options = resolve(settings)
    parsed = reader.read(source)
    return Model(parsed, pipeline.import_(parsed, Context(options)))


def _opened(folder: Path, threads: int | None = 1, **settings: Any) -> LanguageModel | Network | Trainer:
    """A built folder at work."""
    if settings:
        raise UsageError(f"'{next(iter(settings))}' cannot be changed after the build", hint="give it to build()")
    threads, lock = threads or 1, read_lock(folder)
    if "training" in lock:
        return Trainer(folder, threads)
    facts = lock.get("language_model")
    has_tokens = isinstance(facts, dict) and facts.get("has_tokens")
    return LanguageModel(folder, threads) if has_tokens else Network(folder, threads)


@interface
def build(
    model: Buildable,
    out: str | Path | None = None,
    *,
    compile: bool = True,
    extras: Sequence[str] = (),
    bindings: Sequence[str] | str = (),
    app: Sequence[str] | str = (),
    abi: Sequence[str] | str = (),
    preprocessing: Preparation = AS_IS,
    normalize: str = "",
    labels: Sequence[str] = (),
    save_stages: str | Path | None = None,
    start: str = "import",
    lock: str | Path | None = None,
    variants: Mapping[str, str] | None = None,
    tune: float = 0,
    progress: Progress = silent,
    **settings: Unpack[Settings],
) -> Built:
    """A network compiled to C in the folder ``out``, and a function on arrays: ``scores = build("model.onnx")(image)``.

    Without ``out`` the folder is a temporary one that goes with the result; ``compile=False`` leaves the sources
    uncompiled. ``settings`` are the long options of the command line (``device``, ``quantize``...), which the guide
    lists. ``bindings``, ``app`` and ``abi`` are names, or texts with commas; ``extras`` holds the first two.
    ``normalize`` ("127/128") and ``labels`` make ``preprocessing`` of a picture for apps.

    ``save_stages`` is a folder for the text of every stage; such a text is the ``model`` when the build is to ``start``
    at a later stage. ``lock`` is an earlier artefact (or its edgec.lock) whose choices are made again; ``variants`` are
    those of matmuls by their keys. Where neither decides, ``tune`` seconds are spent on measuring what the planner has
    choices about; the times are kept in the profile database.

    Raises EdgecError (see `edgec.errors`); nothing is written then.
    """
    extras = (*extras, *_names(bindings), *_names(app))
    preprocessing = preparation(normalize, labels) if normalize or labels else preprocessing
    if tune > 0 and lock is None and variants is None:
        tune_model(model, tune, start=start, progress=progress, **settings)
    return build_network(
        model, out, compile=compile, extras=extras, abi=_names(abi), preprocessing=preprocessing,
        save_stages=save_stages, start=start, lock=lock, variants=variants, progress=progress, **settings,
    )  # fmt: skip


@interface
def from_torch(
    module: Any,
    example_inputs: Any = None,
    out: str | Path | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    compile: bool = True,
    bindings: Sequence[str] | str = (),
    app: Sequence[str] | str = (),
    progress: Progress = silent,
    **settings: Unpack[Settings],
) -> Built:
    """`build` of a torch.nn.Module with tensors of its inputs' shapes, or of a torch.export.ExportedProgram.

    The module is exported in evaluation mode by torch.export; ``kwargs`` are inputs by name, ``dynamic_shapes`` is
    passed on, and a dimension with a range there stays open. Needs PyTorch (pip install 'edgec[torch]'). Raises
    ModelError for what PyTorch cannot export and UsageError for a size without a largest value.
    """
    known = resolve(settings).dims
    progress("export", "PyTorch")
    proto, ranges = exported(
        module, example_inputs, kwargs=kwargs, dynamic_shapes=dynamic_shapes, bounded=tuple(known)
    )  # fmt: skip
    if ranges:
        settings["dims"] = {**ranges, **(settings.get("dims") or {})}
    return build(proto, out, compile=compile, bindings=bindings, app=app, progress=progress, **settings)


def _names(given: Sequence[str] | str) -> list[str]:
    return [n.strip() for n in given.split(",") if n.strip()] if isinstance(given, str) else list(given)


@interface
def tune(
    model: Buildable,
    seconds: float = 60.0,
    *,
    start: str = "import",
    seed: int = 0,
    trials: int = TRIALS,
    progress: Progress = silent,
    **settings: Unpack[Settings],
) -> Tuned:
    """Measure what planning a model (on a GPU: scheduling it) has choices about, for at most ``seconds``.

    On a CPU, a matmul has at most so many ``trials``, some of them drawn by ``seed``. Raises UsageError for a GPU with
    either, where all variants are tried.
    """
    if not 0 <= seconds < float("inf"):
        raise UsageError(f"{seconds} is no time", hint="give seconds, as in --seconds 60", where="--seconds")
    options = resolve(settings)
    if options.device.is_gpu and runs_here(options.device, options.compiler):
        if (seed, trials) != (0, TRIALS):
            hint = "leave out seed and trials"
            raise UsageError("variants on a GPU are all tried, none is drawn", hint=hint)
        return tune_on_device(model, seconds, link="local", start=start, progress=progress, **settings)
    source = read(model) if start == "import" else model
    graph = pipeline.run(source, Context(options, progress), start, until="compress").result.graph
    return local.tune(graph, options, seconds, progress, seed, trials)


tune_model = tune


@interface
def masks(model: Buildable, **settings: Unpack[Settings]) -> dict[str, np.ndarray]:
    """Weights that a training loop should keep: Boolean arrays [outputs, inputs, taps..] by the names of layers.

    ``prune`` and ``sparsity`` say how many of all weights go, ``calibrate`` and ``prune_by`` which; every layer is
    pruned, whether its kernel gains on this device or not, small ones less than large ones. Raises UsageError where
    there is nothing to prune.
    """
    options = resolve(settings)
    if options.prune is None:
        raise UsageError("zeros of no kind are asked for", hint='give prune="vector" and a sparsity')
    graph = pipeline.run(read(model), Context(options), until="simplify").result.graph
    asked = Pruning(options.prune, options.sparsity, options.prune_by, options.calibrate)
    return dict(prune_graph(graph, asked, None).masks)


def built_of(model: Buildable | Built, progress: Progress, settings: Settings) -> Built:
    """The build to be checked or timed: as it is, in its folder, from the compile cache, or built now."""
    if isinstance(model, Built):
        if settings:
            raise UsageError(f"'{next(iter(settings))}' cannot be changed after the build", hint="give it to build()")
        return model
    if is_built(model):
        return reopened(Path(str(model)), settings, None, progress)
    return remembered(model, progress, **settings)[0]


def _written(model: Buildable | Built, progress: Progress, settings: Settings) -> Built:
    """The sources of what is to run elsewhere."""
    return (
        built_of(model, progress, settings)
        if isinstance(model, Built) or is_built(model)
        else build(model, compile=False, progress=progress, **settings)
    )


@interface
def reopen(
    folder: str | Path, model: str | Path | None = None, *, progress: Progress = silent, **settings: Unpack[Settings]
) -> Built:
    """The build in a folder, to check, time or describe it again: nothing is built.

    ``model`` is the file that it was built from, where that is no longer in its place. Raises UsageError for a folder
    that edgec did not build, another model, and options that are not those of the build.
    """
    return reopened(Path(folder), settings, model, progress)


@interface
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

    built = _written(model, progress, settings)
    sets = inputs_for(built.stages.graph, inputs, 1, 0, built.options.way)
    with connect(built, link, keep, timeout, progress) as on:
        return on.run(sets)


@interface
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

    def judge(built: Built, on: Remote | None = None) -> Checked:
        return network.check(
            built, inputs=inputs, samples=samples, seed=seed, tolerance=tolerance,
            locate=locate, blocks=blocks, reproducer=reproducer, progress=progress, on=on,
        )  # fmt: skip

    if link is None:
        built = built_of(model, progress, settings)
        return replace(judge(built), cache=added_error(built, seed, progress))
    with connect(built := _written(model, progress, settings), link, keep, timeout, progress) as on:
        return judge(built, on)


@interface
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

    known = known_metrics(metrics)
    if link is not None:
        built = build(model, compile=False, progress=progress, **settings)
        with connect(built, link, keep, timeout, progress) as on:
            return scored(built, None, Path(data), metric, known, output, drop, progress, on)
    quantize = settings.get("quantize", "float")
    narrow = build(model, progress=progress, **settings) if quantize != "float" else None
    plain: Settings = {**settings, "quantize": "float", "max_loss": None}
    floats = build(model, progress=progress, **plain)
    return scored(floats, narrow, Path(data), metric, known, output, drop, progress)


@interface
def bench(
    model: Buildable | Built,
    *,
    vs: str | None = None,
    inputs: str | Path | Mapping[str, np.ndarray] | None = None,
    seconds: float = 2.0,
    rounds: int = 5,
    seed: int = 0,
    link: str | None = None,
    timeout: float = 600.0,
    progress: Progress = silent,
    **settings: Unpack[Settings],
) -> Benched:
    """Time a network, built or to be built; with ``vs`` (onnxruntime or litert) in turns with it, on equal inputs.

    Inputs are random, or the first sample of ``inputs`` (as `check` takes them).
    With a ``link`` ("device" for the one of the device's file) it is timed on its device, by the device's own clock.
    """

    if link is not None:
        if vs is not None:
            raise UsageError("a peer is timed on this machine only", hint="leave out --vs, or the link")
        built = _written(model, progress, settings)
        arrays = inputs_for(built.stages.graph, inputs, 1, seed, built.options.way)[0] if inputs is not None else None
        with connect(built, link, None, timeout, progress, profile=True) as on:
            return latency.bench_on_device(built, on, seconds=seconds, seed=seed, inputs=arrays)
    built = built_of(model, progress, settings)
    return latency.bench(built, inputs=inputs, vs=vs, seconds=seconds, rounds=rounds, seed=seed, progress=progress)

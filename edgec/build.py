"""Building: from a model to a compiled artifact in a folder."""

from __future__ import annotations

import shutil
import tempfile
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from edgec import files, pipeline
from edgec.artifact.compile import compile_all
from edgec.artifact.folder import publish, read_lock, refuse_foreign
from edgec.artifact.lock import lock_facts, lock_of, locked
from edgec.artifact.names import LOCK
from edgec.artifact.network import Network
from edgec.artifact.origin import write_origin
from edgec.compress.prune import stored
from edgec.device.compilers import compiler_for
from edgec.emit.abi import names_of as names_of_abis
from edgec.emit.extras import chosen as choose_extras
from edgec.emit.picture import AS_IS, Preparation, by_way
from edgec.emit.project import Project
from edgec.errors import UsageError
from edgec.frontend import source as reader
from edgec.frontend.onnx.export import runnable
from edgec.frontend.onnx.model import Model as OnnxModel
from edgec.frontend.source import Parsed, Source
from edgec.frontend.tflite.model import TfliteModel
from edgec.ir.graph import Graph
from edgec.ir.sizes import dimensions, named
from edgec.ir.types import Type
from edgec.options import Options, Settings, resolve
from edgec.pipeline.abis import files_of_abis
from edgec.pipeline.collector import rare_collections
from edgec.pipeline.context import Context
from edgec.pipeline.parts import divided, files_of_parts
from edgec.pipeline.preprocessing import with_preprocessing
from edgec.pipeline.run import Run
from edgec.pipeline.training import trained_run
from edgec.progress import Progress, silent
from edgec.report.facts import operator_counts
from edgec.schedule.program import Program
from edgec.schedule.variants import Variants
from edgec.tune.affinity import with_lock, with_sweep
from edgec.tune.known import prices_for

if TYPE_CHECKING:
    from typing_extensions import Unpack


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
        """Number of uses of every operator in the model."""
        return operator_counts(self.parsed)


#: What can be built: a file, its bytes, a parsed model, or one that was loaded.
Buildable = Union[Source, Parsed, Model]


@dataclass(frozen=True, eq=False)
class Built:
    """A network as C in ``folder``, and as a function on numpy arrays.

    Call it with arrays in the order of the model's inputs, or by their names; it returns the output, or a dictionary of
    all of them by name. `run` takes and gives a dictionary. ``stages`` holds the results of the pipeline's stages,
    ``seconds`` the time of each and of the C compiler.
    """

    parsed: Parsed | None
    stages: Run = field(repr=False)
    folder: Path
    seconds: Mapping[str, float]
    compiler: str | None = None
    replaced: bool = False

    @property
    def options(self) -> Options:
        return self.stages.options

    @property
    def onnx(self) -> OnnxModel | None:
        """The model, where it is one in ONNX."""
        return self.parsed if isinstance(self.parsed, OnnxModel) else None

    @property
    def peer(self) -> str:
        """The runtime that `edgec bench --vs` compares the model with."""
        return "litert" if isinstance(self.parsed, TfliteModel) else "onnxruntime"

    @property
    def program(self) -> Program:
        found: Program = self.stages["emit"].program if "emit" in self.stages else self.stages["schedule"]
        return found

    @property
    def files(self) -> dict[str, int]:
        """Bytes of every file of the artefact by its path."""
        if "emit" in self.stages:
            made = self.stages["emit"].files
            return {path: files.size_of(made, path) for path in made}
        return {name: (self.folder / name).stat().st_size for name in (*read_lock(self.folder)["files"], LOCK)}

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
            return len(self.stages.graph.operations())
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
        if self.compiler is None and not self.options.device.is_compiled_here:
            compiler_for(self.options.device, None)  # says why there is none
        if self.compiler is None:
            raise UsageError("the artefact is not compiled", hint="build it with compile=True", where=str(self.folder))
        return Network(self.folder, self.options.threads)

    def write_onnx(self, path: str | Path) -> None:
        """The network that was planned as an ONNX model: pruned, with fewer channels where channels went.

        Raises UsageError for operators that have no ONNX form here, and where the build started behind that network.
        """
        if "compress" not in self.stages:
            raise UsageError("no network was read, but a plan of it", hint="start at fuse or before")
        files.replace(path, runnable(self.stages["compress"].graph).SerializeToString())

    @property
    def masks(self) -> Mapping[str, np.ndarray]:
        """By layer, which weights stayed ([outputs, inputs, taps..] of truth); empty where nothing was pruned."""
        found = self.stages.compressed
        return found.pruned.masks if found is not None and found.pruned is not None else {}

    def write_masks(self, path: str | Path) -> None:
        """Masks as an .npz file, for a training loop and for `masks`. Raises UsageError where there are none."""
        if not self.masks:
            raise UsageError("nothing was pruned, so there are no masks", hint="prune by a kind of zeros, no channels")
        stored.save(Path(path), self.masks)

    def __call__(self, *arrays: np.ndarray, **named: np.ndarray) -> Any:
        """Run once, as `Network` does. Raises UsageError or ModelError for inputs that do not fit."""
        return self.network(*arrays, **named)

    def run(self, inputs: Mapping[str, np.ndarray], into: Mapping[str, np.ndarray] = {}) -> dict[str, np.ndarray]:
        """Run once on inputs by name: `Network.run`."""
        return self.network.run(inputs, into)

    def bounds(
        self, inputs: np.ndarray | Mapping[str, np.ndarray], eps: float
    ) -> tuple[np.ndarray, np.ndarray] | dict[str, tuple[np.ndarray, np.ndarray]]:
        """(lower, upper) of the output for every input near the given ones: `Network.bounds`."""
        return self.network.bounds(inputs, eps)

    def __str__(self) -> str:
        """The folder, and a line for every input and output with its type."""
        chosen = dimensions(n.type for n in self.graph.inputs).values()
        ports = [("in", str(n.attributes["name"]), n.type) for n in self.graph.inputs]
        ports += [("out", name, n.type) for name, n in self.graph.outputs]
        rows = [(kind, name, f"{t.dtype}[{','.join(map(str, named(t, chosen)))}]") for kind, name, t in ports]
        return "\n".join([f"network in {self.folder}", *(f"  {kind:3} {name}  {type}" for kind, name, type in rows)])

    __repr__ = __str__


@files.system()
@rare_collections()
def build(
    model: Buildable,
    out: str | Path | None = None,
    *,
    compile: bool = True,
    extras: Sequence[str] = (),
    abi: Sequence[str] = (),
    preprocessing: Preparation = AS_IS,
    save_stages: str | Path | None = None,
    start: str = "import",
    lock: str | Path | None = None,
    variants: Mapping[str, str] | None = None,
    progress: Progress = silent,
    **settings: Unpack[Settings],
) -> Built:
    """Compile a model to C in the folder ``out``; without one, in a temporary folder that goes with the result.

    ``compile=False`` leaves the sources uncompiled. ``extras`` are written next to them: bindings ("cpp", "python",
    "rust", "java") and apps (`edgec.emit.apps`), which apply ``preprocessing`` to images; ``abi`` are the ABIs of an
    Android library beside the device's.
    ``save_stages`` keeps the text of every stage; such a text is the ``model`` when the build is to ``start`` at a
    later stage.

    ``lock`` is an earlier artefact (or its edgec.lock) whose choices are made again, whatever is known now;
    ``variants`` are those of matmuls by their keys (`edgec.schedule.variants`), in place of measured ones.

    Raises EdgecError (see `edgec.errors`); nothing is written then.
    """
    options = resolve(settings)
    if out is not None:
        refuse_foreign(Path(out))  # before the work, not after it
    choose_extras(extras, options.device, options.name)
    abis = names_of_abis(abi, options.device, extras)
    is_compiled = options.device.is_compiled_here and (options.device.hosted or "web" in extras)
    compiler = compiler_for(options.device, options.compiler) if compile and is_compiled else None
    parsed = read(model) if start == "import" else None
    if parsed is None and options.pre is not None:
        hint = "leave out --pre: a stage that was saved with it has it"
        raise UsageError("preprocessing is put in front of a model, not of a saved stage", hint=hint, where="--pre")
    origin = parsed.path if parsed is not None else None
    if parsed is not None:
        parsed, options = with_preprocessing(parsed, options)
    options = with_lock(options, settings, lock_of(lock)) if lock is not None else with_sweep(options, settings, parsed)
    (parsed, options), *rest = divided(parsed, options, extras)
    if rest and save_stages is not None:
        raise UsageError("the parts of a model are built in one go", hint="build without --save-stages")
    facts = lock_facts(options, parsed, start)
    frozen = locked(Path(lock), facts) if lock is not None else variants
    context = Context(
        options,
        progress,
        facts,
        extras=tuple(extras),
        abis=files_of_abis(abis, parsed, options, lock_facts, progress),
        preprocessing=by_way(preprocessing, options.way) if extras else preprocessing,
        prices=prices_for(options, frozen) if lock is not None else None,
        variants=Variants(frozen=frozen) if frozen is not None else None,
    )
    source = parsed if parsed is not None else model
    save = Path(save_stages) if save_stages is not None else None
    if options.training is not None:
        if parsed is None or start != "import" or save is not None:
            hint = "build without --from and --save-stages"
            raise UsageError("a training step is made from a model, in one go", hint=hint)
        parsed, run = trained_run(parsed, context)
    else:
        run = pipeline.run(source, context, start, save=save)
    others = files_of_parts(rest, extras, preprocessing, lock_facts, progress)
    built = _written(run, parsed, None if out is None else Path(out), compiler, extras, progress, others)
    if out is not None and origin is not None and (built.onnx is None or built.onnx.part is None):
        write_origin(built.folder, origin, settings)
    return built


def rebuilt(built: Built, progress: Progress = silent, **changes: Any) -> Built:
    """The model of a build again, in a temporary folder, with some of its options changed."""
    options = replace(built.options, **changes)
    compiler = compiler_for(options.device, options.compiler) if built.compiler is not None else None
    run = pipeline.run(built.parsed, Context(options, progress, lock_facts(options, built.parsed, "import")), "import")
    return _written(run, built.parsed, None, compiler, (), progress)


def _written(
    run: Run,
    parsed: Parsed | None,
    out: Path | None,
    compiler: Any,
    extras: Sequence[str],
    progress: Progress,
    others: Mapping[str, bytes] = {},
) -> Built:
    """The files of a run in the folder ``out``, or in a temporary one, and compiled if there is a compiler.

    ``others`` are more files, by path.
    """
    project: Project = run["emit"]
    folder = out if out is not None else Path(tempfile.mkdtemp(prefix="edgec-"))
    seconds = dict(run.seconds)

    def finish(fresh: Path) -> None:
        if compiler is None:
            return
        begun = time.perf_counter()
        progress("compile")
        compile_all(
            fresh,
            run.options.device,
            compiler,
            extras,
            lambda path, done, of: progress("compile", path.name, done / of),
        )
        seconds["compile"] = time.perf_counter() - begun

    try:
        replaced = publish(files.with_others(project.files, others), folder, finish)
    except BaseException:
        if out is None:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    built = Built(parsed, run, folder, seconds, str(compiler) if compiler else None, replaced)
    if out is None:
        weakref.finalize(built, shutil.rmtree, folder, True)
    return built


def read(model: Buildable) -> Parsed:
    """The parsed model behind whatever can be built."""
    return model.parsed if isinstance(model, Model) else reader.read(model)

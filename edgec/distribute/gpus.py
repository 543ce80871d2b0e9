"""Building for several GPUs of one machine: equal programs on weights of their own, and one folder around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgec import files, pipeline
from edgec.artifact.compile import compile_all
from edgec.artifact.folder import publish, refuse_foreign
from edgec.artifact.lock import lock_facts
from edgec.artifact.origin import write_origin
from edgec.build import Buildable, read
from edgec.compress import Compressed
from edgec.device.compilers import compiler_for
from edgec.device.device import Device
from edgec.distribute.chunks import CHUNKS, chunk_of, overlapped
from edgec.distribute.offers import Offers
from edgec.distribute.pieces import SPLITS
from edgec.distribute.places import speed_of
from edgec.distribute.ranked import Ranked
from edgec.distribute.sweep import Exchange
from edgec.emit.collectives import is_exchange
from edgec.emit.project import Project
from edgec.errors import DeviceError, UsageError
from edgec.fuse.cost_model import CostModel, gpu_launch_s
from edgec.ir.graph import Graph
from edgec.options import Options, Settings, resolve
from edgec.pipeline.context import Context
from edgec.pipeline.preprocessing import with_preprocessing
from edgec.pipeline.stages import emit
from edgec.progress import Progress, silent
from edgec.schedule.procedure import ProcedureCall
from edgec.schedule.program import Program, Ranks
from edgec.text import counted, one_of, printable

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: GPUs of one machine, at most.
MOST_GPUS = 8
#: The part of the price of exchanges that counts where a division is forced that does not pay.
CHEAP = 0.01
#: Seconds between kernels of a CUDA graph, in place of those of a launch, and the part of its clock that a GPU keeps at
#: work: of H200.
IN_A_GRAPH_S, AT_WORK = 2.5e-6, 0.89
#: Times that several GPUs must be faster than one: predictions are no better than that.
WORTH = 1.05


@dataclass(frozen=True)
class BuiltGpus:
    """A network for ``gpus`` GPUs in ``folder``, the predicted seconds of a run, and the verdict in words.

    ``alone_s`` are those on one GPU. ``program`` is that of the first GPU, ``sums`` and ``gathers`` are the values that
    cross in a run.
    """

    folder: Path
    program: Program
    gpus: int
    verdict: str
    seconds: float
    alone_s: float
    sums: int
    gathers: int
    chunks: int = 1

    @property
    def kernels(self) -> int:
        """Kernels of a GPU for a part of the batch, without the exchanges between them."""
        return sum(not is_exchange(k) for k in self.program.kernels)


@files.system()
def build_gpus(
    model: Buildable,
    out: str | Path,
    *,
    gpus: int,
    split: str = "auto",
    force: bool = False,
    link_speed: str | None = None,
    overlap: bool = True,
    compile: bool = True,
    progress: Progress = silent,
    **settings: Unpack[Settings],
) -> BuiltGpus:
    """Divide a model between so many GPUs of one machine, and build it into the folder ``out``.

    ``split`` is tensor (each GPU has its part of the weights), rows (each has all weights, and a part of the rows of
    every value) or auto (what is predicted to be faster, value by value). One GPU is taken where several are not
    predicted to be faster, unless ``force``. ``link_speed`` ("2400G/0.01": bits a second, milliseconds) stands for the
    figures of the device file. With ``overlap``, two parts of a batch are computed in turns where that is predicted to
    be faster: values of one cross while kernels of the other run.

    Raises EdgecError (see `edgec.errors`); nothing is written then.
    """
    folder, options = Path(out), resolve(settings)
    _refuse(options, gpus, split)
    exchange = exchange_of(options.device, gpus, link_speed)
    refuse_foreign(folder)
    compiler = compiler_for(options.device, options.compiler) if compile else None
    parsed, options = with_preprocessing(read(model), options)
    facts = lock_facts(options, parsed, "import")
    context = Context(options, progress, facts)
    compressed: Compressed = pipeline.run(parsed, context, until="compress").result
    _refuse_open(compressed.graph)
    whole = _program(compressed.graph, context)
    alone_s = predicted(whole, options.device)
    progress("divide", counted(gpus, "GPU"))
    graph = compressed.graph
    offers = [(Offers.of(graph, options, gpus, alone_s, split), frozenset[str]())]
    if overlap and (part := chunk_of(graph, options, alone_s)) is not None:
        part_s = predicted(_program(part[0], context), options.device)
        offers.append((Offers.of(part[0], options, gpus, part_s, split), part[1]))
    way = _cheapest(offers, exchange, exchange, context)
    pays = alone_s >= WORTH * way.seconds
    if force and not pays:  # as much as can be, whatever crosses
        way = _cheapest(offers, exchange.times(CHEAP), exchange, context)
    verdict = _told(way, alone_s, gpus)
    taken = pays or force
    program = whole
    if taken:
        others = tuple(way.programs[1:])
        program = replace(way.programs[0], ranks=Ranks(others, graph, way.found.slices, way.chunks, way.chunked))
    project: Project = emit(program, context)

    def finish(fresh: Path) -> None:
        if compiler is not None:
            progress("compile")
            compile_all(fresh, options.device, compiler, (), lambda path, k, n: progress("compile", path.name, k / n))

    publish(project.files, folder, finish)
    if parsed.path is not None:
        write_origin(folder, parsed.path, settings)
    return BuiltGpus(
        folder, program, gpus if taken else 1, verdict, way.seconds if taken else alone_s, alone_s,
        way.found.sums, way.found.gathers, way.chunks if taken else 1,
    )  # fmt: skip


def _refuse(options: Options, gpus: int, split: str) -> None:
    """Raises UsageError for what is not divided between GPUs."""
    if gpus < 2 or gpus > MOST_GPUS:
        hint = f"give 2 to {MOST_GPUS}; leave it out for one"
        raise UsageError(f"{gpus} GPUs do not share a network", hint=hint, where="--gpus")
    if options.device.language != "cuda":
        hint = "give --device cuda_sm90, or divide it between processors: --over host@local --over host@local"
        raise UsageError(f"'{options.device.name}' is no NVIDIA GPU", hint=hint, where="--gpus")
    if split not in SPLITS:
        hint = f"{one_of(split, SPLITS)}; of processors, --over knows pipeline too"
        raise UsageError(f"GPUs do not divide a network by '{split}'", hint=hint, where="--split")
    others = {
        "--place": options.gpu is not None, "--loss": options.training is not None, "--dispatch": bool(options.levels),
        "--precision mixed:ERROR": options.error > 0, f"--weights {options.weights}": options.weights != "incbin",
        "--bounds": options.bounds,
    }  # fmt: skip
    for name, given in others.items():
        if given:
            raise UsageError("is for a network on one device", hint="leave it out, or --gpus", where=name)


def _refuse_open(graph: Graph) -> None:
    """Raises UsageError for sizes or states that a run decides about."""
    named = [*((str(n.attributes["name"]), n) for n in graph.inputs), *graph.outputs]
    opened = [printable(name) for name, n in named if not n.type.is_fixed]
    if opened or graph.sizes:
        what = f"dimensions of {', '.join(opened)} are open" if opened else "the model computes sizes while it runs"
        hint = "fix them with --shape or --dim, or build it for one GPU"
        raise UsageError(f"{what}, and several GPUs need fixed ones", hint=hint, where="--gpus")
    inputs = set(graph.inputs)
    if any(n in inputs or n.is_const for _, n in graph.outputs):
        raise UsageError("an output is an input or a constant", hint="build it for one GPU", where="--gpus")


def exchange_of(device: Device, gpus: int, link_speed: str | None) -> Exchange:
    """The seconds of exchanges between GPUs. Raises UsageError where the device file does not say them."""
    if link_speed is not None:
        speed = speed_of(link_speed)
        return Exchange(gpus, speed.latency_s, speed.bytes_per_s)
    if not device.gpu.link_gbps or not device.gpu.link_us:
        hint = "give --link-speed 200G/0.02, or link_gbps and link_us in the table [gpu] of its file"
        raise UsageError(f"the links between GPUs of '{device.name}' are not known", hint=hint, where="--gpus")
    return Exchange(gpus, device.gpu.link_us * 1e-6, device.gpu.link_gbps * 1e9)


@dataclass(frozen=True)
class _Way:
    """A division of a network, or of one of ``chunks`` parts of its batch, and the predicted seconds of a run.

    ``chunked`` are the inputs and outputs of which a part of the batch has its own.
    """

    found: Ranked
    programs: list[Program]
    seconds: float
    chunks: int
    chunked: frozenset[str]


def _cheapest(
    offered: Sequence[tuple[Offers, frozenset[str]]], price: Exchange, exchange: Exchange, context: Context
) -> _Way:
    """The fastest of the divisions that exchanges of a ``price`` make of a network, and of parts of its batch.

    Raises UsageError where the network cannot be divided.
    """
    ways: list[_Way] = []
    for offers, chunked in offered:
        try:
            found = offers.division(price)
        except UsageError:
            if not ways:
                raise
            continue
        if chunked and (found.slices or not found.sums + found.gathers):
            continue  # parts of GPUs would not be those of the batch, or nothing crosses
        programs = [_program(graph, context) for graph in found.graphs]
        chunks = CHUNKS if chunked else 1
        seconds = overlapped(_steps(programs[0], context.options.device, exchange), chunks)
        ways.append(_Way(found, programs, seconds, chunks, chunked))
    return min(ways, key=lambda way: way.seconds)


def _program(graph: Graph, context: Context) -> Program:
    own: Program = pipeline.run(graph, context, "fuse", "schedule").result
    if own.states or own.single is not None:
        raise DeviceError("states are not divided between GPUs", hint="build it for one GPU", where="--gpus")
    return own


def predicted(program: Program, device: Device, exchange: Exchange | None = None) -> float:
    """Seconds of a run as a CUDA graph, by the models that schedules are chosen with."""
    return sum(kernels_s + exchange_s for kernels_s, exchange_s in _steps(program, device, exchange))


def _steps(program: Program, device: Device, exchange: Exchange | None) -> list[tuple[float, float]]:
    """Seconds of the kernels before each exchange and of the exchange, and of those behind the last one."""
    model = CostModel(device)
    found, kernels_s = list[tuple[float, float]](), 0.0
    for k in program.kernels:
        if exchange is not None and is_exchange(k):
            assert isinstance(k.schedule, ProcedureCall)
            is_sum = k.schedule.node.attributes["kind"] == "sum"
            moved = k.schedule.store.bytes
            found.append((kernels_s, exchange.summed(moved) if is_sum else exchange.gathered(moved)))
            kernels_s = 0.0
            continue
        own = k.schedule.predicted_seconds(device)
        seconds = own if own is not None else sum(model(s.block) for s in k.steps if s.block is not None)
        kernels_s += IN_A_GRAPH_S + max(0.0, seconds - gpu_launch_s(device)) / AT_WORK
    return [*found, (kernels_s, 0.0)]


def _told(way: _Way, alone_s: float, gpus: int) -> str:
    """The prediction in words, beside that of one GPU."""
    crossing = [counted(way.found.sums, "sum"), counted(way.found.gathers, "gather")]
    parts = f" of each of {way.chunks} parts of the batch" if way.chunks > 1 else ""
    said = f"{way.seconds * 1e3:.3g} ms a run on {gpus} GPUs ({' and '.join(crossing)}{parts})"
    ratio = alone_s / way.seconds
    return f"{said}, {alone_s * 1e3:.3g} ms on one: {ratio:.2f}x {'faster' if ratio >= WORTH else 'does not pay'}"

"""Building for several devices: from a model to a folder of built parts and their manifest."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from edgec import files, pipeline
from edgec.artifact.names import MANIFEST, is_divided
from edgec.artifact.origin import write_origin
from edgec.artifact.publish import hidden, put, turn
from edgec.build import Buildable, Built, build, read
from edgec.device.compilers import compiler_for, runs_here
from edgec.distribute.choose import Choice, Tried, Wanted, choose, priced
from edgec.distribute.emitted import divided_files, refusal
from edgec.distribute.kept import kept
from edgec.distribute.links import Handled, Links, links_of
from edgec.distribute.manifest import Manifest, PartEntry, Tensor, WorkerEntry, read_manifest
from edgec.distribute.parts import Division, Part
from edgec.distribute.places import Place, Speed, places_of, speed_of
from edgec.distribute.prices import Prices, own
from edgec.distribute.probe import probe_place
from edgec.distribute.timed import time_workers
from edgec.distribute.timeline import Seconds
from edgec.errors import ToolchainError, UsageError
from edgec.ir.graph import Graph
from edgec.options import Options, Settings, resolve
from edgec.options.dispatch import require_one
from edgec.options.resolved import bytes_of
from edgec.pipeline.context import Context
from edgec.progress import Progress, silent

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class BuiltParts:
    """A divided network in ``folder``: its manifest, and what was tried.

    ``without_c`` is the reason why there is no host and no worker in C beside the parts; empty where there is.
    """

    folder: Path
    manifest: Manifest
    choice: Choice
    without_c: str = ""


@files.system()
def build_over(
    model: Buildable,
    out: str | Path,
    *,
    over: Sequence[str],
    split: str = "auto",
    goal: str = "throughput",
    force: bool = False,
    link_speed: str | None = None,
    shard: Sequence[str] = (),
    memory: int | str | None = None,
    overlap: bool = True,
    compile: bool = True,
    progress: Progress = silent,
    **settings: Unpack[Settings],
) -> BuiltParts:
    """Divide a model between devices, and build a part for each in the folder ``out``.

    ``over`` names the workers as DEVICE@LINK; ``split`` is auto, pipeline, rows or tensor, ``goal`` throughput
    or latency.
    Fewer devices are taken where more are not predicted to be faster, also by the measured times of their parts, unless
    ``force``. ``link_speed`` ("100M/0.5":
    bits a second, milliseconds) stands for measuring the links. ``shard`` names dimensions that tensor parallelism is
    to divide (NODE=DIM), and ``memory`` ("64M") is the most that a worker keeps: weights and arenas of its parts.
    With ``overlap``, where the goal is latency, values cross in panels that are sent while others are computed, where
    that is faster.

    Raises EdgecError (see `edgec.errors`); nothing is written then.
    """
    most = None if memory is None else bytes_of(memory, "--memory")
    folder, wanted = Path(out), Wanted(split, goal, force, tuple(shard), most, overlap)
    _refuse_foreign(folder)
    places = places_of(over)
    if not places:
        raise UsageError("no devices", hint="give --over host@local, once for each worker", where="--over")
    given = {**cast(dict[str, object], settings)}
    options = _of_workers(given, places, compile)
    parsed = read(model)
    speeds, here = _speeds(places, link_speed, options, progress)
    links = links_of(places, speeds, here, _cores() / options[0].threads)
    for name in ("pre", "states"):  # the graph has them from here on
        given.pop(name, None)
    graph: Graph = pipeline.run(parsed, Context(options[0], progress), until="compress").result.graph
    prices = Prices(options, (1.0,) * len(places))
    plan = prices.planned(graph, 0)
    runs = [compile and p.is_here and _is_compiled(o) for p, o in zip(places, options)]
    if all(runs):
        prices = replace(prices, scales=_measured_scales(graph, prices, given, progress))
    progress("divide")
    choice = choose(graph, plan, prices, links, wanted)
    folder.absolute().parent.mkdir(parents=True, exist_ok=True)
    with files.writing(folder), hidden(folder.absolute().parent) as fresh:
        fresh.chmod(0o777 & ~files.umask())
        times = all(runs)

        def made(choice: Choice, name: str) -> _Tried:
            """The parts of a choice, built in a folder of their own, and timed where they run here."""
            parts = choice.division.parts
            found = [
                _part(part, fresh / name / f"part{k}", k, options[part.worker], given, compile, progress)
                for k, part in enumerate(parts)
            ]
            seconds = time_parts(parts, found) if times else None
            return _Tried(choice, found, seconds, priced(choice.division, links, seconds))

        tried = made(choice, "first")
        if times and choice.plain is not None:
            plain = made(choice.without_panels, "plain")
            tried = min(tried, plain, key=lambda t: t.priced.seconds(goal))
        choice = tried.choice.beside(tried.priced, goal)
        if choice is not tried.choice:
            tried = made(choice, "one")
        built, seconds = _moved(tried.built, fresh), tried.seconds
        manifest = _manifest(options[0].name, choice, wanted, places, speeds, links, built, seconds)
        (fresh / MANIFEST).write_text(manifest.written(), encoding="utf-8")
        without_c = refusal(fresh, manifest)
        if not without_c:
            for path, content in divided_files(fresh, manifest, options[0].templates).items():
                (fresh / path).write_bytes(content)
        with turn(folder):
            _refuse_foreign(folder)
            put(fresh, folder)
    if parsed.path is not None:
        write_origin(folder, parsed.path, settings)
    return BuiltParts(folder, read_manifest(folder), choice, without_c)


@dataclass(frozen=True)
class _Tried:
    """A choice that was built: its parts, their seconds where they were timed, and the prediction with these."""

    choice: Choice
    built: list[Built]
    seconds: list[Seconds] | None
    priced: Tried


def _moved(built: Sequence[Built], folder: Path) -> list[Built]:
    """Parts that were built, moved to a folder in which others were tried, which go."""
    found = [replace(b, folder=b.folder.rename(folder / b.folder.name)) for b in built]
    for name in ("first", "plain", "one"):
        shutil.rmtree(folder / name, ignore_errors=True)
    return found


def _of_workers(given: dict[str, object], places: Sequence[Place], compile: bool) -> tuple[Options, ...]:
    """The options of all workers. A compiler that is named is for those whose language it takes, at least one.

    Raises ToolchainError where it takes none.
    """
    found = [_resolved(given, p.device) for p in places]
    named = found[0].compiler
    if not compile or named is None or len({o.device.language for o in found}) == 1:
        return tuple(found)
    wrong: list[ToolchainError] = []
    for k, o in enumerate(found):
        try:
            compiler_for(o.device, named)
        except ToolchainError as error:
            found[k] = replace(o, compiler=None)
            wrong.append(error)
    if len(wrong) == len(found):
        raise wrong[0]
    return tuple(found)


def _resolved(given: dict[str, object], device: str) -> Options:
    options = resolve(cast(Settings, {**given, "device": device}))
    if options.gpu is not None or options.training is not None or options.bounds:
        hint = "leave them out, or --over"
        raise UsageError("--place, --loss and --bounds are for one device", hint=hint, where="--over")
    require_one(options.levels, "parts are built")
    if not options.device.hosted:
        hint = "edgec device list shows those that have one"
        raise UsageError(f"'{device}' has no operating system, and so no sockets", hint=hint, where="--over")
    return options


def _is_compiled(options: Options) -> bool:
    compiler = compiler_for(options.device, options.compiler)
    return runs_here(options.device, str(compiler) if compiler else None)


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _speeds(
    places: Sequence[Place], given: str | None, options: Sequence[Options], progress: Progress
) -> tuple[tuple[Speed, ...], Handled | None]:
    """The speed of every link: as it was given, kept, or measured once for each; and of messages here, likewise."""
    if given is not None:
        return (speed_of(given),) * len(places), None
    found: dict[str, Speed] = {}
    here: Handled | None = None
    for place, o in zip(places, options):
        if place.link not in found:
            own = kept(place)
            if own is None:
                progress("divide", f"measuring {place.link}")
                own = probe_place(o.device, place)
            if isinstance(own, Handled):
                here, own = own, own.whole
            found[place.link] = own
    return tuple(found[p.link] for p in places), here


def _measured_scales(
    graph: Graph, prices: Prices, given: Mapping[str, object], progress: Progress
) -> tuple[float, ...]:
    """Measured seconds of the whole network on the device of each worker, which is here, over those that are
    predicted."""
    found: dict[str, float] = {}
    for k, o in enumerate(prices.options):
        name = o.device.name
        if name in found:
            continue
        progress("divide", f"the network on one {name}" if len(prices.options) > 1 else "the network on one device")
        with tempfile.TemporaryDirectory(prefix="edgec-") as work:
            settings = cast(Settings, {**given, "device": o.device, "compiler": o.compiler})
            whole = build(cast(Buildable, graph), Path(work) / "whole", start="fuse", **settings)
            ((seconds,),) = time_workers([[whole.folder]], o.threads, _cores(), [o.device.is_gpu])
        predicted = sum(prices.of_blocks(prices.planned(graph, k))[k].values())
        found[name] = seconds.alone / predicted if predicted > 0 else 1.0
    return tuple(found[o.device.name] for o in prices.options)


def time_parts(parts: Sequence[Part], built: Sequence[Built]) -> list[Seconds]:
    """Measured seconds of the built parts of a network on this machine, in order."""
    own: dict[int, list[int]] = {}
    for k, part in enumerate(parts):
        own.setdefault(part.worker, []).append(k)
    folders = [[built[k].folder for k in mine] for mine in own.values()]
    on_gpu = [built[mine[0]].options.device.is_gpu for mine in own.values()]
    times = time_workers(folders, built[0].options.threads, _cores(), on_gpu)
    found = {k: s for mine, seconds in zip(own.values(), times) for k, s in zip(mine, seconds)}
    return [found[k] for k in range(len(parts))]


def _part(
    part: Part, folder: Path, k: int, options: Options, given: dict[str, object], compile: bool, progress: Progress
) -> Built:
    """The built folder of a part. Its functions have a prefix of their own, so that parts link into one program."""
    mine = own(options, part.graph)
    settings = {
        **given,
        "device": options.device,
        "compiler": options.compiler,
        "name": f"{options.name[:32]}_part{k}",
        "materialize": tuple(mine.materialize),
        "overrides": dict(mine.overrides),
        "tiles": dict(mine.tiles),
    }
    asked = cast(Settings, settings)
    return build(
        cast(Buildable, part.graph), folder, start="fuse", compile=compile, variants=part.variants, progress=progress,
        **asked,
    )  # fmt: skip


def _manifest(
    name: str,
    choice: Choice,
    wanted: Wanted,
    places: Sequence[Place],
    speeds: Sequence[Speed],
    links: Links,
    built: Sequence[Built],
    seconds: Sequence[Seconds] | None,
) -> Manifest:
    division: Division = choice.division
    final = priced(division, links, seconds)
    predicted = final.predicted
    used = {worker: k for k, worker in enumerate(sorted({p.worker for p in division.parts}))}
    parts = [
        PartEntry(
            f"part{k}", used[part.worker], part.reads, tuple(part.writes),
            part.seconds if seconds is None else seconds[k].alone, b.arena_bytes, b.weights_bytes,
        )
        for k, (part, b) in enumerate(zip(division.parts, built))
    ]  # fmt: skip
    tried = [
        {"split": t.division.split, "workers": t.division.workers, "latency_s": t.predicted.latency_s,
         "period_s": t.predicted.period_s}
        for t in choice.others
    ]  # fmt: skip
    tensors = {
        n: Tensor(n, t.dtype, tuple(int(d) for d in t.shape), division.sums.get(n, ()))
        for n, t in division.tensors.items()
    }
    workers = [WorkerEntry(places[w].device, places[w].link, **asdict(speeds[w])) for w in used]
    return Manifest(
        name, division.split, wanted.goal, choice.told, tuple(workers), tensors, tuple(division.inputs),
        tuple(division.outputs), tuple(parts), final.in_flight, predicted.latency_s, predicted.period_s,
        predicted.bytes_a_frame, choice.alone_s, seconds is not None, tuple(tried), division.panels,
    )  # fmt: skip


def _refuse_foreign(folder: Path) -> None:
    """Raises UsageError where ``folder`` is something else than a divided network, or an empty folder."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UsageError("is there and is not a folder", hint="name another folder with -o", where=str(folder))
    if folder.is_dir() and any(folder.iterdir()) and not is_divided(folder):
        hint = "name another folder with -o, or empty this one"
        raise UsageError("the folder is not empty and holds no divided network", hint=hint, where=str(folder))

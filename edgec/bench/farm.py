"""Several devices at once: each tunes, checks and times the same network in a process of its own.

What goes wrong on one of them, the end of its process included, becomes its outcome; the others go on. A device that
is gone for a moment begins again. Processes of this machine talk through pipes, which nobody else can reach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any

from edgec import api
from edgec.errors import EdgecError, LinkError, ToolchainError, UsageError
from edgec.options import Settings
from edgec.progress import Progress, silent
from edgec.tune.on_device import tune_on_device

if TYPE_CHECKING:
    from typing_extensions import Unpack


#: How often a device, or its process, may be gone before it counts as lost; seconds until it is tried again.
RESTARTS, PAUSE = 1, 1.0
#: The most characters of an error that a worker of somebody else's scheduler may send.
MOST_SAID = 20_000
#: Calls a function of a module with arguments, later and elsewhere.
Submit = Callable[..., Any]


@dataclass(frozen=True)
class Place:
    """One device of a farm, and the way to it ("device": what its file says)."""

    device: str
    link: str

    def __str__(self) -> str:
        return self.device if self.link == "device" else f"{self.device}@{self.link}"


@dataclass(frozen=True)
class Outcome:
    """Results of one device. If it was lost, ``max_rel`` and ``median_ms`` are None and ``error`` is the reason.

    ``measured`` is how many variants of matmuls it timed for the profile database, None where nothing was to be tuned.
    """

    place: str
    ok: bool
    seconds: float
    measured: int | None = None
    max_rel: float | None = None
    median_ms: float | None = None
    error: str | None = None


def place(text: str) -> Place:
    """Of ``DEVICE`` or ``DEVICE@LINK``."""
    device, _, link = text.partition("@")
    if not device:
        raise UsageError(f"'{text}' names no device", hint="write --on raspberry_pi_4@ssh:pi@192.168.0.7")
    return Place(device, link or "device")


def farm(
    model: str | Path,
    places: Sequence[Place],
    *,
    samples: int = 3,
    seed: int = 0,
    tolerance: float | None = None,
    seconds: float = 1.0,
    tune: float = 0.0,
    keep: Path | None = None,
    timeout: float = 600.0,
    scheduler: str | None = None,
    progress: Progress = silent,
    **settings: Unpack[Settings],
) -> list[Outcome]:
    """Check and time a network on every device, side by side; outcomes are in the order of ``places``.

    With ``tune``, each device first times the variants of the network's matmuls for about so many seconds, and what is
    checked is built by those times.

    ``scheduler`` is the address of a dask scheduler whose workers reach the devices and the file of the model; it and
    they are trusted, since what they send are objects of Python. Without one, processes are started here, one a device.

    Raises ToolchainError for a scheduler without dask, UsageError for a place that is named twice.
    """
    if not places:
        raise UsageError("a farm without devices", hint="give --on DEVICE@LINK, once for each")
    for k, p in enumerate(places):
        if p in places[:k]:
            raise UsageError(f"device '{p}' is there twice", hint="give each --on once")
    work = {"samples": samples, "seed": seed, "tolerance": tolerance, "timeout": timeout}
    found: dict[str, Outcome] = {}
    begun = perf_counter()
    with _workers(len(places)) if scheduler is None else _dask(scheduler) as (submit, completed):
        running = {
            submit(
                _check, str(model), p, {**settings, "device": p.device}, work, seconds, tune,
                keep / str(k) if keep is not None else None,
            ): p
            for k, p in enumerate(places)
        }  # fmt: skip
        for future in completed(running):
            where, problem = str(running[future]), future.exception()
            if problem is None:
                found[where] = _told(where, future.result())
            else:
                lost = f"its process ended ({type(problem).__name__})"
                found[where] = Outcome(where, False, perf_counter() - begun, error=lost)
            progress("farm", f"{where}: {'lost' if found[where].error else 'done'}", len(found) / len(places))
    return [found[str(p)] for p in places]


def _told(where: str, found: object) -> Outcome:
    """The answer of a worker, held against its request."""
    if not isinstance(found, Outcome) or found.place != where or len(found.error or "") > MOST_SAID:
        return Outcome(where, False, 0.0, error="its worker sent something else than an outcome")
    return found


def _check(model: str, where: Place, *given: Any) -> Outcome:
    """One device, in a process of its own. What was measured before it was gone is in the profile database."""
    begun = perf_counter()
    for left in reversed(range(1 + RESTARTS)):
        try:
            return _checked(model, where, *given)
        except LinkError as error:
            if not left:
                return Outcome(str(where), False, perf_counter() - begun, error=str(error))
            sleep(PAUSE)
        except EdgecError as error:
            return Outcome(str(where), False, perf_counter() - begun, error=str(error))
    raise AssertionError("the last attempt ends")


def _checked(
    model: str, where: Place, settings: Any, work: dict[str, Any], seconds: float, tune: float, keep: Path | None
) -> Outcome:
    begun = perf_counter()
    measured = None
    if tune > 0:
        measured = tune_on_device(model, tune, link=where.link, timeout=work["timeout"], **settings).measured
    built = api.build(model, compile=False, **settings)
    checked = api.check(built, link=where.link, keep=keep, **work)
    worst = max((d.max_rel for d in checked.outputs), default=0.0)
    timing = api.bench(built, link=where.link, seconds=seconds, timeout=work["timeout"]).timing
    return Outcome(str(where), checked.ok, perf_counter() - begun, measured, worst, timing.median_ms)


@contextmanager
def _workers(count: int) -> Iterator[tuple[Submit, Submit]]:
    """Processes of this machine, one for each of ``count`` calls at a time."""
    with ThreadPoolExecutor(count) as waiting:

        def submit(*call: Any) -> Future[Any]:
            return waiting.submit(_in_a_process, *call)

        yield submit, as_completed


def _in_a_process(function: Callable[..., Any], *given: Any) -> Any:
    """The result of a call in a fresh process; where that ends in the middle, in another one."""
    for left in reversed(range(1 + RESTARTS)):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            try:
                return process.submit(function, *given).result()
            except BrokenProcessPool:
                if not left:
                    raise
    raise AssertionError("the last attempt ends")


@contextmanager
def _dask(scheduler: str) -> Iterator[tuple[Submit, Submit]]:
    """The workers of a scheduler that is running."""
    try:
        import dask
        import distributed
    except ImportError:
        raise ToolchainError("a scheduler needs dask", hint="pip install 'edgec[farm]'") from None
    failures = {"distributed.scheduler.allowed-failures": RESTARTS}
    with dask.config.set(failures), distributed.Client(scheduler) as client:

        def submit(*call: Any) -> Any:
            return client.submit(*call, pure=False, retries=0)

        yield submit, distributed.as_completed

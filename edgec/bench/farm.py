"""Several devices at once: each tunes, checks and times the same network in a process of its own, under dask.

What goes wrong on one of them, the end of its process included, becomes its outcome; the others go on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from edgec import api
from edgec.errors import EdgecError, ToolchainError, UsageError
from edgec.options import Settings
from edgec.progress import Progress, silent
from edgec.tune.on_device import tune_on_device

if TYPE_CHECKING:
    from typing_extensions import Unpack


#: How often the process of a device may end before that device counts as lost.
RESTARTS = 1


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

    ``scheduler`` is the address of a dask scheduler whose workers reach the devices and the file of the model; without
    one, processes are started here, one a device.

    Raises ToolchainError without dask, UsageError for a place that is named twice.
    """
    if not places:
        raise UsageError("a farm without devices", hint="give --on DEVICE@LINK, once for each")
    for k, p in enumerate(places):
        if p in places[:k]:
            raise UsageError(f"device '{p}' is there twice", hint="give each --on once")
    work = {"samples": samples, "seed": seed, "tolerance": tolerance, "timeout": timeout}
    found: dict[str, Outcome] = {}
    with _client(len(places), scheduler) as client:
        from distributed import as_completed

        begun = perf_counter()
        running = {
            client.submit(
                _check, str(model), p, {**settings, "device": p.device}, work, seconds, tune,
                keep / str(k) if keep is not None else None, pure=False, retries=0,
            ): p
            for k, p in enumerate(places)
        }  # fmt: skip
        for future in as_completed(running):
            where, problem = str(running[future]), future.exception()
            if problem is None:
                found[where] = future.result()
            else:
                lost = f"its process ended ({type(problem).__name__})"
                found[where] = Outcome(where, False, perf_counter() - begun, error=lost)
            progress("farm", f"{where}: {'lost' if found[where].error else 'done'}", len(found) / len(places))
    return [found[str(p)] for p in places]


def _check(
    model: str, where: Place, settings: Any, work: dict[str, Any], seconds: float, tune: float, keep: Path | None
) -> Outcome:
    """One device, in a process of its own."""

    begun = perf_counter()
    measured = None
    try:
        if tune > 0:
            measured = tune_on_device(model, tune, link=where.link, timeout=work["timeout"], **settings).measured
        built = api.build(model, compile=False, **settings)
        checked = api.check(built, link=where.link, keep=keep, **work)
        worst = max((d.max_rel for d in checked.outputs), default=0.0)
        timing = api.bench(built, link=where.link, seconds=seconds, timeout=work["timeout"]).timing
    except EdgecError as error:
        return Outcome(str(where), False, perf_counter() - begun, error=str(error))
    return Outcome(str(where), checked.ok, perf_counter() - begun, measured, worst, timing.median_ms)


@contextmanager
def _client(count: int, scheduler: str | None) -> Iterator[Any]:
    """A client of the scheduler, or of one of our own with so many processes."""
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError:
        raise ToolchainError("a farm needs dask", hint="pip install 'edgec[farm]'") from None
    with ExitStack() as stack:
        stack.enter_context(dask.config.set({"distributed.scheduler.allowed-failures": RESTARTS}))
        if scheduler is None:
            own = LocalCluster(
                n_workers=count, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs="CRITICAL"
            )
            stack.enter_context(own)
            yield stack.enter_context(Client(own))
        else:
            yield stack.enter_context(Client(scheduler))

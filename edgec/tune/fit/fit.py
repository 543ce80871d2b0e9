"""Fitting the costs of a device: its kernels timed, four fifths of them fitted, the last fifth foretold.

The result is a device file that inherits from the one that was fitted and replaces its costs. Nothing of the costs that
the device had before enters, but for those constants that no kernel tells anything of.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import numpy as np

from edgec import files
from edgec.artifact.folder import refuse_existing
from edgec.device.costs import checked
from edgec.device.device import Device
from edgec.errors import UsageError
from edgec.fuse.cost_model import CostModel
from edgec.options import Settings, resolve
from edgec.progress import Progress, silent
from edgec.tune.fit.formulas import (
    Constant,
    blocks_formula,
    price_constants,
    tile_constants,
    tiles_formula,
    tiles_of,
)
from edgec.tune.fit.record import Record
from edgec.tune.fit.timing import Timed, counts, timed
from edgec.tune.known import target
from edgec.version import __version__

#: Fewer kernels than this are no fit.
FEWEST = 24
#: One in so many cases is left out, to be foretold.
FOLD = 5


@dataclass(frozen=True)
class Error:
    """How far prices of blocks are off, as a fraction: the median, and what nine in ten are below. Time lost to tiles
    that are not the quickest of those timed, as a fraction; None where no product has several."""

    median: float
    ninth: float
    tiles: float | None


@dataclass(frozen=True)
class Fitted:
    """A fitted device: its file, the costs that were found, and how well they foretell kernels that were left out.

    ``kept`` are constants without an effect on what was timed. ``left`` networks were not timed for lack of time.
    """

    device: str
    file: Path
    record: Path
    link: str
    on: str
    kernels: int
    held_out: int
    left: int
    seconds: float
    before: Error
    after: Error
    costs: Mapping[str, Mapping[str, float]]
    kept: Sequence[str]
    counts: bool


def fit_device(
    device: Device,
    out: Path,
    *,
    link: str = "device",
    seconds: float = 600.0,
    timeout: float = 120.0,
    compiler: str | None = None,
    progress: Progress = silent,
) -> Fitted:
    """Fit a device's costs for at most about ``seconds``, and write the device file ``out``.

    Times are kept in a record beside it, from which the same call goes on. Raises UsageError for a file that is there
    already, a record of something else, or too few kernels; LinkError for a device that cannot be reached or lies.
    """
    refuse_existing(out)
    if out.suffix != ".toml":
        raise UsageError("a device file ends in .toml", hint=f"-o {out.with_suffix('.toml')}", where=str(out))
    begun = time.monotonic()
    settings: Settings = {"device": device, "threads": 1, "profiles": False, "compiler": compiler}
    of = f"{target(resolve(settings)).fingerprint} {link}"
    record = Record.opened(out.with_suffix(".times.jsonl"), of)
    found, left = timed(settings, link, record, begun + seconds, timeout, progress)
    if len(found) < FEWEST:
        hint = f"the same command goes on behind what was timed ({record.path}); give it more --seconds"
        raise UsageError(f"only {len(found)} kernels were timed in {seconds:g} s", hint=hint)
    progress("fit", "solving for the costs", 1.0)
    fitted, kept, before, after, held_out = solved(found, device)
    costs = _tables(fitted)
    checked(costs, str(out))
    done = Fitted(
        device.name, out, record.path, link, str(date.today()), len(found), held_out, left, time.monotonic() - begun,
        before, after, costs, [".".join(c) for c in kept], counts(link if link != "device" else f"{device.link}:"),
    )  # fmt: skip
    files.replace(out, device_file(done))
    return done


def solved(found: Sequence[Timed], device: Device) -> tuple[Device, list[Constant], Error, Error, int]:
    """The device with fitted costs, constants without effect, errors before and after on kernels left out, and how
    many these are."""
    out = _left_out(found)
    learned, foretold = [t for t in found if t.case not in out], [t for t in found if t.case in out]
    fitted, kept = tiles_formula(tiles_of(learned, device), device).solved(device)
    fitted, more = blocks_formula(learned, device).solved(fitted)
    fitted = _at_its_clock(_completed(fitted, more, device))
    return fitted, [*kept, *more], _error(foretold, device), _error(foretold, fitted), len(foretold)


def _left_out(found: Sequence[Timed]) -> set[str]:
    """One case in `FOLD`, as many of each kind."""
    cases = list(dict.fromkeys(t.case for t in found))
    kinds: dict[str, list[str]] = {}
    for case in cases:
        kinds.setdefault(case.partition(" ")[0], []).append(case)
    random = np.random.default_rng(0)
    return {case for names in kinds.values() for case in list(random.permutation(sorted(names)))[FOLD - 1 :: FOLD]}


def _completed(device: Device, kept: Sequence[Constant], before: Device) -> Device:
    """Constants that no kernel tells anything of, by those beside them: a share is that of products, and memory is as
    much slower than the caches as it was."""
    core, shares, old = device.costs.kernel, device.costs.peak_share, before.costs.kernel
    shares = replace(shares, **{key: shares.contract for table, key in kept if table == "peak_share"})
    if ("kernel", "memory_bytes") in kept:
        core = replace(core, memory_bytes=core.cache_bytes * old.memory_bytes / old.cache_bytes)
    return replace(device, costs=replace(device.costs, kernel=core, peak_share=shares))


def _at_its_clock(device: Device) -> Device:
    """The same prices with the clock at which the best kind of kernels reaches nine tenths of the peak.

    Prices tell the product of a clock and shares of its peak alone. A measured peak stays as it is.
    """
    if CostModel(device).on_gpu or device.figure("fp32_gflops"):
        return device
    core, shares = device.costs.kernel, device.costs.peak_share
    factor = 0.9 / max(shares.contract, shares.window)
    core = replace(
        core,
        clock_ghz=core.clock_ghz / factor,
        cache_bytes=core.cache_bytes * factor,
        memory_bytes=core.memory_bytes * factor,
    )
    shares = replace(shares, **{key: value * factor for key, value in vars(shares).items()})
    return replace(device, costs=replace(device.costs, kernel=core, peak_share=shares))


def _error(found: Sequence[Timed], device: Device) -> Error:
    off = np.expm1(np.abs(blocks_formula(found, device).errors(device)))
    lost = [tiles.chosen(device) - 1 for tiles in tiles_of(found, device)]
    median, ninth = np.quantile(off, [0.5, 0.9])
    return Error(float(median), float(ninth), float(np.mean(lost)) if lost else None)


def _tables(device: Device) -> dict[str, dict[str, float]]:
    """The numbers that were fitted, with four digits, in their tables."""
    clock = [] if device.is_gpu else [("kernel", "clock_ghz")]
    found: dict[str, dict[str, float]] = {}
    for table, key in (*clock, *price_constants(device), *tile_constants(device)):
        found.setdefault(table, {})[key] = float(f"{getattr(getattr(device.costs, table), key):.4g}")
    return found


def device_file(done: Fitted) -> str:
    """The text of the device file: when it was fitted, by what, how well, and the costs."""
    unit = "instructions" if done.counts else "times"
    lines = [
        f"Fitted by edgec {__version__} on {done.on} to {unit} of {done.kernels} kernels of '{done.device}' "
        f"({done.link}).",
        f"On {done.held_out} kernels left out, prices are off by {_percent(done.after.median)} (median) and "
        f"{_percent(done.after.ninth)} (nine in ten);",
        f"by the costs before: {_percent(done.before.median)} and {_percent(done.before.ninth)}.",
    ]
    if done.after.tiles is not None and done.before.tiles is not None:
        lines.append(
            f"Tiles of products that they choose take {_percent(done.after.tiles)} longer than the quickest that "
            f"was timed; before: {_percent(done.before.tiles)}."
        )
    if done.left:
        lines.append(f"For lack of time, {done.left} networks of kernels were not timed.")
    text = [f"# {line}" for line in lines] + [f'base = "{done.device}"']
    for table, values in done.costs.items():
        text += ["", f"[costs.{table}]", *(f"{key} = {value!r}" for key, value in values.items())]
    return "\n".join(text) + "\n"


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.0f} %"

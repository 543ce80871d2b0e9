"""Plans by costs that `edgec device fit` found without any prior, beside those by the costs that were fitted by hand.

    python -m benchmarks.fitting.fit fit --cache DIR
    python -m benchmarks.fitting.fit build --cache DIR --folder NETWORKS
    python -m benchmarks.fitting.fit time --cache DIR --folder NETWORKS
    python -m benchmarks.fitting.fit write --cache DIR --write docs/results/fit.md

Every constant that can be fitted is first set to a number of no machine (`GENERIC`). `write` exits with 1 where a plan
by fitted costs takes more than 5 % longer than that by the costs of the device's file on any network.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

import edgec
from benchmarks.fusion.ablation import given
from benchmarks.measure import Ours, on_cores, take_turns
from benchmarks.networks import catalog as networks
from benchmarks.networks.catalog import Network
from benchmarks.table import geometric_mean
from benchmarks.zoo.page import processor
from edgec import pipeline
from edgec.artifact.folder import read_lock
from edgec.device.device import Device
from edgec.device.load import load_device
from edgec.execute.samples import random_inputs
from edgec.options import resolve
from edgec.pipeline.context import Context
from edgec.tune.fit.fit import fit_device

#: Costs of no machine, for every table that a fit can find.
GENERIC: dict[str, dict[str, float]] = {
    "kernel": {"clock_ghz": 1.0, "cache_bytes": 1.0, "memory_bytes": 1.0, "launch_s": 1e-6, "attention_queries": 1.0},
    "peak_share": dict.fromkeys(("contract", "attention", "window", "row", "map", "procedure"), 1.0),
    "register_tile": dict.fromkeys(("l2_vector", "tile", "store", "peak_share", "transform", "far_bytes"), 1.0),
    "gpu": {"launch_s": 1e-6, "peak_share": 1.0, "cache_bytes": 1.0, "results_per_lane": 1.0},
    "fma_tile": dict.fromkeys(
        ("fmas", "full_warps", "full_reuse", "l2_bytes", "copy_latency", "round", "start", "store", "split",
         "add_part", "launch"), 1.0,
    ),
}  # fmt: skip
#: Devices that are fitted where this runs: this processor, the same as an OpenCL device, and boards of qemu.
FITTED = ("host", "generic_opencl", "mps2_an386", "mps2_an500")
#: A plan by fitted costs may take so much longer than one by costs that were fitted by hand.
MOST = 1.05
#: Which costs a network was planned by.
PLANS = ("by hand", "generic", "fitted")


def generic(device: Device) -> Device:
    """The device with costs of no machine."""
    tables: dict[str, Any] = {name: replace(getattr(device.costs, name), **own) for name, own in GENERIC.items()}
    return replace(device, costs=replace(device.costs, **tables))


def fit(name: str, cache: Path, seconds: float) -> None:
    """Fit a device without a prior; its record, its file and the answer lie in the cache."""
    if (cache / f"{name}.json").is_file():
        return
    begun = time.monotonic()

    def progress(stage: str, detail: str = "", part: float | None = None) -> None:
        if stage == "fit":
            print(f"{name}: {time.monotonic() - begun:.0f} s, {detail}", flush=True)

    done = fit_device(generic(load_device(name)), cache / f"{name}_fitted.toml", seconds=seconds, progress=progress)
    answer = {**asdict(done), "file": str(done.file), "record": str(done.record)}
    (cache / f"{name}.json").write_text(json.dumps(answer), encoding="utf-8")


def build(network: Network, cache: Path) -> None:
    """A network planned by each costs, compiled for one thread."""
    host = load_device("host")
    devices = dict(zip(PLANS, (host, generic(host), load_device(cache / "host_fitted.toml"))))
    shapes = {**network.shapes, **{name: a.shape for name, a in given(network).items()}}
    for plan, device in devices.items():
        folder = cache / network.name / plan.replace(" ", "_")
        if (folder / "edgec.lock").is_file():
            continue
        device = replace(device, name="host")
        built = edgec.build(network.path, folder, device=device, shapes=shapes, threads=1, profiles=False)
        print(f"{network.name}: {plan}, {built.kernels} kernels", flush=True)


def timed(network: Network, cache: Path, seconds: float) -> dict[str, float]:
    """Milliseconds of the quickest call of each plan on one thread, in turns; of equal code, those of one."""
    folders = {plan: cache / network.name / plan.replace(" ", "_") for plan in PLANS}
    first = {code(folder): folder for folder in folders.values()}
    with on_cores(1):
        nets = {key: Ours(folder, 1) for key, folder in first.items()}
        arrays = given(network) or _random(network)
        times = take_turns(tuple(net.bind(arrays, net.results()) for net in nets.values()), seconds)
        ms = {key: min(t) * 1e3 for key, t in zip(nets, times)}
        for net in nets.values():
            net.close()
    return {plan: ms[code(folder)] for plan, folder in folders.items()}


def _random(network: Network) -> dict[str, np.ndarray]:
    return random_inputs(pipeline.import_(str(network.path), Context(resolve({"shapes": network.shapes}))), 0)


def code(folder: Path) -> str:
    """A name for the code of a build: two of one name are equal."""
    return str(read_lock(folder)["files_sha256"])


def page(cache: Path, names: Sequence[str]) -> tuple[str, bool]:
    """The page, and whether plans by fitted costs are as quick as is asked of them."""
    lines = [_INTRODUCTION.format(date=date.today(), machine=processor())]
    lines += ["| device | timed by | kernels | price off, median | nine in ten below | time lost to tiles |"]
    lines += ["|---" * 6 + "|"]
    for name in FITTED:
        if (cache / f"{name}.json").is_file():
            d = json.loads((cache / f"{name}.json").read_text(encoding="utf-8"))
            by = "instructions" if d["counts"] else "its clock"
            cells = [f"{_percent(d['before'][k])} -> {_percent(d['after'][k])}" for k in ("median", "ninth", "tiles")]
            lines.append(f"| {name} | {by} | {d['kernels']} | {' | '.join(cells)} |")
    lines += [
        "",
        _NETWORKS,
        "",
        "| network | by hand, ms | generic, ms | fitted, ms | generic / hand | fitted / hand |",
    ]
    lines += ["|---" * 6 + "|"]
    ratios: dict[str, list[float]] = {"generic": [], "fitted": []}
    for name in names:
        found = cache / name / "times.json"
        if not found.is_file():
            continue
        ms = json.loads(found.read_text(encoding="utf-8"))
        own = {plan: ms[plan] / ms["by hand"] for plan in ratios}
        same = code(cache / name / "by_hand") == code(cache / name / "fitted")
        for plan, values in ratios.items():
            values.append(own[plan])
        last = "same code" if same else f"{own['fitted']:.3f}"
        lines.append(f"| {name} | {' | '.join(f'{ms[p]:.4g}' for p in PLANS)} | {own['generic']:.3f} | {last} |")
    means = [geometric_mean(values) for values in ratios.values()]
    lines += [
        "",
        f"Geometric means over {len(ratios['fitted'])} networks: generic {means[0]:.3f}, fitted {means[1]:.3f}.",
    ]
    lines += [f"The slowest plan by fitted costs takes {max(ratios['fitted']):.3f} of the time by hand.", ""]
    return "\n".join(lines), max(ratios["fitted"]) <= MOST


def _percent(fraction: float | None) -> str:
    return "" if fraction is None else f"{100 * fraction:.0f} %"


_INTRODUCTION = """\
# Costs that a device's own kernels give

Made by `python -m benchmarks.fitting.fit` on {date}, on {machine}.

`edgec device fit` times kernels on a device and solves for the constants of the formulas that plans are priced by
([guide](../guide/devices.md)). Here it knows nothing of the device's costs: all that it can fit were set to numbers of
no machine before. Errors are those on the fifth of the kernels that is left out of the fit, with these numbers and with
the fitted ones. *Time lost to tiles* is how much longer the tiles of products that costs choose take than the quickest
of those that were timed. Kernels on boards are timed by qemu, which counts instructions.
"""
_NETWORKS = """\
## Plans of networks

Each network is planned and built three times, by the costs of the device's file (*by hand*), by numbers of no machine
(*generic*) and by the fitted ones. The quickest of many calls in turns counts, on one thread, in fp32."""


def main(arguments: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("step", choices=("fit", "build", "time", "write"))
    p.add_argument("--cache", type=Path, required=True, help="where devices, builds and times are kept")
    p.add_argument("--folder", type=Path, action="append", default=[], help="networks: DIR/NAME.onnx, NAME.in.npz")
    p.add_argument("--only", action="append", default=[], metavar="PATTERN", help="names; may be repeated")
    p.add_argument("--seconds", type=float, default=600.0, help="of a fit; of the calls of a network, a hundredth")
    p.add_argument("--write", type=Path, metavar="PAGE")
    o = p.parse_args(arguments)
    o.cache.mkdir(parents=True, exist_ok=True)
    if o.step == "fit":
        for name in o.only or FITTED:
            fit(name, o.cache, o.seconds)
        return 0
    if o.step == "write":
        text, ok = page(o.cache, sorted(f.parent.name for f in o.cache.glob("*/times.json")))
        print(text)
        if o.write is not None:
            o.write.write_text(text, encoding="utf-8")
        return int(not ok)
    found, _ = networks.find(o.folder, o.only, download=False)
    for network in found:
        if o.step == "build":
            build(network, o.cache)
        elif not (o.cache / network.name / "times.json").is_file():
            ms = timed(network, o.cache, o.seconds / 100)
            (o.cache / network.name / "times.json").write_text(json.dumps(ms), encoding="utf-8")
            print(network.name, ms, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""`edgec device`: the machines that code is built for, and a network at work on one of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Optional

import typer

from edgec.cli.command import Answer, CommandGroup, command
from edgec.cli.shared import KINDS, Data, Inputs, Metric, Samples, Seconds, Seed, Tolerance
from edgec.link.forms import FORMS
from edgec.options import Settings
from edgec.report.progress import shown
from edgec.report.record import head

app = typer.Typer(
    cls=CommandGroup, help="Machines that code can be built for, and networks at work on them.", no_args_is_help=True
)

ModelPath = Annotated[str, typer.Argument(metavar="MODEL", help=f"The model: {KINDS}.")]
DeviceFolders = Annotated[
    Optional[list[Path]], typer.Option("--devices", metavar="DIR", help="Folder of devices of your own.")
]
Way = Annotated[str, typer.Option("--link", metavar="LINK", help=f"{FORMS}; 'device' is what its file says.")]
Patience = Annotated[float, typer.Option(help="Seconds that one batch of samples may take on the device.")]
Keep = Annotated[
    Optional[Path],
    typer.Option(metavar="DIR", help="Keep what comes back; the same command goes on behind it after a failure."),
]


@command(app, "list")
def list_all(devices: DeviceFolders = None) -> Answer:
    """List the machines that are known."""
    from edgec.device.load import list_devices
    from edgec.report import device as device_report

    found = [device_report.record(d) for d in list_devices(devices or ())]
    return Answer({**head("device list"), "devices": found}, lambda r: device_report.draw_list(r["devices"]))


@command(app, "show")
def show_one(
    name: Annotated[str, typer.Argument(metavar="DEVICE", help="A name, or a TOML file.")],
    devices: DeviceFolders = None,
) -> Answer:
    """Show every fact that is known of a machine."""
    from edgec.device.load import load_device
    from edgec.report import device as device_report

    found = device_report.record(load_device(name, devices or ()))
    return Answer({**head("device show"), "device": found}, lambda r: device_report.draw(r["device"]))


@command(app, "probe")
def probe(
    links: Annotated[
        Optional[list[str]],
        typer.Option("--links", metavar="DEVICE@LINK", help="Measure this link, for builds too; once for each."),
    ] = None,
    more: Annotated[Optional[list[str]], typer.Argument(metavar="[DEVICE@LINK...]", help="Further links.")] = None,
    devices: DeviceFolders = None,
) -> Answer:
    """Show what this machine says of itself, or how fast links to devices are."""
    if links or more:
        return _links([*(links or ()), *(more or ())], devices or ())
    from edgec.device.probe import probe_host
    from edgec.report import device as device_report

    found = device_report.record(probe_host())
    return Answer({**head("device probe"), "device": found}, lambda r: device_report.draw(r["device"]))


def _links(texts: Sequence[str], folders: Sequence[Path]) -> Answer:
    """The answer of `edgec device probe --links`: the speeds are kept for builds."""
    from edgec.device.load import load_device
    from edgec.distribute.kept import keep
    from edgec.distribute.links import Handled
    from edgec.distribute.places import places_of
    from edgec.distribute.probe import probe_place
    from edgec.report import divided

    with shown() as progress:
        found = []
        for place in places_of(texts):
            progress("probe", str(place))
            measured = probe_place(load_device(place.device, folders), place)
            keep(place, measured)
            found.append((place, measured.whole if isinstance(measured, Handled) else measured))
    return Answer(divided.links_record(found), divided.draw_links)


@command(app, "run")
def run(
    model: ModelPath,
    settings: Settings,
    inputs: Annotated[Path, typer.Option(metavar="FILE", help="Samples: .npz by input name, or .npy.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Outputs by name, as .npz.")],
    link: Way = "device",
    keep: Keep = None,
    timeout: Patience = 600.0,
) -> Answer:
    """Run MODEL on its device, and write what it gives to a .npz file."""
    import numpy as np

    from edgec import api, files
    from edgec.artifact.folder import refuse_existing
    from edgec.ir.types import plain
    from edgec.report import device_run

    refuse_existing(out)
    with shown() as progress:
        ran = api.run_on_device(
            model, inputs, link=link, keep=keep, timeout=timeout, progress=progress, **settings
        )  # fmt: skip
    shapes = {name: {r.outputs[name].shape for r in ran} for name in ran[0].outputs}
    arrays = {}
    for name, found in shapes.items():
        if len(found) == 1:
            arrays[name] = np.stack([plain(r.outputs[name]) for r in ran])
        else:  # sizes differ from sample to sample
            arrays |= {f"{name}/{k}": plain(r.outputs[name]) for k, r in enumerate(ran)}
    files.replace(out, files.npz(arrays))
    milliseconds = [float(np.median(r.nanoseconds)) / 1e6 for r in ran]
    return Answer(device_run.record(str(out), arrays, milliseconds), device_run.draw)


@command(app, "check")
def check(
    model: ModelPath,
    settings: Settings,
    link: Way = "device",
    inputs: Inputs = None,
    samples: Samples = 3,
    seed: Seed = 0,
    tolerance: Tolerance = None,
    data: Data = None,
    metric: Metric = "top1",
    drop: Annotated[float, typer.Option(help="Points that the device may be below the reference.")] = 1.0,
    keep: Keep = None,
    timeout: Patience = 600.0,
) -> Answer:
    """Hold what MODEL gives on its device against what onnxruntime (LiteRT) gives here."""
    from edgec import api
    from edgec.report import check as check_report
    from edgec.report import score

    if data is not None:
        with shown() as progress:
            scored = api.score(
                model, data, metric, drop=drop, link=link, keep=keep, timeout=timeout, progress=progress, **settings
            )
        return Answer({**score.record(scored), "command": "device check"}, score.draw, scored.ok)
    with shown() as progress:
        checked = api.check(
            model, inputs=inputs, samples=samples, seed=seed, tolerance=tolerance, link=link, keep=keep,
            timeout=timeout, progress=progress, **settings,
        )  # fmt: skip
    found = {**check_report.record(checked), "command": "device check", "link": checked.link}
    return Answer(found, check_report.draw, checked.ok)


@command(app, "bench")
def bench(
    model: ModelPath,
    settings: Settings,
    link: Way = "device",
    seconds: Seconds = 2.0,
    minutes: Annotated[
        Optional[float], typer.Option(help="Work for so long instead: latency, clock, heat and power by the minute.")
    ] = None,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="With --minutes, first look for the quickest threads and cores.")
    ] = False,
    out: Annotated[
        Optional[Path], typer.Option("--out", "-o", metavar="FILE", help="With --minutes, a page with charts (.html).")
    ] = None,
    timeout: Patience = 600.0,
) -> Answer:
    """Time MODEL on its device, as a whole and kernel by kernel, or for minutes; by the device's clock."""
    from edgec import api
    from edgec.artifact.folder import refuse_existing
    from edgec.bench.sustained import bench_for_minutes
    from edgec.errors import UsageError
    from edgec.report import bench as bench_report
    from edgec.report import sustained as sustained_report

    if minutes is None and (sweep or out is not None):
        raise UsageError("--sweep and --out are of a network that works for minutes", hint="--minutes 5")
    if out is not None:
        refuse_existing(out)
    if minutes is not None:
        with shown() as progress:
            worked = bench_for_minutes(
                model, minutes, sweep=sweep, link=link, timeout=timeout, progress=progress, **settings
            )
        record = sustained_report.record(worked, model, str(settings["device"]))
        if out is not None:
            record["page"] = str(out)
            sustained_report.write(record, out)
        return Answer(record, sustained_report.draw)
    with shown() as progress:
        benched = api.bench(model, seconds=seconds, link=link, timeout=timeout, progress=progress, **settings)
    found = bench_report.record(benched, str(settings["device"]))
    return Answer({**found, "command": "device bench"}, bench_report.draw)


@command(app, "farm")
def farm(
    model: ModelPath,
    settings: Settings,
    on: Annotated[
        list[str], typer.Option("--on", metavar="DEVICE[@LINK]", help="A device of the farm; once for each.")
    ],
    samples: Samples = 3,
    seed: Seed = 0,
    tolerance: Tolerance = None,
    seconds: Annotated[float, typer.Option(help="How long to time on each.")] = 1.0,
    tune: Annotated[float, typer.Option(metavar="SECONDS", help="Tune each for about so long first.")] = 0.0,
    keep: Keep = None,
    timeout: Patience = 600.0,
    scheduler: Annotated[
        Optional[str],
        typer.Option(metavar="ADDRESS", help="A trusted dask scheduler that is running; else processes here."),
    ] = None,
) -> Answer:
    """Check, time and tune MODEL on several devices side by side; one that is lost costs its own line alone."""
    from edgec.bench import farm as devices
    from edgec.report import farm as farm_report

    places = [devices.place(text) for text in on]
    with shown() as progress:
        outcomes = devices.farm(
            model, places, samples=samples, seed=seed, tolerance=tolerance, seconds=seconds, tune=tune, keep=keep,
            timeout=timeout, scheduler=scheduler, progress=progress, **settings,
        )  # fmt: skip
    return Answer(farm_report.record(outcomes), farm_report.draw, all(o.ok for o in outcomes))


@command(app, "fit")
def fit(
    name: Annotated[str, typer.Argument(metavar="DEVICE", help="A name, or a TOML file.")],
    link: Way = "device",
    out: Annotated[
        Optional[Path], typer.Option("--out", "-o", metavar="FILE", help="Device file; DEVICE_fitted.toml by default.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="How long to time kernels, at most.")] = 600.0,
    timeout: Patience = 120.0,
    compiler: Annotated[Optional[str], typer.Option(metavar="COMMAND", help="C compiler to take.")] = None,
    devices: DeviceFolders = None,
) -> Answer:
    """Time some hundreds of kernels on DEVICE, and fit the costs that its plans are priced by.

    The result is a device file with these costs. Times are kept beside it: the same command goes on after a failure.
    """
    from edgec.device.load import load_device
    from edgec.report import fitted
    from edgec.tune.fit.fit import fit_device

    device = load_device(name, devices or ())
    file = out if out is not None else Path(f"{device.name}_fitted.toml")
    with shown() as progress:
        done = fit_device(
            device, file, link=link, seconds=seconds, timeout=timeout, compiler=compiler, progress=progress
        )
    return Answer(fitted.record(done), fitted.draw)

"""The command line: one function a verb, no logic. Exit codes: see `edgec.cli.main.command`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from edgec.artifact.names import is_built, is_divided
from edgec.cli import advise as advise_verb
from edgec.cli import bench as bench_verb
from edgec.cli import certify as certify_verb
from edgec.cli import chat as chat_verbs
from edgec.cli import device as device_verbs
from edgec.cli import divided
from edgec.cli import kernel as kernel_verb
from edgec.cli import profiles as profile_verbs
from edgec.cli import report as report_verbs
from edgec.cli import rules as rule_verbs
from edgec.cli import samples as samples_verb
from edgec.cli import schema as schema_verb
from edgec.cli import train as train_verb
from edgec.cli import trust as trust_verb
from edgec.cli import tune as tune_verb
from edgec.cli import wheel as wheel_verb
from edgec.cli import worker as worker_verb
from edgec.cli.command import OK, Answer, Asked, CommandGroup, command, refused
from edgec.cli.shared import (
    Abi,
    BuiltFrom,
    Data,
    Inputs,
    Metric,
    ModelPath,
    OrBuilt,
    Samples,
    Seed,
    Steps,
    Tolerance,
    Vs,
    refuse_source,
)
from edgec.emit.apps import APPS, BINDINGS
from edgec.errors import UsageError
from edgec.options import Settings
from edgec.options.budgets import BUDGETS, read_budgets
from edgec.report.progress import shown
from edgec.report.record import head
from edgec.untrusted import reason, regular
from edgec.version import __version__

app = typer.Typer(
    name="edgec",
    cls=CommandGroup,
    help="ONNX and TFLite models into readable, fast C, CUDA or OpenCL. "
    "Exit codes: 0 ok, 1 a check failed, 2 bad input or usage.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.add_typer(device_verbs.app, name="device")
app.add_typer(rule_verbs.app, name="rules")
app.add_typer(profile_verbs.app, name="profiles")

Out = Annotated[Optional[Path], typer.Option("--out", "-o", metavar="DIR", help="Folder to write to.")]


@app.callback(invoke_without_command=True)
def main_options(
    version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
) -> None:
    if version:
        print(f"edgec {__version__}")
        raise typer.Exit


@command(app)
def build(
    settings: Settings,
    asked: Asked,
    model: ModelPath = ".",
    out: Out = None,
    compile: Annotated[bool, typer.Option("--compile/--no-compile", help="Compile the shared library too.")] = True,
    bindings: Annotated[
        str, typer.Option("--bindings", metavar="LIST", help=f"Other languages: {', '.join(BINDINGS)}, with commas.")
    ] = "",
    app: Annotated[
        Optional[list[str]], typer.Option("--app", metavar="LIST", help=f"Programs around it: {', '.join(APPS)}.")
    ] = None,
    abi: Abi = "",
    normalize: Annotated[
        str,
        typer.Option(
            metavar="MEAN/DEVIATION", help="What apps make of pixels, from 0 to 255; commas between channels."
        ),
    ] = "",
    labels: Annotated[
        Optional[Path], typer.Option(metavar="FILE", help="Names of the classes for apps, a line each.")
    ] = None,
    save_stages: Annotated[
        Optional[Path], typer.Option(metavar="DIR", help="Keep what every stage leaves, as text.")
    ] = None,
    lock: Annotated[
        Optional[Path], typer.Option("--lock", metavar="DIR", help="Choose as this earlier build did.")
    ] = None,
    tune: Annotated[
        float, typer.Option("--tune", metavar="SECONDS", help="Measure what the planner asks for first.")
    ] = 0.0,
    start: Annotated[
        str, typer.Option("--from", metavar="STAGE", help="Start at this stage; MODEL is then a saved text.")
    ] = "import",
    until: Annotated[str, typer.Option(metavar="STAGE", help="Stop after this stage and print what it left.")] = "emit",
    write_onnx: Annotated[
        Optional[Path], typer.Option("--write-onnx", metavar="FILE", help="Write the pruned network as ONNX too.")
    ] = None,
    write_masks: Annotated[
        Optional[Path], typer.Option("--write-masks", metavar="FILE", help="Write which weights stayed, as .npz.")
    ] = None,
    report: Annotated[bool, typer.Option("--report", help="Write report.html too: all that is known of it.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="A report without running anything.")] = False,
    budget: Annotated[
        Optional[list[str]], typer.Option("--budget", metavar="NAME=MOST", help=f"Fail above it: {', '.join(BUDGETS)}.")
    ] = None,
    box: Annotated[
        Optional[str],
        typer.Option("--box", metavar="FILE:DISTANCE", help="The inputs that the budget certified_error is about."),
    ] = None,
    over: divided.Over = None,
    gpus: divided.Gpus = None,
    split: divided.Split = "auto",
    goal: divided.Goal = "throughput",
    force: divided.Force = False,
    link_speed: divided.LinkSpeed = None,
    shard: divided.Shard = None,
    memory: divided.Memory = None,
    no_overlap: divided.NoOverlap = False,
) -> Answer:
    """Compile MODEL: by default into the folder MODEL-edgec."""
    wanted: dict[str, Any] = {
        "split": split, "goal": goal, "force": force, "link_speed": link_speed, "shard": tuple(shard or ()),
        "memory": memory, "no_overlap": no_overlap,
    }  # fmt: skip
    alone: dict[str, Any] = {
        "--bindings": bindings, "--app": app, "--abi": abi, "--normalize": normalize, "--labels": labels,
        "--lock": lock, "--save-stages": save_stages, "--tune": tune, "--from": start != "import",
        "--until": until != "emit", "--write-onnx": write_onnx, "--write-masks": write_masks, "--report": report,
        "--budget": budget, "--box": box,
    }  # fmt: skip
    if over or gpus is not None:
        return divided.build_divided(model, out, over, gpus, settings, {**wanted, "compile": compile}, alone)
    divided.refuse_alone(wanted)
    from edgec import api
    from edgec.artifact.folder import refuse_existing
    from edgec.artifact.origin import reopens
    from edgec.emit.picture import preparation
    from edgec.options.said import said
    from edgec.report import build as build_report
    from edgec.report import measure, next_steps
    from edgec.report.budget import held, needs

    budgets = read_budgets(budget or ())
    if needs(budgets, "certified_error") != (box is not None):
        hint = "--budget certified_error=0.05 --box x.npz:0.01"
        raise UsageError("the budget certified_error and its box go together", hint=hint, where="--box")
    if report and start == "emit":
        raise UsageError(
            "a report tells of the plan, which a program does not hold", hint="start at schedule or before"
        )
    for file in filter(None, (write_onnx, write_masks)):
        refuse_existing(file)
    if until != "emit":
        return _partial(model, settings, start, until, save_stages)
    folder = out if out is not None else Path(f"{Path(model).stem.lstrip('.') or 'model'}-edgec")
    extras = tuple(word.strip() for given in (bindings, *(app or ())) for word in given.split(",") if word.strip())
    with shown() as progress:
        built = api.build(
            model,
            folder,
            compile=compile,
            extras=extras,
            abi=abi,
            preprocessing=preparation(normalize, _lines(labels)),
            save_stages=save_stages,
            start=start,
            lock=lock,
            tune=tune,
            progress=progress,
            **settings,
        )
        if write_onnx is not None:
            built.write_onnx(write_onnx)
        if write_masks is not None:
            built.write_masks(write_masks)
        facts = measure.measure(built, budgets, report and not quick, progress)
        certified = measure.certified_error(built, box, progress) if box is not None else None
        budgeted = held(built, budgets, **facts, certified=certified)
        written = None
        if report:
            settled = said(settings, model, folder)
            written = measure.write(measure.describe(built, facts, budgets=budgeted, settings=settled), folder)
    found = {**build_report.record(built), "budgets": budgeted, "report": str(written) if written is not None else None}
    reopened = built.compiler is not None and reopens(folder)
    is_whole = built.onnx is None or built.onnx.part is None  # a part is no file that others read
    found["next"] = next_steps.steps(found, asked, extras, start if is_whole else "parts", built.peer, reopened)
    return Answer(found, lambda r: build_report.draw(r, model), all(b["ok"] for b in budgeted))


def _lines(path: Path | None) -> list[str]:
    try:  # splitlines would also split at what is no end of a line, and the classes behind would be others
        return regular(path).read_text(encoding="utf-8").removesuffix("\n").split("\n") if path is not None else []
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot be read: {reason(error)}", where=str(path)) from None


def _partial(model: str, settings: Settings, start: str, until: str, save: Path | None) -> Answer:
    from edgec import pipeline
    from edgec.options import resolve
    from edgec.pipeline.context import Context

    with shown() as progress:
        run = pipeline.run(model, Context(resolve(settings), progress), start, until, save)
    text = run.steps[-1].stage.show(run.result, run.context).text
    found = {**head("build"), "until": until, "seconds": run.seconds, "text": text}
    return Answer(found, lambda r: text)


@command(app)
def check(
    settings: Settings,
    model: OrBuilt = ".",
    inputs: Inputs = None,
    samples: Samples = 3,
    seed: Seed = 0,
    tolerance: Tolerance = None,
    locate: Annotated[bool, typer.Option("--locate", help="Find where an error comes in.")] = False,
    blocks: Annotated[
        bool, typer.Option("--blocks", help="Check every kernel alone too, beside the operators fused in it.")
    ] = False,
    out: Annotated[
        Optional[Path], typer.Option("--out", "-o", metavar="DIR", help="Folder for the reproducer of --locate.")
    ] = None,
    data: Data = None,
    metric: Metric = "top1",
    metrics: Annotated[
        Optional[list[Path]], typer.Option("--metrics", metavar="DIR", help="Folder of metrics of your own.")
    ] = None,
    output: Annotated[Optional[str], typer.Option(help="The output that is scored.")] = None,
    drop: Annotated[float, typer.Option(help="Points that compiled may be below the reference.")] = 1.0,
    vs: Vs = None,
    steps: Steps = 100,
    source: BuiltFrom = None,
    worker: divided.Workers = None,
) -> Answer:
    """Hold what MODEL compiles to, or a built folder, against onnxruntime (LiteRT for .tflite), stage by stage."""
    from edgec import api
    from edgec.report import check as check_report
    from edgec.report import score as score_report

    if is_divided(model):
        return divided.check_divided(
            model, settings, worker, model=source, inputs=inputs, samples=samples, seed=seed, tolerance=tolerance
        )
    refuse_source(source, model)
    for option, value, needed in (("--worker", worker, "a divided network"), ("--out", out and not locate, "--locate")):
        if value:
            raise UsageError(f"{option} is for {needed}", hint=f"leave out {option}", where=model)
    if train_verb.is_training(model):
        return train_verb.check_built(Path(model), vs, steps, seed, settings)
    if vs is not None:
        raise UsageError("--vs is for the folder of a built training", hint="edgec train MODEL -o DIR", where=model)
    if data is not None:
        with shown() as progress:
            scored = api.score(
                model, data, metric, metrics=metrics or (), output=output, drop=drop, progress=progress, **settings
            )
        return Answer(score_report.record(scored), score_report.draw, scored.ok)
    with shown() as progress:
        opened = api.reopen(model, source, progress=progress, **settings) if is_built(model) else None
        checked = api.check(
            opened or model, inputs=inputs, samples=samples, seed=seed, tolerance=tolerance, locate=locate,
            blocks=blocks, reproducer=out, progress=progress, **(settings if opened is None else {}),
        )  # fmt: skip
    found = check_report.record(checked)
    return Answer(found, check_report.draw, checked.ok)


bench_verb.register(app)
certify_verb.register(app)
advise_verb.register(app)
kernel_verb.register(app)
samples_verb.register(app)


@command(app)
def inspect(
    settings: Settings,
    model: OrBuilt = ".",
    traffic: Annotated[bool, typer.Option("--traffic", help="Plan it too: bytes that each kernel moves.")] = False,
    counted: Annotated[
        bool, typer.Option("--counted", help="Run it too: bytes by the counters of its NVIDIA GPU, beside --traffic.")
    ] = False,
    kernels: Annotated[
        bool, typer.Option("--kernels", help="Compile it for its GPU too: what each kernel takes of it.")
    ] = False,
) -> Answer:
    """Show what is in MODEL, and every operator that is not supported."""
    from edgec.report import look

    with shown() as progress:
        found = look.inspect(model, traffic=traffic, counted=counted, kernels=kernels, progress=progress, **settings)
    return Answer(found, found.draw)


tune_verb.register(app)


@command(app)
def explain(
    model: OrBuilt,
    node: Annotated[
        str, typer.Argument(metavar="NODE|KERNEL|RULE", help="A node of the model, the number of a kernel, or a rule.")
    ],
    settings: Settings,
    source: BuiltFrom = None,
) -> Answer:
    """Say what became of NODE: its kernels, why they hold what they hold, and why their neighbors are others.

    Of a rule: where it changed the network, and why it does not apply to what is left.
    """
    from edgec import api
    from edgec.report import look

    refuse_source(source, model)
    with shown() as progress:
        opened = api.reopen(model, source, progress=progress, **settings) if is_built(model) else None
        found = look.explain(opened or model, node, progress=progress, **(settings if opened is None else {}))
    return Answer(found, found.draw)


report_verbs.register(app)
train_verb.register(app)
chat_verbs.register(app)
trust_verb.register(app)
wheel_verb.register(app)
schema_verb.register(app)
worker_verb.register(app)


@command(app)
def demo(settings: Settings, out: Out = None) -> Answer:
    """Build the shipped digits network, read 360 pictures with it, and time it."""
    from edgec.cli import demo as digits

    with shown() as progress:
        done = digits.demo(out if out is not None else Path("edgec-demo"), settings, progress)
    return Answer(digits.record(done), digits.draw)


@command(app)
def doctor() -> Answer:
    """Show which compilers and packages are here."""
    from edgec.report import doctor as doctor_report

    found = doctor_report.doctor()
    return Answer(found, doctor_report.draw, bool(found["ok"]))


def main(arguments: list[str] | None = None) -> None:
    """The entry point. With --json, a mistake in the command line is one JSON object too."""
    given = sys.argv[1:] if arguments is None else arguments
    if given == ["--version"]:  # no option needs to be converted
        print(f"edgec {__version__}")
        sys.exit(OK)
    if "--json" not in given:
        app(args=given)
    try:
        sys.exit(app(args=given, standalone_mode=False))
    except Exception as mistake:
        explain_usage = getattr(mistake, "format_message", None)
        if explain_usage is None:
            raise
        problem = UsageError(str(explain_usage()), hint="see edgec --help")
        sys.exit(refused(_command_in(given), problem, as_json=True))


def _command_in(given: list[str]) -> str:
    """The command that a command line names, with its group; "edgec" where it names none that there is."""
    words = [word for word in given if not word.startswith("-")]
    place: Any = typer.main.get_command(app)
    named: list[str] = []
    for word in words:
        inner = getattr(place, "commands", {}).get(word)
        if inner is None:
            break
        named.append(word)
        place = inner
    return " ".join(named) if named and not hasattr(place, "commands") else "edgec"

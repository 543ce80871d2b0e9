"""What every command of the command line shares: its options, its answer, its errors and its exit code."""

from __future__ import annotations

import functools
import inspect
import json
import re
import sys
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Optional

import numpy as np
import typer
from rich.console import Console, RenderableType

from edgec.cli import config
from edgec.errors import CheckError, EdgecError, UsageError
from edgec.execute.invariants import InvariantError
from edgec.ir.verify import VerifyError
from edgec.options import Settings
from edgec.report import record as records
from edgec.report.record import Record
from edgec.text import printable
from edgec.untrusted import read_array

#: Commands that take the shared options: each may have a table of its own in edgec.toml.
_SECTIONS: set[str] = set()
#: Exit codes: as asked; a check failed; bad input or usage; a mistake in edgec itself; stopped by the user.
OK, CHECK_FAILED, BAD_INPUT, MISTAKE, STOPPED = 0, 1, 2, 3, 130


@dataclass(frozen=True)
class Answer:
    """What a command found: the record that --json prints, how it is drawn otherwise, and whether all is well.

    ``draw`` gets the record with nothing in it that a terminal would obey; a plain string it gives is printed as it is.
    """

    record: Record
    draw: Callable[[Record], RenderableType]
    ok: bool = True


#: Shared options as --help groups them, by the first name of each.
_PANELS = {
    "Target": "--device --place --threads --ram --name --precision --compiler",
    "Shapes, inputs and states": "--shape --dim --value --state --loop",
    "Compression": ("--quantize --calibrate --observer --budget --corrections --prune --sparsity --prune-by --masks"),
    "Rewriting and fusion": "--numeric --fuse --no-fuse --tuned/--untuned --without --apart --choose --tile",
    "Parts of your own": "--rules --templates --devices --operators",
}
_PANEL_OF = {name: panel for panel, names in _PANELS.items() for name in names.split()}


def _option(*names: str, help: str, metavar: str | None = None) -> Any:
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=_PANEL_OF[names[0]])


def _shared(
    device: Annotated[str, _option("--device", "-d", help="Machine to build for: a name, or a TOML file.")] = "host",
    threads: Annotated[int, _option("--threads", "-t", help="Most threads the network may use.")] = 1,
    name: Annotated[str, _option("--name", help="Prefix of everything in the generated C.")] = "net",
    shape: Annotated[
        Optional[list[str]], _option("--shape", help="Shape of an input.", metavar="NAME=1,3,224,224")
    ] = None,
    dim: Annotated[
        Optional[list[str]],
        _option("--dim", help="Range of a dimension that stays open; :STEP after it.", metavar="NAME=1..8"),
    ] = None,
    value: Annotated[
        Optional[list[str]], _option("--value", help="Fix an input at build time.", metavar="NAME=1,2")
    ] = None,
    state: Annotated[
        Optional[list[str]],
        _option("--state", help="An output is the next value of an input.", metavar="INPUT=OUTPUT"),
    ] = None,
    loop: Annotated[
        Optional[list[str]], _option("--loop", help="How often a Loop goes round at most.", metavar="NODE=16")
    ] = None,
    numeric: Annotated[
        str, _option("--numeric", help="What laws may change: exact, reassociates, approximates (or fast).")
    ] = "reassociates",
    quantize: Annotated[
        str,
        _option(
            "--quantize",
            help="What products are made of: float, int8, int8-dynamic, int4-weight, or mixed within --budget.",
        ),
    ] = "float",
    calibrate: Annotated[
        str, _option("--calibrate", help="Inputs to compress by: an .npz, a folder of them, or random.", metavar="PATH")
    ] = "random",
    observer: Annotated[
        str, _option("--observer", help="How ranges are found in them: best, minmax, percentile, mse, entropy.")
    ] = "minmax",
    budget: Annotated[
        Optional[str],
        _option("--budget", help="What that may lose: top1_drop, max_abs, max_rel, cosine.", metavar="FIGURE=BOUND"),
    ] = None,
    corrections: Annotated[
        str, _option("--corrections", help="What may make up for it: auto, none, equalize,smooth,gptq,bias.")
    ] = "auto",
    prune: Annotated[
        Optional[str],
        _option(
            "--prune",
            help="Zeros to leave out: vector, block=8x4, pattern=4of9, 2:4; or channel.",
            metavar="KIND",
        ),
    ] = None,
    sparsity: Annotated[
        Optional[str], _option("--sparsity", help="Share of zeros, or auto: as the budget allows.", metavar="SHARE")
    ] = None,
    prune_by: Annotated[str, _option("--prune-by", help="How zeros are chosen: obs, wanda, magnitude.")] = "obs",
    masks: Annotated[
        Optional[Path], _option("--masks", help="Which weights stay, as --write-masks writes it.", metavar="FILE")
    ] = None,
    fuse: Annotated[
        str, _option("--fuse", help="What becomes one kernel: planner, fixed (patterns), operators, none.")
    ] = "planner",
    no_fuse: Annotated[bool, _option("--no-fuse", help="The same as --fuse none.")] = False,
    tuned: Annotated[
        bool, _option("--tuned/--untuned", help="Let measured times decide where the profile database has them.")
    ] = True,
    precision: Annotated[
        Optional[str],
        _option(
            "--precision",
            help="fp32, fp16, bf16; a GPU's fp16, tf32, int8, mixed or mixed:ERROR. The device's own by default.",
        ),
    ] = None,
    place: Annotated[
        Optional[str],
        _option("--place", help="Where kernels run: auto (processor and GPU, by price), gpu, cpu.", metavar="PLACE"),
    ] = None,
    compiler: Annotated[Optional[str], _option("--compiler", help="gcc, clang, zig, or a command.")] = None,
    ram: Annotated[
        Optional[int], _option("--ram", help="Most for arena, inputs and outputs; a board's own.", metavar="BYTES")
    ] = None,
    rules: Annotated[
        Optional[list[Path]], _option("--rules", help="Folder of laws of your own.", metavar="DIR")
    ] = None,
    templates: Annotated[
        Optional[list[Path]], _option("--templates", help="Folder of kernel templates of your own.", metavar="DIR")
    ] = None,
    devices: Annotated[
        Optional[list[Path]], _option("--devices", help="Folder of devices of your own.", metavar="DIR")
    ] = None,
    operators: Annotated[
        Optional[list[Path]], _option("--operators", "--ops", help="Folder of operators of your own.", metavar="DIR")
    ] = None,
    without: Annotated[Optional[list[str]], _option("--without", help="Do without this law.", metavar="LAW")] = None,
    apart: Annotated[
        Optional[list[str]],
        _option("--apart", help="Keep its result in memory: not fused with readers.", metavar="NODE"),
    ] = None,
    choose: Annotated[
        Optional[list[str]],
        _option("--choose", help="Decide what prices would (see explain).", metavar="'KIND NODE=WAY'"),
    ] = None,
    tile: Annotated[
        Optional[list[str]], _option("--tile", help="Rows and vectors of a product's tile.", metavar="NODE=8x3")
    ] = None,
) -> Settings:
    """Settings from the options that commands share; raises UsageError for a shape or value that does not read."""
    return Settings(
        device=device, threads=threads, name=name,
        shapes=dict(_shape(text) for text in shape or ()),
        dims=dict(_range(text) for text in dim or ()),
        values=dict(_value(text) for text in value or ()),
        states=dict(_named(text, "--state", "INPUT=OUTPUT") for text in state or ()),
        loops=dict(_loop(text) for text in loop or ()),
        numeric=numeric, quantize=quantize, calibrate=calibrate, observer=observer,
        loss_budget=budget, corrections=corrections, prune=prune, sparsity=sparsity, prune_by=prune_by, masks=masks,
        fuse="none" if no_fuse else fuse, tuned=tuned, compiler=compiler, ram=ram,
        **({"precision": precision} if precision is not None else {}),
        **({"place": place} if place is not None else {}),
        rules=rules or (), templates=templates or (), devices=devices or (), operators=operators or (),
        without=without or (), apart=apart or (),
        choose=dict(_named(text, "--choose", "'KIND NODE=WAY'") for text in choose or ()),
        tiles=dict(_tile(text) for text in tile or ()),
    )  # fmt: skip


def _named(text: str, option: str, example: str) -> tuple[str, str]:
    name, equals, rest = text.rpartition("=")
    if not equals or not name:
        raise UsageError(f"cannot read {option} '{printable(text)}'", hint=f"write {option} {example}")
    return name, rest


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, rest = _named(text, "--shape", "NAME=1,3,224,224")
    try:
        return name, tuple(int(d) for d in rest.split(",") if rest.strip())
    except ValueError:
        hint = "write --shape NAME=1,3,224,224"
        raise UsageError(f"'{printable(rest)}' is no shape", hint=hint, where=f"--shape {printable(name)}") from None


def _loop(text: str) -> tuple[str, int]:
    name, rest = _named(text, "--loop", "NODE=16")
    if not rest.isdecimal():
        raise UsageError(f"'{printable(rest)}' is no number", hint="write --loop NODE=16", where=printable(name))
    return name, int(rest)


def _tile(text: str) -> tuple[str, tuple[int, int]]:
    name, rest = _named(text, "--tile", "NODE=8x3")
    found = re.fullmatch(r"(\d+)x(\d+)", rest)
    if not found:
        hint = "write --tile NODE=8x3: 8 rows, 3 vectors"
        raise UsageError(f"'{printable(rest)}' is no tile", hint=hint, where=f"--tile {printable(name)}")
    return name, (int(found[1]), int(found[2]))


def _range(text: str) -> tuple[str, tuple[int, int, int]]:
    name, rest = _named(text, "--dim", "NAME=1..8 or NAME=32..960:32")
    found = re.fullmatch(r"(\d+)(?:\.\.(\d+)(?::(\d+))?)?", rest)
    if not found:
        hint = "write --dim NAME=1..8, or NAME=32..960:32 for multiples of 32"
        raise UsageError(f"'{printable(rest)}' is no range", hint=hint, where=f"--dim {printable(name)}")
    return name, (int(found[1]), int(found[2] or found[1]), int(found[3] or 1))


def _value(text: str) -> tuple[str, Any]:
    """A number, numbers separated by commas, true or false, or the name of a .npy file."""
    name, rest = _named(text, "--value", "NAME=1,2 or NAME=file.npy")
    words = {"true": True, "false": False}
    try:
        if rest.endswith(".npy"):
            return name, read_array(rest)
        numbers = [words[w.lower()] if w.lower() in words else json.loads(w) for w in rest.split(",")]
        array = np.asarray(numbers[0] if len(numbers) == 1 else numbers)
    except (OSError, ValueError):
        array = np.asarray(None)
    if array.dtype.kind not in "iufb":
        hint = "write NAME=1,2 or NAME=file.npy"
        raise UsageError(f"'{printable(rest)}' is no value", hint=hint, where=f"--value {printable(name)}")
    return name, array


_JSON = Annotated[bool, typer.Option("--json", help="Print one JSON object instead (see docs/json.md).")]


def command(app: typer.Typer, name: str | None = None) -> Callable[[Callable[..., Answer]], Callable[..., None]]:
    """Register a function as a command. Its answer is printed, and becomes the exit code.

    A parameter called ``settings`` is replaced by the shared options; ``--json`` is added to all.
    """

    def register(verb: Callable[..., Answer]) -> Callable[..., None]:
        own = _parameters(verb)
        takes_settings = "settings" in own
        shared = {k: p for k, p in _parameters(_shared).items() if k not in own} if takes_settings else {}
        own.pop("settings", None)
        json_flag = inspect.Parameter("json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=_JSON)
        title = name or verb.__name__
        if takes_settings:
            _SECTIONS.update((title, f"device_{title}"))

        @functools.wraps(verb)
        def run(context: typer.Context, **arguments: Any) -> None:
            as_json = bool(arguments.pop("json"))

            def work() -> Answer:
                if takes_settings and "model" in own and config.is_config(arguments["model"]):
                    _configure(arguments, context, own, shared)
                given = {key: arguments[key] for key in own}
                if takes_settings:
                    given["settings"] = _shared(**{key: arguments[key] for key in shared})
                return verb(**given)

            raise typer.Exit(answer(title, work, as_json))

        parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*own.values(), *shared.values())]
        context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
        run.__signature__ = inspect.Signature([context, *parameters, json_flag])  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in (context, *parameters, json_flag)}
        app.command(title)(run)
        return run

    return register


def settings_of(found: config.Config) -> tuple[str, Settings]:
    """The model and the settings that edgec.toml gives to commands without options of their own."""
    shared = _parameters(_shared)
    given = {key: p.default for key, p in shared.items()} | config.arguments(found, "serve", {}, shared, _SECTIONS)
    return found.model, _shared(**given)


def _configure(
    arguments: dict[str, Any], context: typer.Context, own: config.Parameters, shared: config.Parameters
) -> None:
    """Fill in what edgec.toml says and the command line does not, the model first."""
    found = config.load(arguments["model"])
    arguments["model"] = found.model
    groups: list[str] = []
    place: Any = context
    while place.parent is not None:  # "device", then "check"
        groups.insert(0, str(place.info_name))
        place = place.parent
    for key, value in config.arguments(found, "_".join(groups), own, shared, _SECTIONS).items():
        source = context.get_parameter_source(key)
        if source is None or source.name in ("DEFAULT", "DEFAULT_MAP"):
            arguments[key] = value


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(function, eval_str=True).parameters)


def answer(title: str, work: Callable[[], Answer], as_json: bool) -> int:
    """Do the work, print what it found (or the one error it ended in), and give the exit code."""
    err = Console(stderr=True, highlight=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = work()
        except KeyboardInterrupt:
            err.print("stopped")
            return STOPPED
        except EdgecError as problem:
            return refused(title, problem, as_json)
        except MemoryError as problem:
            hint = "the model, or its inputs, are larger than this machine has memory for"
            return refused(title, UsageError(f"out of memory: {problem}".rstrip(": "), hint=hint), as_json)
        except Exception as mistake:
            if as_json:
                hint = "this is a mistake in edgec: please report it with the model"
                _print_json(records.error(title, EdgecError(f"{type(mistake).__name__}: {mistake}", hint=hint)))
            err.print(traceback.format_exc(), markup=False, soft_wrap=True)
            err.print("this is a mistake in edgec: please report it with the model", style="red")
            return MISTAKE
    told = [str(w.message) for w in caught if w.category.__module__.startswith("edgec")]
    if as_json:
        _print_json({**found.record, "warnings": told})
    else:
        shown = found.draw(records.shown(found.record))
        if isinstance(shown, str):
            sys.stdout.write(shown)
        else:
            Console(highlight=False).print(shown)
    for line in told:
        err.print(f"warning: {printable(line, 1000)}", style="yellow", markup=False, soft_wrap=True)
    return OK if found.ok else CHECK_FAILED


def refused(title: str, problem: EdgecError, as_json: bool) -> int:
    """Print the error a command ended in; gives the exit code."""
    if as_json:
        _print_json(records.error(title, problem))
    text = records.shown(f"error: {problem}")
    Console(stderr=True, highlight=False).print(text, style="red", markup=False, soft_wrap=True)
    if isinstance(problem, (VerifyError, InvariantError)):
        return MISTAKE
    return CHECK_FAILED if isinstance(problem, CheckError) else BAD_INPUT


def _print_json(record: Record) -> None:
    sys.stdout.write(json.dumps(records.finite(record), ensure_ascii=False) + "\n")

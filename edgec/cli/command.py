"""The common part of all commands: options, answer, errors and exit code."""

from __future__ import annotations

import functools
import inspect
import json
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

from edgec import files
from edgec.cli import config, trusted
from edgec.errors import CheckError, EdgecError, InternalError
from edgec.options import OPTIONS, Option, Settings
from edgec.options.renamed import new_flag
from edgec.report import record as records
from edgec.report.record import Record
from edgec.text import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

#: Commands that take the shared options: each may have a table of its own in edgec.toml.
_SECTIONS: set[str] = set()
#: Exit codes: as asked; a check failed; bad input or usage; a mistake in edgec itself; stopped by the user.
OK, CHECK_FAILED, BAD_INPUT, MISTAKE, STOPPED = 0, 1, 2, 3, 130


@dataclass(frozen=True)
class Answer:
    """Result of a command: the record that --json prints, its drawing otherwise, and success.

    ``draw`` gets the record with nothing in it that a terminal would obey; a plain string it gives is printed as it is.
    """

    record: Record
    draw: Callable[[Record], RenderableType]
    ok: bool = True


#: The words of a command that ask for the same build again, for a shell: the model as it was named, then the shared
#: options that were given.
Asked = tuple[str, ...]


#: A second way to say what an option can: its parameter, and the option and value it stands for.
_NO_FUSE = inspect.Parameter(
    "no_fuse",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[
        bool, typer.Option("--no-fuse", help="The same as --fuse none.", rich_help_panel=OPTIONS["fuse"].group)
    ],
)


def _parameter(key: str, option: Option) -> inspect.Parameter:
    """A row of the table as a parameter of a command."""
    names = (f"{option.long}/--no-{option.long[2:]}",) if option.kind is bool else (option.long, *option.short)
    declared = typer.Option(*names, help=option.help, metavar=option.metavar, rich_help_panel=option.group)
    annotated: Any = Annotated
    return inspect.Parameter(
        key, inspect.Parameter.KEYWORD_ONLY, default=option.default, annotation=annotated[option.kind, declared]
    )


def _shared_parameters() -> dict[str, inspect.Parameter]:
    """Parameters of the options that commands share, in the order of the table."""
    found = {}
    for key, option in OPTIONS.items():
        found[key] = _parameter(key, option)
        if key == "fuse":
            found[_NO_FUSE.name] = _NO_FUSE
    return found


_SHARED = _shared_parameters()


def _settings(given: Mapping[str, Any]) -> Settings:
    """Settings from the options that commands share; raises UsageError for a text of one that does not read."""
    found: dict[str, Any] = {}
    for key, option in OPTIONS.items():
        value = given[key]
        if option.pair is not None:
            found[key] = dict(option.pair.parse(text) for text in value or ())
        elif option.is_repeated:
            found[key] = value or ()
        elif value is not None:
            found[key] = value
    if given[_NO_FUSE.name]:
        found["fuse"] = "none"
    return cast(Settings, found)


#: The options that the short help shows, and the key of a context that asks for it.
_USUAL = frozenset(
    (
        "out", "device", "threads", "name", "precision", "quantize", "calibrate", "shapes", "dims", "context", "app",
        "bindings", "report", "inputs", "link", "vs", "seconds", "prompt", "temperature", "json", "eps", "property",
    )
)  # fmt: skip
_SHORT_HELP = "edgec.short_help"

_JSON = Annotated[bool, typer.Option("--json", help="Print one JSON object instead (see docs/guide/json.md).")]


class CommandGroup(TyperGroup):
    """A group of commands whose help shows no type for flags."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _flags_alone(super().get_params(ctx))


def _flags_alone(parameters: list[Any]) -> list[Any]:
    """The parameters; help shows no "<bool>" for those that take no value."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = " "
    return parameters


class _Command(TyperCommand):
    """A command with a short help (`-h`) beside the long one, which says the new name of an option by its old one."""

    def get_params(self, ctx: Any) -> list[Any]:
        found = _flags_alone(super().get_params(ctx))
        if not ctx.meta.get(_SHORT_HELP):
            return found
        return [p for p in found if p.name in _USUAL or p.param_type_name == "argument"]

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> Any:
        if "-h" in args:
            context = super().make_context(info_name, [], parent, resilient_parsing=True, **extra)
            context.meta[_SHORT_HELP] = True
            typer.echo(context.get_help(), color=context.color)
            typer.echo(f"{context.command_path} --help lists all {len(self.params)} options.")
            context.exit()
        return super().make_context(info_name, args, parent, **extra)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except Exception as mistake:
            unknown: Any = mistake  # typer brings its own copy of click, whose NoSuchOption has no public name
            old = getattr(unknown, "option_name", None)
            new = new_flag(old.lstrip("-"), str(ctx.info_name)) if old else None
            if new is not None:
                unknown.message = f"No such option: {old}. It is called --{new.replace('_', '-')} now."
                unknown.possibilities = None
            raise


def command(app: typer.Typer, name: str | None = None) -> Callable[[Callable[..., Answer]], Callable[..., None]]:
    """Register a function as a command. Its answer is printed, and becomes the exit code.

    A parameter called ``settings`` is replaced by the shared options, one called ``asked`` gets the words that ask for
    the same build again; ``--json`` is added to all, and one called ``as_json`` tells a command that writes while it
    works.
    """

    def register(verb: Callable[..., Answer]) -> Callable[..., None]:
        own = _parameters(verb)
        takes_settings = "settings" in own
        shared = _SHARED if takes_settings else {}
        own.pop("settings", None)
        takes_asked = own.pop("asked", None) is not None
        takes_json = own.pop("as_json", None) is not None
        json_flag = inspect.Parameter("json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=_JSON)
        title = name or verb.__name__
        if takes_settings:
            _SECTIONS.update((title, f"device_{title}"))

        @functools.wraps(verb)
        def run(invocation: typer.Context, **arguments: Any) -> None:
            as_json = bool(arguments.pop("json"))

            def work() -> Answer:
                asked = _asked(arguments, invocation, shared) if takes_asked else ()
                if takes_settings and "model" in own and config.is_config(arguments["model"]):
                    _configure(arguments, invocation, own, shared)
                given = {key: arguments[key] for key in own}
                if takes_settings:
                    given["settings"] = _settings(arguments)
                if takes_asked:
                    given["asked"] = asked
                if takes_json:
                    given["as_json"] = as_json
                return verb(**given)

            raise typer.Exit(answer(_full_name(invocation), work, as_json))

        parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*own.values(), *shared.values())]
        context = inspect.Parameter("invocation", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
        run.__signature__ = inspect.Signature([context, *parameters, json_flag])  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in (context, *parameters, json_flag)}
        app.command(title, cls=_Command)(run)
        return run

    return register


def _asked(arguments: Mapping[str, Any], context: typer.Context, shared: config.Parameters) -> Asked:
    """The model and the shared options of a command line, as they were written."""
    words = [str(arguments["model"])]
    for key in filter(lambda key: _is_given(context, key), shared):
        flag, value = f"--{key.replace('_', '-')}" if key not in OPTIONS else OPTIONS[key].long, arguments[key]
        if isinstance(value, bool):
            words.append(flag if value else f"--no-{flag[2:]}")
            continue
        for item in value if isinstance(value, (list, tuple)) else (value,):
            words += [flag, str(item)]
    return tuple(words)


def _full_name(context: typer.Context) -> str:
    """The name of a command with its group: "device list"."""
    words: list[str] = []
    place: Any = context
    while place.parent is not None:
        words.insert(0, str(place.info_name))
        place = place.parent
    return " ".join(words)


def _is_given(context: typer.Context, key: str) -> bool:
    """True for a parameter of the command line itself."""
    source = context.get_parameter_source(key)
    return source is not None and source.name not in ("DEFAULT", "DEFAULT_MAP")


def settings_of(found: config.Config) -> tuple[str, Settings]:
    """The model and the settings that edgec.toml gives to commands without options of their own."""
    usual = {key: p.default for key, p in _SHARED.items()}
    given = config.arguments(found, "serve", {}, _SHARED, _SECTIONS)
    trusted.require(found, given)
    return found.model, _settings(usual | given)


def _configure(
    arguments: dict[str, Any], context: typer.Context, own: config.Parameters, shared: config.Parameters
) -> None:
    """Fill in what edgec.toml says and the command line does not, the model first."""
    found = config.load(arguments["model"])
    arguments["model"] = found.model
    taken = {}
    for key, value in config.arguments(found, _full_name(context).replace(" ", "_"), own, shared, _SECTIONS).items():
        if not _is_given(context, key):
            taken[key] = value
    trusted.require(found, taken)
    arguments |= taken


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(function, eval_str=True).parameters)


def answer(title: str, work: Callable[[], Answer], as_json: bool) -> int:
    """Do the work, print what it found (or the one error it ended in), and give the exit code."""
    from rich.console import Console

    err = Console(stderr=True, highlight=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with files.system():
                found = work()
        except KeyboardInterrupt:
            err.print("stopped")
            return STOPPED
        except EdgecError as problem:
            return refused(title, problem, as_json)
        except Exception as mistake:
            if as_json:
                hint = "this is a mistake in edgec: please report it with the model"
                _print_json(records.error(title, EdgecError(f"{type(mistake).__name__}: {mistake}", hint=hint)))
            err.print(traceback.format_exc(), markup=False, soft_wrap=True)
            err.print("this is a mistake in edgec: please report it with the model", style="red")
            return MISTAKE
    told = list(dict.fromkeys(str(w.message) for w in caught if w.category.__module__.startswith("edgec")))
    if as_json:
        _print_json({**found.record, "warnings": told})
    else:
        shown = found.draw(records.shown(found.record))
        if isinstance(shown, str):
            sys.stdout.write(shown)
        else:
            Console(highlight=False).print(shown, crop=False)
    for line in told:
        err.print(f"warning: {printable(line, 1000)}", style="yellow", markup=False, soft_wrap=True)
    return OK if found.ok else CHECK_FAILED


def refused(title: str, problem: EdgecError, as_json: bool) -> int:
    """Print the error a command ended in; gives the exit code."""
    if as_json:
        _print_json(records.error(title, problem))
    from rich.console import Console

    text = records.shown(f"error: {problem}")
    Console(stderr=True, highlight=False).print(text, style="red", markup=False, soft_wrap=True)
    if isinstance(problem, InternalError):
        return MISTAKE
    return CHECK_FAILED if isinstance(problem, CheckError) else BAD_INPUT


def _print_json(record: Record) -> None:
    sys.stdout.write(json.dumps(records.finite(record), ensure_ascii=False) + "\n")

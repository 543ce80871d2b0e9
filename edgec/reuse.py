"""Builds that are there already: in a folder of the user's, or in the compile cache. Nothing is compiled again.

Their stages are executed only where their results are asked for (`edgec.pipeline.deferred`).
"""

from __future__ import annotations

import json
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgec.artifact.cache import compile_cache
from edgec.artifact.fingerprint import fingerprint
from edgec.artifact.folder import library_name, read_lock
from edgec.artifact.lock import lock_facts, locked
from edgec.artifact.origin import code_of, read_origin
from edgec.build import Buildable, Built, build, read
from edgec.device.compilers import compiler_for, runs_here
from edgec.errors import UsageError
from edgec.frontend.source import Parsed, digest, files_beside
from edgec.options import OPTIONS, Settings, resolve
from edgec.pipeline.context import Context
from edgec.pipeline.deferred import DeferredRun
from edgec.pipeline.preprocessing import with_preprocessing
from edgec.pipeline.training import trained_run
from edgec.progress import Progress, silent
from edgec.schedule.variants import Variants
from edgec.tune.affinity import with_lock, with_sweep
from edgec.tune.known import prices_for

if TYPE_CHECKING:
    from typing_extensions import Unpack


def remembered(model: Buildable, progress: Progress = silent, **settings: Unpack[Settings]) -> tuple[Built, str | None]:
    """The compiled build of a model in a temporary folder, from the compile cache or new, and its name there.

    A new one is kept. Where its code does not run on this machine it is not compiled, and has no name; neither has one
    that depends on what no hash tells. Raises EdgecError as `build` does.
    """
    options = resolve(settings)
    runs = runs_here(options.device, options.compiler)
    if not runs or options.training is not None:  # the graph of a step is not that of the model
        return build(model, compile=runs, progress=progress, **settings), None
    compiler = compiler_for(options.device, options.compiler)
    parsed, options = with_preprocessing(read(model), options)
    options = with_sweep(options, settings, parsed)
    cache, facts = compile_cache(), lock_facts(options, parsed, "import")
    try:
        key = fingerprint(options, files_beside(parsed), facts, compiler) if cache is not None else None
    except TypeError:  # an option that has no fingerprint
        key = None
    if cache is None or key is None:
        return build(parsed, progress=progress, **settings), None
    folder = Path(tempfile.mkdtemp(prefix="edgec-"))
    if cache.take(key, folder):
        found = Built(parsed, DeferredRun(parsed, Context(options, progress, facts)), folder, {}, str(compiler))
        weakref.finalize(found, shutil.rmtree, folder, True)
        return found, key
    folder.rmdir()
    built = build(parsed, progress=progress, **settings)
    cache.keep(key, built.folder)
    return built, key


def reopened(
    folder: Path, settings: Mapping[str, Any], model: str | Path | None = None, progress: Progress = silent
) -> Built:
    """The build in a folder, beside the model that it was made from.

    The model is where it was when the folder was built, or ``model``; ``settings`` are options that differ from their
    defaults, which have to be those of the build. Raises UsageError where the model is gone or another one, the
    options are others, or the folder holds a training step.
    """
    parsed, context, compiler, source = _asked_again(folder, settings, model, progress)
    if context.options.training is not None or "training" in read_lock(folder):
        hint = f"edgec check, bench and profile take it as it is; other commands take {source}, without --loss"
        raise UsageError("holds a training step", hint=hint, where=str(folder))
    _require_same(folder, context)
    return Built(parsed, DeferredRun(parsed, context), folder, {}, compiler)


def reopened_step(
    folder: Path, settings: Mapping[str, Any], model: str | Path | None = None, progress: Progress = silent
) -> Built:
    """The build of a training step in a folder: scheduled again, and not compiled. Errors are those of `reopened`,
    and one where another version of edgec wrote the folder."""
    parsed, context, compiler, _ = _asked_again(folder, settings, model, progress)
    if context.options.training is None:
        hint = "edgec train it again from a file, which notes them"
        raise UsageError("the options of its training are not noted", hint=hint, where=str(folder))
    _require_same(folder, context)
    parsed, run = trained_run(parsed, context)
    for path, content in run["emit"].files.items():
        if "_step_kernels_" in path and (folder / path).read_bytes() != content:
            hint = "edgec train it again"
            raise UsageError("its step is not the one that this edgec makes", hint=hint, where=str(folder / path))
    return Built(parsed, run, folder, {}, compiler)


def _asked_again(
    folder: Path, settings: Mapping[str, Any], model: str | Path | None, progress: Progress
) -> tuple[Parsed, Context, str | None, Path]:
    """The model of a folder, how it was built, the compiler of its library, and the model's file."""
    lock = read_lock(folder)
    noted, of_build = read_origin(folder, lock)
    given = {key: value for key, value in settings.items() if value not in (OPTIONS[key].default, None, (), {})}
    source = Path(model) if model is not None else noted
    if source is None or not source.exists():
        where = "is not noted" if source is None else f"is not at {source}"
        hint = f"name it: --model FILE (it was called {(lock.get('model') or {}).get('name')})"
        raise UsageError(f"the model that it was built from {where}", hint=hint, where=str(folder))
    for key in code_of(of_build):
        if key not in given:
            hint = f"give {OPTIONS[key].long} yourself, if you trust it"
            raise UsageError(f"its notes name code to run: {OPTIONS[key].long}", hint=hint, where=str(folder))
    asked = {**of_build, **given}
    options = with_lock(resolve(asked), asked, lock)  # type: ignore[arg-type]
    parsed, options = with_preprocessing(read(source), options)
    if digest(parsed) != (lock.get("model") or {}).get("sha256"):
        hint = "edgec build it again, or name the right one: --model FILE"
        raise UsageError(f"the folder was built from another model than {source} is now", hint=hint, where=str(folder))
    facts = lock_facts(options, parsed, "import")
    is_compiled = (folder / library_name(lock["name"])).is_file()
    frozen = locked(folder, {**facts, "model": lock["model"]})  # it may have another name now
    context = Context(options, progress, facts, prices=prices_for(options, frozen), variants=Variants(frozen=frozen))
    compiler = str(compiler_for(options.device, options.compiler)) if is_compiled else None
    return parsed, context, compiler, source


def _require_same(folder: Path, context: Context) -> None:
    """Raises UsageError for options that are not those of the build in a folder, or a library that is missing."""
    lock, options = read_lock(folder), context.options
    for key, value in json.loads(json.dumps({**context.facts, "threads": options.threads})).items():
        if lock.get(key) != value and key != "model":
            hint = "leave the option out, or edgec build it again"
            raise UsageError(f"'{key}' is not what the folder was built with", hint=hint, where=str(folder))
    if runs_here(options.device, options.compiler) and not (folder / library_name(lock["name"])).is_file():
        hint = "build it without --no-compile"
        raise UsageError("the folder holds sources alone, no compiled library", hint=hint, where=str(folder))

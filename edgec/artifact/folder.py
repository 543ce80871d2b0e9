"""The artefact on disk and at work: how its folder comes to be, is compiled, and runs on numpy arrays."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from edgec import files as files_of_user
from edgec.artifact.names import LOCK, sealed_names
from edgec.artifact.placement import is_placement
from edgec.artifact.publish import hidden, put, turn
from edgec.errors import UsageError
from edgec.ir.dtypes import DTYPES
from edgec.options.cores import MOST_CORES
from edgec.text import printable
from edgec.untrusted import read_json, reason

#: What a report leaves in the folder of its build (edgec.report.document).
REPORTS = ("report.json", "report.html")
#: The folder that evidence on a build is written to (edgec.check.evidence).
EVIDENCE = "evidence"
#: Where the model of a build was, and what was asked for (edgec.artifact.origin).
ORIGIN = "origin.json"
#: What the compiler said of the kernels of a GPU, beside the library made of them.
RESOURCES = "resources.json"


def publish(files: Mapping[str, bytes], folder: Path, finish: Callable[[Path], None] = lambda folder: None) -> bool:
    """Write the files of an artefact as ``folder``, all of them or none.

    They are written beside it first, ``finish`` is called on that (it may compile there), and only then the folder is
    put in its place. An earlier artefact is replaced, but whatever else was put into it is kept. Tells whether one was.

    Raises UsageError when ``folder`` is something else than an artefact of edgec or an empty folder.
    """
    refuse_foreign(folder)
    with files_of_user.writing(folder), hidden(folder.absolute().parent) as fresh:
        fresh.chmod(0o777 & ~files_of_user.umask())
        for path in files:
            target = fresh / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as file:
                file.writelines(files_of_user.pieces_of(files, path))
        finish(fresh)
        with turn(folder):
            replaces = refuse_foreign(folder)  # again: another build may have ended meanwhile
            if replaces:
                _keep_foreign(folder, fresh)
            put(fresh, folder)
    return replaces


def refuse_foreign(folder: Path) -> bool:
    """True if ``folder`` contains an artifact of edgec; raises UsageError if it contains something else."""
    try:
        os.lstat(folder)
    except FileNotFoundError:
        return False
    except (OSError, ValueError) as error:  # a ValueError: a path that cannot be one
        raise UsageError(f"cannot be a folder: {reason(error)}", where=printable(str(folder))) from None
    if folder.is_symlink() or not folder.is_dir():
        raise UsageError("is there and is not a folder", hint="name another folder with -o", where=str(folder))
    if (folder / LOCK).is_file():
        return True
    if any(folder.iterdir()):
        raise UsageError(
            "the folder is not empty and was not made by edgec, so nothing was written",
            hint="name another folder with -o, or empty this one",
            where=str(folder),
        )
    return False


def refuse_existing(file: Path) -> None:
    """Raises UsageError where ``file`` cannot be a new one: before the work, so that nothing of the user's is lost."""
    if file.exists() or file.is_symlink():
        raise UsageError(
            "the file is there already, so nothing was done", hint="name another, or remove this one", where=str(file)
        )
    if not file.absolute().parent.is_dir():
        raise UsageError("its folder is not there, so nothing was done", hint="make the folder first", where=str(file))


def refuse_gpus(folder: Path) -> None:
    """Raises UsageError for a network over several GPUs, where its kernels are looked at one by one."""
    if (folder / LOCK).is_file() and "gpus" in read_lock(folder):
        hint = "take the folder of a build without --gpus; edgec check and bench run this one"
        raise UsageError("kernels of several GPUs are not looked at one by one yet", hint=hint, where=str(folder))


def _keep_foreign(folder: Path, fresh: Path) -> None:
    """Copy what is in the old folder but was not made by edgec, such as a build folder of CMake."""
    lock = read_lock(folder)
    own = {Path(path).parts[0] for path in lock.get("files", ())} | {LOCK, library_name(str(lock.get("name")))}
    own |= {"__pycache__", RESOURCES, ORIGIN, EVIDENCE, *REPORTS}  # a report is of the build that it was written for
    own |= set(sealed_names(str(lock.get("name"))))  # and so are encrypted weights
    for path in folder.iterdir():
        if path.name not in own and not (fresh / path.name).exists():
            if path.is_dir() and not path.is_symlink():
                shutil.copytree(path, fresh / path.name, symlinks=True)
            else:
                shutil.copy2(path, fresh / path.name, follow_symlinks=False)


def read_lock(folder: Path) -> dict[str, Any]:
    """The lock of an artifact; raises UsageError for any other folder."""
    try:
        lock = read_json(folder / LOCK)
    except OSError:
        raise UsageError("not a folder made by edgec", hint=f"it has no {LOCK}", where=str(folder)) from None
    if not isinstance(lock, dict) or not all(is_meant(lock[key]) for key, is_meant in _MEANT.items() if key in lock):
        raise UsageError("is no lock that edgec writes", hint="build it again", where=str(folder / LOCK))
    return lock


def _are_files(value: object) -> bool:
    """Paths below the folder of a lock, which no compiler takes for options."""
    return isinstance(value, list) and all(
        isinstance(f, str) and f and f[0] not in "-@" and not Path(f).is_absolute() and ".." not in Path(f).parts
        for f in value
    )


def _are_ports(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(p, dict)
        and all(isinstance(p.get(key), str) for key in ("onnx_name", "name", "dtype"))
        and p["dtype"] in DTYPES
        and isinstance(p.get("shape"), list)
        for p in value
    )


def _is_affinity(value: object) -> bool:
    return (
        isinstance(value, dict)
        and type(value.get("threads")) is int
        and value["threads"] >= 1
        and value.get("by") in ("sweep", "asked")
        and isinstance(value.get("cores"), list)
        and all(type(core) is int and 0 <= core < MOST_CORES for core in value["cores"])
    )


def _is_language_model(value: object) -> bool:
    return not value or (
        isinstance(value, dict)
        and all(type(value.get(k)) is int and 0 <= value[k] < 2**31 for k in ("context", "vocabulary", "chunk"))
        and type(value.get("cache_bytes")) is int
        and 0 <= value["cache_bytes"] < 2**62
    )


#: What is read of a lock, and what it has to be.
_MEANT: Mapping[str, Callable[[Any], bool]] = {
    "renewed": lambda names: isinstance(names, dict) and all(isinstance(n, str) for n in names.values()),
    "finals": lambda counts: isinstance(counts, list) and all(type(n) is int for n in counts),
    "name": lambda name: isinstance(name, str) and name.isidentifier(),
    "threads": lambda threads: type(threads) is int and threads >= 1,
    "affinity": _is_affinity,
    "files": _are_files,
    "sources": _are_files,
    "inputs": _are_ports,
    "outputs": _are_ports,
    "language_model": _is_language_model,
    "where": is_placement,
    "weights": lambda weights: isinstance(weights, dict),
}


def library_name(name: str) -> str:
    return f"lib{name}.so"

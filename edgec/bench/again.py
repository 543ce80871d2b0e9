"""A bench that was asked for before: on the build in the compile cache and the inputs drawn then, without the model.

The first time, the cache gets an entry for the request beside that of the build: the build's name, stamps of the files
that the model was read from, warnings, and the inputs. The second time, neither the compiler's stages nor their modules
are needed, so that timing starts at once.
"""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from edgec.artifact.cache import CompileCache, compile_cache
from edgec.artifact.folder import read_lock
from edgec.artifact.network import Network
from edgec.artifact.request import request, stamps
from edgec.bench.built import bench_built
from edgec.bench.timing import Benched
from edgec.errors import UsageError
from edgec.ir.dtypes import DTYPES, dtype_name
from edgec.progress import Progress
from edgec.untrusted import read_arrays, read_json

if TYPE_CHECKING:
    from edgec.build import Built
    from edgec.options import Settings

Arrays = Mapping[str, np.ndarray]
#: The files of an entry.
_NOTES, _INPUTS = "request.json", "inputs.npz"


class AgainWarning(UserWarning):
    """A warning of the first time, told again."""


def bench_again(
    model: str, settings: Settings, *, seconds: float, rounds: int, progress: Progress, seed: int = 0
) -> Benched:
    """`edgec.bench` of a model's file, alone and on inputs that are drawn. Raises EdgecError as that does."""
    cache = compile_cache()
    name = request(model, settings, seed=seed) if cache is not None else None
    if cache is not None and name is not None:
        with tempfile.TemporaryDirectory(prefix="edgec-") as folder:
            known = _taken(cache, name, Path(folder))
            if known is not None:
                placed = read_lock(Path(folder)).get("affinity") or {}
                threads = settings.get("threads") or int(placed.get("threads", 1))
                return bench_built(
                    Path(folder), threads=threads, seconds=seconds, rounds=rounds, progress=progress, ready=known
                )
    from edgec.bench import latency
    from edgec.reuse import remembered

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        built, key = remembered(model, progress, **settings)
        inputs = None
        if key is not None:
            with Network(built.folder, built.options.threads) as network:
                inputs = latency.inputs_of(built, None, network, seed)
        found = latency.bench(
            built, inputs=None, vs=None, seconds=seconds, rounds=rounds, seed=seed, progress=progress, ready=inputs
        )
    own = [w for w in told if w.category.__module__.startswith("edgec")]
    if cache is not None and name is not None and key is not None and inputs is not None:
        _keep(cache, name, key, built, [str(w.message) for w in own], inputs)
    for warning in told:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return found


def _keep(cache: CompileCache, name: str, key: str, built: Built, told: list[str], inputs: Arrays) -> None:
    """Add the entry of a request, in place of one that is no longer true."""
    from edgec.frontend.source import files_beside

    if built.parsed is None:
        return
    notes = {
        "build": key,
        "files": stamps(files_beside(built.parsed)),
        "warnings": told,
        "inputs": [[port, dtype_name(array.dtype), list(array.shape)] for port, array in inputs.items()],
    }
    with tempfile.TemporaryDirectory(prefix="edgec-") as folder:
        (Path(folder) / _NOTES).write_text(json.dumps(notes), "utf-8")
        arrays = {str(k): np.frombuffer(array.tobytes(), np.uint8) for k, array in enumerate(inputs.values())}
        np.savez(Path(folder) / _INPUTS, **arrays)  # type: ignore[arg-type]
        cache.drop(name)
        cache.keep(name, Path(folder))


def _taken(cache: CompileCache, name: str, folder: Path) -> Arrays | None:
    """The inputs of a request, and its build in an empty folder; None where either is gone, or a file has changed."""
    with tempfile.TemporaryDirectory(prefix="edgec-") as entry:
        if not cache.take(name, Path(entry)):
            return None
        try:
            notes = read_json(Path(entry) / _NOTES)
            if stamps(map(Path, notes["files"])) != notes["files"] or not cache.take(notes["build"], folder):
                return None
            held = read_arrays(Path(entry) / _INPUTS, narrow=True)
            inputs = {
                port: held[str(k)].view(DTYPES[dtype]).reshape(shape)
                for k, (port, dtype, shape) in enumerate(notes["inputs"])
            }
        except (LookupError, TypeError, ValueError, AttributeError, OSError, UsageError):  # of another version
            return None
    for text in notes["warnings"]:
        warnings.warn(text, AgainWarning, stacklevel=3)
    return inputs

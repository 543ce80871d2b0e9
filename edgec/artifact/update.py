"""Weights of another training for a built folder: a file that its program takes, or the reasons why there is none."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec import files as files_of_user
from edgec import pipeline
from edgec.artifact.folder import read_lock
from edgec.artifact.lock import lock_facts, locked
from edgec.artifact.names import LOCK
from edgec.artifact.origin import code_of, read_origin
from edgec.emit.weights_abi import code_of as lines_of_code
from edgec.emit.where import where_names
from edgec.errors import UsageError
from edgec.frontend import source as reader
from edgec.options import OPTIONS, Settings, resolve
from edgec.pipeline.context import Context
from edgec.pipeline.preprocessing import with_preprocessing
from edgec.progress import Progress, silent
from edgec.schedule.variants import Variants
from edgec.tune.affinity import with_lock
from edgec.tune.known import prices_for

#: Reasons that are told; one is enough to refuse.
_MOST = 8
_NUMBER = re.compile(r"(?<![\w.])-?(?:0x[0-9a-f]+|\d+(?:\.\d+)?(?:e[-+]?\d+)?)[fuUlL]*(?![\w.])")
#: The first line of a kernel's comment: its operators and, in brackets, nodes of the model.
_KERNEL = re.compile(r"^/\* (?P<what>.*?)\s*$")


@dataclass(frozen=True)
class Update:
    """Weights for a program in the field; ``reasons`` are why its code does not fit them, none where it does."""

    weights: bytes
    abi: str
    built_abi: str
    reasons: tuple[str, ...]

    @property
    def fits(self) -> bool:
        return self.abi == self.built_abi


def update(folder: Path, model: str | Path, out: Path | None = None, progress: Progress = silent) -> Update:
    """Build a model as the folder was built, and compare the code; the weights go to ``out`` if the code is the same.

    Raises UsageError for a folder whose weights are no file of their own, or whose settings name code to run.
    """
    lock = read_lock(folder)
    known = lock.get("weights") or {}
    if not isinstance(known.get("abi"), str) or "training" in lock:
        hint = "build with --weights file; other weights are part of the program"
        raise UsageError("only weights in a file of their own can be updated", hint=hint, where=str(folder))
    settings = read_origin(folder, lock)[1]
    for key in code_of(settings):
        hint = f"build the new model with the same {OPTIONS[key].long}, and compare {LOCK} of both folders"
        raise UsageError(f"its notes name code to run: {OPTIONS[key].long}", hint=hint, where=str(folder))
    asked: Settings = {**settings, "name": lock["name"], "weights": known["place"]}  # type: ignore[typeddict-item]
    options = with_lock(resolve(asked), asked, lock)
    parsed, options = with_preprocessing(reader.read(model), options)
    facts = lock_facts(options, parsed, "import")
    frozen = locked(folder, {**facts, "model": lock.get("model")})
    context = Context(options, progress, facts, prices=prices_for(options, frozen), variants=Variants(frozen=frozen))
    made = pipeline.run(parsed, context, "import")["emit"].files
    fresh = json.loads(made[LOCK])
    weights = made[fresh["weights"]["file"]]
    fits = fresh["weights"]["abi"] == known["abi"]
    reasons = () if fits else tuple(_reasons(folder, lock, made, fresh))
    found = Update(weights, fresh["weights"]["abi"], known["abi"], reasons)
    if found.fits and out is not None:
        files_of_user.replace(out, weights)
    return found


def _reasons(folder: Path, lock: Mapping[str, Any], made: Mapping[str, bytes], fresh: Mapping[str, Any]) -> list[str]:
    """Differences between the code of a folder and that of a build, the most telling first."""
    found = [f"{what} of the model are others: {_ports(fresh[what])} instead of {_ports(lock[what])}"
             for what in ("inputs", "outputs") if _ports(fresh[what]) != _ports(lock[what])]  # fmt: skip
    found += [f"'{key}' is not what the folder was built with" for key in ("edgec", "device", "device_facts", "threads")
              if fresh.get(key) != lock.get(key)]  # fmt: skip
    old_model, new_model = (x.get("language_model") or {} for x in (lock, fresh))
    found += [f"'{key}' of the language model is {new_model.get(key)} instead of {old_model.get(key)}"
              for key in {**old_model, **new_model} if old_model.get(key) != new_model.get(key)]  # fmt: skip
    if fresh["kernels"] != lock["kernels"]:
        found.append(f"the plan has {fresh['kernels']} kernels instead of {lock['kernels']}")
    if fresh["weights_bytes"] != lock["weights_bytes"]:
        found.append(f"there are {fresh['weights_bytes']} bytes of weights instead of {lock['weights_bytes']}")
    if not found:
        without = (f"{lock['name']}_weights.c", *where_names(str(lock["name"])))
        named = [
            path for path in lock["files"] if (folder / path).is_file() and Path(path).suffix in (".c", ".h", ".S")
        ]
        old = lines_of_code({path: (folder / path).read_bytes() for path in named}, without)
        new = lines_of_code(made, without)
        for path in sorted(old.keys() | new.keys()):
            if old.get(path) != new.get(path):
                text = made[path].decode() if path in made else ""
                found += _of_file(path, old.get(path, []), new.get(path, []), text)
    found = list(dict.fromkeys(found))
    more = [f"and {len(found) - _MOST} more"] if len(found) > _MOST else []
    return [*found[:_MOST], *more] or ["a table that the program links is another, such as the words of a tokenizer"]


def _of_file(path: str, old: list[str], new: list[str], text: str) -> Iterator[str]:
    """Differences of a file: numbers that became others, or the first other line."""
    plain = ([_NUMBER.sub("0", line) for line in lines] for lines in (old, new))
    if next(plain) != next(plain):
        first = next((k for k, (a, b) in enumerate(zip(old, new)) if a != b), min(len(old), len(new)))
        line = new[first] if first < len(new) else "its end"
        yield f"the code of {path} is another, from `{line[:80]}` on{_kernel(text, line)}"
        return
    for was, now in zip(old, new):
        for a, b in zip(_NUMBER.findall(was), _NUMBER.findall(now)):
            if a != b:
                yield f"{a} became {b} in the code of {path}{_kernel(text, now)}"


def _kernel(text: str, line: str) -> str:
    """The kernel that a line of code is in, by the comment before its function."""
    before = text.partition(line)[0].splitlines() if line in text else []
    named = next((m["what"] for m in map(_KERNEL.match, reversed(before)) if m), "")
    return f": {' '.join(named.split())}" if named else ""


def _ports(entries: Any) -> str:
    return ", ".join(f"{p['onnx_name']} {p['dtype']}{p['shape']}" for p in entries)

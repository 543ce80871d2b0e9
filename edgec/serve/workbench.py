"""One network being decided about: its settings, the decisions so far, and the build they give."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from edgec import api, files
from edgec.build import Built
from edgec.check.compare import compare_all, quantized_outputs, worst
from edgec.check.network import reference_for
from edgec.cli import config, toml_text
from edgec.device.compilers import runs_here
from edgec.errors import UsageError
from edgec.execute.samples import random_inputs
from edgec.options import Settings, resolve
from edgec.options.said import said
from edgec.progress import Progress, silent
from edgec.report import measure
from edgec.report.diff import diff
from edgec.report.record import Record
from edgec.serve.decidable import decidable

#: From the values of edgec.toml to settings; `edgec.cli.main.command` knows how.
Resolve = Callable[[config.Config], tuple[str, Settings]]


class Workbench:
    """Builds the network of a configuration again with every decision, and writes those down.

    ``resolve`` gives the model and the settings of a configuration.
    """

    def __init__(self, path: Path, resolve: Resolve, progress: Progress = silent) -> None:
        self.path, self.resolve, self.progress = path, resolve, progress
        self.folder = Path(tempfile.mkdtemp(prefix="edgec-serve-"))
        self.builds = 0
        self.document = self._built(config.load(path))

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def decide(self, kind: str, key: str, value: str) -> Record:
        """Take a decision: build, measure, keep it. Gives the document and what changed.

        Raises EdgecError when the network cannot be built so; edgec.toml is written after that, and so as before then.
        """
        decision = kind, key, value
        if any(0xD800 <= ord(c) <= 0xDFFF for word in decision for c in word):
            raise UsageError("a decision holds half a character (a lone surrogate)")
        fresh = self._built(self._with(decision)[1])
        files.replace(self.path, self._with(decision)[0])  # read again: it may have been edited while this was built
        changed = [
            {"name": t["name"], "before": t["before_text"], "after": t["after_text"], "better": t["better"]}
            for t in diff(self.document, fresh)["totals"]
        ]
        self.document = fresh
        return {"document": fresh, "changed": changed}

    def _with(self, decision: tuple[str, str, str]) -> tuple[str, config.Config]:
        """The text of edgec.toml with one more decision, and what it says."""
        found = config.load(self.path)
        text = toml_text.replaced(config.text_of(self.path), config.DECISIONS, decided(_decisions(found), *decision))
        return text, config.parsed(self.path, text)

    def _built(self, found: config.Config) -> Record:
        model, settings = self.resolve(found)
        options = resolve(settings)
        runs = runs_here(options.device, options.compiler)
        self.builds += 1  # a library is loaded once by each name, so every build has a folder of its own
        folder = self.folder / str(self.builds)
        built = api.build(model, folder, compile=runs, progress=self.progress, **settings)
        facts = measure.measure_times(built, self.progress)
        settled = said(settings, model, self.path.parent)
        document = measure.describe(built, facts, settings=settled)
        document["error"] = _error(built)
        document["decidable"] = decidable(built, _decisions(found))
        shutil.rmtree(folder, ignore_errors=True)
        return document


def _decisions(found: config.Config) -> Mapping[str, Any]:
    """The decisions of a configuration. Raises UsageError where they are no table."""
    decisions = found.values.get(config.DECISIONS, {})
    if not isinstance(decisions, Mapping):
        raise UsageError(f"'{config.DECISIONS}' is no table", where=str(found.path))
    return decisions


def decided(decisions: Mapping[str, Any], kind: str, key: str, value: str) -> dict[str, Any]:
    """Decisions with one more, or without it where the value is empty. Raises UsageError for a kind there is not."""
    found: dict[str, Any] = dict(decisions)
    if kind in ("materialize", "disable_rule"):
        names = [n for n in _of(found, kind, list) if n != key]
        found[kind] = [*names, key] if value else names
    elif kind in ("tile", "override"):
        table = {k: v for k, v in _of(found, kind, dict).items() if k != key}
        found[kind] = {**table, key: value} if value else table
    elif kind == "option" and key in ("quantize", "numeric", "fuse", "precision"):
        found.pop(key, None)
        if value:
            found[key] = value
    else:
        raise UsageError(f"nothing can be decided about '{kind}' '{key}'")
    return {k: v for k, v in found.items() if v not in ([], {})}


def _of(decisions: Mapping[str, Any], kind: str, meant: type) -> Any:
    """The decisions of a kind. Raises UsageError where they are no list or no table."""
    found = decisions.get(kind, meant())
    if not isinstance(found, meant):
        raise UsageError(f"'{config.DECISIONS}.{kind}' is no {'list' if meant is list else 'table'}")
    return found


def _error(built: Built) -> float | None:
    """The largest difference from the reference on one random input, of the largest value; None where it cannot run."""
    if built.compiler is None or not runs_here(built.options.device, built.options.compiler):
        return None
    _, reference = reference_for(built, [])
    arrays = random_inputs(built.stages.graph, 0)
    found = built.network.run(arrays)
    built.network.close()
    return worst(compare_all(found, reference(arrays), quantized_outputs(built.stages.graph))).max_rel

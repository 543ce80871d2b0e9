"""Lock files: the facts that a build depends on, and the choices of an earlier build."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from edgec.artifact.folder import read_lock
from edgec.compress.calibrate import digest
from edgec.errors import UsageError
from edgec.frontend import source as reader
from edgec.frontend.source import Parsed
from edgec.options import Options
from edgec.untrusted import regular


def locked(path: Path, facts: Mapping[str, Any]) -> Mapping[str, str]:
    """The choices of an earlier build. Raises UsageError where that was of another model."""
    lock = lock_of(path)
    if lock.get("model") != facts.get("model"):
        raise UsageError("this lock belongs to another model", hint="build without --lock", where=str(path))
    choices = lock.get("choices", {})
    if not isinstance(choices, dict):
        raise UsageError("cannot be read: it has no choices", where=str(path))
    return {str(key): str(taken) for key, taken in choices.items()}


def lock_of(path: str | Path) -> dict[str, Any]:
    """The lock of a folder, or in a file. Raises UsageError for what is none."""
    return read_lock(Path(path) if Path(path).is_dir() else Path(path).parent)


def lock_facts(options: Options, parsed: Parsed | None, start: str) -> dict[str, Any]:
    """The facts that a build depends on, for its lock file: equal facts give equal bytes."""
    facts: dict[str, Any] = {
        "started_at": start,
        "numeric": options.numeric,
        "fuse": options.fuse,
        "shapes": {name: list(shape) for name, shape in options.shapes.items()},
        "dims": {name: list(given) for name, given in options.dims.items()},
        "states": dict(options.states),
        "loops": dict(options.loops),
        "values": {name: sha256(np.asarray(v).tobytes()).hexdigest() for name, v in options.values.items()},
        "device_facts": asdict(options.device),
    }
    if options.levels:
        facts["level_facts"] = [asdict(device) for device in options.levels]
    if options.error:
        facts["mixed"] = {"error": options.error, "by": digest(options.calibrate)}
    if options.quantize != "float":
        facts["quantize"] = {
            "to": options.quantize,
            "observer": options.observer,
            "by": digest(options.calibrate),
            "max_loss": options.max_loss,
            "corrections": options.corrections,
        }
    if options.placed_by:
        facts["affinity"] = {"threads": options.threads, "cores": list(options.cores), "by": options.placed_by}
    decisions = {
        "disable_rules": sorted(options.disable_rules),
        "materialize": sorted(options.materialize),
        "overrides": dict(options.overrides),
        "tiles": {name: list(tile) for name, tile in options.tiles.items()},
    }
    if any(decisions.values()):
        facts["decisions"] = decisions
    if options.prune is not None:
        facts["prune"] = {
            "scheme": str(options.prune),
            "sparsity": options.sparsity,
            "chosen_by": options.prune_by,
            "by": digest(options.calibrate),
            "max_loss": options.max_loss,
            "masks": sha256(regular(options.masks).read_bytes()).hexdigest() if options.masks is not None else None,
        }
    if options.retraining is not None:
        asked = options.retraining
        facts["retrain"] = {
            "by": sha256(regular(asked.data).read_bytes()).hexdigest(),
            "steps": asked.steps,
            "optimizer": str(asked.optimizer),
            "batch": asked.batch,
            "augments": asked.augments,
        }
    if parsed is not None:
        facts["model"] = {"name": parsed.name, "sha256": reader.digest(parsed)}
    for what in ("rules", "templates", "micro_kernels", "operators"):
        folders: tuple[Path, ...] = getattr(options, what)
        facts[f"{what}_sha256"] = [_folder_digest(folder) for folder in folders]
    return facts


def _folder_digest(folder: Path) -> str:
    digest = sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts):
        digest.update(f"{path.relative_to(folder).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()

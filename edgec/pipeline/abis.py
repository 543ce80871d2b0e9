"""Builds of one model for further ABIs of an Android library, beside that for the device."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from edgec.artifact.names import LOCK
from edgec.device.load import load_device
from edgec.device.names import ABI_DEVICES
from edgec.emit.abi import WHERE, AbiFiles, abi_files
from edgec.errors import UsageError
from edgec.frontend.source import Parsed
from edgec.options import Options
from edgec.pipeline.context import Context
from edgec.pipeline.run import run
from edgec.progress import Progress


def files_of_abis(
    names: Sequence[str],
    parsed: Parsed | None,
    options: Options,
    facts_of: Callable[[Options, Parsed | None, str], dict[str, Any]],
    progress: Progress,
) -> tuple[AbiFiles, ...]:
    """The C for each of the ABIs. Raises UsageError for a saved stage, a training step and a GPU."""
    if not names:
        return ()
    if parsed is None or options.training is not None or options.gpu is not None:
        what = "a saved stage" if parsed is None else "a training step" if options.training is not None else "a GPU"
        raise UsageError(f"a network with {what} is for one ABI", hint="leave out --abi", where=WHERE)
    return tuple(_files(name, parsed, options, facts_of, progress) for name in names)


def _files(
    name: str,
    parsed: Parsed,
    options: Options,
    facts_of: Callable[[Options, Parsed | None, str], dict[str, Any]],
    progress: Progress,
) -> AbiFiles:
    device = replace(load_device(ABI_DEVICES[name]), precision=options.device.precision)
    own = replace(options, device=device, levels=())
    project = run(parsed, Context(own, progress, facts_of(own, parsed, "import")), "import")["emit"]
    lock = json.loads(project.files[LOCK])
    return abi_files(name, device, project.files, lock["sources"])

"""The context of a build: options, progress and price sources, which stages share and never change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

from edgec.emit.abi import AbiFiles
from edgec.emit.picture import AS_IS, Preparation
from edgec.fuse.choice import BlockCosts
from edgec.options import Options
from edgec.progress import Progress, silent
from edgec.schedule.known import Known
from edgec.schedule.variants import Variants


@dataclass(frozen=True)
class Context:
    """Everything that stages need besides their value; immutable. Findings are fields of the values they return."""

    options: Options
    progress: Progress = silent
    #: Entries of the lock file next to the facts of the program.
    facts: Mapping[str, Any] = field(default_factory=dict)
    #: Bindings and apps to write in addition to the C project (`edgec.emit.apps`).
    extras: tuple[str, ...] = ()
    #: ABIs of an Android library beside that of the device.
    abis: tuple[AbiFiles, ...] = ()
    #: Image preprocessing in apps.
    preprocessing: Preparation = AS_IS
    #: Costs of blocks for the fusion planner; None: those of the profile database, or of a model of the device.
    prices: BlockCosts | None = None
    #: Measured and frozen variants of matmuls; None: those of the profile database.
    variants: Variants | None = None
    #: Schedules of blocks that others may be equal to; None: each block is scheduled for itself.
    known: Known | None = None
    #: Bytes of the largest arena that is wanted: a trial that takes more ends with `schedule.memory.TooLarge`.
    arena: float = inf
    #: Is the head of a network computed in stripes, where it takes more memory than there is?
    divides: bool = True
    #: The model that a run began with; None where it began with a saved stage.
    model: Any = None

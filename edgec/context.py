"""The context of a build: options, progress and price sources that stages share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from edgec.compress.prune import Pruned
from edgec.compress.report import Report as Compression
from edgec.emit.picture import AS_IS, Preparation
from edgec.fuse.choice import Prices
from edgec.fuse.stripes import Striped
from edgec.options import Options
from edgec.partition import Assignment
from edgec.progress import Progress, silent
from edgec.schedule.variants import Variants


@dataclass
class Context:
    """What stages share beyond the value that they hand on."""

    options: Options
    progress: Progress = silent
    #: What goes into the lock file beside the facts of the program.
    facts: Mapping[str, Any] = field(default_factory=dict)
    #: Names of what is written next to the C project (`edgec.emit.extras`).
    extras: tuple[str, ...] = ()
    #: How apps prepare pictures.
    preprocessing: Preparation = AS_IS
    #: What the fusion planner goes by; None: the database where there is one, and a model of the device.
    prices: Prices | None = None
    #: Variants of products; None: as the database has it.
    variants: Variants | None = None
    #: The choices that prices and measurements made: by their key, what was taken.
    chosen: dict[str, str] = field(default_factory=dict)
    #: The rules that were applied, in order.
    applied: list[Any] = field(default_factory=list)
    #: What runs where, on a device with a GPU beside it.
    placed: Assignment | None = None
    #: What became of every layer, where the network was compressed.
    compression: Compression | None = None
    #: The layers that multiply bf16 where the device's precision is fp32; None: as the precision says.
    halves: frozenset[str] | None = None
    #: What became of every layer, and of the weights, where the network was pruned.
    pruned: Pruned | None = None
    #: How the head of the network is computed, where memory asked for stripes.
    striped: Striped | None = None

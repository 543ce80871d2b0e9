"""Facts about the values of a network for some boxes of its inputs, and rows that pass from node to node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from edgec.certify.domain import Domain
from edgec.certify.patches import Patch
from edgec.certify.ranges import Array, Range
from edgec.ir.graph import Node

#: Free slopes by node: [boxes, 1 or rows, elements...].
Shares = Mapping[Node, Array]
#: Bounds that a search knows better, by node.
Known = Mapping[Node, tuple[Array, Array]]


@dataclass
class Bounds:
    """Facts about every value of a network for some boxes of its inputs.

    ``exact`` are the ranges of the exact functions, ``seen`` what their readers see, ``noise`` the errors of what is
    stored.
    """

    domain: Domain
    exact: dict[Node, Range] = field(default_factory=dict)
    seen: dict[Node, Range] = field(default_factory=dict)
    noise: dict[Node, Array] = field(default_factory=dict)
    #: Facts of the ranges at a node that rows need, by `Rule.facts`.
    facts: dict[Node, Any] = field(default_factory=dict)
    #: The elements of a node that rows are about, by `Network._alive`.
    alive: dict[Node, Array | None] = field(default_factory=dict)
    #: Steps of rows of some nodes, by `Descent`.
    points: dict[object, Any] = field(default_factory=dict)
    #: Boxes [boxes] without any input for which what was taken holds.
    empty: Array = field(default_factory=lambda: np.zeros(0, bool))


@dataclass(frozen=True)
class Passed:
    """Rows that those of a node become: of nodes as readers see them, or before their rounding, and a constant.

    ``sizes`` are as in `Rows`.
    """

    seen: Sequence[tuple[Node, Patch]]
    constant: Array
    sizes: Array | None
    unrounded: Sequence[tuple[Node, Patch]] = ()

"""An assignment of blocks to the two devices of a build: the CPU and the GPU next to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from edgec.fuse.block import Block
from edgec.ir.graph import Graph, Node

Side = Literal["cpu", "gpu"]


@dataclass(frozen=True)
class AssignedBlock:
    """Device of a block, and its predicted time on either side; ``refused`` is the reason if it has no GPU kernel."""

    block: Block
    side: Side
    cpu_seconds: float
    gpu_seconds: float
    refused: str = ""

    def why(self, other: str) -> str:
        """The reason for its side, beside the ``other`` device."""
        if self.refused:
            return f"not on {other}: {self.refused}"
        sides = (self.cpu_seconds, self.gpu_seconds)
        mine, there = sides if self.side == "cpu" else sides[::-1]
        told = f"predicted {mine * 1e3:.3g} ms, and {there * 1e3:.3g} ms on {other}"
        return told if mine <= there else f"{told}, which copies between the two would outweigh"


@dataclass(frozen=True)
class Transfer:
    """A value that is copied ``to`` the other side."""

    value: Node
    to: Side
    seconds: float


@dataclass(frozen=True)
class Assignment:
    """Every block in order, every transfer, and the side of values that no block computes (concatenations)."""

    blocks: tuple[AssignedBlock, ...]
    transfers: tuple[Transfer, ...]
    filled: Mapping[Node, Side] = field(default_factory=dict)
    whole: str = ""  # why the network was not to be divided, where it was not
    names: Mapping[Side, str] = field(default_factory=dict)  # of the devices

    @property
    def side_of(self) -> dict[Node, Side]:
        """The side that every value is computed on."""
        return {**{p.block.output: p.side for p in self.blocks}, **self.filled}

    @property
    def seconds(self) -> float:
        """Predicted time of a run."""
        kernels = sum(p.cpu_seconds if p.side == "cpu" else p.gpu_seconds for p in self.blocks)
        return kernels + sum(t.seconds for t in self.transfers)

    @property
    def sides(self) -> set[Side]:
        """Those that have work."""
        return {p.side for p in self.blocks} or {"cpu"}

    def described(self, graph: Graph) -> list[dict[str, Any]]:
        """Every block in order: the names of its operators, its kind, its device and the reason for it."""
        other: dict[Side, str] = {"cpu": self.names["gpu"], "gpu": self.names["cpu"]}
        return [
            {
                "operators": list(dict.fromkeys(name for n in p.block.nodes for name in graph.names(n))),
                "kind": p.block.kind,
                "device": self.names[p.side],
                "why": f"the network is not divided: {self.whole}" if self.whole else p.why(other[p.side]),
            }
            for p in self.blocks
        ]

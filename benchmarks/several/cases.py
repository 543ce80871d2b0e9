"""The rows of the benchmark: networks, links between two workers, and ways to divide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.several.networks import NETWORKS

#: Links by their names, with bits a second; 0 is loopback as it is.
LINKS = {"loopback": 0.0, "1G": 1e9, "100M": 1e8}
#: Ways to divide, with what each is to make short.
SPLITS = {"pipeline": "throughput", "rows": "latency", "tensor": "latency", "auto": "throughput"}
#: Networks that are measured with a limit on what a worker keeps, over these links and in these ways alone.
LIMITED = {"bert_12x768": ("200M", ("1G",), ("pipeline", "tensor"))}
#: Ways that a network has not: states stay where they are, so that there are no rows; one token has none either.
WITHOUT = {"llama_4x1024": ("rows",)}


@dataclass(frozen=True)
class Case:
    """A network over a link, divided in a way; ``memory`` limits weights and arenas of a worker."""

    network: str
    link: str
    split: str
    memory: str | None = None

    @property
    def name(self) -> str:
        return f"{self.network}:{self.link}:{self.split}"

    @property
    def goal(self) -> str:
        return "latency" if self.network.startswith("llama") else SPLITS[self.split]

    def is_among(self, patterns: Sequence[str]) -> bool:
        """Is it named by one of the patterns NETWORK[:LINK[:SPLIT]]? By all where there are none."""
        own = self.name.split(":")
        return not patterns or any(p.split(":") == own[: p.count(":") + 1] for p in patterns)


def cases(patterns: Sequence[str] = ()) -> list[Case]:
    """All rows that are named, in order. Raises SystemExit for a pattern that names none."""
    found = []
    for network in NETWORKS:
        memory, links, splits = LIMITED.get(network, (None, tuple(LINKS), tuple(SPLITS)))
        own = (s for s in splits if s not in WITHOUT.get(network, ()))
        ways = tuple(own)
        found += [Case(network, link, split, memory) for link in links for split in ways]
    for pattern in patterns:
        if not any(c.is_among([pattern]) for c in found):
            there = f"networks {', '.join(NETWORKS)}; links {', '.join(LINKS)}; splits {', '.join(SPLITS)}"
            raise SystemExit(f"--only {pattern} names no row: {there}")
    return [c for c in found if c.is_among(patterns)]

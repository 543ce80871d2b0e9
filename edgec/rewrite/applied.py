"""Applied and considered rules: the log of a rewrite."""

from __future__ import annotations

from dataclasses import dataclass

from edgec.rewrite.measure import Measure
from edgec.rewrite.rule import Numeric, Proposal, Rule


@dataclass(frozen=True)
class Applied:
    """One step: the rule, the ONNX nodes it concerned, and the terms before and after."""

    rule: str
    family: str
    numeric: Numeric
    origin: tuple[str, ...]
    before: str
    after: str
    gain: Measure

    def __str__(self) -> str:
        names = f" ({', '.join(self.origin)})" if self.origin else ""
        return f"{self.rule}{names}: {self.before} -> {self.after}"


@dataclass(frozen=True)
class Considered:
    """Verdict of a rule on a node: it applied, or a sentence with the reason why not."""

    rule: Rule
    outcome: Proposal

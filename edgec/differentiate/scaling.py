"""Loss scaling: gradients that halves would round to zero are computed a power of two larger.

Micikevicius et al., "Mixed Precision Training" (2018). The factor is part of the state: it is halved by a step with
infinite gradients, which changes no weight, and doubled after `STEADY` steps without one.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgec.differentiate.updates import Names, Updates
from edgec.frontend.values import Value, maximum, minimum, select
from edgec.ir.graph import Node, placeholder
from edgec.ir.types import Type

#: The factor of the first step, and its bounds.
FIRST, LEAST, MOST = 2.0**10, 1.0, 2.0**24
#: Steps without an infinite gradient after which the factor is doubled.
STEADY = 2000
#: The name of the state that holds the factor, less `FIRST`: states begin as zero.
SCALE = "loss_scale"


@dataclass(frozen=True)
class Scaling:
    """The states of a factor: it, less `FIRST`, and the steps since it has changed."""

    offset: Node
    steps: Node

    @staticmethod
    def of(names: Names) -> Scaling:
        """A scaling at its first step."""
        offset, steps = (placeholder(names.fresh(name), Type("f32", ())) for name in (SCALE, f"{SCALE}_steps"))
        return Scaling(offset, steps)

    @property
    def factor(self) -> Value:
        return Value(self.offset) + FIRST

    def renewed(self, made: Updates, broken: Value, judged: Value) -> Value:
        """Adds the next values of both states to ``made``; how many gradients are ``broken`` at the least factor.

        Where the loss is not ``judged`` (it is no number, or a target no class), the factor is no cause, and stays.
        """
        factor, steps = self.factor, Value(self.steps) + 1.0
        is_fine, is_due = broken.equals(0.0), steps >= float(STEADY)
        grown = select(is_due, minimum(factor * 2.0, MOST), factor)
        after = select(is_fine, grown, maximum(factor * 0.5, LEAST))
        count = select(is_fine, select(is_due, 0.0, steps), 0.0)
        for state, value in ((self.offset, after - FIRST), (self.steps, count)):
            made.begun.append(state)
            made.renew_always(Value(state), select(judged, value, Value(state)))
        return select(factor > LEAST, 0.0, broken)

"""Decisions a user takes in place of the compiler: each must name a node, rule or variant there is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from edgec.errors import UsageError
from edgec.fuse import Plan
from edgec.text import did_you_mean, one_of, printable


def require_known(named: Iterable[str], names: Iterable[str], option: str, what: str) -> None:
    """Raises UsageError for a decision about a node or rule (``what``) that is not among ``names``."""
    there = set(names)
    for name in sorted(set(named) - there):
        hint = did_you_mean(name, there, f"no {what} of that name is left", most=3, cutoff=0.4)
        raise UsageError(f"there is no {what} '{printable(name)}' to decide about", hint=hint, where=option)


def require_offered(overrides: Mapping[str, str], plan: Plan) -> None:
    """Raises UsageError for an override of a choice that planning did not have, or of no variant it offered."""
    for key, variant in overrides.items():
        kind, _, name = key.partition(" ")
        about = [c for c in plan.decisions.choices if c.kind == kind and name in plan.graph.names(c.node)]
        if not about and any(c.kind == kind and variant == c.taken.name for c in plan.decisions.choices):
            continue  # the choice changed the graph, and its node with it
        if not about:
            there = sorted({c.kind for c in plan.decisions.choices})
            hint = f"asked about: {', '.join(there)}" if there else "nothing is decided by price in this network"
            raise UsageError(f"there was nothing to choose about '{printable(key)}'", hint=hint, where="--override")
        for choice in about:
            if choice.taken.name != variant:
                variants = [v.name for v in (choice.taken, *choice.others)]
                raise UsageError(
                    f"'{printable(variant)}' is no variant of '{printable(key)}'",
                    hint=one_of(variant, variants),
                    where="--override",
                )

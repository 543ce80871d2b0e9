"""What a user decides in the compiler's place: that it is about something there is."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from edgec.errors import UsageError
from edgec.fuse import Plan
from edgec.text import printable


def known(named: Iterable[str], names: Iterable[str], option: str, what: str) -> None:
    """Raises UsageError for a decision about a node or law that there is not."""
    there = set(names)
    for name in sorted(set(named) - there):
        close = difflib.get_close_matches(name, there, n=3, cutoff=0.4)
        hint = f"did you mean {', '.join(map(printable, close))}?" if close else f"no {what} of that name is left"
        raise UsageError(f"there is no {what} '{printable(name)}' to decide about", hint=hint, where=option)


def asked(chosen: Mapping[str, str], plan: Plan) -> None:
    """Raises UsageError for a choice that was not asked, or has no such way."""
    for key, way in chosen.items():
        kind, _, name = key.partition(" ")
        about = [c for c in plan.decisions.choices if c.kind == kind and name in plan.graph.names(c.node)]
        if not about and any(c.kind == kind and way == c.taken.name for c in plan.decisions.choices):
            continue  # the choice changed the graph, and its node with it
        if not about:
            there = sorted({c.kind for c in plan.decisions.choices})
            hint = f"asked about: {', '.join(there)}" if there else "nothing is decided by price in this network"
            raise UsageError(f"nothing was to choose about '{printable(key)}'", hint=hint, where="--choose")
        for choice in about:
            if choice.taken.name != way:
                ways = ", ".join(w.name for w in (choice.taken, *choice.others))
                raise UsageError(
                    f"'{printable(way)}' is no way of '{printable(key)}'", hint=f"it is one of {ways}", where="--choose"
                )

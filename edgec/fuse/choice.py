"""Choices by cost: several variants of kernels for the same operators, of which the cheapest is taken.

The cost of a block is its measured time in the profile database, or the prediction of the device's cost model. Variants
of one choice are compared by measured times only if all are known, otherwise by the model. Frozen choices (of a lock or
an override) are not made again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Literal

from edgec.fuse.block import Block
from edgec.ir.expr import Expr
from edgec.ir.graph import Formula, Graph, Node

Source = Literal["measured", "model", "frozen"]
#: Another variant than the usual one has to be this much cheaper: measurements and models are no better.
MARGIN: dict[Source, float] = {"measured": 0.03, "model": 0.2, "frozen": 0.0}


@dataclass(frozen=True)
class Variant:
    """One variant: its name, the seconds of its kernels together, and the fingerprints of their blocks."""

    name: str
    seconds: float
    blocks: tuple[str, ...]


@dataclass(frozen=True)
class Choice:
    """``kind`` of question about ``node``; the variant that was taken, and the others, cheapest first."""

    kind: str
    key: str
    node: Node
    taken: Variant
    others: tuple[Variant, ...]
    source: Source


def fingerprint(block: Block) -> str:
    """A hash of everything that a block's speed depends on except the device: its formula and the types it loads.

    Equal for equal blocks of any network; weights count by their type, not by their values.
    """
    slots = {node: f"{'w' if node.is_const else 'x'}{k}:{node.type}" for k, node in enumerate(block.inputs)}
    if not isinstance(block.meaning, Formula):
        what = f"{block.output.op} {block.output.attrs!r} {[slots[a] for a in block.output.args]}"
        return sha256(f"{what} -> {block.output.type}".encode()).hexdigest()
    names: dict[Expr, str] = {
        v: f"i{d}<{v.value.extent}" for d, v in enumerate(block.formula.variables) if v.op == "var"
    }
    known: dict[Expr, str] = {}

    def digest(e: Expr) -> str:
        if e not in known:
            own = slots[e.value] if e.op == "load" else names.get(e) or _value(e)
            text = f"{e.op} {e.dtype} {own} {' '.join(map(digest, e.args))}"
            known[e] = sha256(text.encode()).hexdigest()
        return known[e]

    return sha256(f"{block.kind} {block.output.type} {digest(block.formula.body)}".encode()).hexdigest()


def _value(e: Expr) -> str:
    """Payload of an expression besides its arguments, without its name."""
    if e.op == "reduce":
        combine, variables = e.value
        return f"{combine} {[(v.name, str(v.extent)) for v in variables]}"
    return f"{e.value.name}<{e.value.extent}" if e.op == "var" else repr(e.value)


@dataclass
class BlockCosts:
    """Costs of blocks: ``model`` predicts seconds, ``measured`` maps fingerprints, ``frozen`` keeps earlier choices.

    ``unknown`` collects the blocks of choices that were not measured, by fingerprint.
    """

    model: Callable[[Block], float]
    measured: Callable[[str], float | None] = lambda fingerprint: None
    frozen: Mapping[str, str] = field(default_factory=dict)
    unknown: dict[str, Block] = field(default_factory=dict)
    estimated: dict[str, float] = field(default_factory=dict)

    def deciding(self, graph: Graph, chosen: Mapping[str, str]) -> BlockCosts:
        """The same with overrides for a graph: variants by the kind of a choice and the name of its node."""
        if not chosen:
            return self
        found = dict(self.frozen)
        for key, variant in chosen.items():
            kind, _, name = key.partition(" ")
            found.update((f"{kind} {n.key}", variant) for n in graph.operations() if name in graph.names(n))
        return replace(self, frozen=found)

    def choose(self, kind: str, node: Node, variants: Mapping[str, Sequence[Block]]) -> Choice:
        """The cheapest of ``variants`` (each its blocks). Others than the first must be faster by a margin."""
        key = f"{kind} {node.key}"
        names = {name: tuple(fingerprint(b) for b in blocks) for name, blocks in variants.items()}
        by_name = dict(zip((f for found in names.values() for f in found), (b for w in variants.values() for b in w)))
        known = {f: self.measured(f) for f in by_name}
        missing = {f: by_name[f] for f, seconds in known.items() if seconds is None}
        self.unknown.update(missing)
        prices = {f: self._estimate(f, b) for f, b in by_name.items()} if missing else known
        priced = [Variant(name, sum(prices[f] or 0.0 for f in found), found) for name, found in names.items()]
        usual = priced[0]
        best = min(priced, key=lambda w: w.seconds)
        source: Source = "model" if missing else "measured"
        taken = best if best.seconds < usual.seconds * (1 - MARGIN[source]) else usual
        if key in self.frozen:
            taken, source = next((w for w in priced if w.name == self.frozen[key]), taken), "frozen"
        others = sorted((w for w in priced if w is not taken), key=lambda w: w.seconds)
        return Choice(kind, key, node, taken, tuple(others), source)

    def _estimate(self, name: str, block: Block) -> float:
        if name not in self.estimated:
            self.estimated[name] = self.model(block)
        return self.estimated[name]

"""Application of rules to a fixpoint: every step reduces the cost (measure) of the whole graph.

The graph is swept, arguments first, until no rule applies. The gain of a step is exact: the cost of nodes that nothing
reads any more, minus that of nodes that are new. So a rule that would repeat shared work is rejected without a test of
its own. Rules only propose. ``_Rewriter.improve`` takes the first proposal that reduces the cost. Where no single step
does, ``_Rewriter.free`` rewrites all readers of a shared value at once, so that the value is no longer needed, if that
reduces the cost together: a greedy search over single steps would miss this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from edgec import limits, ops
from edgec.ir.graph import Graph, Node, topological
from edgec.ir.loads import reduces
from edgec.ir.types import FLOATS
from edgec.rewrite.applied import Applied, Considered, term
from edgec.rewrite.facts import is_static
from edgec.rewrite.measure import NOTHING, Measure, OpCosts, height, measure
from edgec.rewrite.offers import Offers, proposals
from edgec.rewrite.rule import Numeric, Rule
from edgec.text import listed

#: Limit of steps, per node of the original graph.
STEPS_PER_NODE = 50

#: Values with more readers than this are not removed by rewriting all readers at once.
MOST_READERS = 6
#: Nodes that are looked at between the readers of a value: what is looked at for all of them grows with their number.
MOST_BETWEEN = 2000

#: Discontinuous functions: a difference in the last place of an operand may change their result by a whole step.
_JUMPS = frozenset({"floor", "ceil", "trunc", "round", "floordiv", "floormod", "fmod"})

_ORDER: tuple[Numeric, ...] = ("exact", "reassociates", "approximates")


def simplify(
    graph: Graph,
    rules: Iterable[Rule],
    *,
    numeric: Numeric = "reassociates",
    steps: int | None = None,
    prices: OpCosts = OpCosts(),
) -> tuple[Graph, tuple[Applied, ...]]:
    """Rewrite ``graph`` by ``rules`` until no rule improves it.

    ``numeric`` limits the effect of rules on numbers, ``steps`` the number of steps; ``prices`` are the device's costs
    of operations. The result is deterministic.
    """
    allowed = [r for r in rules if _ORDER.index(r.numeric) <= _ORDER.index(numeric)]
    rewriter = _Rewriter(allowed, graph.origin, prices)
    rewriter.steps = STEPS_PER_NODE * max(len(graph.nodes()), 1) if steps is None else steps
    outputs = graph.outputs
    before = -1
    while len(rewriter.applied) > before:
        while len(rewriter.applied) > before:
            before = len(rewriter.applied)
            outputs = rewriter.sweep(outputs)
        outputs = rewriter.free_shared(outputs)
    kept = set(topological(n for _, n in outputs))
    origin = {n: names for n, names in rewriter.origin.items() if n in kept}
    result = Graph(graph.inputs, outputs, graph.name, origin, graph.metadata)
    return result, tuple(rewriter.applied)


def consider(graph: Graph, node: Node, rules: Iterable[Rule]) -> list[Considered]:
    """Verdicts of all rules that could apply to ``node``."""
    view = _Uses({n: len(users) for n, users in graph.users().items()})
    return [Considered(r, outcome) for r in rules if node.op in r.ops for outcome in proposals(r, node, view)]


def _delicate(nodes: Sequence[Node]) -> frozenset[Node]:
    """Floats from which discontinuous functions are computed element by element: other rounding could show there."""
    found: set[Node] = set()
    for n in reversed(nodes):
        jumps = n.op in _JUMPS or (n.op == "cast" and n.type.dtype not in FLOATS)
        if jumps or (n in found and n.args and _is_elementwise(n)):
            found.update(a for a in n.args if a.type.dtype in FLOATS and not is_static(a))
    return frozenset(found)


def _is_elementwise(node: Node) -> bool:
    return not ops.is_procedure(node.op) and not reduces(ops.formula(node).body)


def _depths(nodes: Iterable[Node]) -> dict[Node, int]:
    """The length of the longest path to each node; ``nodes`` have arguments first."""
    found: dict[Node, int] = {}
    for n in nodes:
        found[n] = max((found[a] + 1 for a in n.args), default=0)
    return found


def _are_apart(readers: Sequence[Node], users: Mapping[Node, Sequence[Node]], depth: Mapping[Node, int]) -> bool:
    """Is none of the ``readers`` computed from another? Where that takes long to tell, they count as if one were."""
    deepest = max(depth[r] for r in readers)  # what is computed from a node is deeper
    found: set[Node] = set()
    stack = [u for r in readers for u in users[r]]
    while stack:
        n = stack.pop()
        if n not in found and depth[n] <= deepest:
            found.add(n)
            if n in readers or len(found) > MOST_BETWEEN:
                return False
            stack += users[n]
    return True


class _Uses:
    def __init__(self, counts: Mapping[Node, int]) -> None:
        self.counts = counts

    def uses(self, node: Node) -> int:
        return self.counts.get(node, 0)


class _Rewriter:
    """Rewrites sweep by sweep.

    ``counts`` is a reference count: for every live node among those already swept, the number of nodes (swept or still
    to be swept) and outputs that read it. Nodes that come to life or die by a step give its gain. Until the next sweep
    ``replaced`` maps the readers of freed values to what they became: who reads one reads, and counts for, the other.
    """

    def __init__(self, rules: Sequence[Rule], origin: Mapping[Node, tuple[str, ...]], prices: OpCosts) -> None:
        self.prices = prices
        self.rules: dict[str, list[Rule]] = {}
        for r in rules:
            for op in sorted(r.ops):
                self.rules.setdefault(op, []).append(r)
        self.origin = dict(origin)
        self.applied: list[Applied] = []
        self.counts: dict[Node, int] = {}
        self.replaced: dict[Node, Node] = {}
        self.delicate: frozenset[Node] = frozenset()
        self.steps = 0
        self.offers = Offers(self, self.rules_for)

    def uses(self, node: Node) -> int:
        return self.counts.get(self.standing(node), 0)

    def rules_for(self, node: Node) -> Iterator[Rule]:
        """The rules that may apply to a node, by its operator and those of its arguments."""
        below = {a.op for a in node.args}
        return (r for r in self.rules.get(node.op, ()) if r.below <= below)

    def sweep(self, outputs: tuple[tuple[str, Node], ...]) -> tuple[tuple[str, Node], ...]:
        nodes = list(topological(n for _, n in outputs))
        readers = dict.fromkeys(nodes, 0)
        for n in nodes:
            for a in dict.fromkeys(n.args):
                readers[a] += 1
        for _, n in outputs:
            readers[n] += 1
        self.counts = {}
        self.replaced = {}
        self.delicate = _delicate(nodes)
        new = self.process(nodes, readers)
        return tuple((name, new[n]) for name, n in outputs)

    def process(self, nodes: Iterable[Node], readers: Mapping[Node, int], delicate: bool = False) -> dict[Node, Node]:
        """The replacements of ``nodes``, improved arguments first; ``readers`` still to be swept keep them alive."""
        new: dict[Node, Node] = {}
        for n in nodes:
            limits.step(partial(self.named, n))
            args = tuple(new.get(a, a) for a in n.args)
            node = n
            if args != n.args:
                node = ops.node(n.op, *args, **n.attributes)
                self.inherit([node], [n])
            self.hold(node, readers[n])
            for a in dict.fromkeys(n.args):  # from now on it is ``node`` that reads them, not ``n``
                self.release(new.get(a, a), 1)
            new[n] = self.improve(node, readers[n], delicate or n in self.delicate)
        return new

    def named(self, node: Node) -> str:
        return listed(self.origin.get(node, ())) or node.op

    def improve(self, node: Node, readers: int, delicate: bool) -> Node:
        """The replacement of ``node``, which has ``readers`` readers: rules are applied until none reduces the cost."""
        again = True
        while again and len(self.applied) < self.steps:
            again = False
            for r, proposal in self.offers.of(node):
                if delicate and r.needs_smoothness:
                    continue
                taken = self.attempt(r, node, proposal, readers, delicate)
                if taken is not None:
                    node, again = taken, True
                    break
        return node

    def attempt(self, r: Rule, node: Node, proposal: Node, readers: int, delicate: bool) -> Node | None:
        """Replace ``node`` by ``proposal`` if that reduces the cost; the improved proposal, or None."""
        born = self.hold(proposal, readers)
        dead = self.release(node, readers)
        gain = self.cost(dead).minus(self.cost(born))
        if not self.is_gain(gain, node, proposal):
            self.hold(node, readers)
            self.release(proposal, readers)
            return None
        origin = self.inherit(born, dead, proposal)
        before, after = term(node, set(dead)), term(proposal, set(born))
        self.applied.append(Applied(r.name, r.family, r.numeric, origin, before, after, gain))
        if not born:
            return proposal
        counts = {n: self.counts.pop(n) for n in _arguments_first(proposal, set(born))}
        return self.process(counts, counts, delicate)[proposal]

    def free_shared(self, outputs: tuple[tuple[str, Node], ...]) -> tuple[tuple[str, Node], ...]:
        """Remove values by rewriting all of their readers at once, where that reduces the cost."""
        nodes = list(topological(n for _, n in outputs))
        named = [n for _, n in outputs]
        users: dict[Node, list[Node]] = {n: [] for n in nodes}
        for n in nodes:
            for a in dict.fromkeys(n.args):
                users[a].append(n)
        place, depth = {n: k for k, n in enumerate(nodes)}, _depths(nodes)
        replaced = self.replaced = {}
        needed: set[Node] = set()  # what the replacements are computed from, which none of the next may change
        for value in nodes:
            readers = users[value]
            if not 2 <= len(readers) <= MOST_READERS or value in named or not value.args or is_static(value):
                continue
            if not _are_apart(readers, users, depth):
                continue  # one reader is computed from another, whose replacement is not known yet
            if not needed.isdisjoint(readers) or not all(n in self.counts for n in (value, *readers)):
                continue
            if len(self.applied) < self.steps:
                found = self.free(value, readers, place)
                replaced.update(found)
                for proposal in found.values():
                    needed.update((proposal, *(a for m in topological([proposal], known=place) for a in m.args)))
        if not replaced:
            return outputs
        new: dict[Node, Node] = {}
        for n in nodes:
            target = replaced.get(n, n)
            for m in topological([target], known=new):
                args = tuple(new.get(a, a) for a in m.args)
                new[m] = m if args == m.args else ops.node(m.op, *args, **m.attributes)
                if new[m] is not m:
                    self.inherit([new[m]], [m])
            new[n] = new[target]
        return tuple((name, new[n]) for name, n in outputs)

    def free(self, value: Node, readers: Sequence[Node], place: Mapping[Node, int]) -> dict[Node, Node]:
        """Replacements of the ``readers`` of ``value`` that together remove it and reduce the cost of the graph.

        ``place`` numbers the nodes of the graph, arguments first.
        """
        choices = [self.without(value, r, place) for r in readers]
        if all(choices):
            for k in range(max(map(len, choices))):
                replaced = self.give_up(value, {r: c[min(k, len(c) - 1)] for r, c in zip(readers, choices)})
                if replaced:
                    return replaced
        return {}

    def give_up(self, value: Node, chosen: Mapping[Node, tuple[Rule, Node]]) -> dict[Node, Node]:
        """Replace each reader by what is ``chosen`` for it, if that removes ``value`` and reduces the cost."""
        born: list[Node] = []
        dead: list[Node] = []
        readers: dict[Node, int] = {}
        # The last reader first: readers of an earlier one may die with it, so that fewer have to be transferred.
        for reader, (_, proposal) in reversed(tuple(chosen.items())):
            if reader in self.counts:
                readers[reader] = self.counts[reader]
                born += self.hold(proposal, readers[reader])
                dead += self.release(reader, readers[reader])
        chosen = {reader: choice for reader, choice in chosen.items() if reader in readers}
        gain = self.cost(dead).minus(self.cost(born))
        if value in self.counts or gain[:4] <= NOTHING[:4]:
            for reader in reversed(readers):
                self.hold(reader, readers[reader])
                self.release(chosen[reader][1], readers[reader])
            return {}
        for k, (reader, (r, proposal)) in enumerate(chosen.items()):
            origin = self.inherit([n for n in born if n in self.counts], [reader, value], proposal)
            before, after = term(reader, {reader, value}), term(proposal, set(born))
            own = gain if k + 1 == len(chosen) else NOTHING  # the gain is common: it is recorded once, at the last step
            self.applied.append(Applied(r.name, r.family, r.numeric, origin, before, after, own))
        return {reader: proposal for reader, (_, proposal) in chosen.items()}

    def without(self, value: Node, reader: Node, place: Mapping[Node, int]) -> list[tuple[Rule, Node]]:
        """Rewrites of ``reader`` that no longer read ``value``."""
        return [
            (r, proposal)
            for r, proposal in self.offers.of(reader)
            if not (reader in self.delicate and r.needs_smoothness) and not _needs(proposal, value, reader, place)
        ]

    def cost(self, nodes: Iterable[Node]) -> Measure:
        return Measure.sum(measure(n, self.prices) for n in nodes)

    @staticmethod
    def is_gain(gain: Measure, node: Node, proposal: Node) -> bool:
        if gain <= NOTHING:
            return False
        # A node's height is part of the heights of its users too: a step that gains nothing else must not lower it.
        return gain[:5] != NOTHING[:5] or height(proposal) >= height(node)

    def hold(self, node: Node, readers: int) -> list[Node]:
        """Add readers to ``node``; returns the nodes that this brings to life."""
        born: list[Node] = []
        stack = [(node, readers)]
        while stack:
            n, more = stack.pop()
            n = self.standing(n)
            if n in self.counts:
                self.counts[n] += more
            else:
                self.counts[n] = more
                born.append(n)
                stack += [(a, 1) for a in dict.fromkeys(n.args)]
        return born

    def standing(self, node: Node) -> Node:
        """The node, or what it was replaced by when a value was freed."""
        while node in self.replaced:
            node = self.replaced[node]
        return node

    def release(self, node: Node, readers: int) -> list[Node]:
        """Take readers from ``node``; returns the nodes that have none left."""
        dead: list[Node] = []
        stack = [(node, readers)]
        while stack:
            n, fewer = stack.pop()
            n = self.standing(n)
            self.counts[n] -= fewer
            if not self.counts[n]:
                del self.counts[n]
                dead.append(n)
                stack += [(a, 1) for a in dict.fromkeys(n.args)]
        return dead

    def inherit(self, born: Sequence[Node], dead: Sequence[Node], proposal: Node | None = None) -> tuple[str, ...]:
        """Give the origins of ``dead`` nodes to new ones of the same operator where there are any, otherwise to all."""
        heirs = [n for n in born if not is_static(n)]
        if not heirs and proposal is not None and proposal.op not in ("const", "input"):
            heirs = [proposal]
        everything: dict[str, None] = {}
        for d in reversed(dead):
            names = self.origin.get(d, ())
            everything.update(dict.fromkeys(names))
            for heir in [h for h in heirs if h.op == d.op] or heirs:
                merged = dict.fromkeys((*self.origin.get(heir, ()), *names))
                if merged:
                    self.origin[heir] = tuple(merged)
        return tuple(everything)


def _needs(proposal: Node, value: Node, reader: Node, place: Mapping[Node, int]) -> bool:
    """Is ``proposal`` computed from ``value``, other than through other operands of the reader?"""
    known = {*reader.args, *(a for x in reader.args for a in x.args)} - {value}
    first = place[value]  # nodes before it are not computed from it
    stack, seen = [proposal], set()
    while stack:
        n = stack.pop()
        if n is value:
            return True
        if n not in known and n not in seen and place.get(n, first) >= first:
            seen.add(n)
            stack += n.args
    return False


def _arguments_first(root: Node, inside: set[Node]) -> Iterator[Node]:
    """The nodes below ``root`` that are ``inside``; proposals are small terms, so recursion is deep enough."""
    inside.discard(root)
    for a in root.args:
        if a in inside:
            yield from _arguments_first(a, inside)
    yield root

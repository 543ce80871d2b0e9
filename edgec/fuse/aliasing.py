"""Plans: where values live that are parts of others, what is copied, and the order of blocks.

The operands of a concatenation are written where they belong inside the result's buffer; what cannot live there (an
input, a value that is wanted in two places) is copied. So is the part of an update, after the value that it changes:
where that is a state, the copy is of the state to itself, and skipped. A padded value is a view: the buffer of what is
padded has a halo that holds the padding; a slice that is padded is a view, too. So one buffer serves those who read a
value with a border and those who read it without, whether it is a part of something larger or not.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingType
from dataclasses import dataclass, field
from typing import Any

from edgec.fuse.aliases import JOINED, BufferAlias, Halo, root_of
from edgec.fuse.assignment import Assignment
from edgec.fuse.block import Block
from edgec.fuse.decisions import Decisions, Refusal
from edgec.fuse.draft import Draft
from edgec.fuse.guards import Guard, guards_of
from edgec.fuse.stripes import Stripes
from edgec.fuse.write_order import WriteOrder
from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.graph import Formula, Graph, Node, intern, topological
from edgec.ops import is_procedure


@dataclass(frozen=True)
class Plan:
    """Blocks in execution order, and the aliases of buffers."""

    graph: Graph
    blocks: tuple[Block, ...]
    aliases: MappingType[Node, BufferAlias]
    outputs: tuple[tuple[str, Node], ...]
    #: Halos, by the value that owns the buffer.
    halos: MappingType[Node, Halo] = field(default_factory=dict)
    #: The values of computed sizes, and runtime assertions: booleans that must be true for the outputs to be valid.
    sizes: MappingType[Expr, Node] = field(default_factory=dict)
    demands: tuple[tuple[str, Node], ...] = ()
    #: The conditions under which a block is computed, by its output, in the order in which they are known.
    guards: MappingType[Node, tuple[Guard, ...]] = field(default_factory=dict)
    #: The layers that multiply bf16 where the device's precision is fp32; None: as the precision says.
    bf16_layers: frozenset[str] | None = None
    #: The device of every block, where there is a GPU next to the CPU.
    assignment: Assignment | None = None
    #: How the head of the network is computed in stripes, where RAM did not suffice.
    stripes: Stripes | None = None
    #: Plans of the same graph for the further levels of a library, in the order of their devices.
    levels: tuple[Plan, ...] = ()
    #: The reasons for all of it.
    decisions: Decisions = field(default_factory=Decisions, compare=False)

    @property
    def filled(self) -> set[Node]:
        """Concatenations and paddings that nobody computes: others write where they lie."""
        return {n if p.is_view else p.parent for n, p in self.aliases.items()}

    def root_of(self, node: Node) -> tuple[Node, tuple[Extent, ...]]:
        """The value that owns the memory ``node`` lies in, and where in relation to it."""
        return root_of(node, self.aliases)


class AliasPlanner:
    """Makes a plan of blocks; ``aliased`` are the concatenations and paddings that nothing computes."""

    def __init__(self, draft: Draft) -> None:
        self.graph = draft.graph
        self.aliased = draft.aliased
        self.conditions = draft.conditions
        self.decisions = draft.decisions
        self.users = draft.users
        self.order = draft.order
        self.sizes = draft.graph.needed_sizes()
        self.demanded = [n for _, n in draft.graph.demands]
        self.results = draft.results

    def plan(self, blocks: list[Block]) -> Plan:
        """Place operands inside their concatenation or padding; what cannot live there is copied."""
        produced = {b.output for b in blocks} | self.aliased
        aliases: dict[Node, BufferAlias] = {}
        copies: list[Block] = []
        halos: dict[Node, Halo] = {}
        joined = [n for n in self.aliased if n.op in JOINED]
        for node in sorted(joined, key=self.order.__getitem__, reverse=True):
            taken: set[Node] = set()
            for part, offset in _parts(node):
                refused = self._refused(part, node, aliases, produced)
                if refused is None and part not in taken:
                    aliases[part] = BufferAlias(node, offset)
                    taken.add(part)
                    self.decisions.fused(part, node, f"written where it belongs in the buffer of {node.op}")
                elif part.type.elements:
                    copies.append(copy_block(part, node, offset))
                    aliases[copies[-1].output] = BufferAlias(node, offset)
                    refused = refused or Refusal("aliasing", f"it stands in the same {node.op} twice")
                    self.decisions.apart(part, (node,), refused)
        self._pad(aliases, produced, copies, halos)
        outputs = self._outputs(copies)
        sizes = {s: self._standing(n, copies) for s, n in self.sizes.items()}
        demands = tuple((message, self._standing(n, copies)) for message, n in self.graph.demands)
        guards = self._guards(blocks, copies, aliases)
        order = WriteOrder(blocks, copies, aliases, self.aliased, guards, self.sizes, self.order)
        ordered = order.ordered([*(n for _, n in self.graph.outputs), *self.sizes.values(), *self.demanded])
        known = {b.output: k for k, b in enumerate(ordered)}
        return Plan(
            self.graph,
            tuple(ordered),
            aliases,
            outputs,
            halos,
            sizes,
            demands,
            {n: tuple(sorted(found, key=lambda g: known.get(g[0], -1))) for n, found in guards.items()},
            decisions=self.decisions,
        )

    def _guards(
        self, blocks: list[Block], copies: list[Block], aliases: dict[Node, BufferAlias]
    ) -> dict[Node, frozenset[Guard]]:
        copied = [i for c in copies for i in c.inputs]
        wanted = {*self.results, *copied}
        owners: dict[Node, list[Node]] = {}
        for n, p in aliases.items():  # what reads a view reads what it is a view of
            inner, outer = (p.parent, n) if p.is_view else (n, p.parent)
            owners.setdefault(inner, []).append(outer)
        return guards_of(sorted(blocks, key=lambda b: self.order[b.output]), wanted, owners, self.conditions)

    def _pad(
        self,
        aliases: dict[Node, BufferAlias],
        produced: set[Node],
        copies: list[Block],
        halos: dict[Node, Halo],
    ) -> None:
        """Make every padding a view of what it pads, with a halo around that, or of a copy that can have one.

        A slice is a view of its operand in any case.
        """
        copied: dict[tuple[Node, Any], Node] = {}
        for node in sorted((n for n in self.aliased if n.op not in JOINED), key=self.order.__getitem__):
            (part,) = node.args
            if node.op == "slice":
                aliases[node] = BufferAlias(part, node.attributes["starts"], True)
                self.decisions.fused(part, node, "it lies where its operand does")
                continue
            refused = self._no_halo(node, part, aliases, produced, halos)
            if refused is None:
                self.decisions.fused(part, node, "its buffer has a halo that holds the padding")
                self._surround(node, part, aliases, halos)
                continue
            self.decisions.apart(part, (node,), refused)
            copy = copied.get((part, node.attributes["value"]))
            if copy is None or self._no_halo(node, copy, aliases, {copy}, halos) is not None:
                copies.append(copy_block(part, node, (0,) * node.type.rank))
                copy = copied[part, node.attributes["value"]] = copies[-1].output
            self._surround(node, copy, aliases, halos)

    @staticmethod
    def _surround(node: Node, part: Node, aliases: dict[Node, BufferAlias], halos: dict[Node, Halo]) -> None:
        """``node`` is ``part`` with what lies around it."""
        before, after = node.attributes["before"], node.attributes["after"]
        aliases[node] = BufferAlias(part, tuple(X.plain(-b) for b in before), True)
        root, offset = root_of(part, aliases)
        if offset != (0,) * part.type.rank or part is not root:
            ends = zip(offset, part.type.shape, root.type.shape)
            after = tuple(X.plain(a + o + n - all_) if a != 0 else 0 for a, (o, n, all_) in zip(after, ends))
            before = tuple(X.plain(b - o) if b != 0 else 0 for b, o in zip(before, offset))
        known = halos.get(root)
        if known is not None and (known.before, known.after) != (before, after):
            before, after = tuple(map(max, known.before, before)), tuple(map(max, known.after, after))
        halos[root] = Halo(tuple(before), tuple(after), node.attributes["value"])

    def _no_halo(
        self,
        node: Node,
        part: Node,
        aliases: MappingType[Node, BufferAlias],
        produced: set[Node],
        halos: MappingType[Node, Halo],
    ) -> Refusal | None:
        """Reason why the buffer of ``part`` cannot have the halo that ``node`` needs; None if it can."""
        root, offset = root_of(part, aliases)
        if part not in produced or root.op in ("input", "const"):
            return Refusal("aliasing", "an input of the network or a constant lies where it lies: it is copied")
        if part in self.results or root in self.results:
            return Refusal("output", "it must be stored in memory by itself, so it is copied")
        if self._meets_procedure(part) or self._meets_procedure(root):
            return Refusal("procedure", "a procedure wants it by itself: it is copied")
        known = halos.get(root)
        if self._meets_procedure(node) and (part is not root or known is not None):
            return Refusal("procedure", "a procedure wants it by itself: it is copied")
        if any(self._meets_procedure(n) for n, place in aliases.items() if place.is_view and place.parent is root):
            return Refusal("procedure", "a procedure wants its memory as it is: it is copied")
        if known is not None and not _same(known.value, node.attributes["value"]):
            return Refusal("aliasing", "other readers want another value around it: it is copied")
        around = node.attributes["before"], node.attributes["after"]
        if known is not None and (known.before, known.after) == around and part is root:
            return None
        if known is None and part is root:
            return None
        sides = [(b, a, o, n, whole) for b, a, o, n, whole in
                 zip(*around, offset, part.type.shape, root.type.shape) if (b, a) != (0, 0)]  # fmt: skip
        others = (*known.before, *known.after) if known is not None else ()
        if not all(isinstance(x, int) for x in (*(x for side in sides for x in side), *others)):
            return Refusal("aliasing", "how far it is padded is known only when the network runs: it is copied")
        if any(o > 0 or o + n < whole for _, _, o, n, whole in sides):
            return Refusal("aliasing", "it is padded where its neighbors in a larger buffer lie: it is copied")
        return None

    def _refused(
        self, part: Node, node: Node, aliases: MappingType[Node, BufferAlias], produced: set[Node]
    ) -> Refusal | None:
        """Reason why ``part`` cannot be stored inside ``node`` and is copied; None if it can."""
        if part not in produced or (part in self.aliased and part.op not in JOINED):
            return Refusal("aliasing", "an input of the network or a constant lies where it lies: it is copied")
        if part in aliases:
            return Refusal("aliasing", f"it lives inside {aliases[part].parent.op} already: it is copied")
        if part in self.results:
            return Refusal("output", "it must be stored in memory by itself, so it is copied")
        if self._meets_procedure(part):
            return Refusal("procedure", "a procedure wants it by itself: it is copied")
        if self._would_cycle(part, node, aliases):
            return Refusal("aliasing", "each would lie inside the other: it is copied")
        if node.op == "update":
            return self._refused_by_update(part, node)
        return None

    def _refused_by_update(self, part: Node, node: Node) -> Refusal | None:
        """Reason why an operand of an update cannot be stored inside its result; None if it can."""
        whole, new = node.args
        if part is whole and (len(self.users[whole]) > 1 or whole is new):
            return Refusal("aliasing", "others read it as it was before the update: it is copied")
        if part is new and new in set(topological([whole])):
            return Refusal("aliasing", "what it changes is computed from it: it is copied")
        return None

    def _meets_procedure(self, node: Node) -> bool:
        """A procedure writes it or reads it: it has to lie in memory by itself."""
        users = self.users.get(node, ())  # a copy of ours is not in the graph
        return is_procedure(node.op) or any(is_procedure(user.op) for user in users)

    def _outputs(self, copies: list[Block]) -> tuple[tuple[str, Node], ...]:
        """Named results; inputs, constants and values with two names are copied into their own."""
        outputs: list[tuple[str, Node]] = []
        taken: set[Node] = set()
        for name, node in self.graph.outputs:
            if node.op in ("input", "const") or node in taken:
                copies.append(copy_block(node, node, (len(outputs),)))
                node = copies[-1].output
            taken.add(node)
            outputs.append((name, node))
        return tuple(outputs)

    @staticmethod
    def _standing(node: Node, copies: list[Block]) -> Node:
        """A scalar that stands in memory: a constant is copied there."""
        if not node.is_const:
            return node
        if node not in (c.inputs[0] for c in copies if c.output.attributes["offset"] == ("scalar",)):
            copies.append(copy_block(node, node, ("scalar",)))
        return next(c.output for c in copies if c.inputs == (node,) and c.output.attributes["offset"] == ("scalar",))

    @staticmethod
    def _would_cycle(part: Node, node: Node, aliases: MappingType[Node, BufferAlias]) -> bool:
        while node in aliases:
            node = aliases[node].parent
            if node is part:
                return True
        return False


def _parts(node: Node) -> list[tuple[Node, tuple[Extent, ...]]]:
    """The operands of a concatenation or of an update, in the order in which they are written, each with its offset."""
    offset: list[Extent] = [0] * node.type.rank
    if node.op == "update":
        return [(node.args[0], tuple(offset)), (node.args[1], node.attributes["starts"])]
    axis, found = node.attributes["axis"], []
    for part in node.args:
        found.append((part, tuple(offset)))
        offset[axis] = X.plain(offset[axis] + part.type.shape[axis])
    return found


def _same(a: float, b: float) -> bool:
    return a == b or (a != a and b != b)


def copy_block(part: Node, into: Node, offset: tuple[Any, ...]) -> Block:
    """A block that copies ``part`` to where it belongs inside ``into``."""
    target = intern("copy", (part,), {"into": into.key, "offset": offset}, part.type)
    variables = tuple(X.var(f"i{d}", n) for d, n in enumerate(part.type.shape))
    body = X.load(part, variables, part.type.dtype)
    return Block(target, (target,), Formula(part.type, variables, body), "map")

"""The fusion planner: from a graph to blocks and placements.

Anchors (operators that reduce) come first and absorb what follows them up to the next point that every path passes;
then, from the outputs backwards, element-wise and movement operators join the blocks that read them. Concatenation
and padding are not computed at all where it can be helped: their operands are *placed* inside the result's buffer.
A procedure is a block of its own, between values that lie in memory as a whole.
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import prod

from edgec.fuse import classify, narrow
from edgec.fuse.attention import attention_of
from edgec.fuse.block import Block, Composer, is_affine
from edgec.fuse.guards import conditions
from edgec.fuse.placement import Placement, Placer, Plan, copy_block, results_of
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.graph import Formula, Graph, Node
from edgec.ir.index import least, upper
from edgec.ir.nest import Split, coefficient, is_fixed, most, split_formula
from edgec.ir.types import is_float
from edgec.ir.vector import NARROWEST, has_vector_form
from edgec.ops import is_procedure, meaning

__all__ = ["Placement", "Plan", "copy_block", "kind_of", "plan"]

#: A block has at most this many operators: beyond it a kernel gains nothing, and its code grows out of hand.
BLOCK_LIMIT = 64
#: A window of more elements than this is a reduction over rows, not a window.
WINDOW_LIMIT = 64
#: Attention of fewer queries or keys than this is left to kernels for products and rows.
ATTENTION_LIMIT = 256


def plan(graph: Graph, fuse: bool = True) -> Plan:
    """Plan a graph; with ``fuse`` off every operator is a kernel of its own."""
    return _Planner(graph, fuse).run()


def contraction_factors(body: Expr) -> tuple[Expr, Expr] | None:
    """The two factors when ``body`` is one sum of products under element-wise work, else None."""
    sums = [e for e in X.walk(body) if e.op == "reduce"]
    if len(sums) != 1 or sums[0].value[0] != "add" or sums[0].args[0].op != "mul":
        return None
    left, right = sums[0].args[0].args
    return left, right


def kind_of(derived: Formula) -> str:
    """The schedule a formula asks for."""
    if attention_of(derived.body) is not None:
        return "attention"
    sums = [e for e in X.walk(derived.body) if e.op == "reduce"]
    if not sums:
        return "map"
    variables = _loop_variables(derived)
    factors = contraction_factors(derived.body)
    if factors is not None and derived.type.dtype == "f32":
        left, right = (X.free_variables(f) & variables for f in factors)
        if left != right:  # some loop belongs to one factor alone: what the other holds is used again and again
            return "contract"
    window = 1
    for s in sums:
        for v in s.value[1]:
            window *= upper(v.extent)
    fixed = all(isinstance(v.extent, int) for s in sums for v in s.value[1])
    if len(sums) == 1 and sums[0].height == 1 and variables and window <= WINDOW_LIMIT and fixed:
        return "window"
    return "row"


def _loop_variables(derived: Formula) -> frozenset[Expr]:
    return frozenset(v for v in derived.variables if v.op == "var")


def _is_along_rows(anchor: Node) -> bool:
    """Does a reduction run along what will be contiguous, so that one pass can follow another over a row in cache?

    Where lanes run across the reduced dimensions (channels last, say), every element would reduce anew.
    """
    axes, rank = anchor.attributes["axes"], anchor.args[0].type.rank
    is_spatial = rank >= 4 and set(axes) == set(range(2, rank))
    return rank - 1 in axes and not is_spatial


def _ends_in_lanes(split: Split) -> bool:
    """Can lanes run along the innermost dimension of a result, or along its channels? Interleaved, a loop is short."""

    def is_long(place: Expr, least: int) -> bool:
        return any(coefficient(place, v) == 1 and most(v) >= least for v in split.variables)

    channels = split.position[1] if len(split.position) > 2 else X.const(0)
    last = next((p for p in reversed(split.position) if p.op != "const"), X.const(0))
    return is_long(last, NARROWEST) or is_long(channels, 2 * NARROWEST)


class _Planner:
    def __init__(self, graph: Graph, fuse: bool) -> None:
        self.graph = graph
        self.fuse = fuse
        self.users = graph.users()
        self.order = {n: k for k, n in enumerate(graph.nodes())}
        self.conditions = conditions(graph.nodes())  # of branches: each stands in memory, for kernels to ask
        self.results = results_of(graph)
        self.composer = Composer()
        self.owner: dict[Node, Node] = {}  # operator -> output of the block that computes it
        self.members: dict[Node, list[Node]] = {}  # output of a block -> what it computes
        self.inlined: dict[Node, set[Node]] = {}  # movement repeated inside its readers, with the blocks they are
        self.attentions: set[Node] = set()  # ends of blocks that are attention
        self.placed: set[Node] = set()  # concat and pad: computed by placement

    def run(self) -> Plan:
        operations = self.graph.operations()
        for node in operations:
            if is_procedure(node.op):
                self._own(node, node)
        for node in operations:
            if node not in self.owner and classify.has_reduction(self.composer.own(node)):
                self._grow(node)
        for node in reversed(operations):
            if node not in self.owner:
                self._join(node)
        blocks = self._blocks(operations)
        self._absorb_movement(blocks)
        return Placer(self.graph, self.placed, self.conditions).plan(list(blocks.values()))

    # ---- growing an anchor downstream

    def _grow(self, anchor: Node) -> None:
        block = [anchor]
        end = anchor
        ends, lengths = [end], [1]
        rows = anchor.op == "reduce"
        merged = self._attention(anchor) if self.fuse and anchor.op == "matmul" else None
        if merged is not None:
            block = merged
            lengths = [len(block)]
        while self.fuse and end not in self.results and end not in self.conditions:
            found = self._post_dominator(end, anchor, rows)
            if found is None or not (rows or self._runs_on_lanes(block, found)):
                break
            if len(block) + len(found) > BLOCK_LIMIT:
                break
            block += found
            end = found[-1]
            ends.append(end)
            lengths.append(len(block))
        if end not in self.results:
            best = narrow.narrowest(ends)
            end, block = ends[best], block[: lengths[best]]
        for node in block:
            self._own(node, end)
        if merged is not None:
            self.attentions.add(end)

    def _attention(self, product: Node) -> list[Node] | None:
        """The nodes of attention whose last product this is, if that pays: the blocks of scores and weights join it."""
        for side in product.args:
            weights, between = self._behind(side)
            if self.owner.get(weights) is not weights or weights.op in ("input", "const") or is_procedure(weights.op):
                continue
            outside = dict.fromkeys(a for n in self.members[weights] for a in n.args if a not in self.members[weights])
            found = [self._behind(a) for a in outside if not a.is_const]
            scores = [(s, path) for s, path in found if self.owner.get(s) is s and s is not weights]
            if len(scores) != 1 or is_procedure(scores[0][0].op):
                continue
            ((score, path),) = scores
            merged = [*self.members[score], *path, *self.members[weights], *between, product]
            inside = set(merged)
            private = all(u in inside for n in merged[:-1] for u in self.users[n])
            if not private or inside & (self.results | self.conditions):
                continue
            moving = {n for n in self._upstream(merged) if self._moves(n)}
            derived = self.composer.compose(product, (inside | moving).__contains__)
            if self._pays(split_formula(derived)):
                for end in (score, weights):
                    del self.members[end]
                return merged
        return None

    def _upstream(self, nodes: list[Node]) -> list[Node]:
        """The operands of ``nodes``, and what movement brings to those."""
        found: list[Node] = []
        for n in nodes:
            for a in n.args:
                found.append(a)
                found += self._behind(a)[1]
        return found

    def _moves(self, node: Node) -> bool:
        if node.op in ("input", "const") or node in self.owner or node in self.results:
            return False
        return classify.is_movement(node)

    def _behind(self, node: Node) -> tuple[Node, list[Node]]:
        """What movement moves, and that movement."""
        path: list[Node] = []
        while self._moves(node) and len(node.args) == 1:
            path.append(node)
            node = node.args[0]
        return node, path[::-1]

    @staticmethod
    def _pays(split: Split) -> bool:
        """Is it attention, with so many queries and keys that keeping scores out of memory is worth a kernel?"""
        found = attention_of(split.body)
        if found is None or not is_fixed(*found.features):
            return False
        key, value = X.free_variables(found.key), X.free_variables(found.value)
        queries = [v for v in split.variables if v in X.free_variables(found.query) and v not in key | value]
        features = [v for v in split.variables if v in value and v not in X.free_variables(found.query) | key]
        return (
            max(map(most, queries), default=0) >= ATTENTION_LIMIT
            and most(found.keys) >= ATTENTION_LIMIT
            and any(is_fixed(v) for v in features)
        )

    def _post_dominator(self, start: Node, anchor: Node, rows: bool) -> list[Node] | None:
        """The nodes from ``start`` to the nearest one all its uses flow through, if all may join the block."""
        frontier: list[tuple[int, Node]] = []
        waiting: set[Node] = set()
        passed: list[Node] = []

        def reach(node: Node) -> None:
            for user in self.users[node]:
                if user not in waiting:
                    waiting.add(user)
                    heappush(frontier, (self.order[user], user))

        reach(start)
        while frontier and len(passed) < 32:
            _, node = heappop(frontier)
            passed.append(node)
            if node in self.owner or not self._may_join(node, anchor, rows):
                return None
            if not frontier:
                return passed
            if node in self.results or node in self.conditions:
                return None
            reach(node)
        return None

    @staticmethod
    def _runs_on_lanes(block: list[Node], found: list[Node]) -> bool:
        """Is everything float work with vector forms, so that it can act on accumulators in registers?"""
        if block[0].type.dtype != "f32":
            return True
        inside = {*block, *found}
        return found[-1].type.dtype == "f32" and all(
            has_vector_form(n.op) and all(a in inside or a.type.dtype == "f32" for a in n.args) for n in found
        )

    def _may_join(self, node: Node, anchor: Node, rows: bool) -> bool:
        if node.op == "branch":
            return False  # what it may not need is computed by kernels of their own, to be skipped
        if not rows:
            return classify.is_elementwise(node) and bool(node.type.shape == anchor.type.shape)
        full, reduced = anchor.args[0].type.shape, anchor.type.shape
        if node.type.shape != reduced and not _is_along_rows(anchor):
            return False
        if node.op == "reduce":
            return bool(node.args[0].type.shape == full) and node.attributes["axes"] == anchor.attributes["axes"]
        return classify.is_elementwise(node) and node.type.shape in (full, reduced)

    # ---- from the outputs backwards: who reads this, and can they compute it themselves?

    def _readers(self, node: Node) -> set[Node]:
        """Outputs of the blocks (or placed values) that read ``node``, through operators that are inlined."""
        readers: set[Node] = set()
        for user in self.users[node]:
            readers |= self.inlined.get(user) or {self.owner.get(user, user)}
        return readers

    def _own(self, node: Node, output: Node) -> None:
        """``node`` is computed by the block that ends in ``output``."""
        self.owner[node] = output
        self.members.setdefault(output, []).append(node)

    def _join(self, node: Node) -> None:
        readers = self._readers(node)
        if node.op in ("concat", "pad") and self._is_placeable(node, readers):
            self.placed.add(node)
            self._own(node, node)
        elif not self.fuse or node in self.results or node in self.conditions:
            self._own(node, node)
        elif all(self._foldable(node, r) for r in readers):
            if classify.is_movement(node) or narrow.is_read_wide(node):
                self.inlined[node] = readers
            elif len(readers) == 1 and len(self.members[next(iter(readers))]) < BLOCK_LIMIT:
                self._own(node, next(iter(readers)))
            else:
                self._own(node, node)
        else:
            self._own(node, node)

    def _is_placeable(self, node: Node, readers: set[Node]) -> bool:
        if node.op == "concat":
            return True
        around = (*node.attributes["before"], *node.attributes["after"])
        if min(map(least, around), default=0) < 0 or not node.args[0].type.elements:
            return False  # what is cropped, or not there at all, cannot lie inside
        # Padding is cheap as a choice inside maps and rows; windows and contractions want plain memory.
        return any(self._is_windowed(r) for r in readers)

    def _is_windowed(self, reader: Node) -> bool:
        if reader in self.placed:
            return False
        return any(n.op in ("conv", "matmul", "pool") for n in self.members.get(reader, ()))

    def _foldable(self, node: Node, reader: Node) -> bool:
        if reader in self.placed or is_procedure(reader.op):
            return False
        members = self.members.get(reader, [])
        contraction = any(n.op in ("conv", "matmul") for n in members)
        if narrow.is_read_wide(node):
            return not any(is_float(n.type.dtype) for n in members if n.op in ("conv", "matmul", "pool"))
        if not classify.is_movement(node):
            # Work is repeated where a reader reads an element several times: only element for element, then.
            spread = any(n.type.elements > node.type.elements for n in members)
            if contraction:
                return narrow.follows_sums(node, members, self.users, self.inlined)
            return not spread and not any(n.op == "pool" for n in members)
        if node.op in ("gather", "gather_elements", "gather_nd", "iota"):
            return not contraction and not any(n.op == "reduce" for n in members)
        if contraction:
            if any(n.op == "conv" and n.attributes["groups"] > 1 for n in members) and node.op != "slice":
                return False
            inside = {*members, *self.inlined, node}
            composed = self.composer.compose(reader, inside.__contains__)
            return is_affine(composed) and (reader not in self.attentions or self._pays(split_formula(composed)))
        return True

    # ---- results

    def _blocks(self, operations: list[Node]) -> dict[Node, Block]:
        members: dict[Node, list[Node]] = {}
        for node in operations:
            if node in self.owner:
                members.setdefault(self.owner[node], []).append(node)
        blocks: dict[Node, Block] = {}
        for output in sorted(members, key=self.order.__getitem__):
            if output in self.placed:
                continue
            if is_procedure(output.op):
                blocks[output] = Block(output, (output,), meaning(output), "procedure")
                continue
            inside = {*members[output], *self.inlined}
            derived = self.composer.compose(output, inside.__contains__)
            blocks[output] = Block(output, tuple(members[output]), derived, kind_of(derived))
        return blocks

    def _absorb_movement(self, blocks: dict[Node, Block]) -> None:
        """A block that only moves the result of one other block becomes the way that block stores its result."""
        for output in list(blocks):
            block = blocks[output]
            if len(block.nodes) != 1 or not classify.is_movement(output) or len(block.inputs) != 1 or not self.fuse:
                continue
            source = block.inputs[0]
            if source not in blocks or source in self.results | self.conditions or is_procedure(source.op):
                continue
            if sum(source in b.inputs for b in blocks.values()) > 1:
                continue
            if X.plain(prod(output.type.shape)) != X.plain(prod(source.type.shape)):
                continue
            if any(source in p.args for p in self.placed):
                continue
            inside = {*blocks[source].nodes, *self.inlined}
            derived = self.composer.compose(output, inside.__contains__)
            scatters = blocks[source].kind in ("contract", "window") and not _ends_in_lanes(split_formula(derived))
            if scatters or not is_affine(derived):
                continue
            if source not in self.attentions or self._pays(split_formula(derived)):
                nodes = (*blocks[source].nodes, output)
                del blocks[source]
                blocks[output] = Block(output, nodes, derived, kind_of(derived))

"""Layouts: the innermost dimension of each buffer, chosen for the kernels that write and read it.

The graph is logical; a layout is a property of a buffer alone. Values that live inside another (``BufferAlias``) share
its layout. Inputs and outputs keep the caller's row-major order, and what procedures read and write is row-major too.
"""

from __future__ import annotations

from collections import Counter
from math import prod

from edgec.fuse import Block, Plan
from edgec.fuse.pooled import pooled_of
from edgec.ir import expr as X
from edgec.ir import positions
from edgec.ir.expr import Expr
from edgec.ir.graph import Formula, Node
from edgec.ir.index import upper
from edgec.ir.lanes import NARROWEST
from edgec.ir.nest import coefficient, most
from edgec.ops.contraction import is_by_image

FEW = 8
"""Channels of which fewer fill no vector: they are as good broadcast from rows as they are."""


def innermost_dimensions(plan: Plan, lanes: int = NARROWEST) -> dict[Node, int]:
    """For every owner of memory, the dimension that should be contiguous, for vectors of so many ``lanes``."""
    fixed = {n for _, n in plan.outputs} | set(plan.graph.inputs)
    fixed |= {plan.root_of(n)[0] for b in plan.blocks if b.is_procedure for n in (b.output, *b.inputs)}
    votes: dict[Node, Counter[int]] = {}

    def vote(node: Node, dimension: int, weight: int = 1) -> None:
        root, _ = plan.root_of(node)
        votes.setdefault(root, Counter())[dimension] += weight

    for block in plan.blocks:
        for node, dimension in _wishes(block, lanes):
            vote(node, dimension, _accesses(block, node))
    _spread(plan, votes, fixed)
    for order, is_last in ((tuple(reversed(plan.blocks)), False), (plan.blocks, False), (plan.blocks, True)):
        for block in order:
            for node, dimension in _agreed(_alternatives(block, lanes), plan, votes, fixed, is_last):
                if plan.root_of(node)[0] not in votes:
                    vote(node, dimension)
    _spread(plan, votes, fixed)
    return {
        root: (root.type.rank - 1 if root in fixed or root.op in ("input", "const") else _winner(count))
        for root, count in votes.items()
    }


def _accesses(block: Block, node: Node) -> int:
    """Elements of a value that a block writes or reads, each once: of a large one, it may need a small part."""
    if node is block.output:
        return int(node.type.elements)
    around = (X.free_variables(load) for load in X.loads(block.formula.body) if load.value is node)
    return min(int(node.type.elements), sum(prod(map(most, variables)) for variables in around))


def channel_of(block: Block) -> int | None:
    """The dimension of a block's result along which lanes of a convolution or pool run; None where it has none.

    Groups of a few output channels fill no vector; depthwise convolutions and pools run along all channels.
    """
    anchor = _anchor(block)
    if anchor is None or anchor.op not in ("conv", "pool") or anchor.type.rank < 3 or pooled_of(block.formula.body):
        return None
    groups = anchor.attributes["groups"] if anchor.op == "conv" else 1
    return None if 1 < groups < upper(anchor.type.shape[1]) else _channel_of(block, anchor)


def slides_along_rows(block: Block, lanes: int) -> bool:
    """Is the block a pool or depthwise convolution of which ``lanes`` run along rows as well as along channels?"""
    anchor = _anchor(block)
    return anchor is not None and _slides_along_rows(block, anchor, lanes)


def is_by_channel(block: Block) -> bool:
    """Is the block a pool or depthwise convolution, each channel by itself?"""
    anchor = _anchor(block)
    return anchor is not None and (
        anchor.op == "pool" or (anchor.op == "conv" and anchor.attributes["groups"] == anchor.type.shape[1])
    )


def _anchor(block: Block) -> Node | None:
    return next((n for n in block.nodes if n.op in ("conv", "pool", "matmul", "reduce")), None)


def _channel_of(block: Block, anchor: Node) -> int | None:
    """The dimension of a block's result that is the channels of its convolution or pool; None where none of them is."""
    if block.output.type.shape == anchor.type.shape:
        return 1
    if anchor.op != "conv":
        return None
    variables = block.formula.variables
    weights, operands = (_used_of(block, anchor.args[i], variables) for i in (1, 0))
    # Phases of a transposed convolution lie side by side: of its channels and the phases, lanes run along the channels.
    found = [v for v in variables if v in weights and v not in operands and most(v) >= FEW]
    return variables.index(max(found, key=most)) if found else None


def _used_of(block: Block, operand: Node, variables: tuple[Expr, ...]) -> set[Expr]:
    """Those of ``variables`` that the indices of an operand change with, or of what the block computes it from.

    What an operand is a view of, such as weights that a training step has in another shape, is loaded in its place.
    """
    loads = X.loads(block.formula.body)
    loaded = {load.value for load in loads}
    read, todo = set(), [operand]
    while todo:
        node = todo.pop()
        if node not in read:
            read.add(node)
            is_view = node not in loaded and len(node.args) == 1
            todo += node.args if node in block.nodes or is_view else ()
    return {v for load in loads if load.value in read for i in load.args for v in X.free_variables(i)} & set(variables)


def _spread(plan: Plan, votes: dict[Node, Counter[int]], fixed: set[Node]) -> None:
    """Blocks without a vote of their own propagate those of their neighbors, so that lanes run along one dimension."""
    for order in (plan.blocks, tuple(reversed(plan.blocks)), plan.blocks):
        for block in order:
            _propagate(block, plan, votes, fixed)


def _winner(count: Counter[int]) -> int:
    return max(sorted(count), key=lambda d: (count[d], d))


def _wishes(block: Block, lanes: int) -> list[tuple[Node, int]]:
    """Layout votes of a block: (value, dimension that should be contiguous), from the accesses in its formula."""
    anchor = _anchor(block)
    if block.kind in ("map", "window") and (chosen := _whole_rows(block)):
        return [*chosen[0]] if len(chosen) == 1 else []
    if anchor is None:
        return []
    derived = block.formula
    if anchor.op in ("conv", "pool"):
        return [] if _slides_along_rows(block, anchor, lanes) else _of_channels(block, anchor)
    if anchor.op == "matmul":
        if _has_few_columns(anchor):
            return []
        if block.output is anchor:
            return [(block.output, block.output.type.rank - 1)]
        if any(a.is_const for a in anchor.args):
            columns = {e.args[-1] for e in X.loads(derived.body) if e.value in anchor.args and e.value.is_const}
        else:
            rows, columns = (_used_of(block, a, derived.variables) for a in anchor.args)
            columns = columns - rows
        return [(block.output, d) for d, v in enumerate(derived.variables) if v in columns]
    if _is_over_several(anchor):
        return []
    return _rows_of(block, anchor)


def _of_channels(block: Block, anchor: Node) -> list[tuple[Node, int]]:
    """Layout votes of a convolution or pool: channels should be contiguous in the result and the operand."""
    derived = block.formula
    channel = _channel_of(block, anchor) if pooled_of(derived.body) is None else 1
    if anchor.type.rank < 3 or channel is None:
        return []
    wishes = [(block.output, channel)]
    if is_by_image(anchor):  # rows and lanes are channels of the two operands, and sums run over pixels
        named = [(load.value, load.args) for load in X.loads(derived.body) if load.value.type.rank >= 3]
        rows = [v for v in derived.variables if v.op == "var" and most(v) >= FEW]
        return wishes + [(value, i.index(v)) for value, i in named for v in rows if v in i]
    for load in X.loads(derived.body):
        dimension = _walked_by(load, {derived.variables[channel]})  # each channel by itself, as in pools
        if dimension is None:
            dimension = _walked_by(load, _last_summed(derived))
        # Few channels are as good as broadcast from rows as they are.
        if dimension is not None and load.value.type.rank >= 3 and load.value.type.bounds[dimension] >= FEW:
            wishes.append((load.value, dimension))
    return wishes


def _slides_along_rows(block: Block, anchor: Node, lanes: int) -> bool:
    """Can lanes of a pool or depthwise convolution as well run along rows: do its windows move by one element there?

    Rows shorter than a vector would leave a part of it empty.
    """
    channels = anchor.type.bounds[1:2]
    by_channel = anchor.op == "conv" and (anchor.attributes["groups"],) == channels == anchor.args[0].type.bounds[1:2]
    if not (anchor.op == "pool" or by_channel) or block.output.type.shape != anchor.type.shape:
        return False
    row = block.formula.variables[-1]
    loads = [load for load in X.loads(block.formula.body) if load.args and not load.value.is_const]
    return row.op == "var" and most(row) >= lanes and all(coefficient(e.args[-1], row) == 1 for e in loads)


def _along_rows(block: Block) -> Votes:
    """Layout votes of a pool or depthwise convolution whose lanes run along rows."""
    row = block.formula.variables[-1]
    places = ((load.value, _walked_by(load, {row})) for load in X.loads(block.formula.body))
    return ((block.output, block.output.type.rank - 1), *((value, d) for value, d in places if d is not None))


def _is_over_several(anchor: Node) -> bool:
    """Does a reduction go over several dimensions, any of which can be contiguous?"""
    return len([d for d in anchor.attributes["axes"] if anchor.args[0].type.bounds[d] > 1]) > 1


Votes = tuple[tuple[Node, int], ...]


def _alternatives(block: Block, lanes: int) -> list[Votes]:
    """Layout votes of which any would do: those of gathers that leave several dimensions whole, and those of pools.

    And those of products of few columns and of reductions over several. The last is taken where nothing else is known.
    """
    if block.kind in ("map", "window") and (chosen := _whole_rows(block)):
        return chosen if len(chosen) > 1 else []
    anchor = _anchor(block)
    if anchor is not None and _slides_along_rows(block, anchor, lanes):
        return [_along_rows(block), tuple(_of_channels(block, anchor))]
    if anchor is not None and anchor.op == "matmul" and _has_few_columns(anchor):
        return _along_any(block, lanes)
    if anchor is None or anchor.op != "reduce" or not _is_over_several(anchor):
        return []
    return [tuple(_rows_of(block, anchor))]


def _has_few_columns(anchor: Node) -> bool:
    """Would the columns of a product by constants fill no vector, while rows would? Heads that are mixed are so few."""
    rows, columns = anchor.type.bounds[-2:] if anchor.type.rank > 1 else (1, 1)
    return columns < FEW <= rows and any(a.is_const for a in anchor.args)


def _along_any(block: Block, lanes: int) -> list[Votes]:
    """Layout votes of a product, for each dimension that fills vectors and is one of the factor that is computed too.

    And as the last, that of its result as it is.
    """
    found: list[Votes] = []
    for d, v in enumerate(block.formula.variables):
        places = [(load.value, _walked_by(load, {v})) for load in X.loads(block.formula.body)]
        read = [(value, place) for value, place in places if place is not None]
        if v.op == "var" and most(v) >= lanes and read:
            found.append(((block.output, d), *read))
    return [*found, ((block.output, block.output.type.rank - 1),)]


def _agreed(
    alternatives: list[Votes], plan: Plan, votes: dict[Node, Counter[int]], fixed: set[Node], is_last: bool
) -> Votes:
    """The alternative that agrees with the layout of one of its values; if it ``is_last``, that or the last one."""

    def is_known(node: Node, dimension: int) -> bool:
        root, _ = plan.root_of(node)
        known = root.type.rank - 1 if root in fixed else _winner(votes[root]) if root in votes else None
        return dimension == known

    agreed = [found for found in alternatives if any(is_known(*vote) for vote in found)]
    return (agreed or (alternatives if is_last else [()]))[-1] if alternatives else ()


def _rows_of(block: Block, anchor: Node) -> list[tuple[Node, int]]:
    """Layout votes of a reduction: the last of its dimensions should be contiguous."""
    derived = block.formula
    axes, rank = anchor.attributes["axes"], anchor.args[0].type.rank
    if (rank - 1 not in axes and axes != (1,)) or rank < 2 or (rank >= 3 and set(axes) == set(range(2, rank))):
        return []  # spatial means like channels last: their lanes are the channels
    if rank - 1 not in axes and (block.kind == "contract" or _is_across_rows(block, anchor)):
        return []  # lanes are results
    if rank - 1 not in axes and anchor.args[0].type.bounds[1] < FEW:
        return [] if rank < 3 else _of_pixels(block, rank)
    rows = {v for e in X.walk(derived.body) if e.op == "reduce" for v in X.reduction_variables(e)[-1:]}
    along = ((load.value, _walked_by(load, rows)) for load in X.loads(derived.body))
    wishes = [(value, d) for value, d in along if d is not None and value.type.rank == rank]
    if axes == (1,) and block.output.type.shape == anchor.args[0].type.shape:
        wishes.append((block.output, 1))
    return list(dict.fromkeys(wishes))


def _is_across_rows(block: Block, anchor: Node) -> bool:
    """Are plain sums over a dimension before the last all that a block computes of it, and results enough for vectors?

    They read whole rows as they lie, one after the other, and their neighbors do so too. In images, whose channels lie
    before the pixels, convolutions and sums have lanes along channels.
    """
    (operand,), derived = anchor.args, block.formula
    sums = [e for e in X.walk(derived.body) if e.op == "reduce"]
    if len(sums) != 1 or sums[0].value[0] != "add" or operand.type.bounds[-1] < FEW or operand.type.rank != 3:
        return False
    names, inner = X.opened(sums[0])
    is_less = upper(block.output.type.elements) < upper(operand.type.elements)
    return is_less and all({*names} & X.free_variables(e) for e in X.loads(inner) if not e.value.is_const)


def _of_pixels(block: Block, rank: int) -> list[tuple[Node, int]]:
    """Layout votes of a reduction over few channels: lanes run along the last dimension, all channels in turn."""
    last = block.formula.variables[-1]
    places = ((load.value, _walked_by(load, {last})) for load in X.loads(block.formula.body))
    wishes = [(value, d) for value, d in places if d is not None and value.type.rank == rank]
    return list(dict.fromkeys([*wishes, (block.output, block.output.type.rank - 1)]))


def _whole_rows(block: Block) -> list[Votes]:
    """Layout votes of gathers, for each un-gathered dimension: it should be contiguous in the operand and result.

    An input lies row by row: where one loop walks the end of its rows, over several dimensions, the result follows it.
    """
    variables = block.formula.variables
    for load in X.loads(block.formula.body):
        is_chosen = any(X.loads(i) for i in load.args)
        if is_chosen and load.value.op == "input" and load.value.type.is_fixed:
            address = positions.linearize(load.args, load.value.type.shape)
            along = [v for v in variables if most(v) >= NARROWEST and coefficient(address, v) == 1]
            if along and along[0] not in load.args:
                return [((block.output, variables.index(along[0])),)]
        rows = [v for v in load.args if v.op == "var" and v in variables and most(v) >= NARROWEST]
        if is_chosen and rows and not load.value.is_const:
            return [((load.value, load.args.index(v)), (block.output, variables.index(v))) for v in rows]
    return []


def _last_summed(derived: Formula) -> set[Expr]:
    """The loop of a convolution's sum over channels (its last one), when it has one."""
    sums = [e for e in X.walk(derived.body) if e.op == "reduce"]  # of a pooled one, the sum comes before the window
    return {X.reduction_variables(sums[0])[-1]} if sums and len(sums[0].value[1]) > 0 else set()


def _walked_by(load: Expr, variables: set[Expr]) -> int | None:
    """The dimension of the loaded value whose index steps with one of ``variables``."""
    if load.value.is_const:
        return None
    found = [d for d, i in enumerate(load.args) if variables & X.free_variables(i)]
    return found[0] if len(found) == 1 else None


def _propagate(block: Block, plan: Plan, votes: dict[Node, Counter[int]], fixed: set[Node]) -> None:
    """Pass a known wish through a map: the loop that is contiguous in one value should be in the others too."""
    if block.kind in ("contract", "window", "procedure"):
        return
    variables = block.formula.variables
    places: list[tuple[Node, tuple[Expr, ...]]] = [(block.output, variables)]
    for load in X.loads(block.formula.body):
        if not load.value.is_const and load.value.type.elements >= block.output.type.elements:
            places.append((load.value, load.args))
    for node, place in places:
        root, _ = plan.root_of(node)
        if root in votes and root not in fixed and node.type.rank == root.type.rank:
            index = place[_winner(votes[root])]
            loop = index if index.op == "var" else _stepping(index, variables)
            if loop is not None:
                break
    else:
        return
    for node, place in places:
        root, _ = plan.root_of(node)
        if root not in votes and root not in fixed and loop in place:
            votes[root] = Counter({place.index(loop): 1})


def _stepping(index: Expr, variables: tuple[Expr, ...]) -> Expr | None:
    """The loop that steps by one through an index of several (features of a head, say), where it fills a vector."""
    steps = [v for v in variables if v.op == "var" and coefficient(index, v) == 1]
    return steps[0] if steps and most(steps[0]) >= FEW else None

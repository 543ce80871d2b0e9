"""Growing downstream: the block of an operator that reduces absorbs the operators that follow, which are then computed
while its result is in registers.

It grows to the next operator that all paths from it pass through (its post-dominator), if everything in between is
element-wise on its domain or, for reductions of rows, a reduction of the same row.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from math import prod

from edgec.fuse import classify, narrow
from edgec.fuse.block import is_affine
from edgec.fuse.classify import Mapping
from edgec.fuse.decisions import Refusal
from edgec.fuse.draft import BLOCK_LIMIT, Draft
from edgec.fuse.merge_attention import attention_nodes
from edgec.fuse.pooled import is_pooled_product
from edgec.fuse.stored_lanes import columns_in_runs, stores_in_lanes
from edgec.ir import expr as X
from edgec.ir.graph import Node
from edgec.ir.lanes import NARROWEST
from edgec.ir.nest import split_formula
from edgec.ir.vector import LANES, has_vector_form
from edgec.ops import is_procedure

#: Most reduced elements, a vector each, that stay in the first-level cache between passes.
ACROSS_LIMIT = 256
#: Movement that reads every element exactly once.
ORDERS = ("reshape", "transpose")
#: Most operators that are passed in the search for a post-dominator.
REACH = 32


def grow(draft: Draft, anchor: Node) -> None:
    """Make the block of ``anchor`` and of the operators that it absorbs."""
    said = draft.decisions
    block = [anchor]
    end = anchor
    ends, lengths = [end], [1]
    rows = anchor.op == "reduce" and not _sums_products(draft, anchor)
    restored: Node | None = None
    merges = draft.mode.is_planner and anchor.op == "matmul" and (draft.mode.head or not draft.mode.gpu)
    merged = attention_nodes(draft, anchor) if merges else None
    if merged is not None:
        block = merged
        lengths = [len(block)]
    while True:
        found = _next(draft, block, end, anchor, rows, restored)
        if isinstance(found, Refusal) and rows and restored is None:
            restored = _restored(draft, block, end, anchor)
            found = [restored] if restored is not None else found
        if isinstance(found, Refusal):
            said.apart(end, draft.users[end], found, first=Mapping.MANY_TO_MANY)
            break
        block += found
        end = found[-1]
        ends.append(end)
        lengths.append(len(block))
    if end not in draft.results:
        best = narrow.narrowest(ends)
        if ends[best] is not end:
            why = f"its {end.type.dtype} are stored as they were before: {ends[best].type.dtype} are narrower"
            said.apart(ends[best], draft.users[ends[best]], Refusal("width", why))
        end, block = ends[best], block[: lengths[best]]
    inside = set(block)
    for node in block:
        draft.own(node, end)
        for reader in draft.users[node]:
            if reader in inside and merged is None:
                said.fused(node, reader, _held(anchor, reader))
    if merged is not None:
        draft.attentions.add(end)


def _sums_products(draft: Draft, anchor: Node) -> bool:
    """Does a reduction add products as a matmul does, each sum for one result? No row is then held for others."""
    operand = anchor.args[0]
    if operand.op != "mul" or operand in draft.owner or {*draft.users[operand]} != {anchor}:
        return False
    return draft.block(anchor, [operand, anchor]).kind == "contract"


def _held(anchor: Node, reader: Node) -> str:
    if anchor.op != "reduce" and not classify.is_elementwise(reader) and not classify.is_movement(reader):
        return f"{reader.op} combines sums that are neighbors in the registers of {anchor.op}"
    if classify.is_elementwise(reader):
        return f"{reader.op} is applied to each element while {anchor.op} still holds it"
    if reader.op == "reshape":
        return "reshape gives the row the shape back in which it was computed"
    return f"{reader.op} reads the row while it is in cache"


def _next(
    draft: Draft, block: Sequence[Node], end: Node, anchor: Node, rows: bool, restored: Node | None = None
) -> list[Node] | Refusal:
    """Next operator of a block that ends in ``end``, or the reason why it ends here.

    Once a row has been ``restored`` to the shape in which it was computed, element-wise operators of that shape follow.
    """
    if end in draft.results or end in draft.conditions:
        return Refusal("output", "its result must be stored in memory")
    found = _post_dominator(draft, end, anchor, rows and restored is None, restored)
    if isinstance(found, Refusal):
        more = draft.mode.is_planner and not rows
        beyond = _pooled(draft, block, end) or _beyond_movement(draft, block, end, anchor) if more else None
        if beyond is None:
            return found
        found = beyond
    is_pooled = len(found) == 1 and classify.has_reduction(draft.composer.own(found[0]))
    if not rows and not is_pooled and not _runs_on_lanes(block, found):
        return Refusal("registers", f"{found[-1].op} cannot act on the vectors that hold the sums")
    if len(block) + len(found) > BLOCK_LIMIT:
        return Refusal("code size", f"a block of more than {BLOCK_LIMIT} operators gains nothing")
    if not draft.mode.grows(block, found):
        return Refusal("mode", f"this build does not fuse it (--fuse {draft.mode.name})")
    return found


def _restored(draft: Draft, block: Sequence[Node], end: Node, anchor: Node) -> Node | None:
    """The reshape by which alone a row is read that was itself reshaped: that of groups of channels, say.

    The result is then stored in the shape of its readers, any dimension of which can be contiguous.
    """
    if end in draft.results | draft.conditions or len(draft.users[end]) != 1 or end.type != anchor.args[0].type:
        return None
    (user,) = draft.users[end]
    moved = _moved_before(draft, anchor)
    if not moved or user.op != "reshape" or user in draft.owner:
        return None
    if not draft.mode.is_planner or len(block) >= BLOCK_LIMIT:
        return None
    whole = draft.block(user, [*block, user], *moved)
    return user if whole.kind == "row" and is_affine(whole.formula) else None


def _moved_before(draft: Draft, anchor: Node) -> list[Node]:
    """Movement of the elements of a row, and element-wise work after it, on the way to what reduces them."""
    node, passed = anchor.args[0], list[Node]()
    while len(passed) < REACH:
        source, path = draft.behind(node)
        if path:
            return [*passed, *path] if any(n.op in ORDERS for n in path) else []
        whole = [a for a in source.args if a.type.shape == source.type.shape]
        if source in draft.owner or not whole or not classify.is_elementwise(source):
            return []
        passed.append(source)
        node = whole[0]
    return []


def _pooled(draft: Draft, block: Sequence[Node], end: Node) -> list[Node] | None:
    """Pooling of accumulators in registers, in adjacent windows, where that is not slower."""
    if draft.mode.gpu or len(draft.users[end]) != 1:
        return None
    (user,) = draft.users[end]
    if user in draft.owner or not classify.has_reduction(draft.composer.own(user)):
        return None
    whole = draft.block(user, [*block, user])
    if not is_pooled_product(split_formula(whole.formula)):
        return None
    variants = {
        "pooled in registers": (whole,),
        "stored, then pooled": (draft.block(end, [*block]), draft.block(user, [user])),
    }
    choice = draft.decisions.asked(draft.prices.choose("pool", user, variants))
    if choice.taken.name == "pooled in registers":
        return [user]
    refusal = Refusal("price", "pooling what is stored is cheaper")
    draft.decisions.apart(end, (user,), refusal, choice, first=Mapping.MANY_TO_MANY)
    return None


def _beyond_movement(draft: Draft, block: Sequence[Node], end: Node, anchor: Node) -> list[Node] | None:
    """Operators after a reshape or transpose of a contraction's result that nothing else reads, computed at the store.

    So a residual is added in the contraction's kernel, even where the two have different shapes.
    """
    path: list[Node] = []
    node = end
    while len(draft.users[node]) == 1:
        (user,) = draft.users[node]
        if user.op not in ORDERS or user in draft.owner:
            break
        if user in draft.results or user in draft.conditions:
            return None
        path.append(user)
        node = user
    if not path or anchor.op not in ("conv", "matmul"):
        return None
    found = _post_dominator(draft, node, anchor, False, node)
    if isinstance(found, Refusal):
        return None
    whole = draft.block(found[-1], [*block, *path, *found])
    if whole.kind != "contract" or not is_affine(whole.formula):
        return None
    split = split_formula(whole.formula)
    columns, run = columns_in_runs(split)
    return [*path, *found] if stores_in_lanes(split) and run >= min(columns, NARROWEST) else None


def _post_dominator(
    draft: Draft, start: Node, anchor: Node, rows: bool, shaped: Node | None = None
) -> list[Node] | Refusal:
    """The nodes from ``start`` to its post-dominator, if all may join the block; otherwise the reason.

    Unless the block is a row reduction (``rows``), they must have the shape of ``shaped``, by default of ``start``.
    """
    frontier: list[tuple[int, Node]] = []
    waiting: set[Node] = set()
    passed: list[Node] = []

    def reach(node: Node) -> None:
        for user in draft.users[node]:
            if user not in waiting:
                waiting.add(user)
                heappush(frontier, (draft.order[user], user))

    reach(start)
    while frontier and len(passed) < REACH:
        _, node = heappop(frontier)
        passed.append(node)
        refused = _refused(draft, node, anchor, rows, shaped or start)
        if refused is not None:
            return refused
        if not frontier:
            return passed
        if node in draft.results or node in draft.conditions:
            return Refusal("output", f"the result of {node.op} in between must be stored in memory")
        reach(node)
    return Refusal("readers", "its readers do not come together again")


def _refused(draft: Draft, node: Node, anchor: Node, rows: bool, shaped: Node) -> Refusal | None:
    """Reason why ``node`` cannot be applied to a block's values; None if it can."""
    if is_procedure(node.op):
        return Refusal("procedure", f"{node.op} is a procedure: it reads whole values from memory")
    if node.op == "branch":
        return Refusal("branch", "what a branch may not need is computed by kernels of its own, to be skipped")
    if node in draft.owner:
        return Refusal("class", f"{node.op} reads each element several times, and would repeat its sum each time")
    full, reduced = anchor.args[0].type.shape, anchor.type.shape
    if rows and node.type.shape != reduced and not _is_along_rows(draft, anchor) and not _is_across(draft, anchor):
        return Refusal("shape", f"{node.op} is of another shape, and lanes run across what is reduced")
    if rows and node.op == "reduce":
        if node.args[0].type.shape == full and node.attributes["axes"] == anchor.attributes["axes"]:
            return None
        return Refusal("class", f"{node.op} goes over other elements: many-to-many into many-to-many")
    if classify.has_reduction(draft.composer.own(node)):
        if rows and node.type.shape == reduced and _is_across(draft, anchor) and _adds_up(draft, node, anchor):
            return None
        return Refusal("class", f"{node.op} reads each element several times, and would repeat its sum each time")
    if not classify.is_elementwise(node):
        return Refusal("index", f"{node.op} only moves data: it becomes an index in its readers")
    if node.type.shape not in ((full, reduced) if rows else (shaped.type.shape,)):
        return Refusal("shape", f"{node.op} is of another shape")
    return None


def _is_along_rows(draft: Draft, anchor: Node) -> bool:
    """Will the reduced dimensions be contiguous in memory, so that several passes can read a row while it is in cache?

    Where lanes run across the reduced dimensions (channels last, for example), every element would repeat the
    reduction. Channels are contiguous where a convolution or matmul computes them.
    """
    axes, rank = anchor.attributes["axes"], anchor.args[0].type.rank
    if axes == (1,) and rank >= 3:
        made = draft.members.get(draft.owner.get(anchor.args[0], anchor), ())
        return any(n.op in ("conv", "matmul") for n in made) and anchor.args[0].type.bounds[1] >= NARROWEST
    is_spatial = rank >= 4 and set(axes) == set(range(2, rank))
    return rank - 1 in axes and not is_spatial


def _is_across(draft: Draft, anchor: Node) -> bool:
    """Do lanes run across the reduced dimensions, and are these so few elements that they stay in cache?"""
    axes, bounds = anchor.attributes["axes"], anchor.args[0].type.bounds
    is_spatial = len(bounds) >= 3 and tuple(axes) == tuple(range(2, len(bounds)))  # lanes are channels
    if draft.mode.gpu or (len(bounds) - 1 in axes and not is_spatial) or bounds[1 if is_spatial else -1] < NARROWEST:
        return False
    return bool(prod(bounds[d] for d in axes) <= ACROSS_LIMIT)


def _adds_up(draft: Draft, node: Node, anchor: Node) -> bool:
    """Does a node reduce the same elements as ``anchor``, combined with constants only, as a weighted mean does?"""
    own = draft.composer.own(node)
    sums = [e for e in X.walk(own.body) if e.op == "reduce"]
    axes = anchor.attributes["axes"]
    if len(sums) != 1 or len(axes) != 1 or len(sums[0].value[1]) != 1:
        return False
    (row,) = X.reduction_variables(sums[0])
    for load in X.loads(own.body):
        if load.value.type.shape == anchor.args[0].type.shape:
            if load.args != tuple(row if d in axes else v for d, v in enumerate(own.variables)):
                return False
        elif not load.value.is_const:
            return False
    return True


def _runs_on_lanes(block: Sequence[Node], found: Sequence[Node]) -> bool:
    """Do all operators have vector forms, so that they can be applied to accumulators in registers?"""
    if block[0].type.dtype not in LANES:
        return True
    inside = {*block, *found}
    acting = [n for n in found if n.op not in ORDERS]
    return all(_has_lanes(n) and all(a in inside or a.type.dtype in LANES for a in n.args) for n in acting)


def _has_lanes(node: Node) -> bool:
    """Does an element-wise operator have a vector form?"""
    if node.type.dtype not in LANES:
        return False
    if node.op == "cast":
        return node.args[0].type.dtype in LANES
    return has_vector_form(node.op, node.type.dtype, node.args[-1].type.dtype)

"""From the outputs backwards: operators that do not reduce join the blocks that read them.

Movement becomes an index in each of its readers; element-wise work is computed in its only reader, or stored.
Concatenation and padding are aliases where possible. Yellow pairs of the table are choices by cost: work that several
readers would repeat, work on elements that a reader needs more than once, and gathered elements before a reduction.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from edgec.fuse import classify, narrow
from edgec.fuse.attention import is_attention
from edgec.fuse.block import is_affine, is_reduced_in_line
from edgec.fuse.choice import Choice
from edgec.fuse.decisions import Refusal
from edgec.fuse.draft import BLOCK_LIMIT, Draft
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.graph import Node
from edgec.ir.index import least
from edgec.ir.nest import split_formula
from edgec.ir.types import is_float
from edgec.ops import is_procedure
from edgec.rewrite.few_bits import is_kept

#: Operators that select elements by data or position.
CHOSEN = ("gather", "gather_elements", "gather_nd", "iota")
#: Those by data; and the most of them in one block, whose index would be a formula without end.
LOOKUPS, MOST_LOOKUPS = CHOSEN[:3], 16
#: Work is never repeated in more blocks than this.
REPEATS = 4
#: Most operators between an input and what follows from it alone, for a block that reads the input instead.
STATE_DEPTH = 6
#: The variants of a choice between memory and work.
STORED, AGAIN = "stored", "computed where it is read"


def join(draft: Draft, node: Node) -> None:
    """Decide where ``node`` is computed: inside its readers, by aliasing, or in a block of its own."""
    readers = draft.readers(node)
    in_order = sorted(readers, key=draft.order.__getitem__)
    said = draft.decisions
    if node.op in ("concat", "update", "pad", "slice") and _is_placeable(draft, node, in_order):
        draft.aliased.add(node)
        draft.own(node, node)
        said.apart(node, in_order, Refusal("aliasing", f"{node.op} is aliasing: its parts are written into its buffer"))
        return
    if node in draft.results or node in draft.conditions:
        draft.own(node, node)
        said.apart(node, in_order, Refusal("output", f"the result of {node.op} must be stored in memory"))
        return
    refused = {r: refusal for r in in_order if (refusal := _refused(draft, node, r)) is not None}
    choice = _asked(draft, node, in_order, refused)
    if choice is not None and choice.taken.name != STORED:
        draft.inlined[node] = readers
        for reader in in_order:
            said.fused(node, reader, f"{node.op} is computed again wherever it is read, which is cheaper", choice)
    elif choice is not None:
        draft.own(node, node)
        for reader in in_order:
            constraint = refused[reader].constraint if reader in refused else "readers"
            why = refused[reader].why if reader in refused else f"{len(readers)} kernels read it"
            said.apart(node, (reader,), Refusal(constraint, why), choice, second=_class(draft, reader))
    elif refused:
        draft.own(node, node)
        for reader, refusal in refused.items():
            said.apart(node, (reader,), refusal, second=_class(draft, reader))
        rest = [r for r in in_order if r not in refused]
        said.apart(node, rest, Refusal("readers", "another reader needs it in memory"))
    elif classify.is_movement(node) or narrow.is_read_wide(node):
        draft.inlined[node] = readers
        for reader in in_order:
            said.fused(node, reader, f"{node.op} is only an index in its reader")
    elif len(readers) == 1:
        (reader,) = readers
        draft.own(node, reader)
        said.fused(node, reader, f"{node.op} is computed element by element where it is read")
    else:
        draft.own(node, node)
        why = f"{len(readers)} kernels read it: it is stored rather than repeated"
        said.apart(node, in_order, Refusal("readers", why))


def _asked(draft: Draft, node: Node, readers: Collection[Node], refused: Mapping[Node, Refusal]) -> Choice | None:
    """The choice between storing a value and computing it again in each reader; None without alternatives."""
    if not draft.mode.is_planner or len(readers) > REPEATS or not all(r.is_yellow for r in refused.values()):
        return None
    if not refused and (len(readers) < 2 or classify.is_movement(node) or narrow.is_read_wide(node)):
        return None
    if any(len(draft.members[r]) >= BLOCK_LIMIT for r in readers):
        return None
    blocks = [draft.block(r, draft.members[r]) for r in readers]
    again = [draft.block(r, draft.members[r], node) for r in readers]
    if any(a.kind != b.kind for a, b in zip(again, blocks)):
        return None  # a reader would be of another schedule
    variants = {STORED: (draft.block(node, [node]), *blocks), AGAIN: again}
    kind = "gather" if node.op in CHOSEN else "recompute"
    return draft.decisions.asked(draft.prices.choose(kind, node, variants))


def _class(draft: Draft, reader: Node) -> classify.Mapping | None:
    """The mapping class of a block that reduces: many-to-many; None for any other block."""
    reduces = any(
        classify.has_reduction(draft.composer.own(n))
        for n in draft.members.get(reader, ())
        if n in draft.composer.simple
    )
    return classify.Mapping.MANY_TO_MANY if reduces else None


def _is_placeable(draft: Draft, node: Node, readers: Collection[Node]) -> bool:
    if node.op in ("slice", "pad") and node in draft.results:
        return False  # a view of another buffer is not the caller's
    if node.op == "slice":
        return _is_padded(draft, node, readers)
    if not draft.mode.places(node, [m for r in readers for m in draft.members.get(r, ())]):
        return False
    if node.op == "update":
        return True
    if node.op == "concat":
        is_index = len(node.args) <= BLOCK_LIMIT and (_is_rearranged(draft, node) or _is_chosen(draft, node, readers))
        return not is_index
    around = (*node.attributes["before"], *node.attributes["after"])
    if min(map(least, around), default=0) < 0 or not node.args[0].type.elements:
        return False  # a cropped or empty value cannot be the interior of a halo
    # Padding is cheap as a select inside maps and rows whose lanes do not run along it; windows and contractions read
    # memory without a condition.
    return any(_is_windowed(draft, r) for r in readers) or (not draft.mode.gpu and _is_on_lanes(draft, node, readers))


def _is_on_lanes(draft: Draft, pad: Node, readers: Collection[Node]) -> bool:
    """Does a padding extend what its readers have lanes along, which would then choose one by one?

    That is the last dimension, but for pictures and volumes that are neither reduced along it nor a result of the
    network, whose rows the caller keeps together: there it is the channels.
    """
    if not pad.type.rank:
        return False
    last = pad.type.rank - 1
    members = (m for r in readers for m in draft.members.get(r, ()))
    is_reduced = any(m.op == "reduce" and last in m.attributes["axes"] for m in members)
    is_row = last < 3 or is_reduced or any(r in draft.results for r in readers)
    before, after = (pad.attributes[side] for side in ("before", "after"))
    along = last if is_row else 1
    return bool(before[along] or after[along])


def _is_rearranged(draft: Draft, node: Node) -> bool:
    """Are all parts of a concatenation moved from one value, so that it is an index, and does it keep rows whole?

    An example is a roll: by aliasing, its parts would be copied one by one.
    """
    if node.attributes["axis"] == node.type.rank - 1 or node in draft.results:
        return False
    if len(node.args) < 2 or not all(draft.moves(a) for a in node.args):
        return False
    return len({draft.behind(a)[0] for a in node.args}) == 1


def _is_chosen(draft: Draft, node: Node, readers: Collection[Node]) -> bool:
    """Can a concatenation be a select in its only reader, which is element-wise, with parts that nothing else reads?

    Each element belongs to one part, so no work is repeated.
    """
    if node.attributes["axis"] == node.type.rank - 1 or node in draft.results or len(readers) != 1:
        return False
    (reader,) = readers
    members = draft.members.get(reader, [])
    if not members or not all(classify.is_elementwise(m) or classify.is_movement(m) for m in members):
        return False
    parts = all(
        a.op not in ("input", "const")
        and a not in draft.owner
        and {*draft.users[a]} == {node}
        and classify.is_elementwise(a)
        for a in node.args
    )
    return parts and draft.mode.is_planner and draft.mode.joins(node, members)


def _is_of_parts(draft: Draft, node: Node) -> bool:
    """Is a value needed only for parts of a concatenation that its reader computes?

    A value that several parts need is computed for each, if that costs hardly more than to load it.
    """
    seen, stack = {node}, [node]
    while stack:
        n = stack.pop()
        users = {*draft.users[n]}
        if not users or (len(users) > 1 and classify.computes(draft.composer.own(n)) > 1):
            return False
        for u in users - seen:
            if u.op == "concat" and u in draft.inlined:
                continue
            if not classify.is_elementwise(u) or u.type.shape != n.type.shape:
                return False
            seen.add(u)
            stack.append(u)
    return True


def _is_padded(draft: Draft, node: Node, readers: Collection[Node]) -> bool:
    """Can a slice be a view of its operand's buffer: is it padded there, and can all other readers read it there?"""
    a = node.attributes
    if set(a["steps"]) != {1} or node.args[0].is_const or node in draft.results or node in draft.conditions:
        return False
    if any(not isinstance(n, int) for n in (*a["starts"], *node.args[0].type.shape)):
        return False
    return any(r.op == "pad" and r in draft.aliased for r in readers) and not any(is_procedure(r.op) for r in readers)


def _is_windowed(draft: Draft, reader: Node) -> bool:
    if reader in draft.aliased:
        return False
    return any(n.op in ("conv", "matmul", "pool") for n in draft.members.get(reader, ()))


def _refused(draft: Draft, node: Node, reader: Node) -> Refusal | None:
    """Reason why the block that ends in ``reader`` does not compute ``node`` itself; None if it may."""
    if reader in draft.aliased:
        return Refusal("aliasing", f"{reader.op} is a buffer that its parts are written to")
    if is_procedure(reader.op):
        return Refusal("procedure", f"{reader.op} is a procedure: it reads whole values from memory")
    members = draft.members.get(reader, [])
    if not draft.mode.joins(node, members):
        return Refusal("mode", f"this build does not fuse it (--fuse {draft.mode.name})")
    contraction = any(n.op in ("conv", "matmul") for n in members)
    if is_kept(node) or narrow.is_magnitude(node):
        return None
    if reader in draft.attentions and narrow.is_widened_number(node):
        whole = split_formula(draft.formula(reader, members, node))
        return None if is_attention(whole, draft.mode.gpu) else Refusal("recompute", "its reader takes floats alone")
    if narrow.is_read_wide(node):
        if any(is_float(n.type.dtype) for n in members if n.op in ("conv", "matmul", "pool")):
            return Refusal("registers", "sums of floats do not read integers")
        return None
    if not classify.is_movement(node):
        return _repeats(draft, node, reader, contraction)
    if node.op in CHOSEN:
        if contraction or any(n.op == "reduce" for n in members):
            why = f"{node.op} reads where data says, which a sum would do for every term anew"
            return Refusal("index", why, is_yellow=not contraction)
        if _lookups(draft, node) >= MOST_LOOKUPS:
            return Refusal("index", f"{MOST_LOOKUPS} lookups in one another are one kernel, and no more")
        return None
    if draft.mode.gpu and node.op == "pad":
        return None
    reduces = not contraction and not draft.mode.gpu and any(n.op == "reduce" for n in members)
    if reduces and not draft.holds(is_reduced_in_line, reader, members, node):
        return Refusal("index", "a reduction would read its elements one by one, at remainders of positions")
    if contraction:
        if any(n.op == "conv" and n.attributes["groups"] > 1 for n in members) and node.op != "slice":
            return Refusal("index", "windows of a grouped convolution are read from plain memory")
        if not _is_linear(draft, node, reader, members):
            return Refusal("index", "the composed index would not be linear in the loops of the sum any more")
        if reader in draft.attentions:
            whole = split_formula(draft.formula(reader, members, node))
            if not is_attention(whole, draft.mode.gpu):
                return Refusal("index", "the kernel of attention would not find its queries and keys any more")
    return None


def _is_linear(draft: Draft, node: Node, reader: Node, members: list[Node]) -> bool:
    """Is the index of a movement linear in the loops of a sum: by itself, or with the movements before it?

    Rows that a padding and two reshapes shift against each other have remainders of positions in between, and none in
    the end. The movements before it have no other reader, so that each of them is asked the same.
    """
    taken = [node]
    while not draft.holds(is_affine, reader, members, *taken):
        if len(node.args) != 1 or node.op in CHOSEN or not draft.moves(node.args[0]):
            return False
        node = node.args[0]
        if len(draft.users[node]) != 1:
            return False
        taken.append(node)
    return True


def _lookups(draft: Draft, node: Node) -> int:
    """The most lookups by data between a value and the result of a block that computes it."""
    most, waiting = {node: 0}, [node]
    while waiting:
        n = waiting.pop()
        for user in draft.users[n]:
            count = most[n] + (user.op in LOOKUPS)
            if user not in draft.aliased and count > most.get(user, -1):
                most[user] = count
                if draft.owner.get(user) is not user:
                    waiting.append(user)
    return max(most.values())


def _places_read(draft: Draft, node: Node, reader: Node) -> int:
    """Number of elements of ``node`` that an element of a block without reductions needs, as where slices are added.

    Of a choice by position, the branch that needs more of them counts.
    """
    if not any(u in draft.inlined for u in draft.users[node]) or _class(draft, reader) is not None:
        return 1
    known: dict[Expr, frozenset[Expr]] = {}

    def read(e: Expr) -> frozenset[Expr]:
        if e not in known:
            inside = [read(a) for a in e.args]
            if e.op == "load" and e.value is node:
                known[e] = frozenset({e})
            elif e.op == "select" and not X.loads(e.args[0]):
                known[e] = max(inside[1:], key=len)
            else:
                known[e] = frozenset().union(*inside)
        return known[e]

    return len(read(draft.formula(reader, draft.members[reader]).body))


def _chooses_after_sums(draft: Draft, node: Node, members: Collection[Node]) -> bool:
    """Is ``node`` a choice between a stored value and a constant, for operators after the sums of a block?

    The choice is the same for all elements: the block reads one operand more, or none.
    """
    if node.op != "branch" or not any(side.is_const or _is_constant(side) for side in node.args[1:]):
        return False
    return _is_read_after_sums(draft, node, members)


def _is_read_after_sums(draft: Draft, node: Node, members: Collection[Node]) -> bool:
    """Do only element-wise operators of its own shape, within a block, read ``node``?"""
    return all(
        u in members and classify.is_elementwise(u) and u.type.shape == node.type.shape for u in draft.users[node]
    )


def _is_of_state(node: Node) -> bool:
    """Is ``node`` computed element by element from one input of the network, constant numbers and single inputs such as
    flags, as a moment that decays is in a training step? A block that adds to it reads the input instead."""
    leaves: set[Node] = set()

    def holds(n: Node, left: int) -> bool:
        if n.op == "input" and not n.type.rank:
            return True
        if n.op == "input":
            leaves.add(n)
            return bool(n.type.shape == node.type.shape)
        if n.is_const or _is_constant(n):
            return bool(n.type.elements == 1) or _is_constant(n)
        return left > 0 and classify.is_elementwise(n) and all(holds(a, left - 1) for a in n.args)

    return bool(not node.is_const and holds(node, STATE_DEPTH) and len(leaves) == 1)


def _is_constant(node: Node) -> bool:
    """Is it one constant number, repeated?"""
    return node.op == "broadcast" and node.args[0].is_const


def _repeats(draft: Draft, node: Node, reader: Node, contraction: bool) -> Refusal | None:
    """Reason why the block of ``reader`` would repeat the work of an element-wise ``node``; None if it would not."""
    members = draft.members.get(reader, [])
    if contraction:
        if narrow.follows_sums(node, members, draft.users, draft.inlined) or _chooses_after_sums(draft, node, members):
            return None
        if _is_of_state(node) and _is_read_after_sums(draft, node, members):
            return None
        return Refusal("recompute", "a sum reads each element several times and would repeat the work on it")
    if any(n.op == "pool" for n in members):
        return Refusal("recompute", "windows overlap and would repeat the work on each element")
    if any(n.type.elements > node.type.elements for n in members) and not _is_of_parts(draft, node):
        return Refusal("recompute", f"its reader needs each element of {node.op} several times", is_yellow=True)
    if _places_read(draft, node, reader) > 1:
        return Refusal(
            "recompute", f"its reader needs several elements of {node.op} for each of its own", is_yellow=True
        )
    if len(members) >= BLOCK_LIMIT:
        return Refusal("code size", f"a block of more than {BLOCK_LIMIT} operators gains nothing")
    return None

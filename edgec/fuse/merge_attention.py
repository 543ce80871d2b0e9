"""The blocks of scores, of their softmax and of its product with values, merged into one where attention pays."""

from __future__ import annotations

from edgec.fuse import narrow
from edgec.fuse.attention import (
    BLOCK,
    has_few_queries,
    head_of,
    is_attention,
    least_queries_of,
    queries_of,
    scores_bytes,
)
from edgec.fuse.decisions import Refusal
from edgec.fuse.draft import Draft
from edgec.ir.graph import Node
from edgec.ir.nest import Split, split_formula
from edgec.ops import is_procedure

#: From this many bytes on, the scores of one head are never stored, regardless of cost: memory should grow with the
#: sequence length, not with its square.
SCORES_LIMIT = 256 << 10
#: Least bytes of scores and number of queries for the attention kernel: one whole block of queries and of keys.
SCORES_LEAST, QUERIES_LEAST = 4 * BLOCK * BLOCK, BLOCK
#: Least number of queries on a GPU: the rows of a matmul on tensor cores.
GPU_QUERIES_LEAST = 16


def attention_nodes(draft: Draft, product: Node) -> list[Node] | None:
    """The nodes of attention whose last matmul is ``product``, if one kernel for them pays; otherwise None."""
    for side in product.args:
        weights, between = draft.behind(side)
        if draft.owner.get(weights) is not weights or weights.op in ("input", "const") or is_procedure(weights.op):
            continue
        own = draft.members[weights]
        outside = dict.fromkeys(a for n in own for a in n.args if a not in own)
        found = [draft.behind(a) for a in outside if not a.is_const]
        scores = [(s, path) for s, path in found if draft.owner.get(s) is s and s is not weights]
        if len(scores) != 1 or is_procedure(scores[0][0].op):
            continue
        ((score, path),) = scores
        merged = [*draft.members[score], *path, *draft.members[weights], *between, product]
        merged = [*_free_operands(draft, score, merged), *merged]
        inside = set(merged)
        private = all(u in inside for n in merged[:-1] for u in draft.users[n])
        if not private or (inside - {product}) & (draft.results | draft.conditions):  # these vanish
            continue
        moving = {n for n in draft.upstream(merged) if draft.moves(n) or narrow.is_widened_number(n)}
        whole = draft.block(product, merged, *moving)
        split = split_formula(whole.formula)
        if not is_attention(split, draft.mode.gpu) or not _is_worth_it(draft, split):
            continue
        choice, is_long = None, not draft.mode.gpu and has_few_queries(split.variables, split.body)
        if not is_long and scores_bytes(split) < SCORES_LIMIT and not draft.mode.gpu:
            parts = [draft.block(e, draft.members[e], *moving) for e in (score, weights)]
            last = draft.block(product, [product], *moving)
            variants = {"products and softmax apart": (*parts, last), "attention": (whole,)}
            choice = draft.decisions.asked(draft.prices.choose("attention", product, variants))
        if choice is None or choice.taken.name == "attention":
            for end in (score, weights):
                del draft.members[end]
            for end in (score, weights):
                draft.decisions.fused(end, product, "scores and their softmax are computed block by block", choice)
            return merged
        refusal = Refusal("price", "scores that fit into the cache are cheaper stored than computed in blocks")
        draft.decisions.apart(weights, (product,), refusal, choice)
    return None


def _free_operands(draft: Draft, score: Node, merged: list[Node]) -> list[Node]:
    """Operators before attention's scores that would be kernels of their own on a GPU, and cost nothing inside its.

    They are a factor of all queries or keys, which is one of the scores instead, and a sum of constants: of a bias and
    a mask. Keys that a run is given stay apart: what stores them, once, is what makes them as narrow as the kernel's.
    """
    inside, found = set(merged), []
    products = [n for n in draft.members[score] if n.op == "matmul"]
    for n in merged if draft.mode.gpu else ():
        for place, a in enumerate(n.args):
            made, path = draft.behind(a)
            nodes = [made, *path]
            if made in draft.owner or not (draft.results | draft.conditions).isdisjoint(nodes):
                continue
            is_sum = made.op == "add" and all(x.is_const for x in made.args)
            is_factor = (
                n in products and made.op == "mul" and any(x.is_const and x.type.bounds == () for x in made.args)
            )
            sources = [draft.behind(x)[0] for x in made.args]  # of what another kernel computes, or a run is given
            is_stored = all(x.is_const or x.op == "input" or x in draft.owner for x in sources)
            is_given = place == 1 and any(x.op == "input" for x in sources)
            is_private = all(inside.issuperset(u for u in draft.users[x] if u not in nodes) for x in nodes)
            if is_stored and is_private and (is_sum or (is_factor and not is_given)):
                found += nodes
    return found


def _is_worth_it(draft: Draft, split: Split) -> bool:
    """Does attention have whole blocks of queries and keys? On a GPU fewer suffice, as two launches are saved."""
    if draft.mode.gpu:
        least = 1 if draft.mode.one_row else GPU_QUERIES_LEAST
        return queries_of(split) >= least and head_of(split) <= draft.mode.head
    if has_few_queries(split.variables, split.body):
        return True
    is_one_block = least_queries_of(split) < queries_of(split) <= QUERIES_LEAST  # most runs would fill a part of it
    return scores_bytes(split) >= SCORES_LEAST and queries_of(split) >= QUERIES_LEAST and not is_one_block

"""Products of one row on a GPU join what is before and after them: every launch costs more than the little they repeat.

A token of a language model meets each weight once. What its products read is so short that every thread block computes
it anew (a norm, say); a product that only another product's epilogue reads is a second sum beside that one's; what
pairs of neighbors make of a product (rotary embedding) is computed from two sums; and results are stored where and as
they are wanted.
"""

from __future__ import annotations

from collections.abc import Mapping

from edgec.fuse import classify
from edgec.fuse.block import Block
from edgec.fuse.draft import BLOCK_LIMIT, Draft
from edgec.ir import expr as X
from edgec.ir.graph import Node
from edgec.ir.types import is_float
from edgec.rewrite.facts import is_static

#: A vector of more elements is stored rather than computed in every thread block; most sums of one kernel.
LONGEST, SUMS = 1 << 14, 2


def join_rows(draft: Draft, blocks: dict[Node, Block]) -> None:
    """Join blocks, in place."""
    for output in list(blocks):
        if not blocks[output].is_procedure and not blocks[output].inputs:
            _into_readers(draft, blocks, output, "it is made of positions alone")
    for output in list(blocks):
        if output in blocks and _is_product(blocks[output]):
            _with_what_follows(draft, blocks, output)
    for output in list(blocks):
        readers = _readers(blocks, output)
        reduces = blocks[output].kind in ("row", "window") and not _products(blocks[output])
        is_short = blocks[output].kind == "row" and output.type.elements <= LONGEST
        if reduces and is_short and all(map(_is_product, readers)):
            _into_readers(draft, blocks, output, "every thread block computes the short vector for itself")
        elif len(readers) == 1 and _is_beside(blocks[output], readers[0]):
            _into_readers(draft, blocks, output, "both sums read the same vector")
        elif reduces and all(_only_stores(r) or _goes_along(blocks[output], r) for r in readers):
            _into_readers(draft, blocks, output, "it is stored, or goes along the same few elements again")
        elif len(readers) == 1 and readers[0].kind == "attention" and _is_factor(blocks[output]):
            _into_readers(draft, blocks, output, "it is a factor of each score")


def _readers(blocks: Mapping[Node, Block], output: Node) -> list[Block]:
    return [b for b in blocks.values() if output in b.inputs]


def _is_private(draft: Draft, node: Node) -> bool:
    """Do blocks alone read it?"""
    return node not in draft.results | draft.conditions and not any(node in p.args for p in draft.aliased)


def _into_readers(draft: Draft, blocks: dict[Node, Block], output: Node, why: str) -> None:
    """Compute the block of ``output`` in each of those that read it."""
    own, readers = blocks[output], _readers(blocks, output)
    if not readers or not _is_private(draft, output) or any(b.is_procedure for b in readers):
        return
    if any(len(b.nodes) + len(own.nodes) > BLOCK_LIMIT for b in readers):
        return
    for reader in readers:
        blocks[reader.output] = draft.block(reader.output, [*own.nodes, *reader.nodes])
        draft.decisions.fused(output, reader.output, why)
    del blocks[output]


def _products(block: Block) -> list[Node]:
    return [n for n in block.nodes if n.op == "matmul"]


def _is_product(block: Block) -> bool:
    """Is it one row times constant weights, with element-wise work after it, or a few such with one operand?"""
    found = [] if block.is_procedure else _products(block)
    rows = all(n.type.is_fixed and n.type.elements == n.type.shape[-1] and is_static(n.args[1]) for n in found)
    return bool(found) and len(found) <= SUMS and rows and len({n.args[0] for n in found}) == 1


def _is_beside(block: Block, reader: Block) -> bool:
    """Are both blocks products of the same row, and does the second read the first at its own places?"""
    if not _is_product(block) or not _is_product(reader) or len(_products(block)) + len(_products(reader)) > SUMS:
        return False
    if _products(block)[0].args[0] is not _products(reader)[0].args[0]:
        return False
    loads = [e for e in X.loads(reader.formula.body) if e.value is block.output]
    return all(e.args == reader.formula.variables for e in loads)


def _with_what_follows(draft: Draft, blocks: dict[Node, Block], output: Node) -> None:
    """Join a product with the blocks that compute one value from its result, in pairs of neighbors, and that alone."""
    found = _until_one(draft, output)
    if found is None:
        return
    inside = {*blocks[output].nodes, *found}
    end = found[-1]
    within = [b for b in blocks.values() if b.output in inside]
    if any(not inside.issuperset(b.nodes) for b in within) or (end in blocks and blocks[end].kind != "map"):
        return
    for b in within:
        del blocks[b.output]
        if b.output is not output:
            draft.decisions.fused(output, b.output, "pairs of sums are combined where their result is stored")
    draft.aliased -= inside
    order = sorted((n for n in inside if n not in draft.inlined or n is end), key=draft.order.__getitem__)
    blocks[end] = draft.block(end, order)
    (reader,) = readers if len(readers := _readers(blocks, end)) == 1 else (None,)
    if reader is not None and _only_stores(reader):
        _into_readers(draft, blocks, end, "it is the way its result is stored")


def _only_stores(block: Block) -> bool:
    """Does it only store what another one computes in another place or form?"""
    return len(block.inputs) == 1 and all(map(_is_stored_form, block.nodes))


def _goes_along(block: Block, reader: Block) -> bool:
    """Does the second read what the first reduces, a few elements, and nothing but that and the result?"""
    rows = [n for n in block.inputs if not n.is_const]
    is_alone = {n for n in reader.inputs if not n.is_const} <= {block.output, *rows}
    few = max((n.type.elements if n.type.is_fixed else LONGEST + 1 for n in rows), default=0)
    return reader.kind == "map" and is_alone and reader.output.type.elements <= few <= LONGEST


def _is_factor(block: Block) -> bool:
    """Is it one value, moved and times constants?"""
    is_simple = all(classify.is_movement(n) or n.op == "mul" for n in block.nodes)
    return is_simple and len([n for n in block.inputs if not n.is_const]) == 1


def _is_stored_form(node: Node) -> bool:
    """Does it only say where elements are stored, or as floats of how many bits?"""
    return classify.is_movement(node) or (
        node.op == "cast" and is_float(node.type.dtype) and is_float(node.args[0].type.dtype)
    )


def _is_known(node: Node) -> bool:
    """Is it computed from constants and positions alone?"""
    stack, seen = [node], {node}
    while stack:
        node = stack.pop()
        if node.op == "input":
            return False
        stack += (a for a in node.args if a not in seen)
        seen.update(node.args)
    return True


def _until_one(draft: Draft, output: Node) -> list[Node] | None:
    """The operators after a product up to the concatenation in which all that is made of it comes together."""
    inside, found = {output}, list[Node]()
    waiting = list(dict.fromkeys(draft.users[output]))
    while waiting and len(found) < BLOCK_LIMIT:
        node = min(waiting, key=draft.order.__getitem__)
        waiting.remove(node)
        known = classify.is_elementwise(node) or classify.is_movement(node) or node.op == "concat"
        others = [a for a in node.args if a not in inside]
        if not known or not all(map(_is_known, others)) or node in draft.results | draft.conditions:
            return None
        found.append(node)
        inside.add(node)
        if not waiting and node.op == "concat":
            return found if _is_private(draft, node) else None
        waiting += [u for u in dict.fromkeys(draft.users[node]) if u not in inside and u not in waiting]
    return None

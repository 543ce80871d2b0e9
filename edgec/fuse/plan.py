"""The fusion planner: from a graph to blocks and aliases.

Anchors (operators that reduce) come first and absorb the operators that follow, up to the next point that every path
passes (the post-dominator). Then, from the outputs backwards, element-wise and movement operators join the blocks that
read them. Concatenation and padding are not computed where it can be avoided: their operands are *aliased* to parts of
the result's buffer. A procedure is a block of its own: its operands and its result are stored in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from math import prod
from types import MappingProxyType

from edgec import limits
from edgec.fuse import classify
from edgec.fuse.aliases import BufferAlias
from edgec.fuse.aliasing import AliasPlanner, Plan, copy_block
from edgec.fuse.attention import is_attention
from edgec.fuse.block import Block, is_affine
from edgec.fuse.border import divided
from edgec.fuse.choice import BlockCosts, Choice
from edgec.fuse.cost_model import CostModel
from edgec.fuse.decisions import Refusal
from edgec.fuse.draft import Draft
from edgec.fuse.few_bits import with_floats
from edgec.fuse.grow import grow
from edgec.fuse.horizontal import fuse_siblings
from edgec.fuse.join import join
from edgec.fuse.modes import Mode, mode_of
from edgec.fuse.one_row import join_rows
from edgec.fuse.rows_in_bytes import side_by_side, with_rows_in_bytes
from edgec.fuse.shared_parts import with_shared_parts
from edgec.fuse.stored_lanes import columns_in_runs, stores_in_lanes
from edgec.fuse.two_stages import in_two_stages
from edgec.ir import expr as X
from edgec.ir.graph import Graph, Node
from edgec.ir.nest import split_formula
from edgec.ops import is_procedure, meaning
from edgec.text import listed

__all__ = ["BufferAlias", "Plan", "copy_block", "plan"]

#: The variant in which a movement is the store index of the block before it.
AT_ONCE = "stored in its order"


def plan(
    graph: Graph,
    fuse: bool | str = True,
    prices: BlockCosts | None = None,
    gpu: bool = False,
    *,
    head: int = 0,
    one_row: bool = False,
    few_bits: bool = False,
    updatable: bool = False,
    siblings: bool = True,
    units: int = 1,
    materialize: Collection[str] = (),
    chosen: Mapping[str, str] = MappingProxyType({}),
) -> Plan:
    """Plan a graph.

    ``fuse`` is a mode (see `edgec.fuse.modes`). Where several variants are correct, ``prices`` decides by cost, unless
    ``chosen`` has the variant for the kind of choice and the node ("attention NODE"). The results of the nodes of the
    model in ``materialize`` are stored in memory. On a ``gpu``, ``head`` is the largest head size for which there is a
    kernel of attention; in a graph of ``one_row``, a token of a language model, products join what is around them;
    with ``few_bits``, kernels there decode weights. With ``updatable``, numbers that may be trained are weights, no
    code. Products of one operand are one where that is faster, unless ``siblings`` is false. Reductions to fewer
    results than ``units``, the threads or multiprocessors of the device, are shared by these where that is faster.
    """
    mode = Mode(mode_of(fuse), graph, gpu, head, one_row, updatable)
    prices = prices if prices is not None else BlockCosts(CostModel())
    prices = prices.deciding(graph, chosen)
    graph = with_floats(graph, keeps=mode.is_planner and (not gpu or few_bits))
    graph, choices = (
        fuse_siblings(graph, prices, gpu) if siblings and mode.is_planner and (head or not gpu) else (graph, [])
    )
    in_floats = graph
    if mode.is_planner and gpu:
        graph = with_rows_in_bytes(graph)
    has_pairs = graph is not in_floats
    if mode.is_planner:
        graph, pieces = divided(with_shared_parts(graph), prices)
        graph, stages = in_two_stages(graph, prices, units)
        choices += [*pieces, *stages]
    mode = replace(mode, graph=graph)
    draft = Draft(graph, mode, prices.deciding(graph, chosen))
    draft.materialize(materialize)
    draft.decisions.choices += choices
    operations = graph.operations()
    for node in operations:
        if is_procedure(node.op):
            draft.own(node, node)
            why = f"{node.op} is a procedure: it writes a whole value to memory"
            draft.decisions.apart(node, draft.users[node], Refusal("procedure", why))
    for node in operations:
        limits.step(partial(_named, graph, node))
        if node not in draft.owner and classify.has_reduction(draft.composer.own(node)):
            grow(draft, node)
    for node in reversed(operations):
        limits.step(partial(_named, graph, node))
        if node not in draft.owner:
            join(draft, node)
    blocks = _blocks(draft, operations)
    limits.hold("kernels", len(blocks), partial(_fullest, graph, blocks))
    _absorb_movement(draft, blocks)
    if one_row and mode.is_planner:
        join_rows(draft, blocks)
    planned = AliasPlanner(draft).plan(list(blocks.values()))
    return side_by_side(planned) if has_pairs else planned


def _named(graph: Graph, node: Node) -> str:
    return listed(graph.names(node)) or node.op


def _fullest(graph: Graph, blocks: Mapping[Node, Block]) -> str:
    """The node of the model that the most blocks come from."""
    counts = Counter(name.partition("[")[0] for output in blocks for name in graph.names(output)[:1])
    return listed(name for name, _ in counts.most_common(1))


def _blocks(draft: Draft, operations: list[Node]) -> dict[Node, Block]:
    members: dict[Node, list[Node]] = {}
    for node in operations:
        if node in draft.owner:
            members.setdefault(draft.owner[node], []).append(node)
    blocks: dict[Node, Block] = {}
    for output in sorted(members, key=draft.order.__getitem__):
        if output in draft.aliased:
            continue
        if is_procedure(output.op):
            blocks[output] = Block(output, (output,), meaning(output), "procedure")
        else:
            blocks[output] = draft.block(output, members[output])
    return blocks


def _absorb_movement(draft: Draft, blocks: dict[Node, Block]) -> None:
    """Merge a block that only moves the result of one other block into it: the movement becomes its store index."""
    readers = Counter(i for b in blocks.values() for i in b.inputs)
    for output in list(blocks):
        block = blocks[output]
        if len(block.nodes) != 1 or not classify.is_movement(output) or len(block.inputs) != 1:
            continue
        source = block.inputs[0]
        if source not in blocks or is_procedure(source.op):
            continue
        refused = _stays(draft, blocks, source, output, readers[source])
        if refused is not None:
            draft.decisions.apart(source, (output,), refused)
            continue
        stored = draft.block(output, [*blocks[source].nodes, output])
        choice = _stored_or_moved(draft, blocks[source], block, stored)
        if choice is not None and choice.taken.name != AT_ONCE:
            refusal = Refusal("price", "vectors of results would be short: moving what is stored is cheaper")
            draft.decisions.apart(source, (output,), refusal, choice)
            continue
        readers.subtract((*block.inputs, *blocks[source].inputs))
        readers.update(stored.inputs)
        del blocks[source]
        blocks[output] = stored
        draft.decisions.fused(source, output, f"{output.op} is the way its result is stored", choice)


def _stored_or_moved(draft: Draft, source: Block, movement: Block, stored: Block) -> Choice | None:
    """The choice between ``stored`` and its two blocks where the movement cuts columns of a product; None elsewhere."""
    columns, run = columns_in_runs(split_formula(stored.formula)) if source.kind == "contract" else (1, 1)
    if columns == run or draft.mode.gpu or not draft.mode.is_planner:
        return None
    variants = {AT_ONCE: (stored,), "stored, then moved": (source, movement)}
    return draft.decisions.asked(draft.prices.choose("movement", movement.output, variants))


def _stays(draft: Draft, blocks: dict[Node, Block], source: Node, output: Node, readers: int) -> Refusal | None:
    """Reason why the movement ``output`` cannot be the store index of the block of ``source``; None if it can.

    ``readers`` is the number of blocks that read ``source``.
    """
    if not draft.mode.joins(output, blocks[source].nodes):
        return Refusal("mode", f"this build does not fuse it (--fuse {draft.mode.name})")
    if source in draft.results | draft.conditions:
        return Refusal("output", "the moved value must itself be stored in memory")
    if readers > 1:
        return Refusal("readers", "what is moved has other readers")
    if X.plain(prod(output.type.shape)) != X.plain(prod(source.type.shape)):
        return Refusal("shape", "it is not all elements that are moved, or some of them twice")
    if any(source in p.args for p in draft.aliased):
        return Refusal("aliasing", "what is moved is a part of a larger buffer")
    derived = draft.block(output, [*blocks[source].nodes, output]).formula
    if not is_affine(derived):
        return Refusal("index", "the composed index would not be linear in the loops any more")
    if blocks[source].kind in ("contract", "window") and not stores_in_lanes(split_formula(derived)):
        return Refusal("registers", "vectors of results would be stored lane by lane")
    if source in draft.attentions and not is_attention(split_formula(derived), draft.mode.gpu):
        return Refusal("index", "the kernel of attention would not find its queries and keys any more")
    return None

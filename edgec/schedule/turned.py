"""Convolutions and pools between callers' arrays: their lanes are channels, the caller's rows are contiguous.

Each lane would be loaded or stored on its own then, from a line of memory of its own. A copy through registers
(`edgec.schedule.transpose`), with channels last, takes a fraction of that. So it is with the weights of a convolution
that an NVIDIA GPU gets when it runs: neighbors in memory are taps, of which there are too few for a vector.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from math import prod

from edgec.device.device import Device
from edgec.fuse import Block, Plan
from edgec.fuse.plan import copy_block
from edgec.ir.graph import Node
from edgec.ir.lanes import NARROWEST
from edgec.ir.vector import LANES
from edgec.schedule.layout import channel_of, innermost_dimensions, is_by_channel, slides_along_rows
from edgec.schedule.storage import reading_copies

#: Elements of a value, at least: of fewer, another kernel takes longer than accesses one by one.
LEAST = 1 << 10
#: Of weights on a GPU, whose copies share a launch; and neighbors in memory, at least, for vectors there.
FEW, SHORT = 1 << 8, 16
#: Bytes of a second-level cache whose size nobody knows.
NEAR = 256 << 10


def with_turned_copies(plan: Plan, device: Device) -> Plan:
    """The plan with copies of those inputs and results that lanes of channels would access one by one."""
    if plan.guards or plan.stripes is not None:
        return plan
    if device.language == "cuda":
        return _with_turned_weights(plan)
    if device.is_gpu or device.lanes(4) < NARROWEST:
        return plan
    placed = set(plan.aliases) | {p.parent for p in plan.aliases.values()} | set(plan.halos)
    named = [n for _, n in plan.outputs]
    inputs: dict[Node, Block] = {}
    results: dict[Node, Block] = {}
    blocks: list[Block] = []
    lanes = device.vector_lanes
    by_channel = _between_channels_and_rows(plan, named, lanes)
    for block in plan.blocks:
        channel = channel_of(block) if block.kind in ("contract", "window") else None
        if channel is None or (slides_along_rows(block, lanes) and block.output not in by_channel):
            blocks.append(block)
            continue
        made, result = block, block.output
        # Stores one by one take no time of their own beside long sums, until they are of a copy in the near cache.
        is_near = is_by_channel(block) or result.type.bytes <= (device.l2_bytes or NEAR) // 2
        is_own = named.count(result) == 1 and result not in placed
        is_turned = is_own and is_near and _pays(result, channel, device)
        read = [n for n in block.inputs if n.op == "input" and n not in placed and n.type.rank > 2]
        if not is_by_channel(block):  # its products take several bytes of neighboring channels at once
            read = [n for n in read if n.type.dtype in ("u8", "i8")]
        if not is_by_channel(block) or is_turned or result not in named:
            copied = {n: inputs.get(n) or copy_block(n, n, ("turned",)) for n in read if _pays(n, 1, device)}
            blocks += [c for n, c in copied.items() if n not in inputs]
            inputs |= copied
            made = replace(block, meaning=reading_copies(block.formula, {n: c.output for n, c in copied.items()}))
        blocks.append(made)
        if is_turned:
            results[result] = copy_block(result, result, ("turned",))
            blocks.append(results[result])
    outputs = tuple((name, results[n].output if n in results else n) for name, n in plan.outputs)
    return replace(plan, blocks=tuple(blocks), outputs=outputs)


def _with_turned_weights(plan: Plan) -> Plan:
    """The plan with copies of a convolution's weights that are inputs, where no vector of channels is in one place."""
    placed = set(plan.aliases) | {p.parent for p in plan.aliases.values()} | set(plan.halos)
    copies: dict[Node, Block] = {}
    blocks: list[Block] = []
    for block in plan.blocks:
        weights = _weights(block) if block.kind in ("contract", "window") else set()
        read = [n for n in block.inputs if n in weights and n not in placed and _is_apart(n)]
        for n in read:
            if n not in copies:
                copies[n] = copy_block(n, n, ("turned",))
                blocks.append(copies[n])
        turned = reading_copies(block.formula, {n: copies[n].output for n in read}) if read else None
        blocks.append(block if turned is None else replace(block, meaning=turned))
    return replace(plan, blocks=tuple(blocks))


def _weights(block: Block) -> set[Node]:
    """The inputs that a block's convolutions have as weights, or that these are views of."""
    found = set()
    for conv in block.nodes:
        if conv.op == "conv":
            node = conv.args[1]
            while len(node.args) == 1:
                node = node.args[0]
            found.add(node)
    return found


def _is_apart(value: Node) -> bool:
    """Is a value an input of floats, of which so few are neighbors in memory that vectors of channels have none?"""
    if value.op != "input" or not value.type.is_fixed or value.type.elements < FEW or value.type.dtype != "f32":
        return False
    extents = [n for n in value.type.bounds if n > 1]
    return len(extents) > 2 and extents[-1] < SHORT


def _between_channels_and_rows(plan: Plan, named: Collection[Node], lanes: int) -> set[Node]:
    """Outputs whose lanes could run along rows, but what they are computed from has channels last."""
    found = [b for b in plan.blocks if b.output in named and slides_along_rows(b, lanes)]
    inner = innermost_dimensions(plan, lanes) if found else {}
    read = {b.output: [plan.root_of(n)[0] for n in b.inputs if n.op not in ("input", "const")] for b in found}
    return {output for output, nodes in read.items() if any(inner.get(n) == 1 for n in nodes)}


def _pays(value: Node, channel: int, device: Device) -> bool:
    """Are there enough channels and positions for blocks of a transpose?"""
    kind = value.type
    if not kind.is_fixed or kind.dtype not in LANES or kind.elements < LEAST:
        return False
    return prod(kind.bounds[channel + 1 :]) >= NARROWEST and kind.bounds[channel] >= device.vector_lanes

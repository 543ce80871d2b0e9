"""Assignment of blocks to devices with the least total time of kernels and transfers.

One side works at a time, which is what the cut can price: a value that one side makes and the other reads is copied
once, for its bytes and for waiting until the other side is done. Inputs come from the processor, outputs go there.
The GPU starts while the processor goes on, so a run may take less than is predicted, never more for that reason.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

from edgec.device.device import Device
from edgec.fuse import Plan
from edgec.fuse.assignment import AssignedBlock, Assignment, Side, Transfer
from edgec.fuse.cost_model import CostModel
from edgec.ir.graph import Graph, Node
from edgec.partition.cut import NEVER, Cut


def refused(plan: Plan) -> dict[Node, str]:
    """The blocks that have no kernel on the GPU, by output, and why."""
    found: dict[Node, str] = {}
    for block in plan.blocks:
        if block.is_procedure:
            found[block.output] = f"{block.output.op} is a procedure, which has no kernel there yet"
        elif block.output in plan.guards:
            found[block.output] = "a branch that depends on data decides whether it runs"
    return found


def refuses(graph: Graph) -> str:
    """Reason why the host of a GPU, which enqueues a run before any of it is executed, cannot run a graph."""
    return "it computes sizes or conditions that outputs depend on" if graph.needed_sizes() or graph.demands else ""


def undivided(plan: Plan, holds_states: bool = False) -> str:
    """Reason why a network has to run on one side as a whole; empty if it may be divided.

    With ``holds_states`` the sides of its states are taken care of.
    """
    graph = plan.graph
    if refuses(graph):
        return refuses(graph)
    if any(not n.type.is_fixed for n in graph.nodes()):
        return "it has dimensions that are open until it runs"
    if not holds_states and any(key.startswith("state ") for key in graph.metadata):
        return "it has states"
    returned = [n for _, n in graph.outputs]
    if any(n.op in ("input", "const") for n in returned) or len(set(returned)) < len(returned):
        return "it returns an input, a constant, or a value twice"
    return ""


def assign(plan: Plan, device: Device, gpu: Device, threads: int) -> Assignment:
    """The cheapest assignment of blocks to so many threads of a device and to the GPU beside it."""
    cpu, on_gpu = CostModel(device, threads), CostModel(gpu)
    transfer = on_gpu.transfer
    whole, no_kernel = undivided(plan), refused(plan)
    readers = readers_of(plan)
    costs = {b.output: (cpu(b), NEVER if b.output in no_kernel else on_gpu(b)) for b in plan.blocks}
    values = [n for n in (*costs, *readers) if n.op != "input"]
    side: dict[Node, Side]
    if whole:
        ports = (*plan.graph.inputs, *(n for _, n in plan.graph.outputs))
        there, here = (sum(c) for c in zip(*costs.values())) if costs else (0.0, NEVER)
        is_cheaper = here + sum(transfer(n.type.bytes) for n in ports) < there
        side = dict.fromkeys(values, "gpu" if is_cheaper and not plan.guards and not refuses(plan.graph) else "cpu")
    else:
        far = _far_side(plan, costs, readers, transfer)
        side = {n: "gpu" if n in far else "cpu" for n in values}
    blocks = tuple(AssignedBlock(b, side[b.output], *costs[b.output], no_kernel.get(b.output, "")) for b in plan.blocks)
    filled = {n: where for n, where in side.items() if n not in costs}
    transfers = tuple(_transfers(plan, readers, side, transfer))
    return Assignment(blocks, transfers, filled, whole, {"cpu": device.name, "gpu": gpu.name})


def _far_side(
    plan: Plan,
    costs: Mapping[Node, tuple[float, float]],
    readers: Mapping[Node, list[Node]],
    transfer: Callable[[int], float],
) -> set[Hashable]:
    """Blocks that the cheapest cut assigns to the GPU. A value is copied once, whatever its number of readers."""
    cut = Cut()
    results = plan.graph.results()
    for node, (there, here) in costs.items():
        cut.edge(node, Cut.sink, there)  # paid on the side of the source, which is the processor
        cut.edge(Cut.source, node, here)
    for value, reading in readers.items():
        price = transfer(value.type.bytes)
        maker: Hashable = Cut.source if value.op == "input" else value
        cut.edge(maker, (value, "to the GPU"), price)
        cut.edge((value, "to the processor"), maker, price)
        for reader in (*reading, *([Cut.source] if value in results else [])):
            cut.edge((value, "to the GPU"), reader, NEVER)
            cut.edge(reader, (value, "to the processor"), NEVER)
    return cut.far_side()


def readers_of(plan: Plan) -> dict[Node, list[Node]]:
    """Readers of every value in memory: blocks by output, and values that alias it."""
    made: dict[Node, tuple[Node, ...]] = {b.output: b.inputs for b in plan.blocks}
    for part, place in plan.aliases.items():
        whole, inside = (part, place.parent) if place.is_view else (place.parent, part)
        made[whole] = (*made.get(whole, ()), inside)
    readers: dict[Node, list[Node]] = {n: [] for n in plan.graph.inputs}
    pending = [n for _, n in plan.graph.outputs]
    seen: set[Node] = set()
    while pending:
        value = pending.pop()
        if value in seen or value.op in ("input", "const"):
            continue
        seen.add(value)
        readers.setdefault(value, [])
        for operand in made.get(value, value.args):
            if operand.op != "const":
                readers.setdefault(operand, []).append(value)
                pending.append(operand)
    return readers


def _transfers(
    plan: Plan, readers: Mapping[Node, list[Node]], side: Mapping[Node, Side], transfer: Callable[[int], float]
) -> list[Transfer]:
    results = plan.graph.results()
    found = []
    for value, reading in readers.items():
        there: set[Side] = {side[r] for r in reading} | ({"cpu"} if value in results else set())
        mine = side.get(value, "cpu")
        found += [Transfer(value, to, transfer(value.type.bytes)) for to in there - {mine}]
    return found

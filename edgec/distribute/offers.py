"""The values of a network that GPUs may share, with their prices: what a sweep chooses shardings for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgec.device.device import Device
from edgec.distribute.consecutive import Chain
from edgec.distribute.pieces import Sharding, is_product, shardings
from edgec.distribute.ranked import Ranked, ranked
from edgec.distribute.sweep import Exchange, first_axes, sweep
from edgec.errors import UsageError
from edgec.fuse import Plan
from edgec.fuse.cost_model import CostModel
from edgec.fuse.plan import plan as plan_graph
from edgec.ir.graph import Graph, Node
from edgec.ir.types import DTYPES
from edgec.options import Options
from edgec.partition.assign import readers_of
from edgec.schedule.gpu.attention import largest_head
from edgec.text import printable


@dataclass(frozen=True)
class Offers:
    """The values of a network in order, the shardings of each, and the dimensions of inputs that may be divided.

    ``bytes_of`` are the bytes of values as they lie on the device; ``start_s`` are the seconds of a value's kernel that
    sharing does not shorten.
    """

    chain: Chain
    shardings: tuple[tuple[Sharding, ...], ...]
    bytes_of: Mapping[Node, int]
    inputs: Mapping[Node, list[int]]
    start_s: float
    split: str
    ranks: int

    @staticmethod
    def of(graph: Graph, options: Options, ranks: int, alone_s: float, split: str) -> Offers:
        """The offers of a graph for so many ranks; on one device it takes ``alone_s`` seconds."""
        device = options.device
        plan = plan_graph(graph, options.fuse, gpu=True, head=largest_head(device), siblings=False)
        chain, start_s = chain_with_products(plan, device, alone_s)
        width = {"fp16": 2, "bf16": 2}.get(device.precision, 4)
        sizes = {n: int(n.type.elements) * min(width, DTYPES[n.type.dtype].itemsize) for n in chain.values}
        found = tuple(tuple(shardings(v, chain.operands[v], ranks, split)) for v in chain.values)
        rows = {n: first_axes(n, ranks) for n in chain.graph.inputs} if split != "tensor" else {}
        return Offers(chain, found, sizes, rows, start_s, split, ranks)

    def division(self, exchange: Exchange) -> Ranked:
        """The graphs of ranks with the least predicted time. Raises UsageError where ranks cannot share any work."""
        found = sweep(self.chain, self.shardings, exchange, self.bytes_of, self.inputs, self.start_s)
        if found is None:
            what = f"nothing can be divided in {self.ranks} equal parts"
            raise UsageError(what, hint=_why_not(self.chain, self.ranks), where=f"--split {self.split}")
        return ranked(self.chain, found, self.ranks)


def chain_with_products(plan: Plan, device: Device, alone_s: float) -> tuple[Chain, float]:
    """The values of a plan, and the products inside its blocks: their sums are what ranks exchange.

    The predicted seconds of a block are those of its first product; all together they are ``alone_s``. Those of a
    launch, by the same measure, are the second result.
    """
    stored = {n for n in readers_of(plan) if n.op not in ("input", "const")}
    model, seconds, inside = CostModel(device), dict[Node, float](), set[Node]()
    for block in plan.blocks:
        products = [n for n in block.nodes if is_product(n)] if block.kind != "attention" else []
        inside |= set(products)
        seconds[products[0] if products else block.output] = model(block)
    scale = alone_s / (sum(seconds.values()) or 1.0)
    values = tuple(n for n in plan.graph.operations() if n in stored or n in inside)
    chain = Chain(plan.graph, values, (tuple(scale * seconds.get(v, 0.0) for v in values),))
    return chain, scale * model.rates.launch


def _why_not(chain: Chain, ranks: int) -> str:
    """The first value whose heads or columns are not a multiple of the ranks, in words."""
    for v in sorted(chain.values, key=lambda v: not chain.graph.names(v)):  # those that the model names first
        odd = [int(e) for e in v.type.shape if int(e) > 1 and int(e) % ranks]
        if odd:
            name = printable((chain.graph.names(v) or (v.op,))[0])
            return f"'{name}' has {odd[-1]} positions: heads, columns or rows have to be a multiple of {ranks}"
    return "no product has weights that they could share"

"""Kernels of parts add up in the order of the whole network's, or the sums that do not are named."""

from __future__ import annotations

from divided_cases import in_tiles

from edgec import pipeline
from edgec.build import read
from edgec.distribute.consecutive import chain_of
from edgec.distribute.parts import Division
from edgec.distribute.prices import Prices
from edgec.distribute.row_split import RowSplit, by_rows, narrow_places
from edgec.distribute.same_bits import SameBits, differing, scheduled
from edgec.options import resolve
from edgec.pipeline.context import Context


def test_products_take_the_variants_of_the_whole_network() -> None:
    """The last rows alone would be transformed in other tiles, and two rows be summed along lanes."""
    options = resolve({"device": "raspberry_pi_5"})
    made = read(in_tiles().SerializeToString())
    graph = pipeline.run(made, Context(options), until="compress").result.graph
    prices = Prices((options,) * 2, (1.0,) * 2)
    plan = prices.planned(graph, 0)
    chain, bits = chain_of(plan, prices.of_blocks(plan)), SameBits(prices, graph)
    assert bits.whole is not None and {(n.op, rows) for n, rows in bits.tiles.items()} > {("conv", 4), ("pool", 2)}

    def split(extent: int, place: int) -> Division:
        ends = [k for k in narrow_places(chain) if chain.writes(0, k)[0].type.shape[1:3] == (32, extent)]
        value = chain.writes(0, ends[0])[0]
        return by_rows(chain, ends[0], RowSplit(value, 2, (0, place, extent)), prices.of_graph, bits.tiles)

    other = split(15, 12)
    assert differing(scheduled(other.parts[1].graph, options), bits.whole) == [("conv2",)]
    found = bits.of(other)
    assert found.other == () and found.parts[0].variants is None and found.parts[1].variants
    assert bits.of(split(32, 2)).other == ("first",)
    mixed = SameBits(Prices((options, resolve({"device": "x86_64_avx2"})), (1.0, 1.0)), graph)
    assert mixed.of(other) is other and not mixed.tiles

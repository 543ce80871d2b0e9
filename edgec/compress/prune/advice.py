"""Zeros that gain something on a device, where those that were asked for do not: each is tried before it is named."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from edgec.compress.layers import Layer
from edgec.compress.prune.layerwise import Plan, by_magnitude, replaced
from edgec.compress.prune.offer import Offered
from edgec.compress.prune.operands import taps
from edgec.compress.prune.scheme import Scheme, fits
from edgec.ir.graph import Graph

#: Shares of zeros that are tried, the greatest first: where it gains nothing, none does.
SHARES = (0.9, 0.6, 0.75)


def advice(
    graph: Graph,
    layers: Sequence[Layer],
    scheme: Scheme,
    least: float,
    vector: Scheme,
    worth: Callable[[Graph], Mapping[str, Offered]],
) -> str:
    """Options with which a layer gains: more zeros than ``least`` of the same scheme, or those of `--prune vector`.

    ``vector`` is its scheme on the device.
    """

    def gains(of: Scheme, share: float) -> bool:
        plans = {layer: Plan(of, share) for layer in layers if fits(of, taps(layer))}
        offers = worth(replaced(graph, {layer: by_magnitude(layer, plan) for layer, plan in plans.items()}))
        return any(offer.taken for offer in offers.values())

    for of in dict.fromkeys((scheme, vector)):
        more = [share for share in SHARES if share > least or of != scheme]
        if of.kind == "nm" or not more or not gains(of, more[0]):
            continue
        share = next((s for s in more[1:] if gains(of, s)), more[0])
        kind = "" if of == scheme else "--prune vector "
        return f"{kind}--sparsity {share:g} gains, where the network can spare as much"
    return "no other zeros gain either: leave out --prune"

"""Selection of the layers in int8 or bf16: all that gain, or as many as a bound allows.

Layers are ordered by the error they add for what they save. The network is run with the first so many of them in
bytes, as the products of bytes will compute it, and the most that keep the bound are found by leaving out the last
1, 2, 4, ... and then halving: an outlier is found in two runs, and what is chosen was always measured. The layers left
are then put in bf16, where that saves something, in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from edgec.compress.calibration import Calibration
from edgec.compress.layers import Arrays, Layer, results
from edgec.compress.max_loss import MaxLoss
from edgec.compress.quantize import quantized
from edgec.compress.report import largest
from edgec.errors import CheckError
from edgec.ir.graph import Graph


def within(
    graph: Graph,
    layers: Sequence[Layer],
    samples: Sequence[Arrays],
    found: Calibration,
    costs: Mapping[Layer, float],
    max_loss: MaxLoss,
) -> tuple[list[Layer], float]:
    """The layers to be bytes, and what the figure of the bound is then. ``costs``: error for what is saved.

    The list is empty where not even one layer keeps the bound: the value is that of the first alone.
    """
    order = sorted(layers, key=lambda layer: (costs[layer], layer.name))
    known: dict[int, float] = {}

    def value(count: int) -> float:
        if count not in known:
            known[count] = figure(graph, order[:count], samples, found, max_loss)
        return known[count]

    count = most(len(order), lambda k: max_loss.allows(value(k)))
    return order[:count], value(max(count, 1))


def bf16_within(
    graph: Graph,
    layers: Sequence[Layer],
    samples: Sequence[Arrays],
    found: Calibration,
    chosen: Sequence[Layer],
    max_loss: MaxLoss,
) -> tuple[list[Layer], float]:
    """The ``layers`` to be bf16 beside the ``chosen`` ones in bytes, and what the figure of the bound is then.

    They are taken in the order of their noise in bytes, which that in bf16 follows.
    """
    order = sorted(layers, key=lambda layer: (found.numbers[layer].noise, layer.name))
    known: dict[int, float] = {}

    def value(count: int) -> float:
        if count not in known:
            known[count] = figure(graph, chosen, samples, found, max_loss, order[:count])
        return known[count]

    count = most(len(order), lambda k: max_loss.allows(value(k)))
    return order[:count], value(count)


def refusal(layers: Sequence[Layer], found: Calibration, max_loss: MaxLoss, value: float) -> CheckError:
    """Error message for a bound that no layer can meet."""
    return CheckError(
        f"no layer can be in bytes within {max_loss}: the first alone gives {value:.4g}",
        hint=f"most of the error comes from {contributors(layers, found)}",
    )


def most(count: int, holds: Callable[[int], bool]) -> int:
    """The greatest number up to ``count`` that is found to hold, 0 for none; what holds for one holds for fewer."""
    fails, step = count + 1, 1
    while count and not holds(count):
        fails, count, step = count, max(count - step, 0), 2 * step
    while fails - count > 1:
        middle = (fails + count) // 2
        if holds(middle):
            count = middle
        else:
            fails = middle
    return count


def figure(
    graph: Graph,
    chosen: Sequence[Layer],
    samples: Sequence[Arrays],
    found: Calibration,
    max_loss: MaxLoss,
    bf16: Sequence[Layer] = (),
) -> float:
    """The figure of a bound with these layers in bytes, and ``bf16`` in bf16."""
    return max_loss.of(found.expected, results(quantized(graph, chosen, found, bf16), samples))


def contributors(layers: Sequence[Layer], found: Calibration) -> str:
    errors = [(layer.name, found.numbers[layer].noise) for layer in layers]
    return largest(errors, sum(error for _, error in errors))

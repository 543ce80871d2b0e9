"""Selection of the layers in int8 or bf16: all that gain, or as many as a bound allows.

Layers are ordered by added error per saved second. The network is executed with the first n layers in int8 arithmetic,
and the largest n within the bound is found by leaving out the last 1, 2, 4, ... layers and then by bisection: a single
outlier is found in two runs, and the chosen set has always been measured. The remaining layers are then tried in bf16
in the same way, where that saves time.
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
    """The layers to be int8, and the value of the bound's figure with them. ``costs``: added error per saved second.

    The list is empty where not even one layer keeps the bound; the value is then that of the first layer alone.
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
    """The ``layers`` to be bf16 in addition to the ``chosen`` ones in int8, and the value of the bound's figure.

    They are taken in the order of their noise in int8, as the noise in bf16 has about the same order.
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
    """The greatest number up to ``count`` for which ``holds`` (assumed monotone: true for all smaller ones); or 0."""
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
    """The value of the bound's figure with the ``chosen`` layers in int8, and ``bf16`` in bf16."""
    return max_loss.of(found.expected, results(quantized(graph, chosen, found, bf16), samples))


def contributors(layers: Sequence[Layer], found: Calibration) -> str:
    errors = [(layer.name, found.numbers[layer].noise) for layer in layers]
    return largest(errors, sum(error for _, error in errors))

"""Shares of zeros by what layers can spare, and repairs by few samples."""

from __future__ import annotations

import numpy as np
import pytest
from chance import RANDOM
from small_graphs import conv, graph, relu, value

from edgec.compress.layers import layers_of
from edgec.compress.prune.allot import LEVELS, allotted, costs
from edgec.compress.prune.choose import Statistics, chosen, repaired
from edgec.compress.prune.scheme import parsed
from edgec.ir.graph import Node, constant


def weights(*shape: int) -> Node:
    return constant((RANDOM.standard_normal(shape) * shape[1] ** -0.5).astype(np.float32))


def test_layers_that_can_spare_zeros_get_them() -> None:
    """A layer whose inputs say the same several times loses more than one whose inputs do not, and all together lose
    what is asked for; the error is less than that of equal shares."""
    random = np.random.default_rng(3)
    spread = constant((np.kron(np.eye(16), np.ones((1, 4))) * 0.5).astype(np.float32)[:, :, None, None].swapaxes(0, 1))
    x = value("x", 1, 16, 6, 6)
    alike = relu(conv(x, spread))  # each input four times
    needed = relu(conv(alike, weights(32, 64, 1, 1)))
    g = graph(conv(needed, weights(32, 32, 1, 1)))
    layers = layers_of(g)[1:]
    samples = [{"x": random.standard_normal((1, 16, 6, 6)).astype(np.float32)} for _ in range(12)]
    scheme = parsed("vector=16", 16)
    found = costs(g, layers, scheme, "obs", samples)
    assert all(list(c.values()) == sorted(c.values()) for c in found.values())
    plans = allotted(found, scheme, 0.5, layers)
    sizes = [layer.weights.size for layer in layers]
    shares = [plans[layer].sparsity if layer in plans else 0.0 for layer in layers]
    assert np.dot(shares, sizes) == pytest.approx(0.5 * sum(sizes), rel=1e-6)
    assert shares[0] > shares[1] + 0.1
    one = allotted(found, scheme, 0.3, layers[1:])
    assert list(one) == [layers[1]] and one[layers[1]].sparsity == pytest.approx(0.3 * sum(sizes) / sizes[1])
    assert sum(p.sparsity for p in allotted(found, scheme, 0.999, layers).values()) == pytest.approx(2 * 0.95)


def test_few_rows_change_weights_less() -> None:
    """Damping of a repair by fewer rows than columns, so that new rows lose less."""
    random = np.random.default_rng(8)
    w, mix = random.standard_normal((32, 120)), random.standard_normal((120, 120)) / 120**0.5
    seen, fresh = (random.standard_normal((rows, 120)) @ mix + 0.5 for rows in (40, 2000))
    own = Statistics.of(seen, seen @ w.T, w)
    stay = chosen(w, 1, parsed("vector=16", 16), 0.5, "magnitude", own, repair=False)
    panels = stay.mask[::16]

    def error(statistics: Statistics) -> float:
        new = repaired(w, panels, parsed("vector=16", 16), statistics)
        assert new.shift is not None
        y = fresh @ w.T
        return float(np.square(fresh @ new.matrix.T + new.shift - y).mean() / y.var())

    again = np.tile(seen, (40, 1))  # the same rows, as if they were many
    assert error(own) < 0.8 * error(Statistics.of(again, again @ w.T, w))


def test_shares_end_where_rounding_leaves_a_part_of_a_weight() -> None:
    """Sums of shares times sizes come near to what is asked for, and need not meet it."""
    layers = layers_of(graph(conv(conv(value("x", 1, 24, 3, 3), weights(40, 24, 1, 1)), weights(56, 40, 1, 1))))
    scheme = parsed("vector=8", 16)
    priced = {layer: {level: level * (k + 1) for level in LEVELS} for k, layer in enumerate(layers)}
    sizes = [layer.weights.size for layer in layers]
    for k in range(1, 180):
        plans = allotted(priced, scheme, k / 190, layers)
        zeros = sum(plans[layer].sparsity * size for layer, size in zip(layers, sizes) if layer in plans)
        assert zeros >= k / 190 * sum(sizes) - 1

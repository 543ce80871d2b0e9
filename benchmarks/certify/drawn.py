"""Drawn inputs and attacks in compiled code, beside its bounds: none may leave them.

`python -m benchmarks.certify.drawn MODEL --inputs X.npz --eps 2/255 --count 100000` draws so many inputs near the first
sample: half of them anywhere in the box, a quarter at corners, and a quarter at the corners that the gradients of an
output point at, from any point. It prints how near each output came to its bounds; the exit code is 1 if one left them.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from benchmarks import ROOT
from edgec import build
from edgec.certify.attack import rounded_into, values_at
from edgec.certify.certified import output_bounds
from edgec.certify.emitted import network_of
from edgec.certify.properties import Clause, around, read_number
from edgec.certify.spec import Spec
from edgec.check.network import inputs_for


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--inputs", type=Path, default=None, help="a random input without it")
    parser.add_argument("--eps", default="2/255")
    parser.add_argument("--count", type=int, default=100_000)
    asked = parser.parse_args()
    built = build(ROOT / asked.model, numeric="exact")
    net = network_of(built.stages.plan, built.program, built.options)
    types = {name: n.type for name, n in net.inputs.items()}
    center = inputs_for(built.graph, asked.inputs, 1, 0)[0]
    case = around(center, types, read_number(asked.eps, "--eps"))
    box = case.domain(net.inputs)
    bounds = {o.name: o for o in output_bounds(net, net.bounds(box))}
    name, node = next(iter(net.outputs.items()))
    count = int(node.type.elements)
    signs = np.concatenate([np.eye(count), -np.eye(count)]).reshape(2 * count, *node.type.shape)
    spec = Spec.of([Clause({name: signs}, np.zeros(2 * count))])
    random, left, done = np.random.default_rng(0), 0, 0
    nearest = dict.fromkeys(bounds, np.inf)
    while done < asked.count:
        size = min(64, asked.count - done)
        kinds = np.arange(size) % 4
        part = {n: random.random((size, *n.type.shape)) for n in box.low}
        for n in part:
            part[n][kinds == 2] = random.integers(0, 2, part[n][kinds == 2].shape)
        points = {n: box.low[n] + part[n] * (box.high[n] - box.low[n]) for n in part}
        _, slopes = values_at(net, spec, points)
        for n in points:
            row = slopes[n][np.arange(size), random.integers(0, 2 * count, size)]
            points[n] = np.where(
                (kinds == 3).reshape(-1, *(1,) * (row.ndim - 1)), np.where(row > 0, box.low[n], box.high[n]), points[n]
            )
        for k in range(size):
            for key, y in built.run(rounded_into(case, points, k)).items():
                room = float(min((y - bounds[key].low).min(), (bounds[key].high - y).min()))
                nearest[key] = min(nearest[key], room)
                left += room < 0
        done += size
    for key, room in nearest.items():
        widest = float((bounds[key].high - bounds[key].low).max())
        print(
            f"{asked.model.name} '{key}': {done:,} inputs, {left} left the bounds, nearest {room:.3g} of {widest:.3g}"
        )
    return int(left > 0)


if __name__ == "__main__":
    sys.exit(main())

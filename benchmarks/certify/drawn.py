"""Drawn inputs and attacks in compiled code, beside its bounds: none may leave them.

`python -m benchmarks.certify.drawn MODEL:EPS... --count 100000` draws so many inputs near the first sample of
`--inputs`, or near a drawn one: half of them anywhere in the box, a quarter at corners, and a quarter at the corners
that the gradients of an output point at, from any point. It prints how near each output came to its bounds; the exit
code is 1 if one left them. `--write` writes the page.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import ROOT
from benchmarks.table import markdown
from benchmarks.training.machine import processor
from edgec import build
from edgec.certify.attack import rounded_into, values_at
from edgec.certify.certified import output_bounds
from edgec.certify.domain import Domain
from edgec.certify.emitted import network_of
from edgec.certify.network import Network
from edgec.certify.properties import Clause, around, read_number
from edgec.certify.spec import Spec
from edgec.check.network import inputs_for
from edgec.ir.graph import Node

#: Inputs that are drawn at a time.
_BATCH = 256


@dataclass(frozen=True)
class Drawn:
    """An output: how many inputs were run, how many left the bounds, how near they came, and the widest bound."""

    model: str
    eps: str
    output: str
    count: int
    left: int
    nearest: float
    widest: float

    def cells(self) -> list[str]:
        numbers = (f"{self.count:,}", str(self.left), f"{self.nearest:.3g}", f"{self.widest:.3g}")
        return [self.model, self.eps, self.output, *numbers]


def drawn(model: Path, eps: str, inputs: Path | None, count: int) -> list[Drawn]:
    """The outputs of a network for inputs that are drawn around one, beside their bounds."""
    built = build(ROOT / model, numeric="exact")
    net = network_of(built.stages.plan, built.program, built.options)
    types = {name: n.type for name, n in net.inputs.items()}
    case = around(inputs_for(built.graph, inputs, 1, 0)[0], types, read_number(eps, "EPS"))
    box = case.domain(net.inputs)
    bounds = {o.name: o for o in output_bounds(net, net.bounds(box))}
    name, node = next(iter(net.outputs.items()))
    elements = int(node.type.elements)
    signs = np.concatenate([np.eye(elements), -np.eye(elements)]).reshape(2 * elements, *node.type.shape)
    spec = Spec.of([Clause({name: signs}, np.zeros(2 * elements))])
    random, done = np.random.default_rng(0), 0
    nearest, left = dict.fromkeys(bounds, np.inf), dict.fromkeys(bounds, 0)
    while done < count:
        size = min(_BATCH, count - done)
        points = _points(net, spec, box, random, size, elements)
        for k in range(size):
            for key, y in built.run(rounded_into(case, points, k)).items():
                room = float(min((y - bounds[key].low).min(), (bounds[key].high - y).min()))
                nearest[key] = min(nearest[key], room)
                left[key] += not room >= 0
        done += size
    return [
        Drawn(model.stem, eps, key, count, left[key], nearest[key], float((bounds[key].high - bounds[key].low).max()))
        for key in bounds
    ]


def _points(
    net: Network, spec: Spec, box: Domain, random: np.random.Generator, size: int, elements: int
) -> dict[Node, np.ndarray]:
    """Inputs inside a box: of every four two anywhere, one at a corner, and one at the corner of a gradient."""
    kinds = np.arange(size) % 4
    part = {n: random.random((size, *n.type.shape)) for n in box.low}
    for n in part:
        part[n][kinds == 2] = random.integers(0, 2, part[n][kinds == 2].shape)
    points = {n: box.low[n] + part[n] * (box.high[n] - box.low[n]) for n in part}
    _, slopes = values_at(net, spec, points)
    for n in points:
        row = slopes[n][np.arange(size), random.integers(0, 2 * elements, size)]
        attacked = (kinds == 3).reshape(-1, *(1,) * (row.ndim - 1))
        points[n] = np.where(attacked, np.where(row > 0, box.low[n], box.high[n]), points[n])
    return points


def page(found: Sequence[Drawn], command: str) -> str:
    """The page of results."""
    heads = ["network", "distance", "output", "inputs", "left the bounds", "nearest", "widest bound"]
    left = sum(f.left for f in found)
    return f"""# Inputs beside bounds

Written by `{command}` on {time.strftime("%Y-%m-%d")}, {processor()}.

Inputs at most a distance from one that was drawn, run in the compiled code: half of them anywhere in the box, a quarter
at its corners, and a quarter at the corners that gradients of the outputs point at. Bounds count the rounding of the
code in the order of its sums. `nearest` is the least distance of an output from its bounds, which is below zero where
one left them. Of all inputs {left} left the bounds. Networks are those of VNN-COMP 2021
(github.com/stanleybak/vnncomp2021).

{markdown(heads, [f.cells() for f in found], 2)}
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="FILE or FILE:EPS")
    parser.add_argument("--inputs", type=Path, default=None, help="a random input without it")
    parser.add_argument("--eps", default="2/255")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--write", type=Path, help="the page of results")
    asked = parser.parse_args()
    found: list[Drawn] = []
    for text in asked.models:
        file, _, eps = text.partition(":")
        found += drawn(Path(file), eps or asked.eps, asked.inputs, asked.count)
        print(" | ".join(found[-1].cells()), flush=True)
    models = dict.fromkeys(f"{f.model}.onnx:{f.eps}" for f in found)
    words = ["python", "-m", "benchmarks.certify.drawn", *models, "--count", str(asked.count)]
    if asked.write:
        asked.write.write_text(page(found, shlex.join([*words, "--write", f"docs/results/{asked.write.name}"])))
    return int(any(f.left for f in found))


if __name__ == "__main__":
    sys.exit(main())

"""Bounds beside those of auto_LiRPA, by the same method (CROWN) in one process: widths, and the time of both.

`python -m benchmarks.certify.peers MODEL[:EPS]...` bounds the outputs of networks (dense layers, convolutions, ReLU,
sums of two values) for inputs near a drawn one, or near many at once with `--boxes`; `encoder:SIZES[:EPS]` is a
transformer (`benchmarks.certify.encoder`). auto_LiRPA is installed, or on
PYTHONPATH (github.com/Verified-Intelligence/auto_LiRPA). Both have one thread, take turns, and the least of `--repeat`
times of the processor counts. ``--write`` writes the page.
"""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from benchmarks.certify import encoder
from benchmarks.table import markdown
from benchmarks.training.machine import processor
from edgec import build
from edgec.certify.domain import Domain
from edgec.certify.emitted import network_of
from edgec.certify.network import Network
from edgec.certify.ranges import UNITS
from edgec.ir.graph import Node

Bounded = Callable[[], tuple[np.ndarray, np.ndarray]]


def layers(model: onnx.ModelProto) -> Any:
    """A network in torch, with the layers of a model: the results of nodes by name, and sums of two of them."""
    from torch import nn, tensor

    known = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    made: dict[str, Any] = {}
    steps: list[tuple[Any, list[str], str]] = []
    nodes, same = list(model.graph.node), {}
    for n, after in [*pairwise(nodes), (nodes[-1], None)]:
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in n.attribute}
        weights = [known[i] for i in n.input if i in known]
        given = [same.get(i, i) for i in n.input if i not in known]
        layer: Any = None
        if n.op_type == "Relu":
            layer = nn.ReLU()
        elif n.op_type in ("Flatten", "Reshape"):
            layer = nn.Flatten()
        elif n.op_type in ("Gemm", "MatMul"):
            w = weights[0] if attributes.get("transB") else weights[0].T
            layer = nn.Linear(w.shape[1], w.shape[0])
            bias = weights[1] if len(weights) > 1 else np.zeros(w.shape[0], np.float32)
            if len(weights) == 1 and after is not None and after.op_type == "Add":
                bias = next(known[i] for i in after.input if i in known)
            layer.weight.data, layer.bias.data = tensor(w.copy()), tensor(bias.reshape(-1).copy())
        elif n.op_type == "Conv":
            w, pads = weights[0], attributes.get("pads", [0, 0, 0, 0])
            layer = nn.Conv2d(w.shape[1], w.shape[0], w.shape[2:], attributes.get("strides", [1, 1]), pads[:2])
            layer.weight.data, layer.bias.data = tensor(w.copy()), tensor(weights[1].copy())
        elif n.op_type == "Add" and len(given) == 2:
            layer = None
        elif n.op_type == "Add" or (n.op_type == "Sub" and not weights[0].any()):
            same[n.output[0]] = given[0]  # a bias, which its layer has
            continue
        else:
            raise SystemExit(f"{n.op_type} is no layer of such a network")
        if layer is not None:
            made[f"layer{len(made)}"] = layer
        steps.append((layer, given, n.output[0]))

    class Layers(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.made = nn.ModuleDict(made)

        def forward(self, x: Any) -> Any:
            values: dict[str, Any] = {}
            for layer, given, name in steps:
                a, *more = (values.get(g, x) for g in given)
                values[name] = a + more[0] if layer is None else layer(a)
            return values[name]

    return Layers()


def theirs(network: Any, x: np.ndarray, eps: float) -> Bounded:
    """The bounds of auto_LiRPA."""
    import torch
    from auto_LiRPA import BoundedModule, BoundedTensor, PerturbationLpNorm

    torch.set_num_threads(1)
    kinds = (torch.nn.Conv2d, torch.nn.ModuleList)
    is_dense = not any(isinstance(layer, kinds) for layer in network.modules())
    center = torch.tensor(x.reshape(len(x), -1) if is_dense else x)
    bounded = BoundedModule(network, torch.empty_like(center[:1]), verbose=False)
    given = BoundedTensor(center, PerturbationLpNorm(norm=np.inf, eps=eps))

    def bounds() -> tuple[np.ndarray, np.ndarray]:
        with torch.no_grad():
            low, high = bounded.compute_bounds(x=(given,), method="CROWN")
        return low.numpy(), high.numpy()

    return bounds


def ours(path: Path, x: np.ndarray, eps: float) -> Bounded:
    """The bounds of the code, with sums in any order."""
    built = build(path, compile=False, numeric="exact")
    network = network_of(built.stages.plan, built.program, built.options, any_order=True)
    (given,), ((_, n),) = network.inputs.values(), network.outputs.items()
    wide = x.astype(np.float64).reshape(len(x), *given.type.shape)
    domain = Domain({given: wide - eps}, {given: wide + eps})
    return lambda: outputs(network, n, domain)


def outputs(network: Network, n: Node, domain: Domain) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds [boxes, elements] of an output."""
    found = network.bounds(domain)
    count = int(n.type.elements)
    rows = np.concatenate([np.eye(count), -np.eye(count)]).reshape(1, 2 * count, *n.type.shape)
    least, _ = network.back({n: np.broadcast_to(rows, (domain.boxes, *rows.shape[1:]))}, found)
    return least[:, :count], -least[:, count:]


@dataclass(frozen=True)
class Found:
    """One network: milliseconds of the processor, and the widest bound of the code, of real arithmetic, of the peer."""

    name: str
    eps: float
    boxes: int
    ours: float
    theirs: float
    code: float
    real: float
    peer: float

    def cells(self) -> list[str]:
        times = [f"{self.ours:.1f}", f"{self.theirs:.1f}", f"{self.theirs / self.ours:.2f}"]
        return [
            self.name,
            f"{self.eps:g}",
            str(self.boxes),
            *times,
            *(f"{w:.6g}" for w in (self.code, self.real, self.peer)),
        ]


@contextmanager
def without_rounding() -> Iterator[None]:
    """Bounds of real arithmetic: no operation loses anything."""
    kept = dict(UNITS)
    UNITS.update(dict.fromkeys(UNITS, 0.0))
    try:
        yield
    finally:
        UNITS.update(kept)


def widest(bounds: Bounded) -> float:
    low, high = bounds()
    return float((high - low).max())


def compared(file: str, eps: float, boxes: int, repeat: int) -> Found:
    """Both on one network, near ``boxes`` drawn inputs, in turns."""
    with TemporaryDirectory() as folder:
        if file.startswith(encoder.KIND):
            network, path, x = encoder.made(file, Path(folder))
        else:
            path = Path(file)
            model = onnx.load(path)
            known = {t.name for t in model.graph.initializer}
            (given,) = (i for i in model.graph.input if i.name not in known)
            shape = [d.dim_value or 1 for d in given.type.tensor_type.shape.dim]
            x = (np.random.default_rng(0).random((boxes, *shape[1:])) ** 4).astype(np.float32)
            network = layers(model)
        return _compared(file, path, network, x, eps, repeat)


def _compared(file: str, path: Path, network: Any, x: np.ndarray, eps: float, repeat: int) -> Found:
    both = ours(path, x, eps), theirs(network, x, eps)
    with without_rounding():
        real = widest(ours(path, x, eps))
    times: list[list[float]] = [[], []]
    widths = [0.0, 0.0]
    for _ in range(repeat):
        for k, bounds in enumerate(both):
            begun = time.process_time()
            low, high = bounds()
            times[k].append(1e3 * (time.process_time() - begun))
            widths[k] = float((high - low).max())
    own, other = (min(t) for t in times)
    return Found(Path(file).stem, eps, len(x), own, other, widths[0], real, widths[1])


def page(found: Sequence[Found], command: str) -> str:
    """The page of results."""
    heads = [
        "network",
        "distance",
        "boxes",
        "ms",
        "auto_LiRPA ms",
        "its time over ours",
        "widest",
        "real",
        "auto_LiRPA",
    ]
    mean = float(np.exp(np.mean([np.log(f.theirs / f.ours) for f in found])))
    return f"""# Bounds beside auto_LiRPA

Written by `{command}` on {time.strftime("%Y-%m-%d")}, {processor()}.

Bounds of all outputs by linear relaxation backward (CROWN) for inputs at most a distance from a drawn one, or from so
many at a time, on one thread; milliseconds of the processor, the least of several turns. `widest` is the widest bound
of an output of the code, whatever the order of its sums; `real` is the same in real arithmetic, without what rounding
loses, which is what auto_LiRPA bounds. Networks are those of VNN-COMP 2021 (github.com/stanleybak/vnncomp2021), and
encoders like BERT's of so many layers, width, heads, hidden width and words (`benchmarks.certify.encoder`).

auto_LiRPA takes {mean:.2f} times as long in geometric mean: edgec is slower on rows below 1.

{markdown(heads, [f.cells() for f in found], 1)}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="FILE, FILE:EPS or FILE:EPS:BOXES")
    parser.add_argument("--eps", type=float, default=0.01)
    parser.add_argument("--boxes", type=int, default=1, help="inputs that are bounded at a time")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--write", type=Path, help="the page of results")
    asked = parser.parse_args()
    found = []
    for text in asked.models:
        kind = encoder.KIND * text.startswith(encoder.KIND)
        file, distance, boxes, *_ = (*text.removeprefix(kind).split(":"), "", "")
        eps, many = float(distance or asked.eps), int(boxes or asked.boxes)
        found.append(compared(kind + file, eps, many, asked.repeat))
        print(" | ".join(found[-1].cells()), flush=True)
    models = [
        f"{f.name}{'' if f.name.startswith(encoder.KIND) else '.onnx'}:{f.eps:g}" + f":{f.boxes}" * (f.boxes > 1)
        for f in found
    ]
    words = ["python", "-m", "benchmarks.certify.peers", "--repeat", str(asked.repeat), *models]
    if asked.write:
        asked.write.write_text(page(found, shlex.join([*words, "--write", f"docs/results/{asked.write.name}"])))


if __name__ == "__main__":
    main()

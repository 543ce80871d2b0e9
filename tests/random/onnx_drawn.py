"""A random model: the nodes, the leaves they start from, and the values of everything between."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from onnx import ModelProto
from onnx_reference import Step, Tensor, Walk, leaf, model, value_info


@dataclass(frozen=True, eq=False)
class Drawn:
    """A model: its steps in order, the leaves they start from, and what is asked for."""

    opset: int
    steps: tuple[Step, ...]
    leaves: Mapping[str, Tensor]
    tensors: Mapping[str, Tensor]
    outputs: tuple[str, ...]
    #: Input dimensions that are left open: (input, dimension) -> symbol, and the least and greatest of each symbol.
    open: Mapping[tuple[str, int], str] = field(default_factory=dict)
    ranges: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)

    @property
    def feeds(self) -> dict[str, np.ndarray]:
        return {n: t.array for n, t in self.leaves.items() if not t.is_constant}

    def proto(self) -> ModelProto:
        inputs = [
            value_info(n, a, [self.open.get((n, d), e) for d, e in enumerate(a.shape)]) for n, a in self.feeds.items()
        ]
        outputs = [value_info(n, self.tensors[n].array) for n in self.outputs]
        constants = {n: t.array for n, t in self.leaves.items() if t.is_constant}
        return model([s.node for s in self.steps], inputs, outputs, constants, self.opset)

    def at(self, sizes: Mapping[str, int], seed: int) -> Drawn:
        """The same at other sizes, on new values of the same kind. Raises Rejected where that makes no sense."""
        random = np.random.default_rng(seed)
        walk = Walk(self.opset)
        for name, t in self.leaves.items():
            shape = [sizes.get(self.open.get((name, d), ""), e) for d, e in enumerate(t.shape)]
            array = t.array
            if not t.is_constant and list(array.shape) != shape:
                array = random.choice(array.reshape(-1), shape) if array.size else np.zeros(shape, array.dtype)
            walk.tensors[name] = leaf(name, array, t.is_constant)
        leaves = dict(walk.tensors)
        for step in self.steps:
            walk.take(step)
        return Drawn(self.opset, self.steps, leaves, walk.tensors, self.outputs, self.open, self.ranges)

    def part(self, outputs: Sequence[str], cut: Iterable[str] = ()) -> Drawn:
        """Only what ``outputs`` need, with the tensors of ``cut`` as inputs that have the values they had."""
        wanted, kept, leaves = set(outputs), [], {}
        inputs = set(cut) - set(outputs)
        for step in reversed(self.steps):
            if any(o in wanted and o not in inputs for o in step.node.output):
                kept.append(step)
                wanted.update(n for n in step.node.input if n)
        made = {o for s in kept for o in s.node.output}
        for name in self.tensors:
            if name in wanted and (name in inputs or name not in made):
                known = self.leaves.get(name)
                leaves[name] = known or leaf(name, self.tensors[name].array, False)
        opened = {k: v for k, v in self.open.items() if k[0] in leaves}
        return Drawn(self.opset, tuple(kept[::-1]), leaves, self.tensors, tuple(outputs), opened, self.ranges)

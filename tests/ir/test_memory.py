"""Results that are kept for a model do not keep it alive for longer than the next one."""

from __future__ import annotations

import gc
from weakref import ref

import numpy as np
from small_models import model, node, tensor_input, weights

from edgec.ir.graph import topological
from edgec.options import resolve
from edgec.pipeline.context import Context
from edgec.pipeline.run import Run, run


def test_weights_of_an_earlier_model_are_let_go() -> None:
    def built(scale: float) -> Run:
        given = weights("w", np.full((3, 2, 3, 3), scale, np.float32))
        nodes = [node("Conv", ["x", "w"], ["c"]), node("MaxPool", ["c"], ["y"], kernel_shape=[2, 2])]
        proto = model(nodes, [tensor_input("x", [1, 2, 9, 9])], initializers=[given])
        return run(proto, Context(resolve({"profiles": False, "device": "x86_64_avx512"})))

    outputs = [n for _, n in built(0.5)["import"].outputs]
    kept = [ref(n) for n in topological(outputs) if n.is_const]
    assert kept
    del outputs
    built(0.25)
    gc.collect()
    assert not any(r() is not None for r in kept)

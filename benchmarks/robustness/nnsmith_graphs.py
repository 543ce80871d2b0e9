"""Random networks by NNSmith: a script for an environment that has it, which needs no edgec.

    PYTHON -I nnsmith_graphs.py FOLDER FIRST COUNT

Network k is FOLDER/k.onnx; numbers that NNSmith finds no network for in time, or whose export fails, have none.
"""

from __future__ import annotations

import functools
import logging
import sys
from pathlib import Path
from typing import Any

#: Operators of a network, elements of a tensor, and milliseconds to find a network.
NODES, ELEMENTS, PATIENCE = 8, 4096, 5000


def opset() -> Any:
    """The operators that NNSmith knows for ONNX."""
    from nnsmith.abstract.extension import activate_ext
    from nnsmith.materialize import Model
    from nnsmith.narrow_spec import auto_opset

    kind = Model.init("onnx", backend_target="cpu")
    kind.add_seed_setter()
    operators = auto_opset(kind, None, vulops=False)
    activate_ext(opset=operators, factory=None)
    return kind, operators


def main() -> None:
    import torch

    torch.set_num_threads(1)
    # NNSmith was written for the exporter that traces.
    torch.onnx.export = functools.partial(torch.onnx.export, dynamo=False)
    from nnsmith.graph_gen import model_gen

    logging.disable(logging.CRITICAL)
    folder, first, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    kind, operators = opset()
    for number in range(first, first + count):
        try:
            found = model_gen(
                opset=operators, seed=number, max_nodes=NODES, timeout_ms=PATIENCE, max_elem_per_tensor=ELEMENTS
            )
            model = kind.from_gir(found.make_concrete())
            model.with_torch = False
            model.refine_weights()
            fresh = folder / f"{number}.part"
            fresh.write_bytes(model.onnx_model.SerializeToString())
            fresh.rename(folder / f"{number}.onnx")
        except Exception as error:  # of the generator: nothing to test
            print(f"{number}: {type(error).__name__}: {str(error)[:200]}", flush=True)


if __name__ == "__main__":
    main()

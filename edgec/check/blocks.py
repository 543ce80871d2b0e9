"""Every fused block alone: its compiled kernel beside the operators it was made of, on real intermediate values.

The graph is evaluated operator by operator, unfused, in numpy. Each kernel then runs on those values, never on what
another kernel made of them, and its result is held against the operator whose value it computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edgec.build import Built
from edgec.check.compare import compare, step_of
from edgec.execute.executor import ProgramRun
from edgec.execute.kernels import Kernels, library_of
from edgec.ir import evaluate
from edgec.ir.graph import Node
from edgec.progress import Progress


@dataclass(frozen=True)
class KernelCheck:
    """One kernel beside its operators. ``nodes`` are those of the model.

    It is ``ok`` within the tolerance, and where its result are integers that were rounded, one step off.
    """

    kernel: int
    template: str
    operators: tuple[str, ...]
    nodes: tuple[str, ...]
    max_abs: float
    max_rel: float
    ok: bool


def blocks_alone(
    built: Built, inputs: Mapping[str, np.ndarray], tolerance: float, progress: Progress
) -> tuple[KernelCheck, ...]:
    """Every kernel by itself; in C where the network is compiled and runs here, else its formula in numpy.

    Kernels of a GPU are not called one by one: theirs are the formulas too.
    """
    program = built.program
    values: Mapping[Any, np.ndarray] = evaluate.run(built.graph, inputs, keep=True)
    meant, real = ProgramRun(program, inputs), ProgramRun(program, inputs)
    kernels = None
    if built.compiler is not None and not built.options.device.is_gpu:
        kernels = Kernels(program, library_of(built), built.options.name, built.options.templates)
        kernels.lend(real)
    found = []
    for k, kernel in enumerate(program.kernels):
        progress("check", f"kernel {k} alone", k / len(program.kernels))
        ran = kernels.beside(k, meant, real) if kernels is not None else meant.step(k) is not None
        if not ran or kernel.block is None:
            continue
        node = kernel.block.output
        want = value_of(node, values)
        got = (real if kernels is not None else meant).array(node)
        step = step_of(node.args[0] if node.op == "copy" else node)
        difference = replace(compare(node.op, got, want), quantized=step is not None, step=step or 0.0)
        meant.place(node)[...] = want  # the next kernels begin with what should be there
        operators = tuple(n.op for n in kernel.block.nodes)
        found.append(
            KernelCheck(k, kernel.describe, operators, kernel.names, difference.max_abs, difference.max_rel,
                  difference.within(tolerance))
        )  # fmt: skip
    return tuple(found)


def value_of(node: Node, values: Mapping[Any, np.ndarray]) -> np.ndarray:
    """Expected result of a block that ends in ``node``, from the values of all operators."""
    return values[node.args[0]] if node.op == "copy" else values[node]

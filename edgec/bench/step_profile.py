"""Time of every kernel of a training step, in sequence on one thread."""

from __future__ import annotations

import numpy as np

from edgec.bench.profile import program_seconds
from edgec.build import Built
from edgec.check.training import drawn_batch
from edgec.errors import UsageError
from edgec.execute.kernels import Kernels, library_of
from edgec.ir.types import DTYPES
from edgec.schedule.program import Kernel, Training


def step_seconds(built: Built, seconds: float = 0.5, seed: int = 0) -> list[float | None]:
    """Median seconds of a run of every kernel of the step in the order of its program, as `kernel_seconds` gives them.

    The step is on random data, at a learning rate of 0, and the last of its micro-batches. Raises UsageError for a
    step that does not run in this process.
    """
    training, device = built.program.training, built.options.device
    assert training is not None
    if device.language != "c" or built.compiler is None:
        hint = "edgec bench times the step as a whole" if device.is_gpu else "build it for this machine"
        raise UsageError(f"kernels of a step for '{device.name}' are not timed here", hint=hint)
    kernels = Kernels(training.step, library_of(built), f"{built.options.name}_step", built.options.templates)
    return program_seconds(training.step, kernels, inputs_of_step(training, seed), seconds)


def inputs_of_step(training: Training, seed: int) -> dict[str, np.ndarray]:
    """Random inputs of a step by name: the state as it begins, data, a learning rate of 0, flags that are true."""
    step, states = training.step, set(training.step.states.values())
    found = {}
    for name, buffer, n in step.inputs:
        if buffer in states:
            begun = training.initial.get(name)
            found[name] = np.zeros(n.type.shape, DTYPES[n.type.dtype]) if begun is None else begun
    free = [(name, n) for name, b, n in step.inputs if b not in states]
    flags = free[-2:] if training.micro_batches > 1 else []
    *data, (rate, _) = free[:-2] if flags else free
    ports = [(n.type.dtype, n.type.shape) for _, n in data]
    drawn = drawn_batch(ports, training.classes, training.said["loss"], seed)
    found |= {name: np.asarray(a, DTYPES[n.type.dtype]) for (name, n), a in zip(data, drawn)}
    found |= {name: np.ones(n.type.shape, DTYPES[n.type.dtype]) for name, n in flags}
    return {**found, rate: np.zeros((), np.float32)}


def runs_of(kernel: Kernel, training: Training) -> int:
    """Times that a kernel runs in a step: once where only the last of the micro-batches needs it."""
    return 1 if kernel.guards else training.micro_batches

"""The training of a network: the program of a step, and a state that holds trained weights and moments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgec.device.device import Device
from edgec.emit.beside import FilesBeside, files_beside
from edgec.emit.interface import Port, described
from edgec.emit.language import language_of
from edgec.emit.replicas import early_piece, late_calls, values_of
from edgec.emit.trained_state import Held, StateLayout, described_port
from edgec.emit.weights import Weights
from edgec.errors import UsageError
from edgec.ir.types import Type
from edgec.schedule.program import Program
from edgec.schedule.thread_count import most_threads


@dataclass(frozen=True)
class TrainingFiles(FilesBeside):
    """The files of a training, with the first content of the state."""

    initial: bytes


def training_files(
    program: Program, device: Device, name: str, templates: Sequence[Path], values: Mapping[str, Any]
) -> TrainingFiles:
    """The files of the training of a program. Raises UsageError for a device whose language has none."""
    training = program.training
    assert training is not None
    language = language_of(device)
    if not language.training:
        hint = "train for a processor or CUDA: edgec device list"
        raise UsageError(f"training is not written in {device.language} yet", hint=hint)
    if values["weights"].place == "stream":
        raise UsageError("weights are not streamed through a training", hint="leave out --weights stream")
    step = described(training.step, f"{name}_step", templates, language)
    state = StateLayout.of(training, step["inputs"])
    places = state.pieces
    free = [p for p in step["inputs"] if p.onnx_name not in places]
    runs = training.micro_batches
    flags, free = (free[-2:], free[:-2]) if runs > 1 else ([], free)
    *given, target, rate = free
    inputs_of = {b: n for n, b, _ in training.step.inputs}
    replicas, early = training.replicas, (0, 0)
    if replicas is not None:
        early = early_piece(places[n] for n in training.early)

    def pointer(name: str, port: Port, is_read: bool) -> str:
        at = early[0] if replicas is not None and name in training.early else None
        return _pointer(places[name], port, is_read, at)

    arguments = [pointer(p.onnx_name, p, True) if p.onnx_name in places else p.name for p in step["inputs"]]
    on_device, batch = language.name != "c", "batch->" if replicas is not None else ""
    own = "&batch->ec_rate" if replicas is not None else "&rate"
    arguments[step["inputs"].index(rate)] = "training->rate" if on_device else own
    for flag, place in zip(flags, ("first", "last")):
        arguments[step["inputs"].index(flag)] = f"&is_{place}"
    if runs > 1:
        for p in (*given, target):
            arguments[step["inputs"].index(p)] = f"{batch}{p.name} + run * {p.elements}"
        given, target = [_batch_of(p, runs) for p in given], _batch_of(target, runs)
    #  The first outputs; all others are next values of states.
    told = ["batch->ec_losses + run", "&batch->ec_broken"] if replicas is not None else ["loss", "&broken"]
    arguments += ["training->loss", "training->broken"] if on_device else told
    for port, (_, buffer, _) in list(zip(step["outputs"], training.step.outputs))[2:]:
        arguments.append(pointer(inputs_of[training.step.states[buffer]], port, False))
    last = next((b for n, b, _ in training.step.inputs if flags and n == flags[1].onnx_name), None)
    late = late_calls(training.step, step["sources"], last) if replicas is not None and last is not None else []
    more = {
        **values, **step, "shares_weights": name, "model": None, "network": name, "NETWORK": name.upper(),
        "single": None, "decoder": None,
        "trained": state.trained, "state_bytes": state.size, "trained_bytes": state.trained_bytes,
        "given": given, "target": target, "micro_batches": runs, "classes": training.classes,
        "flag": flags[0] if flags else None, "step_threads": most_threads(training.step, training),
        "rate": f"{np.float32(training.rate)!s}f", "said": training.said,
        "step_arguments": arguments, **values_of(replicas, early, late, runs),
        "run_inputs": values["inputs"], "run_outputs": values["outputs"],
        "run_arguments": [
            _pointer(places[p.onnx_name], p, True) if p.onnx_name in places else p.name for p in values["inputs"]
        ],
        "run_free": [p.onnx_name for p in values["inputs"] if p.onnx_name not in places],
        "tables": [Weights(values["weights"].linked, name, (), "initial")],
    }  # fmt: skip
    entry = {
        **training.said, "state_bytes": state.size, "trained_bytes": state.trained_bytes,
        "arena_bytes": training.step.arena_bytes, "kernels": len(training.step.kernels),
        "micro_batches": runs, "replicas": replicas.count if replicas is not None else 1,
        "classes": training.classes, "learning_rate": training.rate,
        "inputs": [described_port(p) for p in given], "target": described_port(target), "state": state.described,
        "statistics": list(training.statistics),
    }  # fmt: skip
    prefix = f"{name}_step"
    pages = {path.format(name=name, step=prefix): page for path, page in language.training.items()}
    models = {f"{name}_model.onnx": training.model}
    models |= {f"{name}_loss.onnx": training.loss} if training.loss is not None else {}
    made = files_beside(language, prefix, pages, templates, more, entry, models)
    return TrainingFiles(made.files, made.sources, made.headers, made.described, state.initial)


def _batch_of(port: Port, runs: int) -> Port:
    """The port of a batch, which has those of as many micro-batches one after the other."""
    rows, *rest = port.shape
    return Port(port.name, port.onnx_name, Type(port.dtype, (rows * runs, *rest)))


def _pointer(held: Held, port: Port, is_read: bool, early: int | None = None) -> str:
    """A piece of the state as an argument in C; of the sums of a replica, which lie in the state from ``early`` on."""
    const = "const " if is_read else ""
    place = f"ec_held + {held.at}" if early is None else f"sums + {held.at - early}"
    return f"({const}{port.ctype} *)({const}void *)({place})"

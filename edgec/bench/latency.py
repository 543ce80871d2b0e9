"""Latency of a network, alone or interleaved with a peer (A B A B), so that both see the same machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from edgec.artifact.affinity import kept_cores
from edgec.artifact.folder import read_lock
from edgec.artifact.network import Network, ran
from edgec.bench.remote import Remote
from edgec.bench.timing import Benched, Timing
from edgec.bench.turns import pinned, refuse_none, take_turns
from edgec.build import Built
from edgec.check.compare import quantized_outputs, tolerance_of, worst
from edgec.check.drawn import Arrays, scaled, telling_scale
from edgec.check.judge import Judge
from edgec.check.litert import LitertReference
from edgec.check.meant import in_floats
from edgec.check.network import inputs_for
from edgec.check.reference import Reference, runtime, unoptimized, widths_of
from edgec.check.reference_error import own_error
from edgec.device.compilers import runs_here
from edgec.emit.function_comment import describe
from edgec.errors import CheckError, UsageError
from edgec.execute.samples import random_inputs
from edgec.frontend import states
from edgec.frontend.tflite.model import TfliteModel
from edgec.progress import Progress
from edgec.text import one_of

#: The peers that `bench` knows.
PEERS = ("onnxruntime", "litert")


def bench(
    built: Built,
    *,
    inputs: str | Path | Mapping[str, np.ndarray] | None = None,
    vs: str | None,
    seconds: float,
    rounds: int,
    seed: int,
    progress: Progress,
    ready: Arrays | None = None,
) -> Benched:
    """See `edgec.bench`; arrays that are ``ready`` are taken in place of those that `inputs_of` makes of ``inputs``.

    A compressed network is another one than its peer's: how far they are apart is no mistake.
    """
    if vs is not None and vs not in PEERS:
        raise UsageError(f"'{vs}' is no known peer", hint=one_of(vs, PEERS))
    refuse_none(seconds, rounds)
    if built.compiler is None or not runs_here(built.options.device, built.compiler):
        raise UsageError(f"code for '{built.options.device.name}' does not run here", hint="bench --device host")
    threads = built.options.threads
    with pinned(threads, kept_cores(read_lock(built.folder))) as is_pinned, Network(built.folder, threads) as network:
        arrays = ready if ready is not None else inputs_of(built, inputs, network, seed)
        ours, results = network.bind(arrays)
        ran(ours)
        calls = [ours]
        difference = None
        if vs is not None:
            theirs, peer, outputs = (_litert if vs == "litert" else _onnxruntime)(built, arrays, threads)
            calls.append(theirs)
            theirs()
            graph = built.stages.graph
            judge = Judge(
                graph,
                tolerance_of(graph, built.options.device.precision),
                steps=quantized_outputs(graph),
                own_error=(lambda arrays, want: own_error(built, arrays, want)) if vs != "litert" else None,
                plain=unoptimized(built) if vs != "litert" else None,
            )
            differences = judge.differences(results(), outputs(), arrays)
            found = next((d for d in differences if not judge.within(d)), worst(differences))
            compressed = built.stages.compressed
            if not (compressed is not None and compressed.is_changed) and not judge.within(found):
                far = (
                    f"by {max(found.max_rel, found.group_rel):.2e}"
                    if not found.mismatches
                    else f"in {found.mismatches} of {found.elements} elements"
                )
                raise CheckError(
                    f"output '{found.name}' differs from {peer}'s {far}, so times say nothing",
                    hint="edgec check --locate finds where it comes in",
                )
            difference = found.max_rel
        times = take_turns(calls, seconds, rounds, progress)
    timing = Timing.of(times[0])
    if vs is None:
        return Benched(timing, threads, is_pinned, rounds)
    other = Timing.of(times[1])
    return Benched(timing, threads, is_pinned, rounds, peer, other, timing.median_ms / other.median_ms, difference)


def inputs_of(built: Built, given: str | Path | Mapping[str, np.ndarray] | None, network: Network, seed: int) -> Arrays:
    """The first of the samples given; or random ones of the greatest sizes, on which the outputs depend."""
    graph = built.stages.graph
    if given is not None:
        return {**states.initial(graph), **inputs_for(graph, given, 1, seed, built.options.way)[0]}
    drawn = random_inputs(graph, seed, greatest=True)
    tolerance = tolerance_of(graph, built.options.device.precision)
    return scaled(graph, drawn, telling_scale(graph, network.executor(), drawn, tolerance))


def bench_on_device(built: Built, on: Remote, *, seconds: float, seed: int, inputs: Arrays | None = None) -> Benched:
    """Time a network on its device, by the device's clock; on random ``inputs`` where none are given."""
    if not seconds > 0:
        raise UsageError("nothing to time", hint="give it some seconds")
    graph = built.stages.graph
    arrays = random_inputs(graph, seed, greatest=True) if inputs is None else {**states.initial(graph), **inputs}
    timing = on.time(arrays, seconds)
    names = [describe(kernel) for kernel in built.program.kernels]
    kernels = tuple((name, n / 1e6) for name, n in zip(names, on.kernels))
    return Benched(timing, built.options.threads, False, 1, link=on.link.name, kernels=kernels)


def _onnxruntime(
    built: Built, arrays: dict[str, np.ndarray], threads: int
) -> tuple[Callable[[], None], str, Callable[[], dict[str, np.ndarray]]]:
    """onnxruntime with inputs and outputs bound once, so that nothing but the network is timed."""
    model = built.onnx
    if model is None:
        has_own = isinstance(built.parsed, TfliteModel)
        hint = "--vs litert is for TensorFlow Lite files" if has_own else "bench an ONNX file"
        raise UsageError("there is no ONNX model to compare with", hint=hint)
    runtime()
    widths = widths_of(built.stages.graph)
    reference = Reference(model, built.options.values, threads, built.options.shapes, widths=widths)
    reference.run(arrays)  # falls back to fewer optimizations where the model needs it
    session, feeds = reference.session, reference.feeds(arrays)
    binding = session.io_binding()
    try:
        for name, array in feeds.items():
            binding.bind_cpu_input(name, array)
        for name in reference.outputs:
            binding.bind_output(name, "cpu")
        for _ in range(
            2
        ):  # the second run writes where the first allocated, and then holds it against what is declared
            session.run_with_iobinding(binding)
    except Exception:  # lists of tensors, and outputs whose declared rank is wrong: a plain run takes both
        return lambda: session.run(None, feeds), reference.name, lambda: reference.run(arrays)

    def outputs() -> dict[str, np.ndarray]:
        precise = in_floats(model, built.stages.graph)
        if precise is not model:  # timed as the model asks for, which is not what its operators mean
            return Reference(precise, built.options.values, threads, built.options.shapes).run(arrays)
        if reference.widths or reference.labels:  # strings there, rows of bytes or numbers of classes here
            return reference.run(arrays)
        return dict(zip(reference.outputs, binding.copy_outputs_to_cpu()))

    return lambda: session.run_with_iobinding(binding), reference.name, outputs


def _litert(
    built: Built, arrays: dict[str, np.ndarray], threads: int
) -> tuple[Callable[[], None], str, Callable[[], dict[str, np.ndarray]]]:
    """LiteRT's interpreter with the kernels it takes by default; what it remembers moves on from call to call.

    Answers to compare with are those of its reference kernels: the fast ones round quantized networks in their own way.
    """
    if not isinstance(built.parsed, TfliteModel):
        raise UsageError("there is no TensorFlow Lite model to compare with", hint="--vs onnxruntime is for ONNX files")
    model, shapes, values = built.parsed, built.options.shapes, built.options.values
    fast = LitertReference(model, shapes, values, threads, fast=True)
    fast.run(arrays)  # falls back to other kernels where the model needs it
    return fast.invoke, fast.name, lambda: LitertReference(model, shapes, values).run(arrays)

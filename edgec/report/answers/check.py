"""Answers of `check`."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict, Union

from edgec.report.answers.frame import Answered, Figure, Head


class OutputError(TypedDict):
    """An output beside its reference, the worst over all samples and threads."""

    name: str
    max_abs: Figure
    max_rel: Annotated[Figure, "largest difference over the largest value of the reference"]
    ok: bool
    note: str
    quantized: Annotated[bool, "its integers are rounded numbers: one `step` off passes"]
    step: Figure
    mismatches: Annotated[
        Union[int, None], "of `elements`, integers and booleans that are not equal; `null` for floats"
    ]
    elements: Annotated[int, "0 for floats"]
    group: Annotated[str, "the index along an axis that is farthest off relative to its own largest value"]
    group_rel: Annotated[Figure, "that error: held to `tolerance` too"]
    excused: Annotated[
        str, "why a larger difference passes: floats, or the reference, are as far from double precision"
    ]


class StageError(TypedDict):
    """A stage in the error ledger of the first sample."""

    stage: str
    max_abs: Annotated[Figure, "relative to the reference"]
    max_rel: Annotated[Figure, "relative to the reference"]
    added_rel: Annotated[Figure, "relative to the previous stage"]
    output: Annotated[str, "the worst"]
    seconds: float
    mismatches: Annotated[int, "integers and booleans that differ from the reference"]


class ErrorLocated(TypedDict):
    """The place where an error comes in."""

    stage: str
    what: Annotated[str, "the node, block or kernel"]
    nodes: Annotated[list[str], "ONNX names"]
    max_rel: Figure
    reproducer: Annotated[Union[str, None], "a folder"]
    notes: list[str]


class KernelAlone(TypedDict):
    """A kernel by itself, on the values that unfused operators compute."""

    kernel: int
    template: str
    operators: list[str]
    nodes: list[str]
    max_abs: Figure
    max_rel: Figure
    ok: Annotated[bool, "within the tolerance; integers that were rounded may be one step off"]


class CacheAdds(TypedDict):
    """The error that a cache of few bits adds, on a text that the model itself draws."""

    kind: str
    tokens: int
    max_rel: Annotated[Figure, "logits, at most"]
    divergence: Annotated[Figure, "Kullback-Leibler, nats a token"]
    agrees: Annotated[Figure, "share of positions with the same likeliest token"]
    perplexity: Figure
    fp32_perplexity: Figure
    bytes: int
    fp32_bytes: int


class CompressionCost(TypedDict):
    """An output of the compressed graph beside that of the floats."""

    name: str
    max_abs: Figure
    max_rel: Annotated[Figure, "relative to the largest value of the output"]


class CheckRecord(Head):
    """A check against a reference."""

    ok: Annotated[
        bool,
        "whether every output is within `tolerance`; of a compressed network, beside the compressed graph, unless "
        "`--tolerance` was given",
    ]
    verdict: Annotated[
        Literal["ok", "FAILED", "not run", "proves nothing"],
        "`ok`, `FAILED`, `not run` (the code is for another machine; its program was evaluated in numpy) or "
        "`proves nothing` (all outputs are `unproven`)",
    ]
    unproven: Annotated[
        dict[str, str],
        "outputs that say nothing on these inputs, and why: saturated, constant, not a number, empty, or independent "
        "of the inputs",
    ]
    compression: Annotated[
        list[CompressionCost],
        "what compression costs: every output of the compressed graph beside the floats; it fails nothing",
    ]
    reference: Annotated[
        str,
        "the reference: `onnxruntime 1.31.1`, `ai-edge-litert 2.3.0, reference kernels`, or `the graph in numpy` if "
        "that cannot run the model",
    ]
    executed_stage: Annotated[
        str,
        "`emit` if compiled code was executed, `schedule` if the device is not this machine and the program was "
        "executed in numpy",
    ]
    samples: Annotated[int, "number of samples"]
    threads: Annotated[list[int], "numbers of threads that were tested"]
    tolerance: Annotated[float, "largest `max_rel` that passes"]
    mismatch_tolerance: Annotated[
        float, "the fraction of integers and booleans that may differ: 0, or the `--tolerance` that was asked for"
    ]
    outputs: Annotated[list[OutputError], "the worst over all samples and threads"]
    stages: Annotated[list[StageError], "the error ledger of the first sample"]
    located: Annotated[Union[ErrorLocated, None], "with `--locate`, the origin of an error"]
    blocks: Annotated[list[KernelAlone], "with `--blocks`, every kernel by itself; all must be `ok`"]
    cache: Annotated[
        Union[CacheAdds, None],
        "for a language model with `--cache fp16` or `int8`, what that adds to the error beside a cache in fp32",
    ]
    notes: Annotated[
        list[str],
        "reasons why a reference or a device was not used; whether the network amplifies rounding errors",
    ]


class CheckAnswer(CheckRecord, Answered):
    """The answer of `edgec check`."""


class CheckedOnDevice(CheckAnswer):
    """The answer of `edgec device check`."""

    link: Annotated[str, "the link to the device"]


class ScoredVariant(TypedDict):
    """One way to run the network."""

    name: str
    value: Annotated[Figure, "in percent"]
    agrees: Annotated[Figure, "percentage of decisions equal to the reference's"]


class ScoreAnswer(Answered):
    """The answer of `edgec check --data`."""

    ok: Annotated[bool, "whether no compiled variant is more than `drop` points below the reference"]
    metric: Annotated[str, "the metric"]
    output: Annotated[str, "the output that is scored"]
    samples: Annotated[int, "number of samples"]
    labels: Annotated[str, "source of the labels: `the data`, or the reference's name if the data have none"]
    drop: Annotated[float, "points that a variant may be below the reference"]
    variants: Annotated[list[ScoredVariant], "the reference first, then the compiled variants"]
    notes: Annotated[list[str], "reasons why a reference was not used"]


class TrainingCheckAnswer(Answered):
    """The answer of `edgec check` of the folder of a built training."""

    folder: Annotated[str, "the folder of the build"]
    ok: Annotated[bool, "whether gradients, losses and weights are those of the reference"]
    reference: Annotated[str, "the graph in numpy, or PyTorch with its version"]
    steps: Annotated[int, "number of steps"]
    gradients: Annotated[Figure, "largest relative difference of a gradient in the first step"]
    worst: Annotated[str, "the weights with that gradient"]
    losses: Annotated[Figure, "largest relative difference of a loss"]
    weights: Annotated[Figure, "largest relative difference of the weights after the last step"]
    first_loss: Annotated[Figure, "loss of the first step"]
    last_loss: Annotated[Figure, "loss of the last step"]
    bounds: Annotated[list[float], "the differences of gradients and of losses that pass"]
    narrow_gradients: Annotated[
        Union[Figure, None],
        "difference of the reference's own gradients in fp32, where edgec's are off by more than 1e-4",
    ]
    narrow_losses: Annotated[
        Union[Figure, None], "difference of the reference's own losses in fp32, where edgec's are off by more than 1e-3"
    ]
    differences: Annotated[
        Union[Figure, None],
        "difference of slopes of the loss from gradients by the step's graph, in double precision, as a part of all; "
        "null where PyTorch is the reference, or an operator has no meaning in it",
    ]

"""Answers of `build`, `train` and `demo`."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict, Union

from edgec.report.answers.frame import Affinity, Answered, Figure, Head, Shape
from edgec.report.answers.timing import BenchRecord


class Traffic(TypedDict):
    """Bytes that a run moves, each element counted once a kernel."""

    read: Annotated[int, "bytes that kernels read"]
    written: Annotated[int, "bytes that they write"]
    lower_bound: Annotated[int, "inputs, weights and outputs once"]


class Ram(TypedDict):
    """Memory of a run."""

    arena: int
    inputs_and_outputs: int
    bytes: int
    of: int
    fits: Union[bool, None]


class Flash(TypedDict):
    """Memory of the weights."""

    bytes: int
    of: int
    fits: Union[bool, None]


class LargestValue(TypedDict):
    """A value in the arena."""

    bytes: int
    nodes: list[str]


class InStripes(TypedDict):
    """The head of a network, computed in stripes."""

    count: int
    until: list[str]
    shape: Shape
    ram_without: int
    work: float


class Memory(TypedDict):
    """Memory that a network needs, and that its device has."""

    ram: Annotated[
        Ram,
        "`arena`, `inputs_and_outputs`, and `bytes` together; the device's capacity (`of`) and whether that suffices "
        "(`fits`, `null` if unknown)",
    ]
    flash: Annotated[Flash, "weights in `bytes`, with `of` and `fits`; code comes on top"]
    largest: Annotated[list[LargestValue], "the largest values in the arena, and the `nodes` that compute them"]
    stripes: Annotated[
        Union[InStripes, None],
        "if the head is computed in stripes because it would not fit: their `count`, the last node (`until`) and its "
        "`shape`, the RAM needed without stripes (`ram_without`), and the arithmetic relative to that without (`work`)",
    ]


class LanguageModelFacts(TypedDict):
    """A language model."""

    context: Annotated[int, "most tokens of a text"]
    chunk: Annotated[int, "most tokens of one run"]
    vocabulary: Annotated[int, "number of different tokens"]
    cache: Annotated[str, "what keys and values are stored as"]
    ring: Annotated[int, "rows of the smallest ring; 0: none"]
    cache_bytes: Annotated[int, "bytes of the cache of a session"]
    has_tokens: Annotated[bool, "whether it has a tokenizer"]
    chat: Annotated[Union[Literal["c", "python"], None], "where its chat template is evaluated; `null` without one"]
    chat_reason: Annotated[Union[str, None], "why it is evaluated in Python"]


class LargestKernel(TypedDict):
    """A kernel and its cost."""

    kernel: Annotated[int, "its number"]
    operators: list[str]
    nodes: Annotated[list[str], "ONNX names"]
    template: str
    flops: int
    bytes_read: int
    bytes_written: int


class Layer(TypedDict):
    """A layer of a compressed network."""

    name: str
    operator: str
    precision: str
    noise: Annotated[Figure, "mean square error over mean square of its result"]
    share: Annotated[Figure, "part of the error of all layers"]
    gain_us: Annotated[Figure, "predicted"]
    corrections: list[str]
    reason: Annotated[str, "why it stayed in fp32, or empty"]


class Compression(TypedDict):
    """A compressed network."""

    precision: str
    observer: str
    samples: int
    drawn: Annotated[bool, "true for `--calibrate random`"]
    max_loss: Union[str, None]
    value: Annotated[Figure, "the figure it bounds, of the whole network on the calibration data"]
    errors: Annotated[
        str,
        "the place of measurement: `outputs`, with one layer quantized at a time; `layer`, the layer's own result; "
        "`weights`",
    ]
    layers: Annotated[list[Layer], "every layer that could be compressed"]


class PrunedLayer(TypedDict):
    """A layer of a pruned network."""

    name: str
    operator: str
    shape: list[int]
    zeros: float
    error: Annotated[Figure, "mean square over that of its results"]
    gain: Annotated[Figure, "predicted"]
    break_even: Figure
    reason: Annotated[str, "why it stayed dense, or empty"]


class Pruned(TypedDict):
    """A pruned network."""

    scheme: str
    method: str
    sparsity: Annotated[Union[float, None], "as asked for"]
    zeros: Annotated[float, "fraction of the weights of these layers"]
    samples: int
    max_loss: Union[str, None]
    value: Annotated[Figure, "the figure it bounds, on data held back"]
    layers: Annotated[list[PrunedLayer], "every layer that could be pruned"]


class RetrainedNetwork(TypedDict):
    """A network that learned the answers of the dense one."""

    steps: int
    batch: Annotated[int, "samples of a step"]
    samples: Annotated[int, "samples of the data"]
    first_loss: Annotated[Figure, "mean of the first twentieth of the steps"]
    last_loss: Annotated[Figure, "mean of the last twentieth"]


class SparseKernel(TypedDict):
    """A matmul or convolution whose weights have many zeros."""

    kernel: int
    nodes: list[str]
    zeros: Annotated[float, "share of the weights"]
    density: Annotated[float, "of the vectors of `width` weights that are not all zero"]
    width: int
    dense_cycles: Annotated[float, "predicted"]
    sparse_cycles: Annotated[float, "predicted"]
    break_even: Annotated[float, "the fraction of zero vectors above which the sparse kernel is used"]
    taken: Annotated[bool, "whether it is the sparse kernel"]


class Transferred(TypedDict):
    """A value that goes from one device to the other."""

    value: str
    to: str
    bytes: int
    predicted_ms: float


class PartOfNetwork(TypedDict):
    """A part of a network on one device."""

    device: str
    side: Literal["cpu", "gpu"]
    kernels: int
    first: Union[str, None]
    last: Union[str, None]
    bytes_in: int
    bytes_out: int


class PlacedBlock(TypedDict):
    """A block and its costs on both devices."""

    operators: list[str]
    kind: str
    side: Literal["cpu", "gpu"]
    cpu_ms: float
    gpu_ms: Union[float, None]
    refused: Annotated[Union[str, None], "the reason why it has no GPU kernel"]


class Partition(TypedDict):
    """A network that is divided between a CPU and a GPU."""

    devices: Annotated[dict[str, str], "names of the devices: `cpu`, `gpu`"]
    predicted_ms: Annotated[float, "of kernels and transfers"]
    cpu_alone_ms: Annotated[float, "kernels only"]
    gpu_alone_ms: Annotated[Union[float, None], "kernels only; `null` where some have none"]
    undivided: Annotated[Union[str, None], "the reason why all of it had to run on one device"]
    transfers: list[Transferred]
    parts: Annotated[list[PartOfNetwork], "in execution order; empty where one device runs all of it"]
    blocks: list[PlacedBlock]


class Contributor(TypedDict):
    """A large contributor to a budget that is missed."""

    what: str
    amount: float
    amount_text: str


class BudgetHeld(TypedDict):
    """A budget and its figure."""

    name: str
    limit: float
    found: Figure
    ok: bool
    limit_text: str
    found_text: str
    largest: Annotated[list[Contributor], "the three largest contributors to one that is missed"]


class OneLevel(TypedDict):
    """The code of a library for one of its processors."""

    name: Annotated[str, "that of its device, as `EDGEC_LEVEL` takes it"]
    needs: Annotated[str, "instruction sets that a processor must have for it"]
    kernels: int
    arena_bytes: Annotated[int, "what it needs itself"]
    weights_bytes: Annotated[int, "what it reads of them; equal weights of several levels are stored once"]


class Dispatch(TypedDict):
    """The levels of a library for several processors."""

    library_bytes: Annotated[Union[int, None], "of the shared library; `null` where none was compiled"]
    levels: Annotated[list[OneLevel], "the one that asks least of a processor first"]


class BuildRecord(Head):
    """The figures of a build."""

    folder: Annotated[str, "the output folder"]
    replaced: Annotated[bool, "whether an earlier build was replaced there"]
    started_at: Annotated[str, "the first stage executed: `import`, or that of `--from`"]
    name: Annotated[str, "prefix of everything in the generated C"]
    device: Annotated[str, "as asked for"]
    threads: Annotated[int, "as asked for"]
    affinity: Annotated[Union[Affinity, None], "threads and cores that are no defaults"]
    runs_here: Annotated[bool, "whether this machine can run it"]
    cross: Annotated[
        Union[str, None], "CMake options needed here to build for the device; empty if none, `null` if unknown"
    ]
    compiler: Annotated[Union[str, None], "the compiler of the shared library, `null` for sources only"]
    operators: Annotated[int, "operators of the model, including those of subgraphs, excluding constants"]
    core_operators: Annotated[int, "operators of the graph that was planned"]
    kernels: Annotated[int, "kernel calls of one run"]
    rules: Annotated[int, "rewriting steps taken"]
    arena_bytes: Annotated[int, "memory of a run in addition to weights, inputs and outputs: `NET_ARENA_BYTES`"]
    arena_lower_bound_bytes: Annotated[int, "the maximum of live bytes: no assignment of offsets needs less"]
    weights_bytes: Annotated[int, "packed weights"]
    traffic: Annotated[
        Union[Traffic, None],
        "bytes moved in a run, each element counted once a kernel; `null` where the build started at `emit`",
    ]
    memory: Annotated[Memory, "memory that the network needs, and that its device has"]
    language_model: Annotated[Union[LanguageModelFacts, None], "`null` for other networks"]
    largest_kernels: Annotated[list[LargestKernel], "the five with the most arithmetic"]
    files: Annotated[dict[str, int], "bytes of every file by its path"]
    seconds: Annotated[
        dict[str, float],
        "of every stage (`import`, `simplify`, `compress`, `fuse`, `schedule`, `emit`), of the C compiler "
        "(`compile`), and `total`",
    ]
    compression: Annotated[Union[Compression, None], "`null` without `--quantize`"]
    pruned: Annotated[Union[Pruned, None], "`null` without `--prune`"]
    retrained: Annotated[Union[RetrainedNetwork, None], "`null` without `--retrain`"]
    partition: Annotated[Union[Partition, None], "`null` without `--place auto`"]
    dispatch: Annotated[Union[Dispatch, None], "`null` without `--dispatch`"]
    sparsity: Annotated[list[SparseKernel], "matmuls and convolutions whose weights have many zeros"]


#: A command that uses a build.
NextStep = TypedDict("NextStep", {"for": str, "command": str})


class BuildAnswer(BuildRecord, Answered):
    """The answer of `edgec build`."""

    budgets: Annotated[list[BudgetHeld], "of `--budget` and `[budget]`, numbers as text too"]
    report: Annotated[Union[str, None], "with `--report`, the page that was written"]
    next: Annotated[list[NextStep], "commands that use the build: each `for` a purpose, quoted for a shell"]


class UntilAnswer(Answered):
    """The answer of `edgec build --until STAGE`, which writes nothing."""

    until: Annotated[str, "the last stage"]
    seconds: Annotated[dict[str, float], "of every stage"]
    text: Annotated[str, "the result of the stage"]


class TrainedStep(TypedDict):
    """A step that trains a network."""

    loss: str
    update: str
    optimizer: str
    trained: str
    samples: Annotated[str, "together, or one by one where the file is for one sample"]
    state_bytes: int
    arena_bytes: int
    kernels: int
    losses: Annotated[list[Figure], "the mean loss of each epoch; empty without `--data`"]


class TrainAnswer(BuildAnswer):
    """The answer of `edgec train`."""

    training: Annotated[TrainedStep, "the step: its loss, its optimizer, the memory that it needs"]


class DemoAnswer(BuildRecord, Answered):
    """The answer of `edgec demo`."""

    pictures: Annotated[int, "the number of images"]
    accuracy: Annotated[float, "0 to 1"]
    max_abs: Annotated[Figure, "difference from the `reference`; `null` where that is not installed"]
    max_rel: Annotated[Figure, "the same, of the largest value"]
    reference: Annotated[str, "the reference, or the reason why there is none"]
    bench: Annotated[BenchRecord, "the object of `bench`"]

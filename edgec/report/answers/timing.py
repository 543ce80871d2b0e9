"""Answers of `bench`, `profile` and `tune`."""

from __future__ import annotations

from typing import Annotated, TypedDict, Union

from edgec.report.answers.frame import Answered, Figure, Head


class Latency(TypedDict):
    """Times of single calls."""

    median_ms: Annotated[float, "single calls, with inputs and outputs bound beforehand"]
    p10_ms: Annotated[float, "a tenth of them take less"]
    p90_ms: Annotated[float, "nine tenths take less"]
    calls: Annotated[int, "number of calls that were timed"]


class PeerLatency(Latency):
    """Times of a peer."""

    name: str


class KernelTime(TypedDict):
    """The time of a kernel in one run."""

    kernel: int
    name: str
    ms: float


class BenchRecord(Latency, Head):
    """Times of a network."""

    device: Annotated[str, "the device that it was built for"]
    threads: Annotated[int, "threads that it ran on"]
    pinned: Annotated[bool, "the process was pinned to as many cores as there are threads"]
    rounds: Annotated[int, "number of interleaved rounds"]
    peer: Annotated[
        Union[PeerLatency, None], "with `--vs`, the peer's `name`, `median_ms`, `p10_ms`, `p90_ms` and `calls`"
    ]
    ratio: Annotated[Figure, "our median over the peer's: below 1 is faster"]
    max_rel: Annotated[Figure, "the largest difference between the outputs of the two"]
    link: Annotated[Union[str, None], "the link to the device, `null` on this machine"]
    kernels: Annotated[list[KernelTime], "with a link, every kernel in order, in one run; else empty"]


class BenchAnswer(BenchRecord, Answered):
    """The answer of `edgec bench`."""


class WorkMinute(TypedDict):
    """A minute of a network at work; sensors are `null` where the system does not tell."""

    runs: Annotated[int, "in this minute"]
    median_ms: Annotated[float, "of a run"]
    p99_ms: Annotated[float, "99th percentile of a run"]
    mhz: Annotated[Figure, "clock of the fastest core"]
    celsius: Annotated[Figure, "temperature of the hottest sensor"]
    watts: Annotated[Figure, "power"]
    joules: Annotated[Figure, "energy of an inference, with all that the device does meanwhile"]


class ThreadPlacement(TypedDict):
    """Threads on some cores."""

    threads: Annotated[int, "of a run"]
    cores: Annotated[list[int], "the cores they are kept on; empty for any"]
    median_ms: Annotated[float, "of a run"]


class SustainedAnswer(Answered):
    """The answer of `edgec device bench --minutes`."""

    model: Annotated[str, "the model"]
    device: Annotated[str, "the device"]
    link: Annotated[str, "where it worked"]
    threads: Annotated[int, "of every run"]
    cores: Annotated[list[int], "the cores they were kept on; empty for any"]
    minutes: Annotated[list[WorkMinute], "every minute in order"]
    placements: Annotated[list[ThreadPlacement], "with `--sweep`, those that were tried before"]
    hidden: Annotated[list[str], "what the system does not tell"]
    kept: Annotated[bool, "whether the next build for the device takes the quickest placement"]
    power_source: Annotated[str, "the sensor that power is from; empty without one"]
    slowdown: Annotated[float, "median of the last minute over that of the first"]
    page: Annotated[Union[str, None], "the page that was written"]


class EngineSpeed(TypedDict):
    """Speeds of one engine with a language model."""

    engine: str
    version: str
    prefill_per_second: Annotated[float, "tokens"]
    first_token_ms: float
    decode_per_second: Annotated[float, "tokens"]
    token_ms: Annotated[float, "median"]
    resident_bytes: Annotated[int, "memory of its process"]
    load_ms: float
    same_tokens: Annotated[
        Union[int, None], "of `tokens` + 1, how many equal edgec's at the same place; `null` after an error"
    ]
    error: Union[str, None]


class DecodingAnswer(Answered):
    """The answer of `edgec bench` of the folder of a built language model."""

    prompt: Annotated[int, "tokens of the prompt"]
    tokens: Annotated[int, "tokens behind it"]
    threads: Annotated[int, "threads of every engine"]
    rounds: Annotated[int, "interleaved rounds"]
    numeric: Annotated[str, "`--numeric` of the build, which decides how activations are rounded"]
    engines: Annotated[list[EngineSpeed], "edgec, then the peers"]
    token_bytes: Annotated[int, "bytes of weights and cache that a token reads, at the middle of the tokens"]
    read_gbps: Annotated[
        Figure, "speed of reading a buffer as large as the weights on all threads, in 10⁹ bytes a second"
    ]
    no_read_speed: Annotated[Union[str, None], "the reason where that is `null`"]
    share: Annotated[Figure, "`token_bytes` times `decode_per_second` over `read_gbps`; `null` without one"]


class StepTime(TypedDict):
    """Times of a training step."""

    name: str
    batch: int
    threads: int
    median_ms: float
    p10_ms: float
    memory_bytes: int


class StepsAnswer(Answered):
    """The answer of `edgec bench` of the folder of a built training."""

    folder: Annotated[str, "the folder of the build"]
    steps: Annotated[list[StepTime], "edgec, then the peer, where one was asked for"]


class Launch(TypedDict):
    """Resources of a GPU that a kernel needs."""

    groups: Annotated[int, "thread blocks"]
    threads: Annotated[int, "of a thread block"]
    registers: Annotated[Union[int, None], "of a thread, as the compiler says; `null` where it was not run"]
    shared_bytes: int
    spill_bytes: Union[int, None]
    occupancy: Union[float, None]
    flops: int
    bytes: int
    predicted_us: float
    bound_us: Annotated[float, "the least time that the roofs allow"]


class ProfiledKernel(TypedDict):
    """A kernel, its cost and its time."""

    kernel: int
    kind: str
    template: str
    operators: list[str]
    nodes: list[str]
    flops: float
    bytes_read: float
    bytes_written: float
    predicted_us: float
    measured_us: Union[float, None]
    times_predicted: Union[float, None]
    is_slow: bool
    launch: Union[Launch, None]


class ProfiledStepKernel(ProfiledKernel):
    """A kernel of a training step, its cost, and the time of one run of it."""

    runs: Annotated[int, "in a step: the number of micro-batches, or 1"]
    of_roof: Annotated[Figure, "of the time that it takes, the part that the roofs of one core allow"]


class StepProfileAnswer(Answered):
    """The answer of `edgec profile` of a training, or of its folder."""

    folder: Annotated[str, "the folder of the build"]
    step_ms: Annotated[float, "of all kernels of a step together, on one thread"]
    micro_batches: Annotated[int, "runs of the program that a step consists of"]
    kernels: Annotated[list[ProfiledStepKernel], "in order"]


class ProfileAnswer(Answered):
    """The answer of `edgec profile`."""

    median_ms: Annotated[float, "of whole runs"]
    kernels: Annotated[list[ProfiledKernel], "some keys of the kernels of a report"]
    trace: Annotated[Union[str, None], "the file of the trace"]


class TuneAnswer(Answered):
    """The answer of `edgec tune`."""

    measured: Annotated[int, "number of blocks timed now"]
    known: Annotated[int, "already in the database"]
    skipped: Annotated[int, "for lack of time"]
    seconds: Annotated[float, "time that it took"]
    tuned_ms: Annotated[
        Figure,
        "end-to-end latency with tuned variants, where the network as a whole was timed and they differ from the "
        "default ones",
    ]
    untuned_ms: Annotated[Figure, "the same with default variants"]

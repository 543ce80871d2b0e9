"""Answers about networks over several devices: `build --over`, `bench` and `check` of their folders, and links."""

from __future__ import annotations

from typing import Annotated, TypedDict, Union

from edgec.report.answers.check import CompressionCost
from edgec.report.answers.frame import Answered, Figure


class MeasuredLink(TypedDict):
    """A device and the speed of the link to it."""

    device: Annotated[str, "name or file"]
    link: Annotated[str, "how it is reached"]
    megabits_per_second: Annotated[float, "millions of bits, in each direction"]
    latency_us: Annotated[float, "microseconds until a message arrives"]


class DividedWorker(MeasuredLink):
    """A worker of a divided network."""

    worker: Annotated[int, "its number"]
    arena_bytes: Annotated[int, "arenas of its parts"]
    weights_bytes: Annotated[int, "weights of its parts"]


class DividedPart(TypedDict):
    """A part of a divided network: a built folder."""

    folder: Annotated[str, "its folder, below that of the network"]
    worker: Annotated[int, "the worker that runs it"]
    ms: Annotated[float, "of its kernels: measured, or predicted"]
    bytes_in: Annotated[int, "that a frame brings to it"]
    bytes_out: Annotated[int, "that it gives"]


class TriedDivision(TypedDict):
    """A division that was considered."""

    split: Annotated[str, "pipeline, rows or tensor"]
    workers: Annotated[int, "number of devices"]
    latency_ms: Annotated[float, "predicted, of a frame alone"]
    frames_per_second: Annotated[Figure, "predicted, with several in flight"]


class DividedAnswer(Answered):
    """The answer of `edgec build --over`."""

    folder: Annotated[str, "the folder with the parts and the manifest"]
    split: Annotated[str, "`one`, `pipeline`, `rows` or `tensor`: how it was divided"]
    goal: Annotated[str, "`throughput` or `latency`: what it was divided for"]
    verdict: Annotated[str, "what dividing it is predicted to gain, in words"]
    latency_ms: Annotated[float, "predicted, of a frame alone"]
    frames_per_second: Annotated[Figure, "predicted, with several in flight"]
    alone_ms: Annotated[float, "of the fastest device by itself, without links"]
    bytes_a_frame: Annotated[int, "that cross, in both directions"]
    kernels_measured: Annotated[bool, "parts were timed on this machine; otherwise their times are predicted"]
    workers: Annotated[list[DividedWorker], "every worker that has a part"]
    parts: Annotated[list[DividedPart], "every part, after those that it reads from"]
    tried: Annotated[list[TriedDivision], "divisions that were considered, before parts were timed"]
    panels: Annotated[
        dict[str, int], "tensors that cross in panels, with how many: those that are final go while others are computed"
    ]
    without_c: Annotated[str, "reason why there are no host and workers in C beside the parts; empty where there are"]


class GpusAnswer(Answered):
    """The answer of `edgec build --gpus`."""

    folder: Annotated[str, "the folder that was written"]
    gpus: Annotated[int, "GPUs that it runs on: 1 where several are not predicted to be faster"]
    verdict: Annotated[str, "what dividing it is predicted to gain, in words"]
    ms: Annotated[float, "predicted, of a run"]
    alone_ms: Annotated[float, "predicted, of a run on one GPU"]
    sums: Annotated[int, "sums over all GPUs in a run, where it is divided"]
    gathers: Annotated[int, "values of which every GPU receives the slices of all"]
    chunks: Annotated[int, "parts of the batch that are computed in turns, so that values of one cross meanwhile"]
    kernels: Annotated[int, "kernels of each GPU"]
    arena_bytes: Annotated[int, "arena of each GPU"]
    weights_bytes: Annotated[int, "weights of each GPU"]


class WorkerMemory(TypedDict):
    """Memory of a worker."""

    worker: Annotated[int, "its number"]
    device: Annotated[str, "name or file"]
    link: Annotated[str, "how it is reached"]
    resident_bytes: Annotated[int, "greatest resident memory of its process; 0 where its system does not tell"]
    predicted_bytes: Annotated[int, "weights and arenas of its parts"]


class DividedBenchAnswer(Answered):
    """The answer of `edgec bench` of a divided network."""

    split: Annotated[str, "`one`, `pipeline`, `rows` or `tensor`"]
    goal: Annotated[str, "what it was divided for"]
    median_ms: Annotated[float, "of a frame alone"]
    p10_ms: Annotated[float, "a tenth of them take less"]
    p90_ms: Annotated[float, "nine tenths take less"]
    calls: Annotated[int, "number of frames that were timed alone"]
    frames_per_second: Annotated[float, "with several in flight"]
    frames: Annotated[int, "number of frames of the stream"]
    bytes_a_frame: Annotated[int, "bytes of tensors that crossed, in both directions"]
    predicted_latency_ms: Annotated[float, "when it was built"]
    predicted_frames_per_second: Annotated[Figure, "when it was built"]
    predicted_bytes_a_frame: Annotated[int, "when it was built"]
    alone_ms: Annotated[float, "of the fastest device by itself, when it was built"]
    ratio: Annotated[float, "frames a second over those of one device: above 1 is faster"]
    workers: Annotated[list[WorkerMemory], "every worker"]


class DividedOutput(TypedDict):
    """An output of a divided network beside its reference, the worst over all samples."""

    name: Annotated[str, "of the output"]
    max_abs: Annotated[Figure, "largest difference"]
    max_rel: Annotated[Figure, "largest difference over the largest value of the reference"]
    ok: Annotated[bool, "within the tolerance"]
    mismatches: Annotated[Union[int, None], "integers and truth values that are not equal; `null` for floats"]
    note: Annotated[str, "what else is to be said"]


class DividedCheckAnswer(Answered):
    """The answer of `edgec check` of a divided network."""

    ok: Annotated[bool, "all outputs are within the tolerance"]
    reference: Annotated[str, "what they were held against"]
    samples: Annotated[int, "number of inputs"]
    tolerance: Annotated[float, "relative to the largest value"]
    devices: Annotated[int, "number of workers"]
    outputs: Annotated[list[DividedOutput], "every output"]
    floats: Annotated[str, "what `compression` is beside; empty where nothing is compressed"]
    compression: Annotated[
        list[CompressionCost],
        "what compression costs: every output of the compressed graph beside the floats; it fails nothing",
    ]


class LinksAnswer(Answered):
    """The answer of `edgec device probe --links`."""

    links: Annotated[list[MeasuredLink], "every link that was asked for"]


class WorkerAnswer(Answered):
    """The answer of `edgec worker --once`, after its coordinator has gone."""

    address: Annotated[str, "where it listened"]
    parts: Annotated[int, "number of parts that it served"]

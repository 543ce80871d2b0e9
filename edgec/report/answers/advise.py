"""The answer of `advise`."""

from __future__ import annotations

from typing import Annotated, TypedDict, Union

from edgec.report.answers.frame import Answered, Figure, Head


class TrialRecord(TypedDict):
    """Options that were tried."""

    options: Annotated[str, 'what is added to the command, or "as given"']
    command: Annotated[str, "the command line that builds it"]
    predicted_ms: Annotated[Figure, "one run by the prices of its kernels; `null` where two devices share it"]
    measured_ms: Annotated[Figure, "one run, of which a tenth take less; `null` where nothing was run"]
    max_rel: Annotated[Figure, "the largest difference from the reference over the largest value, of all outputs"]
    weights_bytes: Annotated[int, "bytes of weights"]
    arena_bytes: Annotated[int, "bytes of memory for values"]
    kernels: Annotated[int, "number of kernels"]
    refused: Annotated[Union[str, None], "why it is not possible"]
    note: Annotated[Union[str, None], "what it asks for besides"]
    is_best: Annotated[bool, "no other one is better in time, error and bytes together"]


class CostlyRecord(TypedDict):
    """A kernel that costs much."""

    kernel: Annotated[int, "its number"]
    nodes: Annotated[list[str], "nodes of the model in it"]
    operators: Annotated[list[str], "core operators in it"]
    ms: Annotated[float, "predicted milliseconds"]
    share: Annotated[float, "of the predicted time of a run"]


class UnevenRecord(TypedDict):
    """A product whose channels leave lanes empty."""

    kernel: Annotated[int, "its number"]
    nodes: Annotated[list[str], "nodes of the model in it"]
    channels: Annotated[int, "output channels"]
    even: Annotated[list[int], "the nearest numbers that fill whole vectors"]
    lost: Annotated[float, "share of a run's predicted time that empty lanes take"]


class ChangeRecord(TypedDict):
    """A change of the model."""

    text: Annotated[str, "the change in words"]
    nodes: Annotated[list[str], "nodes that are changed"]
    before_ms: Annotated[float, "predicted"]
    after_ms: Annotated[float, "predicted"]
    gain: Annotated[float, "share of the time that goes"]


class AdviseAnswer(Head, Answered):
    """The answer of `edgec advise`."""

    model: Annotated[str, "the model as it was named"]
    device: Annotated[str, "the device that it is for"]
    link: Annotated[Union[str, None], "the link to the device, `null` without one"]
    is_measured: Annotated[bool, "times were measured: here, or over the link"]
    seconds: Annotated[float, "time that it took"]
    skipped: Annotated[int, "options that were not tried for lack of time"]
    trials: Annotated[list[TrialRecord], "options that were tried, the build without any first"]
    costliest: Annotated[list[CostlyRecord], "kernels with most of the predicted time"]
    uneven: Annotated[list[UnevenRecord], "products whose channels leave lanes empty"]
    changes: Annotated[list[ChangeRecord], "changes that would pay; the network has to be trained with them"]
    page: Annotated[Union[str, None], "the page that was written"]

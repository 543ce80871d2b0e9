"""Answers of `certify`."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict, Union

from edgec.report.answers.frame import Answered, Figure


class CertifiedOutput(TypedDict):
    """Bounds of an output that hold for what the code computes from every input of the set."""

    name: str
    widest: Annotated[Figure, "the greatest difference of the bounds of one element; `null` where there are none"]
    rounding: Annotated[Figure, "the most that rounding adds to an element in the kernel that stores it"]
    low: Annotated[list[Figure], "of the first 1024 elements"]
    high: Annotated[list[Figure], "of the first 1024 elements"]


class CertifiedDifference(TypedDict):
    """Bounds of what an output of the code is away from the model's, for every input of the set."""

    name: str
    most: Annotated[Figure, "the greatest magnitude that the bounds leave; `null` where there are none"]
    met: Annotated[Figure, "the greatest magnitude at inputs that were drawn"]
    low: Annotated[list[Figure], "of the first 1024 elements"]
    high: Annotated[list[Figure], "of the first 1024 elements"]


class CertificateRow(TypedDict):
    """The verdict for one set of inputs."""

    verdict: Annotated[
        Literal["holds", "violated", "unknown"],
        "`holds` for every input of the set; `violated` by an input that was found; `unknown`: neither was shown",
    ]
    margin: Annotated[
        Figure, "by how much the nearest forbidden output is missed at least, by the bounds of the whole set"
    ]
    seconds: float
    parts: Annotated[int, "parts of the set that were bounded"]
    reason: Annotated[str, "why it is unknown"]
    label: Annotated[Union[int, None], "the class that stays the greatest"]
    radius: Annotated[Union[float, None], "with `--radius`, the greatest distance that bounds alone hold for"]
    outputs: Annotated[list[CertifiedOutput], "every output; none with `--against`"]
    differences: Annotated[list[CertifiedDifference], "with `--against`, every output"]


class CertifyAnswer(Answered):
    """The answer of `edgec certify`."""

    ok: Annotated[bool, "whether every verdict is `holds`"]
    what: Annotated[str, "the sets of inputs, in words"]
    certified_share: Annotated[float, "part of the sets whose verdict is `holds`"]
    replayed: Annotated[bool, "whether inputs that violate were run in the compiled code; else in numpy"]
    kernels: Annotated[int, "of the code that the bounds are about"]
    any_order: Annotated[
        list[str], "nodes whose sums are counted in any order of their terms; all others in that of the code"
    ]
    seconds: Annotated[float, "of all verdicts"]
    counterexamples: Annotated[Union[str, None], "the file of inputs that violate, with `--out`"]
    certificates: Annotated[list[CertificateRow], "every sample of `--inputs`, or every box of the property"]

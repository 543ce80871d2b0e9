"""Answers of `inspect` and `explain`, and of the commands about rules."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict, Union

from edgec.report.answers.build import LargestKernel, Memory, Traffic
from edgec.report.answers.frame import Affinity, Answered, Port
from edgec.report.answers.timing import Launch


class Unsupported(TypedDict):
    """An operator that cannot be built."""

    node: str
    operator: str
    hint: str


class Activations(TypedDict):
    """Results of operators, before fusing."""

    tensors: int
    bytes: Annotated[int, "of all together"]
    largest_bytes: int


class MovingKernel(LargestKernel, total=False):
    """A kernel and the bytes that it moves."""

    counted_read: Annotated[int, "with `--counted`: bytes filled into an empty cache, code included"]
    counted_written: Annotated[int, "with `--counted`: bytes written to the cache"]


class CountedBytes(TypedDict):
    """Bytes of one run by the counters of a GPU."""

    read: int
    written: int
    prefetched: Annotated[int, "bytes of `read` that kernels fetched for later ones, which read them again"]
    launches: Annotated[int, "kernels have counts where each is one launch"]


class _WithCounted(TypedDict, total=False):
    counted: Annotated[CountedBytes, "with `--counted`"]


class Ledger(_WithCounted, Traffic):
    """The byte ledger."""

    unfused: Annotated[int, "bytes with a kernel for every operator of the model"]
    kernels: list[MovingKernel]


class Obstacle(TypedDict):
    """A reason why a model cannot be built as it is."""

    message: str
    hint: Union[str, None]
    where: Union[str, None]


class LaunchedKernel(TypedDict):
    """A kernel of a GPU and what it needs."""

    kernel: int
    operators: list[str]
    nodes: list[str]
    template: str
    launch: Launch


class Resources(TypedDict):
    """Maxima and sums over all kernels."""

    kernels: int
    functions: int
    registers: Union[int, None]
    shared_bytes: int
    spilling: int
    predicted_us: float
    bound_us: float


class _WithKernels(TypedDict, total=False):
    kernels: Annotated[list[LaunchedKernel], "with `--kernels`: every kernel, with its `launch` as in a report"]
    resources: Annotated[Resources, "with `--kernels`: maxima and sums of these"]


class InspectAnswer(_WithKernels, Answered):
    """The answer of `edgec inspect`."""

    ok: Annotated[bool, "whether the model can be built without further options"]
    model: Annotated[str, "its name"]
    where: Annotated[str, "the file"]
    producer: Annotated[str, "as the file says"]
    opsets: Annotated[dict[str, int], "versions of operator sets, or of the format"]
    metadata: Annotated[dict[str, str], "as the file says"]
    operators: Annotated[dict[str, int], "number of uses of each operator"]
    operators_total: Annotated[int, "their sum"]
    unsupported: Annotated[list[Unsupported], "every operator that cannot be built"]
    weights_bytes: Annotated[int, "bytes of constants after constant folding"]
    inputs: Annotated[
        Union[list[Port], None],
        "as the file declares them, open dimensions by name, where the model cannot be built yet",
    ]
    outputs: Annotated[Union[list[Port], None], "likewise"]
    macs: Annotated[Union[int, None], "multiply-adds; `null` where the model cannot be built yet"]
    activations: Annotated[Union[Activations, None], "results of operators, before fusing; `null` likewise"]
    core_operators: Annotated[Union[int, None], "core operators before simplifying; `null` likewise"]
    traffic: Annotated[Union[Ledger, None], "with `--traffic`, the byte ledger, `read` and `written` as for `build`"]
    memory: Annotated[
        Union[Memory, None], "as in `build`, for devices without an operating system, with `--ram` or with `--traffic`"
    ]
    problem: Annotated[Union[Obstacle, None], "another obstacle, such as a shape that must be given"]


class PortInC(Port):
    """An input or an output with its name in C."""

    onnx_name: str


class InspectBuiltAnswer(Answered):
    """The answer of `edgec inspect` of a built folder."""

    ok: Annotated[Literal[True], "`true`"]
    folder: Annotated[str, "the folder"]
    build: Annotated[dict[str, Any], "figures and settings of its lock"]
    affinity: Annotated[Union[Affinity, None], "threads and cores that are no defaults"]
    inputs: Annotated[list[PortInC], "with their names in C (`name`) and in the model"]
    outputs: Annotated[list[PortInC], "likewise"]
    model: Annotated[Union[str, None], "the name of the model"]
    model_sha256: Annotated[Union[str, None], "the hash of its file"]
    language_model: Annotated[Union[dict[str, Any], None], "figures of a language model; `null` for other networks"]
    files: Annotated[list[str], "paths of the files"]


class CoreOperator(TypedDict):
    """A core operator that a node became."""

    operator: str
    type: str
    operands: list[str]
    formula: str
    mapping: Annotated[str, "one-to-one, reorganize, shuffle, one-to-many, many-to-many"]
    flops: int
    macs: int


class Variant(TypedDict):
    """A variant and its time."""

    name: str
    us: Union[float, None]


class Choice(TypedDict):
    """A decision by cost."""

    kind: str
    source: Annotated[Literal["measured", "model", "frozen"], "the origin of the times"]
    taken: Variant
    others: list[Variant]


class Cell(TypedDict):
    """The cell of the planner's table."""

    first: str
    second: str
    color: Literal["green", "yellow", "red"]


class Verdict(TypedDict):
    """The planner's verdict on a pair of blocks."""

    writer: str
    reader: str
    fused: bool
    cell: Cell
    constraint: Union[str, None]
    why: str
    choice: Union[Choice, None]


class ExplainedKernel(TypedDict):
    """A kernel and the reasons for it."""

    kernel: int
    kind: str
    template: str
    operators: list[str]
    nodes: list[str]
    formula: str
    reads: Annotated[list[str], "buffers and layouts"]
    writes: Annotated[str, "buffer and layout"]
    scratch_bytes: int
    flops: int
    bytes_read: int
    bytes_written: int
    why: Annotated[list[str], "sentences"]
    verdicts: Annotated[
        list[Verdict], "the planner's verdict on each pair of neighbors ([fusion.md](../design/fusion.md))"
    ]


class RuleFacts(TypedDict):
    """A rule: its name, family, and proof."""

    name: str
    family: str
    kind: Literal["equation", "change"]
    statement: str
    summary: str
    numeric: Literal["exact", "reassociates", "approximates"]
    operators: list[str]
    types: str
    guarded: bool
    origin: str
    file: str


class RuleRefused(TypedDict):
    """A reason for which a rule does not apply, and the operators concerned."""

    why: str
    nodes: list[str]


class ExplainedRule(RuleFacts):
    """A rule in this network."""

    times: Annotated[int, "how many times it was applied; `rules` has the steps"]
    disabled: Annotated[bool, "whether it is disabled in this build"]
    refused: Annotated[list[RuleRefused], "its reasons for not applying to the remaining operators"]


class ExplainAnswer(Answered):
    """The answer of `edgec explain`."""

    node: Annotated[str, "the ONNX node, `kernel 12`, or the rule"]
    imported_as: Annotated[list[CoreOperator], "its core operators before simplifying"]
    rules: Annotated[list[str], "rules applied to it, in order, each with the term before and after"]
    planned_as: Annotated[list[CoreOperator], "its core operators after simplifying"]
    part_of: Annotated[list[str], 'composites that contain it after simplifying: `"layer normalization"`, ...']
    aliased: Annotated[list[str], "parts of it without cost: values written in place"]
    inside_others: Annotated[list[str], "parts of it without cost: data movement that became an index"]
    kernels: Annotated[list[ExplainedKernel], "the kernels that contain it"]
    rule: Annotated[Union[ExplainedRule, None], "for a rule: its entry in `rules list`, and what it did here"]


class Proof(TypedDict):
    """A proof of a rule."""

    instances: int
    cheaper: Annotated[int, "how many of them the rule made cheaper"]
    identity: Annotated[Union[str, None], "the statement that z3 or sympy proved"]


class RulesAnswer(Answered):
    """The answer of `edgec rules list`."""

    rules: Annotated[list[RuleFacts], "every rule"]


class ProvenRule(RuleFacts):
    """A rule and its proof."""

    proof: Proof


class RuleAnswer(Answered):
    """The answer of `edgec rules show`."""

    rule: Annotated[ProvenRule, "the rule and its `proof`. A wrong rule is an error of kind `RuleError`"]


class NamedProof(TypedDict):
    """A rule by its name, and its proof."""

    name: str
    proof: Proof


class ProofsAnswer(Answered):
    """The answer of `edgec rules prove`."""

    rules: Annotated[list[NamedProof], "every rule that was proved"]

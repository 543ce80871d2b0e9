"""The document of a build, which `edgec report` prints, and the difference of two."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict, Union

from edgec.report.answers.build import BudgetHeld, BuildRecord
from edgec.report.answers.check import CheckRecord
from edgec.report.answers.device import DeviceFacts
from edgec.report.answers.frame import Answered, Figure, Head, Shape
from edgec.report.answers.inspect import Choice, Verdict
from edgec.report.answers.timing import BenchRecord, ProfiledKernel

Numeric = Literal["exact", "reassociates", "approximates"]


class Roof(TypedDict):
    """The roof of a type."""

    computes: str
    gflops: float


class Roofline(TypedDict):
    """The roofs of one core (of a GPU, the whole)."""

    gflops: Annotated[float, "fp32, in 10⁹ operations a second"]
    roofs: Annotated[list[Roof], "the same by the type that a kernel computes in"]
    gbytes: Annotated[float, "10⁹ bytes a second"]
    is_measured: bool
    lanes: int


class _NodeFields(TypedDict, total=False):
    label: str
    names: Annotated[list[str], "nodes of the model"]
    type: str
    flops: int
    bytes: Annotated[int, "of the result"]
    weights: Annotated[int, "bytes"]
    formula: str
    block: int
    kernel: int
    template: str
    inside: Annotated[list[int], "ids in `operators`"]


#: The class of a node; the word is one of Python.
_NodeClass = TypedDict("_NodeClass", {"class": str}, total=False)


class StageNode(_NodeFields, _NodeClass):
    """A node of a stage, with the keys that apply."""

    id: int
    op: Annotated[str, "the operator, the kind of a block, the schedule of a kernel, `input`, `output`, `place`"]


class Stage(TypedDict):
    """The result of a stage as a graph."""

    name: str
    seconds: float
    nodes: list[StageNode]
    edges: Annotated[list[tuple[int, int]], "pairs of ids, from writer to reader"]


class DocumentKernel(ProfiledKernel):
    """Everything that is known of a kernel."""

    blocks: list[int]
    function: Union[str, None]
    formulas: list[str]
    type: Union[str, None]
    precision: Annotated[str, "types read"]
    computes: Annotated[str, "the type whose roof it stands under"]
    sparsity: Annotated[Union[float, None], "zeros among weights"]
    weights_bytes: int
    scratch_bytes: int
    max_rel: Annotated[Figure, "of this kernel alone"]
    why: list[str]


class RuleApplied(TypedDict):
    """A rewriting step."""

    rule: str
    family: str
    numeric: Numeric
    nodes: list[str]
    before: str
    after: str
    gain: Annotated[dict[str, int], "of `flops`, `bytes`, `operators`, ..."]


class ChoiceAbout(Choice):
    """A decision by cost, and its subject."""

    key: str
    about: str


class BufferFacts(TypedDict):
    """A buffer of the arena."""

    name: str
    offset: int
    bytes: int
    dtype: str
    first: Annotated[int, "kernel"]
    last: Annotated[int, "kernel"]
    nodes: list[str]
    over: Annotated[Union[str, None], "the buffer that it overwrites in place"]
    is_scratch: bool


class MemoryMap(TypedDict):
    """The arena."""

    arena_bytes: int
    lower_bound_bytes: int
    live: Annotated[list[int], "bytes alive at each kernel"]
    buffers: list[BufferFacts]


class PortFacts(TypedDict):
    """An input or an output of the network."""

    kind: Literal["input", "output"]
    name: str
    dtype: str
    shape: Shape
    bytes: int
    scale: Union[float, None]
    zero_point: Union[int, None]


class FidelityFacts(TypedDict):
    """A compressed network beside its model."""

    reference: str
    samples: int
    drawn: bool
    rms: Figure
    agrees: Figure
    accuracy: Figure
    reference_accuracy: Figure


class ErrorCauses(TypedDict):
    """Errors by their cause."""

    ok: bool
    is_compressed: bool
    model_rel: Annotated[Figure, "what compression costs"]
    code_rel: Annotated[Figure, "what the code adds, which is rounding"]
    tolerance: float
    kernels_right: int
    kernels_run: int
    inputs: Literal["calibration", "random"]
    fidelity: Union[FidelityFacts, None]


class DocumentBench(BenchRecord):
    """Times, and why there are none of a peer."""

    peer_missing: str


class Document(Head):
    """Everything that is known of a build."""

    report_schema: Annotated[
        Literal[3], "version of the document. It increases when a key is removed or changes its meaning"
    ]
    model: Annotated[str, "the model's name"]
    build: Annotated[BuildRecord, "the object of `build`"]
    settings: Annotated[
        dict[str, Any],
        "the options, in the form of `edgec.toml`, with the path of the `model` relative to the folder of the build",
    ]
    device: Annotated[DeviceFacts, "facts of the device"]
    roofline: Annotated[Roofline, "the roofs of one core"]
    stages: Annotated[
        list[Stage],
        "`import`, `simplify`, `compress` as graphs of operators, `fuse` of blocks, `schedule` of kernels",
    ]
    operators: Annotated[Stage, "the graph that was planned, like a stage"]
    kernels: Annotated[list[DocumentKernel], "in order"]
    schedules: Annotated[dict[str, int], "number of kernels of each schedule"]
    functions: Annotated[dict[str, str], "generated source by the name of its function"]
    rules: Annotated[list[RuleApplied], "in order"]
    refusals: Annotated[list[Verdict], "neighbors that were not fused, in the form of `verdicts` of `explain`"]
    choices: Annotated[list[ChoiceAbout], "decisions by cost"]
    memory: Annotated[MemoryMap, "the arena"]
    ports: Annotated[list[PortFacts], "inputs, then outputs"]
    code_bytes: Annotated[Union[int, None], "bytes of the machine code; `null` where none was compiled"]
    errors: Annotated[Union[ErrorCauses, None], "errors by their cause"]
    check: Annotated[Union[CheckRecord, None], "the object of `check`; `null` if it was not run"]
    bench: Annotated[Union[DocumentBench, None], "the object of `bench`; `null` if it was not run"]
    budgets: Annotated[list[BudgetHeld], "as in `build`"]
    provenance: Annotated[dict[str, Any], "the lock of the build, the compiler, `metadata` of the model"]


class ReportAnswer(Document, Answered):
    """The answer of `edgec report`."""


class DiffTitle(TypedDict):
    """One of two builds."""

    model: str
    device: str
    threads: int
    folder: str


class DiffTotal(TypedDict):
    """A figure of both builds."""

    name: str
    before: Figure
    after: Figure
    before_text: str
    after_text: str
    ratio: Figure
    better: Annotated[Union[bool, None], "`null` if equal; measured values within 3 % count as equal"]


class DiffSetting(TypedDict):
    """An option that differs."""

    name: str
    before: Any
    after: Any


class DiffCount(TypedDict):
    """A number that differs."""

    name: str
    before: int
    after: int


class DiffKernel(TypedDict):
    """A kernel of one build."""

    kernel: int
    nodes: list[str]
    template: str
    us: float


class ChangedKernel(DiffKernel):
    """A kernel of both builds."""

    before_us: float
    after_us: float
    is_measured: bool
    before_template: str
    after_template: str
    ratio: Figure
    better: Union[bool, None]


class DiffKernels(TypedDict):
    """Kernels, matched by the nodes that they compute."""

    same: int
    changed: list[ChangedKernel]
    gone: list[DiffKernel]
    new: list[DiffKernel]


class DiffAnswer(Answered):
    """The answer of `edgec diff`."""

    before: Annotated[DiffTitle, "the first build"]
    after: Annotated[DiffTitle, "the second one"]
    totals: Annotated[
        list[DiffTotal],
        "`kernels`, `latency`, `predicted`, `FLOPs`, `bytes moved`, `arena`, `weights`, `files`, `rules`, `error`, "
        "as numbers and as text",
    ]
    settings: Annotated[list[DiffSetting], "options that differ"]
    rules: Annotated[list[DiffCount], "numbers of rewriting steps that differ"]
    schedules: Annotated[list[DiffCount], "numbers of kernels that differ"]
    precisions: Annotated[list[DiffCount], "numbers of kernels that differ"]
    kernels: Annotated[DiffKernels, "matched by the nodes they compute: the number that are the `same`, and the rest"]

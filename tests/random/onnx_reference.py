"""onnxruntime's results for a node or a model, and their sensitivity to rounding.

Every tensor is followed three times: as it is, and as it would be if whatever rounds had rounded up or down. Where the
three part, no two implementations agree: a node whose result hangs on rounding (a floor of what should be an integer,
the position of one of two equal maxima) is not drawn, and the distance that is left bounds what may differ.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnxruntime
from onnx import ModelProto, NodeProto, helper, numpy_helper

#: By how much of the largest element one operator rounds, by type; halves are rounded by some and not by others.
ROUNDING = {"float64": 1e-14, "float32": 1e-6, "float16": 2e-3}
#: Where terms cancel, what is left has the rounding of the terms, or of products that are never rounded (fma).
CANCELS = {"Add", "Sub", "Sum", "Mean", "ReduceSum", "ReduceMean", "CumSum", "Einsum"}
#: What may be lost in all before a node counts as ill-conditioned.
LOST = {"float64": 1e-9, "float32": 5e-3, "float16": 5e-2}
#: Values beyond these are kept out of further operators.
LARGEST = {"float64": 1e4, "float32": 1e4, "float16": 1e3}
DOMAINS = ("", "com.microsoft")


class Rejected(Exception):
    """A node that cannot stand in a model: onnxruntime refuses it, or its result means nothing."""


@dataclass(frozen=True, eq=False)
class Tensor:
    """A named array. ``shaken`` are the arrays it would be if all that rounds had rounded differently."""

    name: str
    array: np.ndarray
    shaken: tuple[np.ndarray, ...]
    is_constant: bool = False
    #: Whether the data decides its shape.
    is_sized: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def rank(self) -> int:
        return self.array.ndim

    @property
    def dtype(self) -> str:
        return str(self.array.dtype)

    @property
    def slack(self) -> float:
        """Largest admissible difference of results."""
        if not self.array.size or self.array.dtype == bool:
            return 0.0
        with np.errstate(invalid="ignore"):
            away = [np.abs(s.astype(np.float64) - self.array.astype(np.float64)) for s in self.shaken]
        return float(max(np.nanmax(np.nan_to_num(a, nan=0.0, posinf=0.0)) for a in away))

    @property
    def is_usable(self) -> bool:
        return bool(np.isfinite(self.array).all()) and self.most <= LARGEST.get(self.dtype, 2.0**24)

    @property
    def most(self) -> float:
        finite = self.array[np.isfinite(self.array)]
        return float(np.max(np.abs(finite.astype(np.float64)), initial=0))


def leaf(name: str, array: np.ndarray, is_constant: bool) -> Tensor:
    array = np.asarray(array)
    return Tensor(name, array, (array, array), is_constant)


@dataclass(frozen=True, eq=False)
class Step:
    """A node with its tensors. ``keeps``: its results are elements of its operands, nothing is rounded.

    ``steps`` is by how many units integers may be off.
    """

    node: NodeProto
    keeps: bool = False
    steps: int = 0
    #: Whether shapes of its results depend on data.
    sizes: bool = False


def session(model: ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions have no common base
        raise Rejected(f"session: {error}") from None


def run(model: onnxruntime.InferenceSession, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    names = [o.name for o in model.get_outputs()]
    try:
        return dict(zip(names, model.run(None, dict(feeds))))
    except Exception as error:
        raise Rejected(f"run: {error}") from None


def value_info(name: str, array: np.ndarray, shape: Sequence[int | str] | None = None):  # type: ignore[no-untyped-def]
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), shape)


def model(
    nodes: Sequence[NodeProto],
    inputs: Sequence,  # type: ignore[type-arg]
    outputs: Sequence,  # type: ignore[type-arg]
    constants: Mapping[str, np.ndarray],
    opset: int,
) -> ModelProto:
    initializers = [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, "random", inputs, outputs, initializers)
    versions = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=versions, ir_version=8 if opset < 21 else 11)


def follow(step: Step, operands: Mapping[str, Tensor], opset: int) -> list[Tensor]:
    """The results of one node. Raises Rejected where they are refused or ill-conditioned."""
    given = [operands[n] for n in dict.fromkeys(step.node.input) if n]
    names = [n for n in step.node.output if n]
    made = session(
        model(
            [step.node],
            [value_info(t.name, t.array, [None] * t.rank) for t in given if not t.is_constant],
            [helper.make_empty_tensor_value_info(n) for n in names],
            {t.name: t.array for t in given if t.is_constant},
            opset,
        )
    )
    fed = [t for t in given if not t.is_constant]
    result = run(made, {t.name: t.array for t in fed})
    if any(not isinstance(a, np.ndarray) for a in result.values()):
        raise Rejected("no tensor")
    exact = all(s is t.array for t in fed for s in t.shaken)
    shaken = [result, result] if exact else [run(made, {t.name: t.shaken[k] for t in fed}) for k in range(2)]
    terms = max([t.most for t in given], default=0.0) if step.node.op_type in CANCELS and not exact else 0.0
    sized = step.sizes or any(t.is_sized for t in given)
    return [_result(step, n, result[n], [s[n] for s in shaken], sized, terms) for n in names]


def _result(
    step: Step, name: str, array: np.ndarray, shaken: Sequence[np.ndarray], sized: bool, terms: float
) -> Tensor:
    if any(s.shape != array.shape for s in shaken):
        raise Rejected("a shape hangs on rounding")
    dtype = str(array.dtype)
    if dtype in ("int32", "int64") and np.any(np.abs(array.astype(np.float64)) > 2.0**30):
        raise Rejected("integers overflow")
    if dtype in ROUNDING and not step.keeps:
        shaken = _rounded(name, array, shaken, ROUNDING[dtype], terms)
    elif step.steps and dtype not in ROUNDING:
        limits = np.iinfo(array.dtype)
        up, down = (np.clip(s.astype(np.int64) + d, limits.min, limits.max) for s, d in zip(shaken, (1, -1)))
        shaken = [np.asarray(v).astype(array.dtype) for v in (up, down)]
    made = Tensor(name, array, tuple(shaken), is_sized=sized)
    for s in shaken:
        if not np.array_equal(np.isfinite(s), np.isfinite(array)):
            raise Rejected("infinite by rounding")
    allowed = LOST[dtype] * made.most if dtype in LOST else step.steps
    if made.slack > allowed or (dtype == "bool" and any((s != array).any() for s in shaken)):
        raise Rejected("ill-conditioned")
    return made


def _rounded(name: str, array: np.ndarray, shaken: Sequence[np.ndarray], eps: float, terms: float) -> list[np.ndarray]:
    random = np.random.default_rng(zlib.crc32(name.encode()) + array.size)
    finite = np.abs(np.where(np.isfinite(array), array, 0).astype(np.float64))
    noise = eps * random.choice([-1.0, 1.0], array.shape) * (finite + 0.2 * max(terms, finite.max(initial=0)))
    with np.errstate(over="ignore"):
        return [np.asarray(s + d * noise).astype(array.dtype) for s, d in zip(shaken, (1, -1))]


@dataclass
class Walk:
    """The steps of a model followed from its leaves."""

    opset: int
    tensors: dict[str, Tensor] = field(default_factory=dict)

    def take(self, step: Step) -> list[Tensor]:
        made = follow(step, self.tensors, self.opset)
        self.tensors.update((t.name, t) for t in made)
        return made

"""Changes of the model itself that would pay: each is made in a copy, and the copy is planned like the model.

A change keeps the shape of every value, not the values: the network has to be trained with it. The gain is predicted,
and where a normalization goes it is the most that another one can gain.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import onnx

from edgec import pipeline
from edgec.advise.price import predicted_ms
from edgec.errors import EdgecError
from edgec.frontend.onnx.model import Model as OnnxModel
from edgec.options import resolve
from edgec.pipeline.context import Context
from edgec.progress import Progress
from edgec.schedule.program import Program

#: Models of more bytes are not copied.
LARGEST = 1 << 30
#: Changes that gain less than this share are not worth a word.
WORTH = 0.02

_SMOOTH = {"Gelu", "HardSwish", "Mish", "Elu", "Selu", "Celu", "Softplus", "Swish", "QuickGelu", "FastGelu"}
_PER_SAMPLE = {"InstanceNormalization", "GroupNormalization", "GroupNorm"}


#: Nodes by the names of what they make.
_Makers = Mapping[str, onnx.NodeProto]


@dataclass(frozen=True)
class Change:
    """A change of some nodes, and the predicted milliseconds of a run before and after it."""

    text: str
    nodes: tuple[str, ...]
    before_ms: float
    after_ms: float

    @property
    def gain(self) -> float:
        """The share of the time that goes."""
        return 1 - self.after_ms / self.before_ms


def _nearest(node: onnx.NodeProto, makers: _Makers) -> bool:
    """Resize by nearest neighbors."""
    modes = {a.name: a.s for a in node.attribute}
    if node.op_type not in ("Resize", "Upsample") or modes.get("mode", b"nearest") not in (b"linear", b"cubic"):
        return False
    kept = [a for a in node.attribute if a.name in ("axes", "keep_aspect_ratio_policy", "scales")]
    del node.attribute[:]
    node.attribute.extend(kept)
    node.attribute.append(onnx.helper.make_attribute("mode", "nearest"))
    if node.op_type == "Resize":
        node.attribute.append(onnx.helper.make_attribute("coordinate_transformation_mode", "asymmetric"))
        node.attribute.append(onnx.helper.make_attribute("nearest_mode", "floor"))
    return True


def _without_statistics(node: onnx.NodeProto, makers: _Makers) -> bool:
    """A normalization by statistics of the sample as one with fixed ones, which the layer before it takes in."""
    if node.op_type not in _PER_SAMPLE:
        return False
    _become(node, "Identity", node.input[0])
    return True


def _relu(node: onnx.NodeProto, makers: _Makers) -> bool:
    """A smooth activation as ReLU: also x * sigmoid(x) in two nodes."""
    if node.op_type in _SMOOTH:
        _become(node, "Relu", node.input[0])
        return True
    if node.op_type != "Mul" or len(node.input) != 2:
        return False
    for x, gate in (tuple(node.input), tuple(reversed(node.input))):
        maker = makers.get(gate)
        if maker is not None and maker.op_type in ("Sigmoid", "HardSigmoid") and list(maker.input) == [x]:
            _become(node, "Relu", x)
            return True
    return False


_EDITS: tuple[tuple[str, Callable[[onnx.NodeProto, _Makers], bool]], ...] = (
    ("resize by nearest neighbors instead of interpolation", _nearest),
    ("batch normalization instead of normalization by statistics of each sample", _without_statistics),
    ("ReLU instead of smooth activations", _relu),
)


def _become(node: onnx.NodeProto, kind: str, operand: str) -> None:
    node.op_type, node.domain = kind, ""
    del node.attribute[:]
    del node.input[:]
    node.input.append(operand)


def changes(model: OnnxModel, given: Mapping[str, Any], before_ms: float, progress: Progress) -> list[Change]:
    """Changes that are predicted to gain at least `WORTH` of the time, the largest first."""
    found = []
    if model.proto.ByteSize() > LARGEST:
        return []
    for text, edit in _EDITS:
        proto = onnx.ModelProto()
        proto.CopyFrom(model.proto)
        makers = {name: node for node in proto.graph.node for name in node.output}
        nodes = tuple(node.name or node.output[0] for node in proto.graph.node if edit(node, makers))
        if not nodes:
            continue
        progress("advise", text)
        after = _planned_ms(OnnxModel(proto, model.name, model.where, model.folder), given, progress)
        if after is not None and before_ms > 0 and 1 - after / before_ms >= WORTH:
            found.append(Change(text, nodes, before_ms, after))
    return sorted(found, key=lambda change: -change.gain)


def _planned_ms(model: OnnxModel, given: Mapping[str, Any], progress: Progress) -> float | None:
    """Predicted milliseconds of a changed model; None where it cannot be built."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            options = resolve(given)  # type: ignore[arg-type]
            program: Program = pipeline.run(model, Context(options, progress), until="schedule")["schedule"]
    except EdgecError:
        return None
    return predicted_ms(program, options.device, options.threads)

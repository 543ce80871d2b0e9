"""A model before it is built: its inputs, outputs and operators, and those that are not supported."""

from __future__ import annotations

from collections.abc import Iterable

from onnx import ValueInfoProto
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from edgec.errors import EdgecError
from edgec.frontend.gguf.reader import GgufModel
from edgec.frontend.hugging.folder import HuggingModel
from edgec.frontend.language.facts import LONG
from edgec.frontend.onnx.model import Model as OnnxModel
from edgec.frontend.onnx.model import element_type
from edgec.frontend.source import Parsed
from edgec.frontend.tflite.model import TfliteModel
from edgec.ir.expr import Extent
from edgec.ir.graph import Graph
from edgec.report import facts, launches, ledger, memory
from edgec.report.record import Record, head
from edgec.report.terminal import number, pairs, size, table
from edgec.text import counted, printable


def record(
    model: Parsed,
    graph: Graph | None,
    unsupported: list[tuple[str, str, str]],
    problem: EdgecError | None,
    moved: Record | None = None,
    need: Record | None = None,
) -> Record:
    """The contents of a model; without a graph, only those of its file. ``moved``: `ledger.record`; ``need``: `fit`."""
    operators = facts.operator_counts(model)
    known: Record = {"inputs": None, "outputs": None, "macs": None, "activations": None, "core_operators": None}
    if graph is None and isinstance(model, OnnxModel):
        known |= {"inputs": _declared(model.proto.graph.input), "outputs": _declared(model.proto.graph.output)}
    if graph is not None:
        known = {
            "inputs": [_value(n.attributes["name"], n.type.dtype, n.type.shape) for n in graph.inputs],
            "outputs": [_value(name, n.type.dtype, n.type.shape) for name, n in graph.outputs],
            "macs": facts.macs(graph),
            "activations": facts.activations(graph),
            "core_operators": len(graph.operations()),
        }
    return {
        **head("inspect"),
        "ok": graph is not None,
        "model": model.name,
        "where": model.where,
        **_origin(model, graph),
        "operators": operators,
        "operators_total": sum(operators.values()),
        "unsupported": [{"node": n, "operator": o, "hint": h} for n, o, h in unsupported],
        "weights_bytes": facts.weights_bytes(graph) if graph is not None else facts.initializer_bytes(model),
        **known,
        "traffic": moved,
        "memory": need,
        "problem": {"message": problem.message, "hint": problem.hint, "where": problem.where} if problem else None,
    }


def _origin(model: Parsed, graph: Graph | None) -> Record:
    """The producer of a model, the versions of its operator sets, and its metadata."""
    if isinstance(model, TfliteModel):
        metadata = graph.metadata if graph is not None else model.metadata
        return {"producer": model.description, "opsets": {"TensorFlow Lite": model.version}, "metadata": dict(metadata)}
    if isinstance(model, HuggingModel):
        return {
            "producer": "",
            "opsets": {f"safetensors, {printable(model.architecture)}": 1},
            "metadata": {k: v for k, v in graph.metadata.items() if k not in LONG} if graph is not None else {},
        }
    if isinstance(model, GgufModel):
        name = model.metadata.get("general.name", "")
        return {
            "producer": printable(str(name)),
            "opsets": {f"GGUF, {printable(model.architecture)}": model.version},
            "metadata": {k: v for k, v in graph.metadata.items() if k not in LONG} if graph is not None else {},
        }
    return {
        "producer": printable(f"{model.proto.producer_name} {model.proto.producer_version}".strip()),
        "opsets": {printable(domain) or "ai.onnx": version for domain, version in model.opsets.items()},
        "metadata": {printable(p.key): printable(p.value, 1000) for p in model.proto.metadata_props},
    }


def _value(name: str, dtype: str, shape: tuple[Extent, ...]) -> Record:
    return {"name": name, "dtype": dtype, "shape": [n if isinstance(n, int) else str(n) for n in shape]}


def _declared(values: Iterable[ValueInfoProto]) -> list[Record]:
    """Inputs or outputs as the file declares them: open dimensions by their names, or "?"."""
    found = []
    for value in values:
        tensor = value.type.tensor_type
        try:
            kind = element_type(tensor.elem_type)
        except EdgecError:  # a list, or an element type that is not supported
            kind = "?"
        dims = [d.dim_value if d.HasField("dim_value") else printable(d.dim_param) or "?" for d in tensor.shape.dim]
        found.append({"name": value.name, "dtype": kind, "shape": dims if tensor.HasField("shape") else ["..."]})
    return found


def draw(found: Record) -> RenderableType:
    """Inputs, outputs, sizes and operators; then the unsupported operators, or the reason why it cannot be built."""
    opsets = ", ".join(f"{domain} {version}" for domain, version in found["opsets"].items())
    rows: list[tuple[str, RenderableType]] = [("file", escape(found["where"])), ("opset", escape(opsets))]
    if found["producer"]:
        rows.append(("producer", escape(found["producer"])))
    for kind in ("inputs", "outputs"):
        for v in found[kind] or ():
            shape = escape(f"[{','.join(map(str, v['shape']))}]")
            rows.append((kind[:-1], f"{escape(v['name'])}: {v['dtype']}{shape}"))
    rows.append(("weights", size(found["weights_bytes"])))
    if found["macs"] is not None:
        a = found["activations"]
        rows.append(("multiply-adds", number(found["macs"])))
        together, largest = size(a["bytes"]), size(a["largest_bytes"])
        rows.append(("activations", f"{counted(a['tensors'], 'tensor')}, {together}, the largest {largest}"))
    if found["memory"]:
        rows += memory.draw_rows(found["memory"])
    rows += [(escape(k), escape(v)) for k, v in found["metadata"].items()]
    kinds = table("operator", ">times", title=f"{counted(found['operators_total'], 'operator')}")
    for name, times in found["operators"].items():
        kinds.add_row(escape(name), str(times))
    parts: list[RenderableType] = [pairs(rows), "", kinds]
    if found["traffic"]:
        parts += ["", ledger.draw(found["traffic"])]
    if found["unsupported"]:
        missing = table("node", "operator", "what to do", title=f"{len(found['unsupported'])} not supported")
        for u in found["unsupported"]:
            missing.add_row(escape(u["node"]), escape(u["operator"]), escape(u["hint"]))
        parts += ["", missing]
    elif found["problem"]:
        hint = f"\n  hint: {found['problem']['hint']}" if found["problem"]["hint"] else ""
        told = f"cannot be built as it is: {found['problem']['message']}{hint}"
        # The hint holds commands to be copied: its lines are not broken.
        parts += ["", Text(told, style="yellow", no_wrap=True, overflow="ignore")]
    else:
        parts += ["", Text("every operator is supported", style="green")]
    if found.get("kernels"):
        parts += ["", launches.draw(found["kernels"])]
    return Group(*parts)

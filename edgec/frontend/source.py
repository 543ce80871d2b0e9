"""Models of any format that can be built: ONNX, TensorFlow Lite, or a language model in GGUF or a folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Union

from edgec import limits
from edgec.errors import ModelError, UsageError
from edgec.files import near
from edgec.frontend import gguf, hugging, tflite
from edgec.frontend.gguf.reader import GgufModel
from edgec.frontend.gguf.reader import read as read_gguf
from edgec.frontend.hugging.folder import HuggingModel
from edgec.frontend.hugging.tokenizer import BESIDE, TEMPLATE
from edgec.frontend.hugging.tokenizer import FILE as TOKENIZER
from edgec.frontend.language.cache import Kind
from edgec.frontend.language.lora import LoraOption
from edgec.frontend.onnx import decoder, importer, support
from edgec.frontend.onnx import model as onnx_model
from edgec.frontend.onnx.external import locations
from edgec.frontend.tflite.model import TfliteModel
from edgec.ir import memory
from edgec.ir.graph import (
    FIXED_DIMENSIONS,
    LEFT_OUT,
    MODEL_FILES,
    MODEL_SHA256,
    OTHER_PARTS,
    PREPROCESSING,
    WHOLE_SHA256,
    Graph,
    Node,
)
from edgec.options.texts import DimensionRange
from edgec.text import printable
from edgec.untrusted import reason, regular

#: A model that was read.
Parsed = Union[onnx_model.Model, TfliteModel, GgufModel, HuggingModel]
Source = onnx_model.Source


def read(source: Source | Parsed) -> Parsed:
    """Parse a file, its bytes, or take a ModelProto as it is; what is parsed already stays as it is.

    Raises UsageError when the file is not there, ModelError when it is no model of a known format, ToolchainError when
    it is of one that needs a package that is not installed.
    """
    if isinstance(source, (onnx_model.Model, TfliteModel, GgufModel, HuggingModel)):
        return source
    if isinstance(source, bytes) and tflite.is_tflite(source):
        return tflite.parse(source)
    if isinstance(source, bytes) and gguf.is_gguf(source):
        return gguf.parse(source)
    if isinstance(source, (str, Path)):
        path = Path(source)
        if hugging.is_folder(path):
            return hugging.read(path)
        if os.path.isdir(path):
            hint = "name the model's file; a folder that edgec built works with edgec bench, inspect and chat"
            raise UsageError("a folder is no model", hint=hint, where=printable(str(source)))
        try:
            with regular(path).open("rb") as file:
                start = file.read(8)
            if tflite.is_tflite(start):
                return tflite.parse(path.read_bytes(), printable(str(source)), path)
            if gguf.is_gguf(start):
                return read_gguf(path, printable(str(source)))
        except (OSError, ValueError) as error:  # a ValueError: a path that cannot be one
            shown, close = printable(str(source)), ""
            if isinstance(error, FileNotFoundError):
                close = near(path) or f"it was looked for in '{printable(str(path.parent.absolute()))}'"
            raise UsageError(f"cannot read the model: {reason(error)}", hint=close or None, where=shown) from None
    return onnx_model.read(source)


@limits.stage("import")
def import_graph(
    model: Parsed,
    shapes: Mapping[str, Sequence[int]] | None = None,
    *,
    values: Mapping[str, Any] | None = None,
    dims: Mapping[str, DimensionRange] | None = None,
    rounds: Mapping[str, int] | None = None,
    context: int | None = None,
    cache: Kind | None = None,
    lora: LoraOption | None = None,
    ops_folders: Iterable[str | Path] = (),
    tensors: dict[str, Node] | None = None,
) -> Graph:
    """A model as a graph of core operators: see `import_model`, `import_tflite`, `import_gguf` and `import_folder`."""
    memory.forget()
    if isinstance(model, (GgufModel, HuggingModel)):
        if shapes or dims or values:
            raise UsageError("a language model has no shapes to choose", hint="give --context")
        if isinstance(model, HuggingModel):
            return hugging.import_folder(model, context, cache or "fp32", lora)
        return gguf.import_gguf(model, context, cache or "fp32", lora)
    if lora is not None:
        hint = "leave out --lora, or build the model from a GGUF file or a folder of Hugging Face's"
        raise UsageError("only the products of a language model with names have adapters", hint=hint, where="--lora")
    if isinstance(model, onnx_model.Model) and not (shapes or dims or values) and decoder.is_decoder(model):
        if cache not in (None, "fp32"):
            hint = "leave out --cache, or build the model from a GGUF file or a folder of Hugging Face's"
            raise UsageError(f"decoders in ONNX have no cache in {cache}", hint=hint, where="--cache")
        return decoder.import_decoder(model, context)
    if context is not None:
        raise UsageError("only a language model has a context", hint="leave out --context", where="--context")
    if cache is not None:
        raise UsageError("only a language model has a cache", hint="leave out --cache", where="--cache")
    if isinstance(model, TfliteModel):
        if dims:
            raise UsageError("TensorFlow Lite models are built for one shape", hint="give it with --shape")
        return tflite.import_tflite(model, shapes, values=values, ops_folders=ops_folders, tensors=tensors)
    return importer.import_model(
        model, shapes, values=values, dims=dims, rounds=rounds, ops_folders=ops_folders, tensors=tensors
    )


def unsupported(model: Parsed, ops_folders: Iterable[str | Path] = ()) -> list[tuple[str, str, str]]:
    """(node, operator, hint) for every operator that cannot be lowered, wherever it stands in the model."""
    if isinstance(model, TfliteModel):
        return tflite.unsupported(model, ops_folders)
    if isinstance(model, GgufModel):
        return gguf.unsupported(model)
    if isinstance(model, HuggingModel):
        return hugging.unsupported(model)
    return support.unsupported(model, ops_folders)


def nodes_with_outputs(model: Parsed) -> list[tuple[str, str, tuple[str, ...]]]:
    """The nodes of the main graph in the order of the file: name in messages, operator, names of the outputs."""
    if isinstance(model, TfliteModel):
        names = [t.name for t in model.main.tensors]
        return [(o.label, printable(o.name), tuple(names[k] for k in o.outputs)) for o in model.main.operators]
    if isinstance(model, (GgufModel, HuggingModel)):
        return []
    return [(support.label_of(n), printable(n.op_type), tuple(n.output)) for n in model.proto.graph.node]


def digest(model: Parsed) -> str:
    """SHA-256 of the file and of those that its weights lie in, or of the model's own bytes where it came without one.

    A file of weights that is not there, or may not be read, counts by its name: import says so where it is needed.
    """
    if isinstance(model, HuggingModel):
        return model.digest()
    if isinstance(model, (TfliteModel, GgufModel)):
        return sha256(model.content).hexdigest()
    if model.part is not None:
        own = model.proto.SerializeToString(deterministic=True)
        return sha256(digest(model.part.whole).encode() + own).hexdigest()
    found = sha256()

    def add(path: Path) -> None:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                found.update(block)

    if model.path:
        add(model.path)
    else:
        found.update(model.proto.SerializeToString(deterministic=True))
    if (folder := model.folder) is None:
        return found.hexdigest()
    for name in weight_files(model):
        found.update(b"\0" + name.encode("utf-8", "surrogatepass") + b"\0")
        with suppress(ModelError, OSError):
            add(folder.file(name, name))
    return found.hexdigest()


def identity(model: Parsed, graph: Graph, known: str | None = None) -> dict[str, str]:
    """Metadata of a graph: hash and names of its files, and of the whole that it is a part of (`edgec.ir.graph`).

    ``known`` is the hash, where somebody has it.
    """
    part = model.part if isinstance(model, onnx_model.Model) else None
    names = weight_files(model if part is None else part.whole)
    fixed = fixed_dimensions(model, graph) if part is None else dict(part.fixed)
    found = {MODEL_SHA256: known or digest(model), MODEL_FILES: "\n".join(names)}
    found[FIXED_DIMENSIONS] = "\n".join(f"{name}={extent}" for name, extent in fixed.items())
    if isinstance(model, onnx_model.Model) and model.front is not None:
        found[PREPROCESSING] = model.front.prefix
    if part is not None:
        found |= {WHOLE_SHA256: digest(part.whole), OTHER_PARTS: "\n".join(part.others), LEFT_OUT: part.left}
    return {key: value for key, value in found.items() if value}


def fixed_dimensions(model: Parsed, graph: Graph) -> dict[str, int]:
    """The extents in a graph of dimensions that its model in ONNX has names for."""
    types = {n.attributes["name"]: n.type for n in graph.inputs}
    found: dict[str, int] = {}
    for value in model.proto.graph.input if isinstance(model, onnx_model.Model) else ():
        declared = [d.dim_param for d in value.type.tensor_type.shape.dim]
        if value.name in types and len(declared) == len(types[value.name].shape):
            named = zip(declared, types[value.name].shape)
            found |= {name: e for name, e in named if name and name == printable(name) and isinstance(e, int)}
    return found


def weight_files(model: Parsed) -> list[str]:
    """The names of the files that weights of a model in ONNX lie in, in the order in which its digest takes them."""
    return sorted(locations(model.proto)) if isinstance(model, onnx_model.Model) and model.folder is not None else []


def files_beside(model: Parsed) -> list[Path]:
    """The files that a model is read from beside those that its digest is of: weights, and what describes its texts.

    Those that describe texts need not be there.
    """
    if isinstance(model, HuggingModel):
        return [p for p in sorted(model.path.iterdir()) if p.is_file()]
    if isinstance(model, (TfliteModel, GgufModel)) or model.folder is None:
        return []
    weights = [model.folder.path / name for name in weight_files(model)]
    texts = [model.folder.path / name for name in (TOKENIZER, TEMPLATE, *BESIDE)]
    return [*weights, *texts]

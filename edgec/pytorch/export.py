"""A PyTorch module, or a program that torch.export made of it, as an ONNX model with the ranges of its open sizes."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from edgec.errors import EdgecError, ModelError, ToolchainError, UsageError
from edgec.text import printable

#: Largest size of a dimension whose range in PyTorch has no end: more is to be asked for.
_ENDLESS = 1 << 40
#: Lines of an error of PyTorch's that are repeated.
_LINES = 3
#: (least, most, step) of a dimension.
Range = tuple[int, int, int]


def torch_or_refuse() -> Any:
    """The package torch. Raises ToolchainError where it, or the exporter to ONNX, is not installed."""
    try:
        import onnxscript  # noqa: F401
        import torch
    except ImportError as missing:
        raise ToolchainError(f"{missing.name} is not installed", hint="pip install 'edgec[torch]'") from None
    return torch


def exported(
    module: Any,
    example_inputs: Any = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    bounded: Collection[str] = (),
) -> tuple[Any, dict[str, Range]]:
    """An onnx.ModelProto and the ranges (least, most, step) of its open dimensions by name.

    ``module`` is a torch.nn.Module, exported as it is in evaluation, or a torch.export.ExportedProgram. A dimension
    has the name of its torch.export.Dim; those named in ``bounded`` get a range elsewhere. Raises UsageError for a
    dimension without an end, ModelError for a module that PyTorch does not export.
    """
    torch = torch_or_refuse()
    program = module if isinstance(module, torch.export.ExportedProgram) else None
    if program is None:
        program = _traced(torch, module, example_inputs, kwargs, dynamic_shapes)
    elif example_inputs is not None or dynamic_shapes is not None:
        raise UsageError("an exported program has inputs and shapes of its own", hint="from_torch(program)")
    refuse_mutation(program)
    with _quiet(), _as_model_error("PyTorch cannot write it as ONNX"):
        proto = torch.onnx.export(program, dynamo=True, verbose=False).model_proto
    return proto, _open_dimensions(program, proto, _dim_names(torch, dynamic_shapes), bounded)


def refuse_mutation(program: Any) -> None:
    """Raises ModelError for a program that changes its inputs or buffers, which a network cannot."""
    with _quiet(), _as_model_error("PyTorch cannot export it"):
        signature = program.run_decompositions({}).graph_signature  # in-place operators become outputs
    changed = [*signature.user_inputs_to_mutate.values(), *signature.buffers_to_mutate.values()]
    if changed:
        hint = "give new values back as outputs, and name them with --state"
        raise ModelError(f"the module changes {', '.join(map(printable, changed[:4]))} in place", hint=hint)


def _traced(torch: Any, module: Any, example_inputs: Any, kwargs: Mapping[str, Any] | None, shapes: Any) -> Any:
    if not isinstance(module, torch.nn.Module):
        hint = "give a torch.nn.Module or a torch.export.ExportedProgram"
        raise UsageError(f"a {type(module).__name__} is no module of PyTorch", hint=hint)
    if example_inputs is None and not kwargs:
        raise UsageError("example inputs are missing", hint="from_torch(module, (image,)) with tensors of its shapes")
    given = (example_inputs,) if isinstance(example_inputs, torch.Tensor) else tuple(example_inputs or ())
    training = [m for m in module.modules() if m.training]
    try:
        module.eval()
        with _quiet(), torch.no_grad(), _as_model_error("PyTorch cannot export it"):
            return torch.export.export(module, given, dict(kwargs or {}), dynamic_shapes=shapes)
    finally:
        for m in training:
            m.training = True


@contextlib.contextmanager
def _as_model_error(what: str) -> Iterator[None]:
    """Errors of PyTorch, whose exporters raise of every kind, as a ModelError that begins with ``what``."""
    try:
        yield
    except EdgecError:
        raise
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()][:_LINES]
        said = printable(" ".join(lines)) or type(error).__name__
        raise ModelError(f"{what}: {said}", hint="torch.export.export(module, inputs) shows the whole error") from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """PyTorch's exporters without what they print and log of their own progress."""
    before = logging.root.manager.disable
    unread = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(unread), contextlib.redirect_stderr(unread):
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(before)


def _dim_names(torch: Any, shapes: Any) -> dict[int | str, dict[int, str]]:
    """Names of torch.export.Dims by input (its name or place) and axis; sizes that depend on one have none."""
    each = shapes.items() if isinstance(shapes, Mapping) else enumerate(shapes or ())
    found: dict[int | str, dict[int, str]] = {}
    for key, given in each:
        axes = given.items() if isinstance(given, Mapping) else enumerate(given if isinstance(given, Sequence) else ())
        named = {axis: dim.__name__ for axis, dim in axes if isinstance(dim, torch.export.Dim)}
        found[key] = {axis: name for axis, name in named.items() if name.isidentifier()}
    return found


def _open_dimensions(
    program: Any, proto: Any, names: Mapping[int | str, Mapping[int, str]], bounded: Collection[str]
) -> dict[str, Range]:
    """Ranges of the open dimensions of the inputs; they get the names of their Dims in ``proto``, or words."""
    placeholders = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
    inputs = [placeholders[name] for name in program.graph_signature.user_inputs if name in placeholders]
    ranges: dict[str, Range] = {}
    called: dict[str, str] = {}
    for k, (node, port) in enumerate(zip(inputs, proto.graph.input)):
        shape, given = getattr(node.meta.get("val"), "shape", ()), names.get(node.name, names.get(k, {}))
        for axis, (extent, dimension) in enumerate(zip(shape, port.type.tensor_type.shape.dim)):
            if not (old := dimension.dim_param):
                continue
            name = called.setdefault(old, given.get(axis) or "".join(c if c.isalnum() else "_" for c in old))
            if name not in bounded:
                ranges[name] = _range_of(program, extent, f"{port.name}.{axis}", name)
    for port in (*proto.graph.input, *proto.graph.output, *proto.graph.value_info):
        for dimension in port.type.tensor_type.shape.dim:
            if dimension.dim_param in called:
                dimension.dim_param = called[dimension.dim_param]
    return ranges


def _range_of(program: Any, extent: Any, where: str, name: str) -> Range:
    """The range of a size a * symbol + b."""
    expression = extent.node.expr
    symbols = sorted(expression.free_symbols, key=str)
    if len(symbols) != 1 or (linear := expression.as_poly(symbols[0])) is None or linear.degree() != 1:
        raise ModelError(f"the size {printable(str(expression))} is no multiple of one symbol", where=where)
    step, offset = int(linear.coeff_monomial(symbols[0])), int(linear.coeff_monomial(1))
    bounds = program.range_constraints[symbols[0]]
    if not getattr(bounds.upper, "is_Integer", False) or int(bounds.upper) > _ENDLESS:
        hint = f"torch.export.Dim('{name}', min=1, max=16) in dynamic_shapes, or dims={{'{name}': (1, 16, 1)}}"
        raise UsageError("the size has no largest value", hint=hint, where=where)
    low, high = (step * int(b) + offset for b in (bounds.lower, bounds.upper))
    return low, high, step

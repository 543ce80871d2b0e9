"""Parts of a model for a session of onnxruntime, which computes what cannot be built."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from edgec.emit.picture import Preparation
from edgec.errors import EdgecError
from edgec.frontend import source as reader
from edgec.frontend.onnx import ModelWarning
from edgec.frontend.onnx.model import Model, Part
from edgec.frontend.onnx.parts import parts, told_of
from edgec.frontend.source import Parsed
from edgec.options import Options
from edgec.pipeline.context import Context
from edgec.pipeline.run import run
from edgec.pipeline.stages import import_
from edgec.progress import Progress
from edgec.text import counted

#: The app whose users have another engine for what is left.
APP = "onnxruntime"
#: Version of the format from which weights need not be inputs, so that those that are may be replaced.
_REPLACEABLE = 4


def divided(parsed: Parsed | None, options: Options, extras: Sequence[str]) -> list[tuple[Parsed | None, Options]]:
    """The models that are built for one, each with its options: the model itself, or its parts, the largest first.

    Parts are what is between operators that cannot be built, where the app `onnxruntime` is among the ``extras``; those
    whose import fails are left out. A warning tells what is left to onnxruntime. Where nothing can be built, the model
    is, so that its import tells why.
    """
    if APP not in extras or not isinstance(parsed, Model):
        return [(parsed, options)]
    _warn_of_replaceable(parsed)
    if not reader.unsupported(parsed, options.operators):
        return [(parsed, options)]
    fixed = {name: given[0] for name, given in options.dims.items() if given[0] == given[1]}
    found, left = parts(parsed, options.shapes, fixed, options.operators)
    made: list[tuple[Model, Options]] = []
    known: dict[str, int] = {}
    for part in found:
        own = replace(_of_inputs(part, options), name=f"{options.name}_{len(made) + 1}" if made else options.name)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ModelWarning)  # the build tells it again
                graph = import_(part, Context(own))
        except EdgecError as error:
            left += f"; {told_of(part)}: {error.message}"
        else:
            made.append((part, own))
            known |= reader.fixed_dimensions(parsed, graph)
    if not made:
        return [(parsed, options)]
    warnings.warn(
        f"{counted(len(made), 'part')} of the model can be built, and onnxruntime computes the rest: {left}",
        ModelWarning,
        stacklevel=3,
    )
    first, own = made[0]
    names = tuple(options.name for _, options in made[1:])
    return [(replace(first, part=Part(parsed, names, left, tuple(known.items()))), own), *made[1:]]


def _warn_of_replaceable(model: Model) -> None:
    """Weights that are listed as inputs, too, are no constants of a session: what reads them stays with onnxruntime."""
    held = {tensor.name for tensor in model.proto.graph.initializer}
    count = sum(value.name in held for value in model.proto.graph.input)
    if count and model.proto.ir_version >= _REPLACEABLE:
        found = shlex.quote(str(model.path or "MODEL"))
        warnings.warn(
            f"the model lists {counted(count, 'weight')} as inputs, which a run of onnxruntime may replace: its "
            "sessions compute what reads them without edgec; take them out of the inputs, and build that file: "
            f"python -m onnxruntime.tools.remove_initializer_from_input --input {found} --output fixed.onnx",
            ModelWarning,
            stacklevel=4,
        )


def _of_inputs(part: Model, options: Options) -> Options:
    """The options of a part: what they say of other inputs and dimensions goes."""
    inputs = {v.name: v for v in part.proto.graph.input}
    open_ones = {d.dim_param for v in inputs.values() for d in v.type.tensor_type.shape.dim if d.dim_param}
    return replace(
        options,
        shapes={name: shape for name, shape in options.shapes.items() if name in inputs},
        values={name: value for name, value in options.values.items() if name in inputs},
        dims={name: given for name, given in options.dims.items() if name in open_ones},
    )


def files_of_parts(
    rest: Sequence[tuple[Parsed | None, Options]],
    extras: Sequence[str],
    prepared: Preparation,
    facts_of: Callable[[Options, Parsed | None, str], dict[str, Any]],
    progress: Progress,
) -> Mapping[str, bytes]:
    """The files of all parts but the first, by paths in its folder; ``facts_of`` are those of their locks."""
    found: dict[str, bytes] = {}
    for part, options in rest:
        facts = facts_of(options, part, "import")
        context = Context(options, progress, facts, extras=tuple(extras), preprocessing=prepared)
        files: Mapping[str, bytes] = run(part, context, "import")["emit"].files
        own = ("network.cpp", "network.hpp")
        found |= {
            f"parts/{options.name}/{path}": content
            for path, content in files.items()
            if not path.startswith(f"{APP}/") or path.removeprefix(f"{APP}/") in own
        }
    return found

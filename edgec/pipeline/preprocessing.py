"""The preprocessing that options ask for, in front of a model that was read."""

from __future__ import annotations

from dataclasses import replace

from edgec.frontend.onnx.model import Model
from edgec.frontend.preprocessing.prepend import prepended
from edgec.frontend.source import Parsed
from edgec.media.pictures import Preparation
from edgec.options import Options


def with_preprocessing(parsed: Parsed, options: Options) -> tuple[Parsed, Options]:
    """The model with its preprocessing, put there once, and the options for it.

    Those have no shape and no dimensions of the input that is none any more, and name the nodes whose results are kept
    in memory.

    Raises UsageError where the model has no input that fits.
    """
    if options.pre is None:
        return parsed, options
    model = parsed
    if not isinstance(model, Model) or model.front is None:
        model = prepended(parsed, options.pre, options.picture or Preparation(), options.shapes, options.dims)
    assert model.front is not None
    shapes = {name: shape for name, shape in options.shapes.items() if name != model.front.input}
    dims = {name: size for name, size in options.dims.items() if name not in model.front.dims}
    kept = () if options.room else model.front.kept  # where memory is scarce, the planner decides
    return model, replace(options, shapes=shapes, dims=dims, materialize=options.materialize.union(kept))

"""The preprocessing that options ask for, in front of a model that was read."""

from __future__ import annotations

from dataclasses import replace

from edgec.frontend.onnx.model import Model
from edgec.frontend.preprocessing.prepend import prepended, without
from edgec.frontend.source import Parsed
from edgec.options import Options


def with_preprocessing(parsed: Parsed, options: Options) -> tuple[Parsed, Options]:
    """The model with its preprocessing, once, and the options without the shape of the input that it replaces.

    Raises UsageError where the model has no input that fits.
    """
    if options.pre is None:
        return parsed, options
    if isinstance(parsed, Model) and parsed.preprocessed:
        return parsed, replace(options, shapes=without(options.shapes, parsed.preprocessed))
    model, shapes = prepended(parsed, options.pre, options.picture, options.shapes)
    return model, replace(options, shapes=shapes)

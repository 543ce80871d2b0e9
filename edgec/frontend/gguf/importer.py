"""The graph of a GGUF file: its weights as codes with their scales, its architecture as a decoder."""

from __future__ import annotations

from edgec.errors import ModelError, UsageError
from edgec.frontend.gguf.architectures import config_of
from edgec.frontend.gguf.blocks import Blocks, Scaled
from edgec.frontend.gguf.reader import GgufModel
from edgec.frontend.language.decoder import decoder
from edgec.frontend.values import Value, build, constant
from edgec.ir.graph import Graph

#: Tokens that a built model keeps where nothing is said, if its file allows as many.
CONTEXT = 2048


def import_gguf(model: GgufModel, context: int | None = None) -> Graph:
    """The decoder for prompt and answer of at most ``context`` tokens.

    Raises ModelError for architectures and tensors that are not supported, UsageError for a context beyond the model's.
    """
    config = config_of(model)
    trained = model.integer(f"{model.architecture}.context_length")
    if context is not None and not 1 <= context <= trained:
        raise UsageError(f"a context of {context} tokens; the model was trained for {trained}", where="--context")

    def weight(name: str) -> Value | None:
        return weight_of(model, name) if name in model.tensors else None

    try:
        return decoder(config, weight, context or min(CONTEXT, trained), name=model.name)
    except ModelError as error:
        error.where = error.where or model.where
        raise


def weight_of(model: GgufModel, name: str) -> Value:
    """A tensor as a formula of what the file stores: ``scale * code + base`` of every group."""
    found = model.tensor(name)
    if not isinstance(found, Blocks):
        return constant(found)
    value = build("mul", build("cast", constant(found.codes), to="f32"), _of_groups(found.scale))
    if found.base is not None:
        value = build("add", value, _of_groups(found.base))
    return build("reshape", value, shape=model.tensors[name].shape)


def _of_groups(scaled: Scaled) -> Value:
    """[rows, superblocks, groups, 1] in fp32."""
    coarse = build("cast", constant(scaled.coarse[..., None]), to="f32")
    if scaled.fine is None:
        return coarse
    return build("mul", build("cast", constant(scaled.fine[..., None]), to="f32"), coarse)

"""The graph of a GGUF file: its weights as codes with their scales, its architecture as a decoder."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from edgec.errors import ModelError, UsageError
from edgec.frontend.gguf.architectures import config_of
from edgec.frontend.gguf.blocks import Blocks, Scaled
from edgec.frontend.gguf.reader import GgufModel
from edgec.frontend.gguf.vocabulary import vocabulary_of
from edgec.frontend.hugging.architectures import module_of
from edgec.frontend.language.cache import Kind
from edgec.frontend.language.chat import chat_metadata
from edgec.frontend.language.config import DecoderConfig
from edgec.frontend.language.decoder import CONTEXT, decoder
from edgec.frontend.language.facts import TOKENS
from edgec.frontend.language.lora import LoraOption, Reserve
from edgec.frontend.language.stored import stored
from edgec.frontend.language.table import table_of, written
from edgec.frontend.values import Value, build, dequantized
from edgec.ir.graph import Graph
from edgec.ir.graph import constant as constant_node
from edgec.ir.types import DTYPES, ends


def import_gguf(
    model: GgufModel, context: int | None = None, cache: Kind = "fp32", lora: LoraOption | None = None
) -> Graph:
    """The decoder for prompt and answer of at most ``context`` tokens, with a cache stored as ``cache`` says
    and room for adapters as ``lora`` says.

    Raises ModelError for architectures and tensors that are not supported, UsageError for a context beyond the model's.
    """
    config = config_of(model)
    trained = model.integer(f"{model.architecture}.context_length")
    if context is not None and not 1 <= context <= trained:
        told = f"a context of {context} tokens; the model was trained for {trained}"
        raise UsageError(told, hint=f"give 1 to {trained}", where="--context")

    def weight(name: str) -> Value | None:
        return weight_of(model, name) if name in model.tensors else None

    try:
        reserve = None if lora is None else Reserve(lora, partial(module_of, model.architecture), _is_paired)
        graph = decoder(config, weight, context or min(CONTEXT, trained), name=model.name, cache=cache, lora=reserve)
        vocabulary = vocabulary_of(model)
        if vocabulary is None:
            return graph
        if len(vocabulary.texts) > config.vocabulary:
            raise ModelError(f"{len(vocabulary.texts)} tokens have {config.vocabulary} embeddings")
        metadata = {TOKENS: written(table_of(vocabulary))}
        if "tokenizer.chat_template" in model.metadata:
            metadata |= chat_metadata(model.text("tokenizer.chat_template"), vocabulary)
        return replace(graph, metadata={**graph.metadata, **metadata})
    except ModelError as error:
        error.where = error.where or model.where
        raise


def _is_paired(config: DecoderConfig) -> bool:
    """Are the features of a head in the order in which GGUF files of Llamas have them?"""
    return any(layer.rotary is not None and layer.rotary.is_interleaved for layer in config.layers)


def weight_of(model: GgufModel, name: str) -> Value:
    """A tensor as codes and scales, as the file stores them."""
    found = model.tensor(name)
    if not isinstance(found, Blocks):
        return stored(found)
    shape = found.codes.shape
    codes = _narrowed(found.codes.reshape(shape[0], -1))
    scale = _of_groups(found.scale)
    base = None if found.base is None else _of_groups(found.base)
    value = dequantized(codes, scale, base, axis=1, block=shape[3])
    return build("reshape", value, shape=model.tensors[name].shape)


def _narrowed(codes: np.ndarray) -> Value:
    """Codes in four bits where they fit."""
    low, high = int(codes.min(initial=0)), int(codes.max(initial=0))
    fitting = (d for d in ("u4", "i4") if ends(d)[0] <= low and high <= ends(d)[1])
    dtype = next(fitting, None)
    return Value(constant_node(codes if dtype is None else codes.astype(DTYPES[dtype])))


def _of_groups(scaled: Scaled) -> Value:
    """[rows, groups]: numbers in fp16, or codes with a factor in fp16 for every superblock."""
    coarse = Value(constant_node(scaled.coarse[..., 0]))
    if scaled.fine is None:
        return coarse
    rows, _, groups = scaled.fine.shape
    return dequantized(Value(constant_node(scaled.fine.reshape(rows, -1))), coarse, None, axis=1, block=groups)

"""The graph of a folder of Hugging Face's: weights of its files, kept in their type, in the one decoder."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from edgec.errors import ModelError, UsageError
from edgec.frontend.hugging.architectures import adds_one, config_of, is_turned, module_of, name_of
from edgec.frontend.hugging.folder import HuggingModel
from edgec.frontend.hugging.tokenizer import tokens_beside
from edgec.frontend.language.cache import Kind
from edgec.frontend.language.decoder import CONTEXT, decoder
from edgec.frontend.language.lora import LoraOption, Reserve
from edgec.frontend.language.stored import stored
from edgec.frontend.values import Value
from edgec.ir.graph import Graph
from edgec.text import printable

_HEAD = "lm_head.weight"


def import_folder(
    model: HuggingModel, context: int | None = None, cache: Kind = "fp32", lora: LoraOption | None = None
) -> Graph:
    """The decoder for prompt and answer of at most ``context`` tokens, with a cache stored as ``cache`` says
    and room for adapters as ``lora`` says.

    Raises ModelError for architectures and tensors that are not supported, UsageError for a context beyond the model's.
    """
    config = config_of(model.config)
    trained = config.positions or model.config.integer("max_position_embeddings", CONTEXT)
    if trained < 1 or (context is not None and not 1 <= context <= trained):
        told = f"a context of {context} tokens; the model was trained for {trained}"
        raise UsageError(told, hint=f"give 1 to {trained}", where="--context")
    prefix = _prefix(model)

    def weight(name: str) -> Value | None:
        if name == "output.weight":
            is_tied = model.config.flag("tie_word_embeddings", _HEAD not in model.tensors)
            if not is_tied and _HEAD not in model.tensors:
                hint = "the folder is not whole, or tie_word_embeddings of config.json is wrong"
                raise ModelError(f"the weights have no '{_HEAD}'", hint=hint, where=model.where)
            return None if is_tied else stored(model.tensors[_HEAD].array())
        key = prefix + name_of(model.architecture, name)
        if key not in model.tensors:
            return None
        found = stored(model.tensors[key].array())
        if is_turned(model.architecture, name) and found.rank == 2:
            found = found.swap(0, 1)
        return found + 1.0 if adds_one(model.architecture, name) else found

    try:
        reserve = None if lora is None else Reserve(lora, partial(module_of, model.architecture))
        graph = decoder(config, weight, context or min(CONTEXT, trained), name=model.name, cache=cache, lora=reserve)
        return replace(graph, metadata={**graph.metadata, **tokens_beside(model.path, config.vocabulary)})
    except ModelError as error:
        error.where = error.where or model.where
        raise


def unsupported(model: HuggingModel) -> list[tuple[str, str, str]]:
    """The obstacle to a build, as (name, kind, hint): the architecture, or nothing."""
    try:
        config_of(model.config)
    except ModelError as error:
        return [(model.name, str(error.message), error.hint or "")]
    return []


def _prefix(model: HuggingModel) -> str:
    """The beginning of the names of all weights but the head's."""
    table = name_of(model.architecture, "token_embd.weight")
    found = [name for name in model.tensors if name == table or name.endswith("." + table)]
    if len(found) != 1:
        some = ", ".join(printable(name) for name in list(model.tensors)[:3])
        raise ModelError(
            f"the weights have no table '{table}'", hint=f"they begin with {some or 'nothing'}", where=model.where
        )
    return found[0][: -len(table)]

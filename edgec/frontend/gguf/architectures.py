"""Architectures of GGUF files as configurations of one decoder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import sqrt

import numpy as np

from edgec.errors import ModelError
from edgec.frontend.gguf.blocks import Blocks
from edgec.frontend.gguf.reader import GgufModel
from edgec.frontend.language.config import MOST, DecoderConfig, Layer, Rotary
from edgec.text import listed, printable

_READERS: dict[str, Callable[[GgufModel], DecoderConfig]] = {}
#: Ways to stretch positions that the decoder computes.
_SCALINGS = ("none", "linear")


def _reads(*names: str) -> Callable[[Callable[[GgufModel], DecoderConfig]], Callable[[GgufModel], DecoderConfig]]:
    def keep(reader: Callable[[GgufModel], DecoderConfig]) -> Callable[[GgufModel], DecoderConfig]:
        _READERS.update(dict.fromkeys(names, reader))
        return reader

    return keep


def config_of(model: GgufModel) -> DecoderConfig:
    """The configuration of a file; raises ModelError for an architecture that is not supported, by its name."""
    reader = _READERS.get(model.architecture)
    if reader is None:
        raise ModelError(
            f"the architecture is '{printable(model.architecture)}', which is not supported",
            hint=f"supported are {listed(sorted(_READERS))}",
            where=model.where,
        )
    config = reader(model)
    config.check()
    return config


def unsupported(model: GgufModel) -> list[tuple[str, str, str]]:
    """The obstacle to a build, as (name, kind, hint): the architecture, or nothing."""
    try:
        config_of(model)
    except ModelError as error:
        return [(model.name, str(error.message), error.hint or "")]
    return []


def _config(
    model: GgufModel, *, is_interleaved: bool = False, epsilon: str = "layer_norm_rms_epsilon"
) -> DecoderConfig:
    """The configuration that all architectures have in common."""
    name = model.architecture
    count = model.integer(f"{name}.block_count")
    if not 1 <= count <= MOST["layers"]:
        raise ModelError(f"the language model has {count} layers", where=model.where)
    width, heads = model.integer(f"{name}.embedding_length"), model.integer(f"{name}.attention.head_count")
    head = model.integer(f"{name}.attention.key_length", width // max(heads, 1))
    if model.integer(f"{name}.attention.value_length", head) != head:
        raise ModelError("keys and values have heads of different sizes", where=model.where)
    rotary = Rotary(
        model.integer(f"{name}.rope.dimension_count", head),
        model.number(f"{name}.rope.freq_base", 10000.0),
        is_interleaved,
        _scaling(model),
        _factors(model),
    )
    table = model.tensors.get("token_embd.weight")
    if table is None or len(table.shape) != 2:
        raise ModelError("the file has no table of embeddings 'token_embd.weight'", where=model.where)
    return DecoderConfig(
        vocabulary=table.shape[0],
        width=width,
        heads=heads,
        kv_heads=model.integer(f"{name}.attention.head_count_kv", heads),
        head=head,
        hidden=model.integer(f"{name}.feed_forward_length"),
        epsilon=model.number(f"{name}.attention.{epsilon}"),
        layers=(Layer(rotary),) * count,
    )


def _scaling(model: GgufModel) -> float:
    name = model.architecture
    kind = model.value(f"{name}.rope.scaling.type", str, "none")
    if kind not in _SCALINGS:
        raise ModelError(f"positions are scaled by '{printable(kind)}', which is not supported", where=model.where)
    return 1.0 if kind == "none" else model.number(f"{name}.rope.scaling.factor", 1.0)


def _factors(model: GgufModel) -> tuple[float, ...]:
    if "rope_freqs.weight" not in model.tensors:
        return ()
    found = model.tensor("rope_freqs.weight")
    if isinstance(found, Blocks) or not np.isfinite(found).all() or not found.all():
        raise ModelError("the frequency factors 'rope_freqs.weight' are no finite numbers", where=model.where)
    return tuple(map(float, found.reshape(-1)))


@_reads("llama")
def _llama(model: GgufModel) -> DecoderConfig:
    if any(".ffn_gate_exps" in name for name in model.tensors):
        raise ModelError("the model is a mixture of experts, which is not supported", where=model.where)
    return _config(model, is_interleaved=True)


@_reads("smollm3")
def _smollm3(model: GgufModel) -> DecoderConfig:
    """Every fourth layer has no positions."""
    config = _config(model, is_interleaved=True)
    layers = (replace(y, rotary=None) if (j + 1) % 4 == 0 else y for j, y in enumerate(config.layers))
    return replace(config, layers=tuple(layers))


@_reads("qwen2", "qwen3")
def _qwen(model: GgufModel) -> DecoderConfig:
    return _config(model)


@_reads("phi3")
def _phi3(model: GgufModel) -> DecoderConfig:
    if "rope_factors_long.weight" in model.tensors:
        raise ModelError("positions are scaled by long and short factors, which is not supported", where=model.where)
    return _windowed(_config(model), model, lambda number: True)


@_reads("gemma")
def _gemma(model: GgufModel) -> DecoderConfig:
    config = _config(model)
    return replace(config, activation="gelu", embedding_scale=sqrt(max(config.width, 0)))


@_reads("gemma2")
def _gemma2(model: GgufModel) -> DecoderConfig:
    """Every other layer sees a window; scores and logits are bounded by tanh."""
    config = replace(
        _gemma(model),
        attention_softcap=model.number("gemma2.attn_logit_softcapping", 50.0),
        logits_softcap=model.number("gemma2.final_logit_softcapping", 30.0),
    )
    return _windowed(config, model, lambda number: number % 2 == 0)


@_reads("gemma3")
def _gemma3(model: GgufModel) -> DecoderConfig:
    """Five of six layers see a window, with positions of their own."""
    config = _windowed(_gemma(model), model, lambda number: (number + 1) % 6 != 0)
    base = model.number("gemma3.rope.freq_base_swa", 10000.0)
    local = [replace(y.rotary, base=base, scale=1.0) if y.rotary and y.window else y.rotary for y in config.layers]
    return replace(config, layers=tuple(replace(y, rotary=r) for y, r in zip(config.layers, local)))


@_reads("gpt2")
def _gpt2(model: GgufModel) -> DecoderConfig:
    """Centered norms, learned positions, one matrix for queries, keys and values, and no gate."""
    table = model.tensors.get("position_embd.weight")
    if table is None or len(table.shape) != 2:
        raise ModelError("the file has no table of positions 'position_embd.weight'", where=model.where)
    config = _config(model, epsilon="layer_norm_epsilon")
    return replace(
        config, layers=tuple(replace(y, rotary=None) for y in config.layers), activation="gelu",
        positions=table.shape[0], is_centered=True, is_gated=False,
    )  # fmt: skip


def _windowed(config: DecoderConfig, model: GgufModel, is_local: Callable[[int], bool]) -> DecoderConfig:
    window = model.integer(f"{model.architecture}.attention.sliding_window", 0)
    layers = (replace(y, window=window if is_local(j) else 0) for j, y in enumerate(config.layers))
    return replace(config, layers=tuple(layers))

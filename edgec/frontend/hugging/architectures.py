"""Architectures of Hugging Face's config.json as configurations of one decoder, and the names of their weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import pi, sqrt

from edgec.errors import ModelError
from edgec.frontend.hugging.document import Document
from edgec.frontend.language.config import MOST, DecoderConfig, Layer, Rotary
from edgec.text import listed, printable

_READERS: dict[str, Callable[[Document], DecoderConfig]] = {}
_ACTIVATIONS = {
    "silu": "silu", "swish": "silu", "gelu_pytorch_tanh": "gelu", "gelu_new": "gelu", "gelu": "exact gelu",
}  # fmt: skip
_LOCAL, _WHOLE = "sliding_attention", "full_attention"


def _reads(*names: str) -> Callable[[Callable[[Document], DecoderConfig]], Callable[[Document], DecoderConfig]]:
    def keep(reader: Callable[[Document], DecoderConfig]) -> Callable[[Document], DecoderConfig]:
        _READERS.update(dict.fromkeys(names, reader))
        return reader

    return keep


def config_of(document: Document) -> DecoderConfig:
    """The configuration of a decoder; raises ModelError for an architecture that is not supported, by its name."""
    name = document.text("model_type")
    reader = _READERS.get(name)
    if reader is None:
        raise ModelError(
            f"the architecture is '{printable(name)}', which is not supported",
            hint=f"supported are {listed(sorted(_READERS))}",
            where=document.where,
        )
    if document.has("quantization_config"):
        raise ModelError(
            "the weights are quantized by another tool, which is not supported",
            hint="take the original weights and build with --quantize int4-weight",
            where=document.where,
        )
    config = reader(document)
    try:
        config.check()
    except ModelError as error:
        error.where = error.where or document.where
        raise
    return config


def _config(d: Document) -> DecoderConfig:
    """The configuration that all architectures have in common; layers are as ``layer_types`` says, or all alike."""
    count, width, heads = d.integer("num_hidden_layers"), d.integer("hidden_size"), d.integer("num_attention_heads")
    if not 1 <= count <= MOST["layers"]:
        raise ModelError(f"the language model has {count} layers", where=d.where)
    activation = d.text("hidden_act", "silu")
    if activation not in _ACTIVATIONS:
        raise ModelError(
            f"the activation is '{printable(activation)}', which is not supported",
            hint=f"supported are {listed(_ACTIVATIONS)}",
            where=d.where,
        )
    head = d.integer("head_dim", width // max(heads, 1))
    return DecoderConfig(
        vocabulary=d.integer("vocab_size"),
        width=width,
        heads=heads,
        kv_heads=d.integer("num_key_value_heads", heads),
        head=head,
        hidden=d.integer("intermediate_size"),
        epsilon=d.number("rms_norm_eps", 1e-6),
        layers=(Layer(_rotary(d, head, _WHOLE)),) * count,
        activation=_ACTIVATIONS[activation],
    )


def _rotary(d: Document, head: int, kind: str) -> Rotary:
    """The rotary embedding of a kind of layer: newer files have it in one object, or in one for each kind."""
    newer = d.part("rope_parameters")
    about = newer.part(kind) if newer.has(kind) else newer if newer.has("rope_theta") else d.part("rope_scaling")
    base = about.number("rope_theta", d.number("rope_theta", 10000.0))
    part = about.number("partial_rotary_factor", d.number("partial_rotary_factor", 1.0))
    if not base > 0 or not 0 < part <= 1:
        raise ModelError(f"positions of base {base:g} and of {part:g} of a head", where=d.where)
    way = about.text("rope_type", about.text("type", "default"))
    plain = Rotary(int(head * part), base)
    if way == "default":
        return plain
    factor = about.number("factor", 1.0)
    if not factor > 0:
        raise ModelError(f"positions are scaled by {factor:g}", where=d.where)
    if way == "linear":
        return replace(plain, scale=factor)
    if way == "llama3":
        return replace(plain, frequency_factors=_llama3(about, plain, factor))
    raise ModelError(
        f"positions are scaled by '{printable(way)}', which is not supported",
        hint="supported are default, linear and llama3",
        where=d.where,
    )


def _llama3(d: Document, rotary: Rotary, factor: float) -> tuple[float, ...]:
    """Low frequencies are divided by ``factor``, high ones stay, and those between are mixed."""
    low, high = d.number("low_freq_factor"), d.number("high_freq_factor")
    trained = d.integer("original_max_position_embeddings")
    if not 0 < low < high or not 0 < rotary.size <= MOST["width"]:
        raise ModelError(f"positions are scaled between the factors {low:g} and {high:g}", where=d.where)
    found = []
    for k in range(rotary.size // 2):
        frequency = rotary.base ** (-2 * k / rotary.size)
        share = (trained * frequency / (2 * pi) - low) / (high - low)
        share = min(max(share, 0.0), 1.0)
        found.append(1 / ((1 - share) / factor + share))
    return tuple(found)


def _windowed(d: Document, config: DecoderConfig, is_local: Callable[[int], bool]) -> DecoderConfig:
    """Layers with a window and, where the file has one, a rotary embedding of their own."""
    kinds = d.value("layer_types", list, [])
    count = len(config.layers)
    if kinds and (len(kinds) != count or not {*map(str, kinds)} <= {_LOCAL, _WHOLE}):
        raise ModelError(f"'layer_types' does not say {_LOCAL} or {_WHOLE} for {count} layers", where=d.where)
    local = [kind == _LOCAL for kind in kinds] if kinds else [is_local(j) for j in range(count)]
    window = d.integer("sliding_window", 0)
    if any(local) and not 0 < window <= MOST["context"]:
        raise ModelError(f"the layers with a window have one of {window} tokens", where=d.where)
    other = Layer(_rotary(d, config.head, _LOCAL), window)
    return replace(config, layers=tuple(other if k else layer for k, layer in zip(local, config.layers)))


@_reads("llama")
def _llama(d: Document) -> DecoderConfig:
    return _config(d)


@_reads("mistral", "phi3")
def _mistral(d: Document) -> DecoderConfig:
    return _windowed(d, _config(d), lambda number: d.has("sliding_window"))


@_reads("qwen2", "qwen3")
def _qwen(d: Document) -> DecoderConfig:
    config = _config(d)
    if not d.flag("use_sliding_window"):
        return config
    first = d.integer("max_window_layers", len(config.layers))
    return _windowed(d, config, lambda number: number >= first)


@_reads("smollm3")
def _smollm3(d: Document) -> DecoderConfig:
    """Some layers have no positions: every fourth, where the file does not list them."""
    config, every = _config(d), max(d.integer("no_rope_layer_interval", 4), 1)
    turned = d.value("no_rope_layers", list, [(j + 1) % every != 0 for j in range(len(config.layers))])
    if len(turned) != len(config.layers):
        raise ModelError(f"'no_rope_layers' is about {len(turned)} of {len(config.layers)} layers", where=d.where)
    config = replace(config, layers=tuple(y if t else replace(y, rotary=None) for y, t in zip(config.layers, turned)))
    if d.flag("use_sliding_window"):
        raise ModelError("windows of attention are not supported in smollm3", where=d.where)
    return config


@_reads("gemma")
def _gemma(d: Document) -> DecoderConfig:
    config = _config(Document({**d.values, "hidden_act": "gelu_pytorch_tanh"}, d.where))
    return replace(config, embedding_scale=sqrt(max(config.width, 0)))


@_reads("gemma2")
def _gemma2(d: Document) -> DecoderConfig:
    """Every other layer sees a window; scores and logits are bounded by tanh."""
    config = replace(
        _gemma(d),
        query_scale=_query_scale(d),
        attention_softcap=d.number("attn_logit_softcapping", 0.0),
        logits_softcap=d.number("final_logit_softcapping", 0.0),
    )
    return _windowed(d, config, lambda number: number % 2 == 0)


@_reads("gemma3_text")
def _gemma3(d: Document) -> DecoderConfig:
    """Five of six layers see a window, with positions of their own."""
    if d.flag("use_bidirectional_attention"):
        raise ModelError("attention sees later tokens, which is not supported", where=d.where)
    config, every = replace(_gemma(d), query_scale=_query_scale(d)), max(d.integer("sliding_window_pattern", 6), 1)
    config = _windowed(d, config, lambda number: (number + 1) % every != 0)
    if d.has("rope_parameters"):
        return config
    base = d.number("rope_local_base_freq", 10000.0)
    local = Rotary(config.head, base)
    return replace(config, layers=tuple(replace(y, rotary=local) if y.window else y for y in config.layers))


@_reads("gpt2")
def _gpt2(d: Document) -> DecoderConfig:
    """Centered norms, learned positions, one matrix for queries, keys and values, and no gate."""
    for name in ("scale_attn_by_inverse_layer_idx", "add_cross_attention"):
        if d.flag(name):
            raise ModelError(f"'{name}' is set, which is not supported", where=d.where)
    width = d.integer("n_embd")
    names = {"num_hidden_layers": "n_layer", "num_attention_heads": "n_head", "max_position_embeddings": "n_positions"}
    given = {name: d.integer(theirs) for name, theirs in names.items()}
    more = {
        "hidden_size": width, "intermediate_size": d.integer("n_inner", 4 * width),
        "vocab_size": d.integer("vocab_size"), "hidden_act": d.text("activation_function", "gelu_new"),
        "rms_norm_eps": d.number("layer_norm_epsilon", 1e-5),
    }  # fmt: skip
    config = _config(Document({**given, **more}, d.where))
    return replace(
        config, layers=(Layer(None),) * len(config.layers), positions=given["max_position_embeddings"],
        is_centered=True, is_gated=False, query_scale=0.0 if d.flag("scale_attn_weights", True) else 1.0,
    )  # fmt: skip


def _query_scale(d: Document) -> float:
    scalar = d.number("query_pre_attn_scalar", 256.0)
    if not scalar > 0:
        raise ModelError(f"queries are scaled by the root of {scalar:g}", where=d.where)
    return float(scalar**-0.5)


#: Weights of a layer by the decoder's names for them; gemma2 and gemma3 have four norms a layer.
_LAYER = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_qkv": "self_attn.qkv_proj", "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm", "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip
_FOUR_NORMS = {
    "post_attention_norm": "post_attention_layernorm", "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}  # fmt: skip
_OTHERS = {"token_embd": "embed_tokens", "output_norm": "norm"}
_GPT2 = {
    "attn_norm": "ln_1", "attn_qkv": "attn.c_attn", "attn_output": "attn.c_proj", "ffn_norm": "ln_2",
    "ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj", "token_embd": "wte", "position_embd": "wpe", "output_norm": "ln_f",
}  # fmt: skip


def name_of(architecture: str, name: str) -> str:
    """The name of the decoder's weight ``name`` (``blk.0.attn_q.weight``), without what all names begin with."""
    if architecture == "gpt2":
        body, _, kind = name.rpartition(".")
        *path, part = body.replace("blk.", "h.").split(".")
        return ".".join([*path, _GPT2.get(part, part), kind])
    layers = _LAYER | (_FOUR_NORMS if architecture in ("gemma2", "gemma3_text") else {})
    layers |= {"ffn_up": "mlp.gate_up_proj"} if architecture == "phi3" else {}
    body, _, kind = name.rpartition(".")
    if not body.startswith("blk."):
        return f"{_OTHERS.get(body, body)}.{kind}"
    _, number, part = body.split(".", 2)
    return f"layers.{number}.{layers.get(part, part)}.{kind}"


def module_of(architecture: str, name: str) -> str:
    """The module of the weight ``name`` of a product, for an architecture by its name here or in GGUF files."""
    return name_of(architecture, name).removesuffix(".weight")


def is_turned(architecture: str, name: str) -> bool:
    """Is the weight of a product stored as [inputs, outputs]?"""
    return architecture == "gpt2" and name.startswith("blk.") and name.endswith(".weight") and "norm" not in name


def adds_one(architecture: str, name: str) -> bool:
    """Is the weight of a norm stored without the one that is added to it?"""
    return architecture.startswith("gemma") and name.endswith("norm.weight")

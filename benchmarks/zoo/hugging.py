"""Architectures of transformers in small: a configuration class with few narrow layers, and inputs that fit."""

from __future__ import annotations

import inspect
import random
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.zoo import vision

#: Kinds of networks: the name of the auto class, and how many architectures of it are drawn.
KINDS = {
    "MaskedLM": 20, "CausalLM": 30, "SeqToSeqCausalLM": 8, "ImageClassification": 20, "SemanticSegmentation": 5,
    "ObjectDetection": 4, "DepthEstimation": 4, "CTC": 6, "AudioClassification": 4, "TimeSeriesPrediction": 2,
    "ImageToImage": 1, "KeypointDetection": 1,
}  # fmt: skip
#: Fields of configurations and the values that make a network small.
SMALL: dict[str, Any] = {
    "hidden_size": 128, "d_model": 128, "n_embd": 128, "dim": 128, "embed_dim": 128, "embedding_size": 128,
    "num_hidden_layers": 3, "num_layers": 3, "n_layer": 3, "n_layers": 3, "encoder_layers": 2, "decoder_layers": 2,
    "num_decoder_layers": 2, "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_heads": 4,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
    "intermediate_size": 384, "ffn_dim": 384, "d_ff": 384, "d_kv": 32, "encoder_ffn_dim": 384, "decoder_ffn_dim": 384,
    "n_inner": 384, "hidden_dim": 384, "moe_intermediate_size": 96, "num_experts": 4, "num_local_experts": 4,
    "n_routed_experts": 4, "num_experts_per_tok": 2, "vocab_size": 2000, "max_position_embeddings": 256,
    "n_positions": 256, "n_ctx": 256, "image_size": 160, "num_buckets": 32, "type_vocab_size": 2,
    "entity_vocab_size": 500,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1, "use_cache": False,
    "word_embed_proj_dim": 128, "conv_dim": (64, 64, 64, 64, 64, 64, 64), "rotary_dim": 16, "state_size": 8,
}  # fmt: skip
#: Tokens of a text, and parameters that a network may have.
LENGTH, MOST = 48, 60e6


def load() -> None:
    """Import what every architecture needs."""
    vision.torchvision()  # transformers imports it
    import transformers.models.auto.modeling_auto  # noqa: F401


def names(seed: int) -> list[tuple[str, str]]:
    """KIND:ARCHITECTURE and the family of each that is drawn; an architecture comes once."""
    from transformers.models.auto import modeling_auto

    found: dict[str, str] = {}
    for kind, count in KINDS.items():
        mapping = getattr(modeling_auto, _mapping(kind))
        offered = [n for n in sorted(mapping) if n not in found]
        for name in random.Random(f"{seed} {kind}").sample(offered, min(count, len(offered))):
            found[name] = kind
    return [(f"{kind}:{name}", f"{kind}") for name, kind in found.items()]


def _mapping(kind: str) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind).upper()
    return f"MODEL_FOR_{words}_MAPPING_NAMES"


def make(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The first of an architecture's configurations that runs; raises the error of the last where none does."""
    vision.torchvision()  # transformers imports it
    from transformers import CONFIG_MAPPING
    from transformers.models.auto import modeling_auto

    kind, _, architecture = name.partition(":")
    mapping = getattr(modeling_auto, _mapping(kind).removesuffix("_NAMES"))
    problem: Exception = ValueError("no small configuration")
    for config in _configurations(CONFIG_MAPPING[architecture]):
        try:
            found = mapping[type(config)]
            return _made(found[0] if isinstance(found, tuple) else found, config, kind)
        except Exception as found:  # sizes that do not fit each other end in errors of all kinds
            problem = found
    raise problem


def _made(architecture: Any, config: Any, kind: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A network and its inputs, after one run."""
    with torch.device("meta"):
        parameters = sum(p.numel() for p in architecture(config).parameters())
    if parameters > MOST:
        raise ValueError(f"{parameters / 1e6:.0f} million parameters, although its configuration was made small")
    network = architecture(config).eval()
    inputs = _inputs(network, kind)
    with torch.no_grad():
        network(**inputs)
    return First(network, tuple(inputs)), tuple(inputs.values())


def _configurations(kind: Any) -> Iterator[Any]:
    """Configurations with the fields that one has made small: all of them, or those that hardly depend on others."""
    settings = _settings(kind)
    for names in (set(settings), {"num_hidden_layers", "vocab_size", "image_size"}, set[str]()):
        try:
            yield kind(**{k: v for k, v in settings.items() if k in names}, attn_implementation="eager")
        except Exception:  # fields that exclude each other
            continue


def _settings(kind: Any) -> dict[str, Any]:
    """Small values of those fields that a configuration has, those of the configurations inside it too."""
    plain = kind()
    settings = {k: v for k, v in SMALL.items() if _has(plain, k)}
    if getattr(plain, "head_dim", None) is None:
        settings.pop("head_dim", None)
    for name in ("layer_types", "mlp_layer_types"):
        if getattr(plain, name, None):
            settings[name] = list(getattr(plain, name))[-settings.get("num_hidden_layers", 3) :]
    if isinstance(getattr(plain, "image_size", None), (list, tuple)):
        settings["image_size"] = [160, 160]
    for name, inner in getattr(kind, "sub_configs", {}).items():
        if isinstance(inner, type) and hasattr(inner, "model_type") and "AutoConfig" not in inner.__name__:
            settings[name] = _settings(inner)
    return settings


def _has(config: Any, key: str) -> bool:
    return key in type(config).attribute_map or key in config.to_dict() or hasattr(type(config), key)


def _inputs(network: Any, kind: str) -> dict[str, Tensor]:
    config = network.config
    words = getattr(config, "vocab_size", None) or 100
    known = inspect.signature(network.forward).parameters
    main = network.main_input_name
    if kind in ("MaskedLM", "CausalLM", "SeqToSeqCausalLM"):
        drawn = {"input_ids": torch.randint(3, words, (1, LENGTH))}
        if "attention_mask" in known:
            drawn["attention_mask"] = torch.ones(1, LENGTH, dtype=torch.int64)
        if kind == "SeqToSeqCausalLM":
            drawn["decoder_input_ids"] = torch.randint(3, words, (1, LENGTH // 2))
        return drawn
    if main == "pixel_values":
        side = getattr(config, "image_size", None) or 160
        height, width = side if isinstance(side, (list, tuple)) else (side, side)
        return {main: torch.randn(1, getattr(config, "num_channels", 3), height, width)}
    if main == "input_features":
        sizes = (getattr(config, n, None) for n in ("feature_size", "input_feat_per_channel", "num_mel_bins"))
        return {main: torch.randn(1, 160, next((n for n in sizes if n), 80))}
    if main == "input_values" and hasattr(config, "frequency_stride"):  # a picture of a sound
        return {main: torch.randn(1, config.max_length, config.num_mel_bins)}
    if main == "input_values":
        return {main: torch.randn(1, 16000)}
    if main == "past_values" and hasattr(config, "context_length"):
        return {main: torch.randn(1, config.context_length, getattr(config, "num_input_channels", 1))}
    raise ValueError(f"inputs of {main} are not known")


class First(nn.Module):
    """A network that takes its inputs in order, and gives the floats among its results."""

    def __init__(self, network: nn.Module, inputs: tuple[str, ...]) -> None:
        super().__init__()
        self.network, self.inputs = network, inputs

    def forward(self, *arrays: Tensor) -> tuple[Tensor, ...]:
        found = self.network(**dict(zip(self.inputs, arrays)), return_dict=True)
        return tuple(v for k, v in found.items() if isinstance(v, Tensor) and v.is_floating_point())[:3]

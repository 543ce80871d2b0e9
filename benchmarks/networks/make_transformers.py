"""ONNX files of seven transformers as an old exporter writes them: norms and activations as single operators.

    python -m benchmarks.networks.make_transformers DIR [NAME ...]

Needs torch and transformers. The operator set is 13, which has neither LayerNormalization nor Gelu, so every one of
them is a dozen primitive operators: what `simplify.py` is to make small again. Each network has the layers and heads
of the published one; widths and vocabularies are smaller, weights are random.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import torch
import transformers
from torch import nn

from benchmarks.networks import make as make_networks
from benchmarks.networks.make import Hugging, Recipe

OPSET = 13
LENGTH, WORDS = 64, 4096
_EAGER = {"attn_implementation": "eager"}
_TEXT = {"vocab_size": WORDS, **_EAGER}


def _encoder(model: nn.Module) -> nn.Module:
    return Hugging(model, ("input_ids", "attention_mask"), ("last_hidden_state",))


def bert() -> nn.Module:
    config = transformers.BertConfig(hidden_size=192, intermediate_size=768, **_TEXT)
    return _encoder(transformers.BertModel(config, add_pooling_layer=False))


def distilbert() -> nn.Module:
    return _encoder(transformers.DistilBertModel(transformers.DistilBertConfig(dim=192, hidden_dim=768, **_TEXT)))


def albert() -> nn.Module:
    config = transformers.AlbertConfig(
        embedding_size=64, hidden_size=192, num_attention_heads=12, intermediate_size=768, **_TEXT
    )
    return _encoder(transformers.AlbertModel(config, add_pooling_layer=False))


def mobilebert() -> nn.Module:
    config = transformers.MobileBertConfig(
        embedding_size=64, hidden_size=192, intra_bottleneck_size=64, intermediate_size=256, **_TEXT
    )
    return _encoder(transformers.MobileBertModel(config, add_pooling_layer=False))


def gpt2() -> nn.Module:
    config = transformers.GPT2Config(n_embd=192, n_positions=LENGTH, use_cache=False, **_TEXT)
    mask = torch.ones(1, LENGTH, dtype=torch.int64)
    return Hugging(
        transformers.GPT2LMHeadModel(config), ("input_ids",), ("logits",), attention_mask=mask, use_cache=False
    )


def vit() -> nn.Module:
    config = transformers.ViTConfig(
        hidden_size=192, intermediate_size=768, num_attention_heads=12, num_labels=1000, **_EAGER
    )
    return Hugging(transformers.ViTForImageClassification(config), ("pixel_values",), ("logits",))


def swin() -> nn.Module:
    config = transformers.SwinConfig(embed_dim=48, num_labels=1000, **_EAGER)
    return Hugging(transformers.SwinForImageClassification(config), ("pixel_values",), ("logits",))


_MASKED = {"tokens": (LENGTH, WORDS), "is_masked": True, "outputs": ("last_hidden_state",)}
RECIPES: Mapping[str, Recipe] = {
    "bert_decomposed": Recipe(bert, **_MASKED),
    "distilbert_decomposed": Recipe(distilbert, **_MASKED),
    "albert_decomposed": Recipe(albert, **_MASKED),
    "mobilebert_decomposed": Recipe(mobilebert, **_MASKED),
    "gpt2_decomposed": Recipe(gpt2, tokens=(LENGTH, WORDS), outputs=("logits",)),
    "vit_decomposed": Recipe(vit, (3, 224, 224)),
    "swin_decomposed": Recipe(swin, (3, 224, 224)),
}


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("folder", type=Path)
    p.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(RECIPES)}; all when none is given")
    options = p.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.names or RECIPES:
        path = make_networks.make(name, options.folder, RECIPES[name], OPSET)
        print(f"{path}: {path.stat().st_size / 1e6:.1f} MB", flush=True)


if __name__ == "__main__":
    main()

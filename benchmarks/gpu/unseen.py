"""Networks that nobody tuned for, for `benchmarks.gpu.precisions`: modules with random weights, and their inputs."""

from __future__ import annotations

from collections.abc import Mapping

import torchvision
import transformers
from torch import nn

from benchmarks.networks.make import RECIPES, Hugging, Recipe


def whisper_encoder() -> nn.Module:
    """The encoder of Whisper's smallest model, on 30 seconds: 1500 keys."""
    config = transformers.WhisperConfig(
        d_model=384, encoder_layers=4, encoder_attention_heads=6, encoder_ffn_dim=1536, decoder_layers=1,
        num_mel_bins=80,
    )  # fmt: skip
    return Hugging(transformers.WhisperModel(config).encoder, ("input_features",), ("last_hidden_state",))


def distilbert() -> nn.Module:
    model = transformers.DistilBertModel(transformers.DistilBertConfig(attn_implementation="eager"))
    return Hugging(model, ("input_ids", "attention_mask"), ("last_hidden_state",))


_PICTURE = (3, 224, 224)
#: The networks, those first that take longest to get ready.
UNSEEN: Mapping[str, Recipe] = {
    "densenet121": Recipe(lambda: torchvision.models.densenet121(weights=None), _PICTURE),
    "efficientnet_v2_s": Recipe(lambda: torchvision.models.efficientnet_v2_s(weights=None), _PICTURE),
    "swin_t": Recipe(lambda: torchvision.models.swin_t(weights=None), _PICTURE),
    "convnext_tiny": Recipe(lambda: torchvision.models.convnext_tiny(weights=None), _PICTURE),
    "whisper_tiny_encoder": Recipe(whisper_encoder, (80, 3000), outputs=("last_hidden_state",)),
    "distilbert_128": Recipe(distilbert, tokens=(128, 30522), is_masked=True, outputs=("last_hidden_state",)),
    "bert_base_128": RECIPES["bert_base_128"],
    "vit_tiny_224": RECIPES["vit_tiny_224"],
    "resnet50": Recipe(lambda: torchvision.models.resnet50(weights=None), _PICTURE),
    "regnet_y_800mf": Recipe(lambda: torchvision.models.regnet_y_800mf(weights=None), _PICTURE),
    "mobilenet_v3_large": Recipe(lambda: torchvision.models.mobilenet_v3_large(weights=None), _PICTURE),
    "shufflenet_v2_x1_0": Recipe(lambda: torchvision.models.shufflenet_v2_x1_0(weights=None), _PICTURE),
}

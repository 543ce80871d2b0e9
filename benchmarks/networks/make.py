"""Makes ONNX files of fourteen well-known network shapes with random weights, for `latency.py --folder`.

    python -m benchmarks.networks.make [--tflite] DIR [NAME ...]

Needs torch and transformers, and litert-torch for --tflite. Weights are drawn so that activations keep a sensible size,
statistics of batch norms are taken on random pictures, and seeds are fixed. Beside NAME.onnx stands NAME.in.npz with an
input, and with --tflite NAME.tflite, the same network with the same weights for LiteRT.
"""

from __future__ import annotations

import argparse
import warnings
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
import transformers
from torch import Tensor, nn

from benchmarks.networks import topologies
from benchmarks.networks.detector import Detector

OPSET = 17


class Hugging(nn.Module):
    """A model of transformers that takes its inputs in order, and gives the fields that are asked for."""

    def __init__(self, model: nn.Module, inputs: tuple[str, ...], outputs: tuple[str, ...], **fixed: Any) -> None:
        super().__init__()
        self.model, self.inputs, self.outputs, self.fixed = model, inputs, outputs, fixed

    def _apply(self, change: Callable[[Tensor], Tensor], recurse: bool = True) -> Hugging:
        """Move constants with the module, like parameters."""
        super()._apply(change, recurse)
        self.fixed = {k: change(v) if isinstance(v, Tensor) else v for k, v in self.fixed.items()}
        return self

    def forward(self, *arrays: Tensor) -> tuple[Tensor, ...]:
        result = self.model(**dict(zip(self.inputs, arrays)), **self.fixed, return_dict=True)
        return tuple(result[name] for name in self.outputs)


def bert(layers: int, width: int, inner: int) -> nn.Module:
    config = transformers.BertConfig(
        num_hidden_layers=layers, hidden_size=width, num_attention_heads=12, intermediate_size=inner,
        attn_implementation="eager",
    )  # fmt: skip
    outputs = ("last_hidden_state", "pooler_output")
    return Hugging(transformers.BertModel(config), ("input_ids", "attention_mask"), outputs)


def gpt2() -> nn.Module:
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(attn_implementation="eager", use_cache=False))
    mask = torch.ones(1, 64, dtype=torch.int64)
    return Hugging(model, ("input_ids",), ("logits",), attention_mask=mask, use_cache=False)


def vit_tiny() -> nn.Module:
    config = transformers.ViTConfig(
        hidden_size=192, num_hidden_layers=12, num_attention_heads=3, intermediate_size=768, num_labels=1000,
        attn_implementation="eager",
    )  # fmt: skip
    return Hugging(transformers.ViTForImageClassification(config), ("pixel_values",), ("logits",))


@dataclass(frozen=True)
class Recipe:
    """Recipe of a network: its module, and the shape of its image or the length and vocabulary of its text."""

    make: Callable[[], nn.Module]
    picture: tuple[int, ...] = ()
    tokens: tuple[int, int] = (0, 0)
    is_masked: bool = False
    outputs: tuple[str, ...] = ("output",)

    def inputs(self, random: np.random.Generator) -> dict[str, np.ndarray]:
        if self.picture:
            return {"input": random.standard_normal((1, *self.picture), dtype=np.float32)}
        length, words = self.tokens
        arrays = {"input_ids": random.integers(0, words, (1, length), dtype=np.int64)}
        if self.is_masked:  # the last eighth is padding
            arrays["attention_mask"] = (np.arange(length)[None] < length * 7 // 8).astype(np.int64)
        return arrays


_BERT = {"tokens": (128, 30522), "is_masked": True, "outputs": ("last_hidden_state", "pooler_output")}
RECIPES: Mapping[str, Recipe] = {
    "mobilenetv2_224": Recipe(topologies.mobilenet_v2, (3, 224, 224)),
    "mobilenetv3s_224": Recipe(topologies.mobilenet_v3_small, (3, 224, 224)),
    "efficientnet_b0_224": Recipe(topologies.efficientnet_b0, (3, 224, 224)),
    "resnet50_224": Recipe(topologies.resnet50, (3, 224, 224)),
    "squeezenet11_224": Recipe(topologies.squeezenet, (3, 224, 224)),
    "yolov8n_320": Recipe(lambda: Detector(320), (3, 320, 320)),
    "unet_256": Recipe(topologies.UNet, (3, 256, 256)),
    "bert_base_128": Recipe(lambda: bert(12, 768, 3072), **_BERT),
    "tinybert_128": Recipe(lambda: bert(4, 312, 1200), **_BERT),
    "gpt2_64": Recipe(gpt2, tokens=(64, 50257), outputs=("logits",)),
    "vit_tiny_224": Recipe(vit_tiny, (3, 224, 224)),
    "dscnn_kws": Recipe(topologies.ds_cnn, (1, 49, 10)),
    "resnet8_cifar": Recipe(topologies.resnet8, (3, 32, 32)),
    "c3d_small_16x112": Recipe(topologies.c3d, (3, 16, 112, 112)),
}


def draw_weights(module: nn.Module) -> None:
    """Weights that keep the size of what passes through them; norms near one."""
    for part in module.modules():
        bias = getattr(part, "bias", None)
        if isinstance(part, (nn.BatchNorm2d, nn.BatchNorm3d, nn.LayerNorm)):
            nn.init.uniform_(part.weight, 0.8, 1.2)
            nn.init.uniform_(part.bias, -0.1, 0.1)
        elif isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight, std=0.02)
        elif isinstance(part, (nn.Conv2d, nn.Conv3d, nn.ConvTranspose2d)):
            terms = part.weight[0].numel() if not part.transposed else part.weight.shape[0]
            nn.init.normal_(part.weight, std=sqrt(2 / terms))
            if bias is not None:
                nn.init.uniform_(bias, -0.1, 0.1)
        elif isinstance(getattr(part, "weight", None), nn.Parameter) and part.weight.dim() == 2:
            # The transposed dense layers of GPT-2 have their inputs first.
            terms = part.weight.shape[0 if type(part).__name__ == "Conv1D" else 1]
            nn.init.normal_(part.weight, std=0.7 / sqrt(terms))
            if bias is not None:
                nn.init.uniform_(bias, -0.05, 0.05)


def calibrate(module: nn.Module, picture: tuple[int, ...]) -> None:
    """Statistics of batch norms, from random pictures."""
    norms = [m for m in module.modules() if isinstance(m, (nn.BatchNorm2d, nn.BatchNorm3d))]
    for norm in norms:
        norm.momentum = None  # the plain mean over all pictures
    if norms:
        module.train()
        for _ in range(3):
            module(torch.randn(4, *picture))


def make(name: str, folder: Path, recipe: Recipe, opset: int = OPSET, tflite: bool = False) -> Path:
    """Write NAME.onnx, NAME.in.npz, and NAME.tflite on demand; the same packages give the same network."""
    seed = zlib.crc32(name.encode())
    torch.manual_seed(seed)
    arrays = recipe.inputs(np.random.default_rng(seed))
    module = recipe.make()
    path = folder / f"{name}.onnx"
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        draw_weights(module)
        if recipe.picture and not isinstance(module, Hugging):
            calibrate(module, recipe.picture)
        torch.onnx.export(
            module.eval(), tuple(map(torch.from_numpy, arrays.values())), str(path), input_names=list(arrays),
            output_names=list(recipe.outputs), opset_version=opset, dynamo=False,
        )  # fmt: skip
    onnx.checker.check_model(str(path))
    np.savez(folder / f"{name}.in.npz", **arrays)
    if tflite:
        import litert_torch

        samples = tuple(map(torch.from_numpy, arrays.values()))
        litert_torch.convert(module.eval(), samples).export(str(path.with_suffix(".tflite")))
    return path


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("folder", type=Path)
    p.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(RECIPES)}; all when none is given")
    p.add_argument("--tflite", action="store_true", help="write NAME.tflite too")
    options = p.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.names or RECIPES:
        path = make(name, options.folder, RECIPES[name], tflite=options.tflite)
        print(f"{path}: {path.stat().st_size / 1e6:.1f} MB", flush=True)


if __name__ == "__main__":
    main()

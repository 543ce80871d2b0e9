"""Networks of timm and torchvision: their modules with random weights, and inputs of moderate size."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

#: Pixels along a side for networks that take any.
SIDE = 192
#: Names of torchvision that are left out: too large for the time that a benchmark has.
_LARGE = (
    "l_16", "l_32", "h_14", "b_32", "_l", "_b", "swin3d_s", "mvit_v2_s", "128gf", "32gf", "16gf", "resnext101_64x4d",
    "resnext101_32x8d", "resnet101_2", "resnet152", "b5", "b6", "b7", "vgg13", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19",
    "vgg19_bn", "convnext_base", "convnext_large",
)  # fmt: skip


@cache
def torchvision() -> Any:
    """The package; of its own operators, those that its import asks for are declared where they were not compiled."""
    try:
        return importlib.import_module("torchvision")
    except RuntimeError:  # the operators that it describes are not there
        library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    torchvision.library = library  # type: ignore[attr-defined]  # what it declares goes with it
    return importlib.import_module("torchvision")


@cache
def timm() -> Any:
    torchvision()
    import timm as package

    return package


def timm_input(network: nn.Module) -> tuple[int, ...]:
    """Channels, height, width that a network of timm takes."""
    settings: dict[str, Any] = network.pretrained_cfg
    return tuple(settings.get("input_size") or (3, 224, 224))


def make_timm(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    network = timm().create_model(name, exportable=True)
    return network, (torch.randn(1, *timm_input(network)),)


def torchvision_names() -> list[str]:
    """Networks for classification, segmentation, detection, video and optical flow that are not too large."""
    names = torchvision().models.list_models()
    return [n for n in names if not n.startswith("quantized_") and not n.endswith(_LARGE)]


def torchvision_family(name: str) -> str:
    module: str = torchvision().models.get_model_builder(name).__module__
    return module.removeprefix("torchvision.models.")


def make_torchvision(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A network of torchvision, of a detector its backbone: torchvision's operator for boxes is none of ONNX."""
    family = torchvision_family(name)
    special = {"weights": None}
    if family.startswith(("segmentation", "detection")):
        special["weights_backbone"] = None
    if name in ("googlenet", "inception_v3"):
        special |= {"init_weights": False, "aux_logits": False}
    network = torchvision().models.get_model(name, **special)
    if family.startswith("detection"):
        return Listed(network.backbone), (torch.randn(1, 3, 224, 224),)
    if family.startswith("segmentation"):
        return Listed(network), (torch.randn(1, 3, 224, 224),)
    if family.startswith("optical_flow"):
        return Listed(network), (torch.randn(1, 3, 128, 160), torch.randn(1, 3, 128, 160))
    if family.startswith("video"):
        frames, side = (16, 224) if "mvit" in name else (8, 112)
        return network, (torch.randn(1, 3, frames, side, side),)
    fixed = {"inception_v3": 299, "googlenet": 224}.get(name, 224 if "vit" in name or "swin" in name else SIDE)
    return network, (torch.randn(1, 3, fixed, fixed),)


class Listed(nn.Module):
    """A network whose results, a dictionary or a list of them, come as a tuple."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, *arrays: Tensor) -> tuple[Tensor, ...]:
        found = self.network(*arrays)
        return tuple(found.values()) if isinstance(found, dict) else tuple(found[-1:])

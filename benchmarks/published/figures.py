"""Counts of the papers (DNNFusion, PLDI 2021, table 5; SmartMem, ASPLOS 2024), and the networks here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.published import detectors, pictures, regions, text, vision, volumes
from benchmarks.published.layers import Net


@dataclass(frozen=True)
class Published:
    """One network: how it is made, as the paper has it and small; the paper's operators, kernels and megabytes.

    ``megabytes`` are those of intermediate results without and with fusion, where the paper has them.
    """

    make: Callable[..., Net]
    paper: str
    operators: int
    kernels: int
    megabytes: tuple[int, int] | None = None
    small: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""


_DNNF, _SMART = "DNNFusion", "SmartMem"
_TINY = {"length": 24, "vocabulary": 50}
NETWORKS: Mapping[str, Published] = {
    "EfficientNet-B0": Published(
        pictures.efficientnet_b0, _DNNF, 309, 97, (108, 26), {"size": 64, "width": 0.25}
    ),
    "VGG-16": Published(pictures.vgg16, _DNNF, 51, 17, (161, 52), {"size": 64, "width": 0.125}),
    "MobileNetV1-SSD": Published(
        detectors.mobilenet_ssd, _DNNF, 202, 71, (110, 37), {"size": 128, "width": 0.25, "classes": 5}
    ),
    "YOLOv4": Published(detectors.yolov4, _DNNF, 398, 135, (329, 205), {"size": 64, "width": 0.125, "classes": 3}),
    "C3D": Published(volumes.c3d, _DNNF, 27, 16, (195, 90), {"size": 48, "width": 0.125}),
    "S3D": Published(volumes.s3d, _DNNF, 272, 98, (996, 356), {"size": 64, "frames": 16, "width": 0.125}),
    "U-Net": Published(
        volumes.unet, _DNNF, 292, 82, (312, 158), {"size": 64, "width": 0.125}, "the paper's U-Net is another one"
    ),
    "Faster R-CNN": Published(
        regions.faster_rcnn, _DNNF, 3640, 942, (914, 374),
        {"size": 128, "width": 0.125, "before": 40, "regions": 20, "found": 8},
        "one branch serves all classes; regions are read where they lie",
    ),
    "Mask R-CNN": Published(
        regions.mask_rcnn, _DNNF, 3999, 981, (1524, 543),
        {"size": 128, "width": 0.125, "before": 40, "regions": 20, "found": 8},
        "one branch serves all classes; regions are read where they lie",
    ),
    "TinyBERT": Published(text.tinybert, _DNNF, 366, 74, (183, 55), {**_TINY, "width": 156}),
    "DistilBERT": Published(text.distilbert, _DNNF, 457, 109, (540, 197), {**_TINY, "layers": 2, "width": 96}),
    "ALBERT": Published(text.albert, _DNNF, 936, 225, (1260, 320), {**_TINY, "layers": 2, "width": 96, "narrow": 32}),
    "BERT-base": Published(text.bert, _DNNF, 976, 216, (915, 196), {**_TINY, "layers": 2, "width": 96, "inner": 192}),
    "MobileBERT": Published(
        text.mobilebert, _DNNF, 2387, 510, (744, 255), {**_TINY, "layers": 2, "width": 64, "narrow": 32}
    ),
    "GPT-2": Published(text.gpt2, _DNNF, 2533, 254, (1389, 356), {**_TINY, "layers": 2, "width": 96}),
    "Swin": Published(vision.swin, _SMART, 765, 158, None, {"size": 64, "width": 24, "window": 2}),
    "ViT": Published(vision.vit, _SMART, 444, 112, None, {"size": 64, "layers": 2, "width": 96}),
    "ConvNext": Published(pictures.convnext, _SMART, 292, 81, None, {"size": 64, "width": 0.125}),
    "RegNet": Published(pictures.regnet, _SMART, 282, 122, None, {"size": 64, "width": 0.34}),
    "ResNeXt": Published(pictures.resnext, _SMART, 122, 55, None, {"size": 64, "width": 0.25}),
    "YOLOv8": Published(detectors.yolov8, _SMART, 233, 68, None, {"size": 64, "width": 0.5, "classes": 3},
        "first convolutions of the two heads of a level are one",
    ),
}  # fmt: skip

"""Compression: quantization and pruning on request. Without a request, the network is not changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from edgec.compress import scales, search, sensitivity
from edgec.compress.calibrate import RANDOM, samples, warn_if_drawn
from edgec.compress.calibration import BEST, Calibration, calibrated, nearest, noise, weight_scale
from edgec.compress.dynamic import dynamic
from edgec.compress.four_bits import four_bits, may_be_four_bits
from edgec.compress.gain import Gain, gain
from edgec.compress.layers import Layer, layers_of
from edgec.compress.max_loss import MaxLoss, parsed
from edgec.compress.observe import OBSERVERS as _OBSERVERS
from edgec.compress.prune.prune import Pruned
from edgec.compress.quantize import quantized
from edgec.compress.report import LayerReport, Report
from edgec.compress.retrain import Retrained
from edgec.device.device import Device
from edgec.device.load import load_device
from edgec.errors import CheckError, UsageError
from edgec.ir.graph import Graph
from edgec.media.way import Data

#: The values of ``--quantize``: types of weights, and of the operands that they are multiplied by.
PRECISIONS = ("float", "int8", "int8-dynamic", "mixed", "int4-weight", "int4-weight-64", "int4-weight-128")
#: Weights that share a scale in int4-weight.
GROUP = 32
#: Methods that find the ranges of tensors in calibration data.
OBSERVERS = (BEST, *_OBSERVERS)
#: Corrections of the error of int8, each a module of this folder; they need realistic calibration data.
CORRECTIONS = ("equalize", "smooth", "gptq", "bias")
#: Seconds that a layer counts as saving at least, where it is ordered by its error for each.
LEAST_SAVED = 1e-12
#: The bound of "mixed" where none is given.
MAX_LOSS = "cosine=0.999"


@dataclass(frozen=True)
class Request:
    """The requested compression. ``corrections`` are those that may be used if they help; None: all with real data."""

    precision: str = "float"
    calibration: Data = RANDOM
    observer: str = "minmax"
    max_loss: str | None = None
    corrections: Collection[str] | None = None
    device: Device | None = None

    @property
    def allowed(self) -> Collection[str]:
        if self.corrections is not None:
            return self.corrections
        return () if str(self.calibration) == RANDOM else CORRECTIONS

    @property
    def bound(self) -> MaxLoss | None:
        text = self.max_loss if self.max_loss is not None else MAX_LOSS if self.precision == "mixed" else None
        return None if text is None else parsed(text)


@dataclass(frozen=True)
class Compressed:
    """A compressed network, and what was decided about it.

    ``report`` has the precision of every layer with the reason, ``pruned`` the weights that were kept. ``bf16_layers``
    are the layers that multiply in bf16 where the device's precision is fp32; None: all as that precision says.
    ``retrained`` tells what retraining came to, ``has_rounded_weights`` that weights alone were rounded, to few bits.
    """

    graph: Graph
    report: Report | None = None
    bf16_layers: frozenset[str] | None = None
    pruned: Pruned | None = None
    retrained: Retrained | None = None
    has_rounded_weights: bool = False

    @property
    def is_changed(self) -> bool:
        """Was anything quantized or pruned, so that the network is another one than the model?"""
        return self.report is not None or self.pruned is not None or self.has_rounded_weights


@dataclass
class _Verdicts:
    """Reasons why layers are not int8, by layer."""

    gains: Mapping[Layer, Gain]
    refused: dict[Layer, str] = field(default_factory=dict)


def compress(graph: Graph, request: Request) -> Compressed:
    """The network compressed as requested.

    Raises UsageError where there is nothing to compress, and CheckError for a bound that cannot be kept.
    """
    if request.precision == "float":
        return Compressed(graph)
    layers = layers_of(graph)
    if not layers:
        hint = "it has no convolution or matrix product of f32 by constant weights: leave out --quantize"
        raise UsageError("there is nothing to quantize", hint=hint)
    device = request.device if request.device is not None else load_device("host")
    if request.precision.startswith("int4-weight"):
        return _four_bits(graph, layers, int(request.precision.removeprefix("int4-weight").lstrip("-") or GROUP))
    if request.precision == "int8-dynamic":
        return _dynamic(graph, layers, device)
    warn_if_drawn(request.calibration, "ranges of int8 were found")
    data = list(samples(request.calibration, graph))
    moved = scales.rescaled(graph, data, request.observer, request.allowed)
    graph = moved.graph
    layers = layers_of(graph)
    found = calibrated(graph, layers, data, request.observer, request.allowed)
    verdicts, candidates = _gaining(layers, device)
    chosen, value, measured = candidates, None, "layer"
    bf16: list[Layer] = []
    errors: Mapping[Layer, float] = {layer: found.numbers[layer].noise for layer in layers}
    max_loss = request.bound
    if request.precision == "mixed" and max_loss is not None:
        errors, measured = sensitivity.added(graph, candidates, data, found)
        costs = {layer: errors[layer] / max(verdicts.gains[layer].saved, LEAST_SAVED) for layer in candidates}
        chosen, value = search.within(graph, candidates, data, found, costs, max_loss)
        left = [layer for layer in _bf16_candidates(layers, verdicts) if layer not in chosen]
        if left:
            bf16, with_bf16 = search.bf16_within(graph, left, data, found, chosen, max_loss)
            value = with_bf16 if bf16 else value
        if not chosen and not bf16:
            raise search.refusal(candidates, found, max_loss, value)
        kept = set(chosen)
        verdicts.refused.update({c: f"with it, {max_loss} is not kept" for c in candidates if c not in kept})
    elif max_loss is not None:
        value = search.figure(graph, chosen, data, found, max_loss)
        if not max_loss.allows(value):
            raise CheckError(
                f"in int8 it is {max_loss.figure}={value:.4g}, and it may be {max_loss}",
                hint=f"most of the error comes from {search.contributors(candidates, found)}; "
                "--quantize mixed leaves such layers in floats",
            )
    rows = _rows(layers, found, errors, verdicts, moved.taken, bf16)
    told = str(max_loss) if max_loss is not None else None
    drawn = str(request.calibration) == RANDOM
    report = Report(request.precision, request.observer, len(data), measured, rows, told, value, drawn)
    names = frozenset(layer.name for layer in bf16) if bf16 else None
    return Compressed(quantized(graph, chosen, found), report, names)


def rounded_layers(graph: Graph, device: Device) -> list[Layer]:
    """The layers that int8 is for on a device. Raises UsageError where there are none."""
    return _gaining(layers_of(graph), device)[1]


def _bf16_candidates(layers: Sequence[Layer], verdicts: _Verdicts) -> list[Layer]:
    """The layers that gain in bf16 and have a name of their own, by which the scheduler finds them."""
    return [layer for layer in layers if verdicts.gains[layer].saved_by_bf16 > 0 and not layer.is_part]


def _gaining(layers: Sequence[Layer], device: Device) -> tuple[_Verdicts, list[Layer]]:
    """The gains of all layers, and the layers that are faster in int8 on the device."""
    verdicts = _Verdicts({layer: gain(layer, device) for layer in layers})
    for layer, own in verdicts.gains.items():
        if own.saved <= 0:
            verdicts.refused[layer] = f"bytes gain nothing on {device.name}"
    candidates = [layer for layer in layers if layer not in verdicts.refused]
    if not candidates and (device.has_int8_tensor_cores or (device.is_gpu and device.has_dot4)):
        return _Verdicts(verdicts.gains), list(layers)  # a small network: all as was asked, for the size of its weights
    if not candidates:
        raise UsageError(f"bytes gain nothing on '{device.name}'", hint="leave out --quantize")
    return verdicts, candidates


def _four_bits(graph: Graph, layers: Sequence[Layer], group: int) -> Compressed:
    chosen = [layer for layer in layers if may_be_four_bits(layer, group)]
    if not chosen:
        hint = "int4-weight is for matrix products whose sums are of a multiple of 32 terms"
        raise UsageError(f"there are no weights in groups of {group}", hint=hint)
    return Compressed(four_bits(graph, chosen, group), has_rounded_weights=True)


def _dynamic(graph: Graph, layers: Sequence[Layer], device: Device) -> Compressed:
    verdicts, chosen = _gaining(layers, device)
    noises = {}
    for layer in layers:  # the error of the weights; that of operands is known only at run time
        scale = weight_scale(layer)
        noises[layer] = noise([layer.weights], [nearest(layer, scale) * scale])
    total = sum(noises[layer] for layer in chosen)
    rows = tuple(_row(layer, noises[layer], noises[layer], total, verdicts, ()) for layer in layers)
    return Compressed(dynamic(graph, chosen), Report("int8-dynamic", "none", 0, "weights", rows))


def _rows(
    layers: Sequence[Layer], found: Calibration, errors: Mapping[Layer, float], verdicts: _Verdicts,
    moved: Mapping[str, str], bf16: Collection[Layer],
) -> tuple[LayerReport, ...]:  # fmt: skip
    total = sum(errors.values())
    rows = []
    for layer in layers:
        numbers = found.numbers[layer]
        taken = (*((moved[layer.name],) if layer.name in moved else ()), *numbers.corrections)
        row = _row(layer, numbers.noise, errors.get(layer, 0.0), total, verdicts, taken)
        saved = verdicts.gains[layer].saved_by_bf16 * 1e6
        rows.append(replace(row, precision="bf16", gain_us=saved, corrections=()) if layer in bf16 else row)
    return tuple(rows)


def _row(
    layer: Layer, noise: float, error: float, total: float, verdicts: _Verdicts, taken: tuple[str, ...]
) -> LayerReport:
    reason = verdicts.refused.get(layer, "")
    precision = "float" if reason else "int8"
    share = error / total if total else 0.0
    saved = verdicts.gains[layer].saved * 1e6
    return LayerReport(layer.name, layer.node.op, precision, noise, share, saved, taken if not reason else (), reason)

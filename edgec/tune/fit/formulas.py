"""The formulas that price plans, as functions of their constants: what a fit solves for.

Prices of blocks are `edgec.fuse.cost_model.Rates` over amounts, compared as they are. Cycles of tiles are compared
within a product alone, since that is all that a choice of a tile asks: a factor that all tiles of a product share is
taken out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from edgec.device.costs import FmaTileCosts
from edgec.device.device import Device
from edgec.fuse.cost_model import Amounts, CostModel
from edgec.schedule.gpu.tiles import has_tensor_cores
from edgec.tune.fit.least_squares import scanned, solve
from edgec.tune.fit.timing import Timed, products_of

#: A constant by its table and its key in `[costs]`.
Constant = tuple[str, str]
KINDS = ("contract", "attention", "window", "row", "map", "procedure")


def price_constants(device: Device) -> list[Constant]:
    """The constants that blocks are priced by on a device. Its clock is not among them: it is a factor of others."""
    if CostModel(device).on_gpu:
        return [("gpu", key) for key in ("launch_s", "peak_share", "cache_bytes", "results_per_lane")]
    core = ("launch_s", "cache_bytes", "memory_bytes", "attention_queries")
    return [*(("kernel", key) for key in core), *(("peak_share", kind) for kind in KINDS)]


def tile_constants(device: Device) -> list[Constant]:
    """The constants that tiles of products are priced by; those of tensor cores are not fitted here."""
    if device.is_gpu:
        is_fitted = device.gpu.has_local_memory and not has_tensor_cores(device)
        return [("fma_tile", f.name) for f in fields(FmaTileCosts)] if is_fitted else []
    return [("register_tile", key) for key in ("l2_vector", "tile", "store")]


def with_constants(device: Device, constants: Sequence[Constant], values: np.ndarray) -> Device:
    """The device with other numbers in its costs."""
    costs = device.costs
    for (table, key), value in zip(constants, values):
        costs = replace(costs, **{table: replace(getattr(costs, table), **{key: float(value)})})
    return replace(device, costs=costs)


def values_of(device: Device, constants: Sequence[Constant]) -> np.ndarray:
    return np.array([getattr(getattr(device.costs, table), key) for table, key in constants], float)


@dataclass(frozen=True)
class Formula:
    """Logarithms of predicted over measured times, one a kernel, as a function of the constants of a device."""

    constants: Sequence[Constant]
    errors: Callable[[Device], np.ndarray]

    def solved(self, device: Device) -> tuple[Device, list[Constant]]:
        """The device with the constants that fit best, and those that no kernel tells anything of."""
        if not self.constants:
            return device, []

        def residuals(values: np.ndarray) -> np.ndarray:
            return self.errors(with_constants(device, self.constants, values))

        near, felt = scanned(residuals, values_of(device, self.constants))
        kept = [c for c, is_felt in zip(self.constants, felt) if not is_felt]
        if not felt.any():
            return device, kept

        def of_felt(values: np.ndarray) -> np.ndarray:
            full = near.copy()
            full[felt] = values
            return residuals(full)

        found = near.copy()
        found[felt], _ = solve(of_felt, near[felt])
        return with_constants(device, self.constants, found), kept


def blocks_formula(found: Sequence[Timed], device: Device) -> Formula:
    """Prices of blocks; of a product, its quickest tile counts."""
    best: dict[tuple[str, str], tuple[Amounts, float]] = {}
    model = CostModel(device)
    for t in found:
        key = (t.case, t.name.split(" / ")[1])
        if key not in best or t.seconds < best[key][1]:
            best[key] = model.amounts(t.block), t.seconds
    amounts, measured = [a for a, _ in best.values()], np.log([s for _, s in best.values()])

    def errors(device: Device) -> np.ndarray:
        rates = CostModel(device).rates
        return np.log([rates(a) for a in amounts]) - measured

    return Formula(price_constants(device), errors)


@dataclass(frozen=True)
class Tiles:
    """The tiles of one product that were timed: their names, seconds, and cycles for a device."""

    names: Sequence[str]
    seconds: np.ndarray
    cycles: Callable[[Device], Mapping[str, float]]

    def chosen(self, device: Device) -> float:
        """Seconds of the tile that a device's costs choose among them, over those of the quickest."""
        cycles = self.cycles(device)
        taken = min(range(len(self.names)), key=lambda k: cycles[self.names[k]])
        return float(self.seconds[taken] / self.seconds.min())


def tiles_of(found: Sequence[Timed], device: Device) -> list[Tiles]:
    """Products that were timed in several of the tiles that costs decide on."""
    made = []
    for group in products_of(found):
        product = group[0].product
        assert product is not None
        cycles, by_name = product.tiles(), {str(t.variant): t.seconds for t in group}
        known = cycles(device)
        names = [name for name in by_name if name in known]
        if len(names) > 1:
            made.append(Tiles(names, np.array([by_name[n] for n in names]), cycles))
    return made


def tiles_formula(tiles: Sequence[Tiles], device: Device) -> Formula:
    """Cycles of tiles, each beside the others of its product."""

    def errors(device: Device) -> np.ndarray:
        parts = []
        for t in tiles:
            cycles = t.cycles(device)
            ratio = np.log([cycles[name] for name in t.names]) - np.log(t.seconds)
            parts.append(ratio - np.median(ratio))
        return np.concatenate(parts)

    return Formula(tile_constants(device) if tiles else [], errors)

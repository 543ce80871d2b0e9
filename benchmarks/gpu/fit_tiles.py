"""Costs of tiles of groups of four warps, `[costs.group_tile]`, by times of `benchmarks.gpu.tiles`.

    python -m benchmarks.gpu.tiles --groups --precision fp16,int8,tf32 --out times.json
    python -m benchmarks.gpu.fit_tiles times.json

A search changes one number at a time while the tiles that costs choose get quicker, or predicted cycles of quick tiles
get nearer to measured ones. (Least squares over all tiles choose worse ones.) Every fourth product is left out of the
search. In files that have tiles of both kinds (without --groups), one factor for all cycles is then the one with which
the tiles chosen among both are quickest. The report compares the chosen tiles with the quickest ones, of all products
and of those left out.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from math import exp
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gpu.tiles import device_of
from edgec.device.costs import GroupTileCosts
from edgec.device.device import Device
from edgec.device.load import load_device
from edgec.schedule.gpu.tile import TensorTile
from edgec.schedule.gpu.tile_cycles import cycles
from edgec.tune.fit.formulas import Tiles, with_constants

#: Facts of the device, and not costs.
GIVEN = ("cluster_multiprocessors", "cluster_share")
LEFT_OUT = 4
FACTORS = (0.7, 0.85, 0.95, 1.05, 1.2, 1.4)
#: Costs that say how many a cycle, and those that are shares; the others are cycles.
RATES, SHARES = ("fmas", "l2_bytes"), ("full_warps", "narrow", "bulk_bytes")
SCALES = (0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.15, 1.2, 1.25, 1.3, 1.4)
#: The weight of the distance of predicted cycles from measured times, beside the loss by choices.
DISTANCE = 0.1


def product(shape: tuple[int, int, int], rows: list[dict[str, Any]], precision: str, both: bool = False) -> Tiles:
    """The tiles of groups that were timed of a product, or those of ``both`` kinds."""
    timed = {}
    for row in rows:
        tile = TensorTile(**{key: value for key, value in row.items() if key != "us"})
        if tile.by_group or both:
            timed[tile] = row["us"] * 1e-6

    def predicted(device: Device) -> Mapping[str, float]:
        one = device_of(device, precision)
        return {tile.name: cycles(tile, 1, *shape, one) for tile in timed}

    return Tiles([tile.name for tile in timed], np.array(list(timed.values())), predicted)


def score(tiles: Sequence[Tiles], device: Device) -> tuple[float, float, float]:
    """The mean logarithm of chosen over quickest time, the same at worst, and the mean distance of predictions.

    Cycles are compared with times within a product, where a tile counts the more the quicker it is.
    """
    losses, distances = [], []
    for t in tiles:
        predicted = t.cycles(device)
        ratio = np.log([predicted[name] for name in t.names]) - np.log(t.seconds)
        weight = (t.seconds.min() / t.seconds) ** 2
        distances.append(float(np.average(np.abs(ratio - np.average(ratio, weights=weight)), weights=weight)))
        losses.append(float(np.log(t.chosen(device))))
    return float(np.mean(losses)), max(losses), float(np.mean(distances))


def searched(tiles: Sequence[Tiles], device: Device) -> Device:
    """The device with the costs that a search by single numbers ends with."""

    def value(one: Device) -> float:
        loss, _, distance = score(tiles, one)
        return loss + DISTANCE * distance

    keys = [("group_tile", f.name) for f in fields(GroupTileCosts) if f.name not in GIVEN]
    best = value(device)
    while True:
        before = best
        for table, key in keys:
            now = getattr(device.costs.group_tile, key)
            for factor in FACTORS:
                other = with_constants(device, [(table, key)], np.array([now * factor]))
                if (found := value(other)) < best:
                    best, device = found, other
        if best > before - 1e-4:
            return device


def scaled(device: Device, factor: float) -> Device:
    """The device on which all tiles of groups take so many times the cycles."""
    now = vars(device.costs.group_tile)
    keys = [key for key in now if key not in (*GIVEN, *SHARES)]
    values = [now[key] / factor if key in RATES else now[key] * factor for key in keys]
    return with_constants(device, [("group_tile", key) for key in keys], np.array(values))


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("times", type=Path, nargs="+")
    p.add_argument("--device", default="cuda_sm90")
    options = p.parse_args()
    device = load_device(options.device)
    found: dict[str, list[Tiles]] = {}
    of_both: list[Tiles] = []
    for path in options.times:
        for precision, shapes in json.loads(path.read_text()).items():
            for text, rows in shapes.items():
                rows_, columns, depth = map(int, text.split("x"))
                made = product((rows_, columns, depth), rows, precision)
                found.setdefault(precision, []).extend([made] if made.names else [])
                if len(rows) > len(made.names):
                    of_both.append(product((rows_, columns, depth), rows, precision, both=True))
    learned = [t for each in found.values() for k, t in enumerate(each) if k % LEFT_OUT]
    fitted = searched(learned, device)
    if of_both:
        fitted = min((scaled(fitted, factor) for factor in SCALES), key=lambda one: score(of_both, one)[0])
        loss, worst, _ = score(of_both, fitted)
        print(f"{len(of_both)} products of both kinds: chosen over quickest {exp(loss):.3f}, worst {exp(worst):.2f}")
    for name, one in (("before", device), ("after", fitted)):
        for precision, each in found.items():
            for of, some in (("all", each), ("left out", [t for k, t in enumerate(each) if not k % LEFT_OUT])):
                loss, worst, distance = score(some, one)
                print(f"{name}, {precision}, {len(some)} products {of}: chosen over quickest {exp(loss):.3f}, worst "
                      f"{exp(worst):.2f}; a tile is {100 * (exp(distance) - 1):.0f} % off")  # fmt: skip
    print("\n[costs.group_tile]")
    for field in fields(GroupTileCosts):
        print(f"{field.name} = {getattr(fitted.costs.group_tile, field.name):.3g}")


if __name__ == "__main__":
    main()

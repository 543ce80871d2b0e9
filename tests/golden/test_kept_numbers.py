"""Numbers that schedules are chosen by, over grids of arguments: tiles, shares, parts and predicted cycles.

Any of them gives right results; that one changed shows here. A line of ``tables/numbers.txt`` has a function, a device,
a checksum of all results and some of them. ``pytest tests/golden --update-golden`` writes the lines, after a look at
those that changed.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgec.device.device import Device
from edgec.device.load import load_device
from edgec.distribute.row_split import cuts_of
from edgec.emit.gpu.opencl import place_widths
from edgec.errors import UsageError
from edgec.fuse import cost_model, two_stages
from edgec.ir import expr as X
from edgec.ir.vector import HALF
from edgec.schedule import division, streaming, window
from edgec.schedule.contract import passes, sparse, tiles, winograd_forms, winograd_weights
from edgec.schedule.contract.micro_kernels.fma import FMA
from edgec.schedule.contract.micro_kernels.int8_dot import INT8_DOT_SS, INT8_DOT_SS_IN_ORDER
from edgec.schedule.gpu import attention, attention_gradients, loops, registers, tile_cycles, two_of_four
from edgec.schedule.gpu import sparse as gpu_sparse
from edgec.schedule.gpu import tiles as gpu_tiles
from edgec.schedule.thread_count import meeting_cycles

KEPT = Path(__file__).with_name("tables") / "numbers.txt"
#: Vectors of several widths and register files, pages, caches, cores in order, scalable vectors, and none.
CPUS = ("x86_64_avx2", "x86_64_avx512", "cortex_a55", "neoverse_v1", "cortex_m55", "riscv64_rvv", "cortex_m4", "arm32")
GPUS = ("cuda_sm86", "cuda_sm90", "mali_g78", "adreno_740", "webgpu", "jetson_nano")
Rows = Iterator[Any]


def register_tiles(device: Device) -> Rows:
    sizes = ((1, 5), (1, 14), (1, 30), (1, 110), (1, 1000), (3, 17), (7, 64), (49, 31), (200, 256), (1024, 8))
    for (m, n), k, micro in product(sizes, (1, 9, 300, 5000), (FMA, INT8_DOT_SS, INT8_DOT_SS_IN_ORDER)):
        if micro.order is not None and device.arch != "aarch64":
            continue
        found = tiles.tile_costs(m, n, k, device, micro=micro)
        yield min(found, default=None)
        for options in ({}, {"row_step": 4096}, {"sums": 3}, {"in_place": True}, {"threads": 3, "around": 2}):
            if found:
                yield tiles.tile_shape(m, n, k, device, micro=micro, **options)  # type: ignore[arg-type]


def decided_tiles(device: Device) -> Rows:
    for tile, m, n, sums in product(((1, 1), (4, 3), (6, 4), (14, 2), (40, 9)), (1, 5, 100), (3, 64), (1, 2)):
        try:
            yield tiles.decided_tile(tile, m, n, device, sums)
        except UsageError as error:
            yield str(error)


def loop_teams(device: Device) -> Rows:
    for results, steps in product((1, 7, 31, 32, 1000, 3000, 100_000), (1, 15, 16, 127, 128, 5000, 1 << 20)):
        for strided in (False, True):
            team = loops._team(results, steps, strided, device)
            yield (*team, *loops._parts(results, steps, *team, device))


def product_tiles(device: Device) -> Rows:
    sizes = ((1, 1, 1000, 512), (8, 64, 64, 64), (1, 197, 768, 3072), (1, 4096, 64, 27), (12, 128, 128, 33))
    for size, element, constant in product(sizes, ("", "s8"), (False, True)):
        for piece, operations in ((16, 0.0), (4, 9.0), (0, 40.0)):
            found = gpu_tiles.tiles_for(*size, device, element, constant, piece, operations)
            yield [t.name for t in found[:9]]
            for tile in (*found[:6], *found[-3:]):
                yield tile_cycles.cycles(tile, *size, device, piece, operations), tile.shared_bytes
                for s, l in ((True, False), (False, True), (True, True)):
                    turned = gpu_tiles.turned(tile, s, l, device)
                    yield turned.shared_bytes, turned is tile


def sparse_tiles(device: Device) -> Rows:
    for size, element in product(
        ((1, 64, 64, 256), (1, 3000, 257, 577), (4, 17, 128, 64)), ("s8", "f16", "bf16", "f32")
    ):
        found = two_of_four.sparse_tiles_for(*size, device, element, 16)
        yield [t.name for t in found]
        yield [(tile_cycles.cycles(t, *size, device), t.shared_bytes) for t in found[:5]]
        yield gpu_sparse._price(*size, device, "" if element in HALF else element)


def gradient_tiles(device: Device) -> Rows:
    yield attention_gradients.largest_head(device)
    for heads, rows, (features, width) in product(
        (1, 12, 300), (7, 64, 1000), ((16, 16), (64, 64), (80, 128), (64, 0))
    ):
        tile = attention_gradients.tile_for(heads, rows, features, width, device)
        yield repr(tile), tile and (tile.rows, tile.threads, tile.stage, tile.kept, tile.holds, tile.shared_bytes)


def blocks_in_registers(device: Device) -> Rows:
    for rows, columns, lanes in product((1, 3, 8, 50, 3000), (1, 7, 64, 1000), (1, 4)):
        for whole, fp16_sums in product((False, True), (False, True)):
            if registers.tiles_of(rows, columns, lanes, whole, device, fp16_sums):
                yield registers.tile_of(rows, columns, lanes, whole, device, fp16_sums)


def attention_tiles(device: Device) -> Rows:
    yield attention.largest_head(device)
    for features, width in product((8, 32, 64, 100, 128), (16, 64, 80)):
        yield [repr(t) for t in attention._tiles(features, width)]
    for batches, queries, keys, (features, width) in product(
        (1, 12, 200), (1, 17, 64, 1000), (16, 50, 1024), ((16, 16), (64, 64), (80, 128), (200, 64))
    ):
        for hides in (False, True):
            yield repr(attention.tile_for(batches, queries, keys, features, width, device, hides))


def chunks(_: Device) -> Rows:
    for args in product((1, 2, 7, 64, 1000), (1, 6, 14), (3, 64, 4000), (1, 3, 16, 40), (1, 2, 16)):
        yield tiles.chunk_of(*args), tiles.chunk_of(*args, by_rows=True)


def steps_in_order(_: Device) -> Rows:
    yield from (tiles.in_order_step(r, v) for r, v in product(range(1, 9), range(1, 6)))


def thread_shares(device: Device) -> Rows:
    for tasks, threads in product((1, 2, 3, 7, 16, 5000), (1, 2, 3, 8)):
        yield division.shares(tasks, threads)
        yield division.uneven(np.arange(tasks) % 4 + 1, threads), division.uneven([0.0] * tasks, threads)
        yield division.most_even(((s, division.parts(tasks, s)) for s in (8, 4, 2, 1)), threads)
        yield [division.is_worth(c, device, threads) for c in (0, 1e3, 2e4, 1e5, 1e6)]
        yield meeting_cycles(tasks, 1000, device, threads)


def window_columns(_: Device) -> Rows:
    for rows, extent, lanes, deep, threads in product((1, 2, 5), (8, 100), (4, 16), (1, 2), (1, 2, 3, 5)):
        yield window._columns([X.fresh(rows), X.fresh(3)], extent, lanes, deep, threads)
    yield from (window._even_rows(extent, most) for extent, most in product(range(1, 20), range(1, 7)))


def winograd_parts(device: Device) -> Rows:
    for terms, points, width in product((1, 5, 64, 700), (16, 36), (4, 16, 64)):
        yield winograd_weights.part_of(terms, points, width, device)
        yield winograd_forms.streaming(terms * points, width, device)
    yield from (winograd_forms._busy(r, v) for r, v in product(range(1, 7), range(1, 5)))


def sums_in_passes(_: Device) -> Rows:
    yield from (passes.tasks_of_pass(*a) for a in product((0, 1, 64, 5000), (1, 7, 64), (1, 3, 8), (0, 1 << 15)))
    yield from (sparse.ways_of(h, v, s) for h, v, s in product(range(1, 9), range(1, 5), (1, 2, 4, 8)))
    yield from (cost_model._filled(c, lanes) for c, lanes in product(range(1, 40), (1, 4, 8)))
    yield from (two_stages._equal(*a) for a in product((1, 6, 24, 97, 128), (1, 2, 4), (3, 16, 200), (1, 4)))
    yield from map(place_widths, range(70))
    yield from map(streaming._pages, (0, 1, 4095, 4096, 4097))


def rows_by_shares(_: Device) -> Rows:
    for rows, shares, tile in product((3, 4, 9, 64), ((1, 1, 1), (1.0, 0.5, 0.01), (0.1, 5, 0.1)), (1, 2, 3)):
        yield cuts_of(rows, shares, tile)


TABLES: dict[str, tuple[Callable[[Device], Rows], tuple[str, ...]]] = {
    "register tiles": (register_tiles, CPUS), "decided tiles": (decided_tiles, CPUS),
    "shares of threads": (thread_shares, CPUS[:2]), "parts of Winograd": (winograd_parts, CPUS),
    "teams of reductions": (loop_teams, GPUS), "tiles of products": (product_tiles, (*GPUS[:3], "webgpu")),
    "sparse tiles": (sparse_tiles, GPUS[:2]), "tiles of gradients": (gradient_tiles, GPUS[:2]),
    "blocks in registers": (blocks_in_registers, ("mali_g78", "adreno_740", "webgpu")),
    "tiles of attention": (attention_tiles, GPUS[:2]),
    **{f.__name__.replace("_", " "): (f, ("x86_64_avx2",)) for f in (
        chunks, steps_in_order, window_columns, sums_in_passes, rows_by_shares,
    )},
}  # fmt: skip


def four(value: Any) -> str:
    """A result as text, floats to some digits: the last are of the machine."""
    if isinstance(value, (float, np.floating)):
        return f"{value:.6g}"
    if isinstance(value, (list, tuple)):
        return f"({' '.join(map(four, value))})"
    return str(value)


def line(name: str, device: str) -> str:
    precisions = ("fp32", "fp16") if device in GPUS else ("fp32",)
    devices = [replace(load_device(device), precision=p) for p in precisions]
    found = [four(value) for own in devices for value in TABLES[name][0](own)]
    some = " ".join(found[:: max(1, len(found) // 5)][:5])
    return f"{name} | {device} | {zlib.crc32(' '.join(found).encode()):08x} of {len(found)} | {some[:300]}"


@pytest.mark.parametrize("name", TABLES)
def test_kept_numbers(name: str, update_golden: bool) -> None:
    found = [line(name, device) for device in TABLES[name][1]]
    kept = KEPT.read_text(encoding="utf-8").splitlines() if KEPT.is_file() else []
    if update_golden:
        others = [k for k in kept if not k.startswith(f"{name} | ")]
        KEPT.write_text("\n".join(sorted([*others, *found])) + "\n", encoding="utf-8")
    else:
        assert [k for k in kept if k.startswith(f"{name} | ")] == sorted(found), "pytest tests/golden --update-golden"

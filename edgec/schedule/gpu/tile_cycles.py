"""Predicted cycles of a matrix product in tiles, by the models that tiles are chosen with."""

from __future__ import annotations

from math import ceil

from edgec.device.device import Device
from edgec.schedule.gpu.results import is_rolled
from edgec.schedule.gpu.tile import AnyTile, TensorTile, Tile

#: Thread blocks of a cluster that every device with clusters supports.
CLUSTER = 8
#: Operations that passing a result through shared memory takes.
PASSED = 10.0
#: Warps of which a multiprocessor issues an instruction each at once.
SCHEDULERS = 4
#: Multiply-adds over those of fp16.
_RATES = {"s8": 2.0, "tf32": 0.5}


def is_cluster(tile: AnyTile, device: Device) -> bool:
    """Are the thread blocks that share a tile a cluster, which adds up sums through shared memory?"""
    return device.has_clusters and isinstance(tile, TensorTile) and 1 < tile.split <= CLUSTER


def cycles(
    tile: AnyTile,
    batches: int,
    rows: int,
    columns: int,
    depth: int,
    device: Device,
    piece: int = 16,
    operations: float = 0.0,
) -> float:
    """Of a launch, by the model that tiles are chosen with.

    ``piece`` bytes of S are one copy, and ``operations`` follow for each result.
    """
    groups = batches * ceil(rows / tile.m) * ceil(columns / tile.n) * tile.split
    rounds = ceil(ceil(depth / tile.k) / tile.split)
    if isinstance(tile, Tile):
        return _on_threads(tile, groups, rounds, device)
    filled = rows / ceil(rows / tile.m), columns / ceil(columns / tile.n)
    by_kind = _by_groups if tile.by_group else _on_tensors
    return by_kind(tile, groups, rounds, filled, device, piece, operations)


def _on_threads(tile: Tile, groups: int, rounds: int, device: Device) -> float:
    costs = device.costs.fma_tile
    each = ceil(groups / device.gpu.multiprocessors)
    resident = max(1, min(each, 1024 // tile.threads, 4 * device.gpu.shared_bytes // tile.shared_bytes))
    rate = costs.fmas * min(1.0, resident * tile.threads / 32 / costs.full_warps)
    rate *= min(1.0, tile.thread_m * tile.thread_n / (tile.thread_m + tile.thread_n) / costs.full_reuse)
    compute = tile.m * tile.n * tile.k / tile.chunk * resident / rate
    load = (tile.m + tile.n) * tile.k * tile.bytes * resident / costs.l2_bytes
    step = max(compute, load, costs.copy_latency) + costs.round
    each_thread = tile.m * tile.n / tile.threads
    meet = costs.split if device.groups_can_sync else costs.launch
    meeting = meet + tile.split * each_thread * costs.add_part if tile.split > 1 else 0.0
    return ceil(each / resident) * (rounds * step + costs.start + each_thread * costs.store * resident) + meeting


def _on_tensors(
    tile: TensorTile,
    groups: int,
    rounds: int,
    filled: tuple[float, float],
    device: Device,
    piece: int,
    operations: float,
) -> float:
    """``filled`` rows of S and L are there, of those a tile has room for."""
    costs = device.costs.tensor_tile_fp32 if tile.element == "f32" else device.costs.tensor_tile
    each = ceil(groups / device.gpu.multiprocessors)
    resident = max(1, min(each, 1024 // tile.threads, device.largest_shared_bytes // tile.shared_bytes))
    rate = costs.fmas * min(1.0, resident * tile.threads / 32 / costs.full_warps)
    rate *= _RATES.get(tile.element, 1.0)
    results = tile.m * tile.n / tile.warps / costs.results
    if tile.two_of_four:
        rate, results = rate * costs.two_of_four, results / costs.two_of_four
    compute = tile.m * tile.n * tile.k * resident / rate
    own = tile.k * tile.bytes / 32 / tile.slices * (costs.step + results)
    l_share = tile.l_room / (tile.n * tile.k) if tile.two_of_four else 1.0
    own += (tile.m + tile.n * l_share * (not tile.whole)) * tile.k * tile.bytes / 16 / tile.threads * costs.copy
    bandwidth = min(
        costs.l2_bytes, costs.l2_share * device.gpu.multiprocessors / min(groups, device.gpu.multiprocessors)
    )
    load = tile.k * tile.bytes * resident / bandwidth
    of_s, of_l = filled[0], filled[1] * l_share * (costs.bulk_bytes if tile.whole else 1.0)
    gathered = _gathered(tile, resident, device, piece)
    step = max(compute, own + gathered, (of_s + of_l) * load, costs.copy_latency / (tile.stages - 1)) + costs.round
    first = (min(tile.stages - 1, rounds) * of_l + of_s) * load + costs.bulk_start * tile.whole
    first += (tile.stages - 1) * gathered
    each_thread = tile.m * tile.n / (32 * tile.warps)
    own_results = each_thread / tile.split if is_cluster(tile, device) else each_thread
    last = own_results * costs.store * resident + each_thread * costs.add_slice * (tile.slices - 1)
    last += own_results * _of_a_result(operations, tile.warps * resident, device)
    meeting = 0.0
    if is_cluster(tile, device):
        meeting = costs.cluster + each_thread * costs.add_remote_part
    elif tile.split > 1:
        meeting = costs.split + tile.split * each_thread * costs.add_part
    return ceil(each / resident) * (costs.start + first + rounds * step + last) + meeting


def _by_groups(
    tile: TensorTile,
    groups: int,
    rounds: int,
    filled: tuple[float, float],
    device: Device,
    piece: int,
    operations: float,
) -> float:
    """The same for groups of four warps, which read both factors from shared memory."""
    costs = device.costs.group_tile
    in_cluster = is_cluster(tile, device)
    resident, turns = _turns(tile, groups, device)
    rate = costs.fmas * min(1.0, resident * tile.threads / 32 / costs.full_warps)
    rate *= _RATES.get(tile.element, 1.0) * (costs.narrow if tile.n <= 64 else 1.0)
    compute = tile.m * tile.n * tile.k * resident / rate
    own = (tile.m + tile.n * (not tile.whole)) * tile.k * tile.bytes / 16 / tile.threads * costs.copy
    own += _gathered(tile, resident, device, piece)
    load = tile.k * tile.bytes * resident / costs.l2_bytes
    of_s, of_l = filled[0], filled[1] * (costs.bulk_bytes if tile.whole else 1.0)
    ahead = tile.stages - 2
    waiting = costs.bulk_latency / ahead if tile.whole else 0.0
    step = max(compute, own, (of_s + of_l) * load, waiting) + costs.round
    first = (min(ahead, rounds) * of_l + of_s) * load + costs.bulk_start * tile.whole
    each_thread = tile.m * tile.n / tile.threads
    own_results = each_thread / (tile.split if in_cluster else 1)
    operations += PASSED if is_rolled(tile, operations) else 0.0
    last = own_results * (costs.store * resident + _of_a_result(operations, tile.threads // 32 * resident, device))
    meeting = 0.0
    if in_cluster:
        meeting = costs.cluster + tile.split * costs.cluster_part + each_thread * costs.add_remote_part
    elif tile.split > 1:
        apart = device.costs.tensor_tile
        meeting = apart.split + tile.split * each_thread * apart.add_part
    return turns * (costs.start + first + rounds * step + last) + meeting


def _of_a_result(operations: float, warps: int, device: Device) -> float:
    """Cycles of ``operations`` on a result of a thread: a multiprocessor issues those of four warps at once."""
    return operations * device.costs.group_tile.operation * ceil(warps / SCHEDULERS)


def _turns(tile: TensorTile, groups: int, device: Device) -> tuple[int, int]:
    """Thread blocks that a multiprocessor has at once, and how often others take their place.

    The blocks of a cluster lie within one part of the GPU.
    """
    most = max(1, min(1024 // tile.threads, device.largest_shared_bytes // tile.shared_bytes))
    multiprocessors = device.gpu.multiprocessors
    if not is_cluster(tile, device):
        each = ceil(groups / multiprocessors)
        resident = max(1, min(each, most))
        return resident, ceil(each / resident)
    costs, clusters = device.costs.group_tile, groups // tile.split
    part = min(multiprocessors, int(costs.cluster_multiprocessors))
    share = costs.cluster_share * (multiprocessors // part)
    places = [max(1, int(share * (part * resident // tile.split))) for resident in range(1, most + 1)]
    resident = next((r for r, count in enumerate(places, 1) if count >= clusters), most)
    return resident, ceil(clusters / places[resident - 1])


def _gathered(tile: TensorTile, resident: int, device: Device, piece: int) -> float:
    """Cycles of a thread for the copies of less than 16 bytes in a round."""
    if piece >= 16:
        return 0.0
    costs = device.costs.tensor_tile_fp32 if tile.element == "f32" else device.costs.tensor_tile
    pieces = tile.m * tile.k * tile.bytes / (piece or tile.bytes) / tile.threads
    each_piece = costs.gather_piece if piece else costs.gather_element
    return pieces * max(each_piece, costs.gather_issue * resident * tile.threads / 32)

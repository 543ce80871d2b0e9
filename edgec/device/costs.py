"""Fitted costs of a device: the numbers of the cost models, whose formulas are in the code.

They stand in the `[costs]` tables of device files. `devices/_any.toml`, which every device inherits from, has all of
them; a device file replaces those that were fitted to it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, get_type_hints

from edgec.errors import DeviceError
from edgec.resources import data_folder
from edgec.text import did_you_mean

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: The file of the costs that every device inherits.
ROOT = "_any.toml"
Table = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class KernelCosts:
    """Kernels of a CPU core that was not measured."""

    clock_ghz: float
    cache_bytes: float
    """Bytes a cycle from the caches."""
    memory_bytes: float
    """Bytes a cycle from memory."""
    launch_s: float
    """Seconds to start a kernel: its call, its barrier, its first loops."""
    attention_queries: float
    """Queries that fill the lanes of the attention kernel."""


@dataclass(frozen=True)
class PeakShare:
    """Fraction of the arithmetic peak that a kernel of each kind reaches."""

    contract: float
    attention: float
    window: float
    row: float
    map: float
    procedure: float


@dataclass(frozen=True)
class GpuCosts:
    """Kernels of a GPU that was not measured, and its transfers to and from the CPU."""

    launch_s: float
    peak_share: float
    """Fraction of the arithmetic peak that kernels reach."""
    cache_bytes: float
    """Bytes a cycle from the L2 cache, for each multiprocessor."""
    results_per_lane: float
    """Results that keep a lane busy: with fewer it waits for its own sums."""
    handover_s: float
    """Seconds until the CPU or the GPU knows that the other is done."""
    copy_bytes_per_s: float


@dataclass(frozen=True)
class ThreadCosts:
    """Sharing a network between threads, in cycles."""

    wake: float
    """Waking the other threads once a run."""
    barrier: float
    """A barrier, until all threads are at work again."""
    exchange: float
    """Bytes a cycle from the cache of another core, which has just written them."""
    fmas: float
    """Multiply-adds of vectors that a core does in a cycle at best."""
    bytes: float
    """Bytes that a core reads in a cycle at best."""


@dataclass(frozen=True)
class SparseCosts:
    """Matmuls without the zeros of their weights, in cycles, next to dense ones."""

    broadcast: float
    """A row of a tile, for each stored vector, beyond one load: broadcasts from memory are fewer than two a cycle."""
    index: float
    """The index and the address of a stored row."""
    dense_share: float
    """Fraction of the multiply-adds that a dense tile of several vectors reaches."""
    tile: float
    """Beginning and ending a tile: its call, and the mispredicted end of its loop."""
    store: float
    """The store of an accumulator."""
    cache_line: float
    """A line from the second-level cache."""
    far_bytes: float
    """Bytes a cycle from beyond the second-level cache."""
    winograd: float
    """Time of Winograd's kernels over that of their own model, in the measure of the other costs here."""


@dataclass(frozen=True)
class RegisterTileCosts:
    """A register tile of a matmul on a CPU, by its sum or by Winograd's method, in cycles."""

    l2_vector: float
    """A vector of a panel that streams from the second-level cache, for each step of the sum."""
    tile: float
    """Beginning and ending a tile."""
    store: float
    """The store of an accumulator."""
    peak_share: float
    """Fraction of the multiply-adds that tiles of Winograd's method, and the plain sum next to them, reach."""
    transform: float
    """The store of a vector that Winograd's method transforms, with its address."""
    far_bytes: float
    """Bytes a cycle from beyond the second-level cache."""


@dataclass(frozen=True)
class CompressionCosts:
    """Layers in int8 next to fp32."""

    peak_share: float
    """Fraction of the arithmetic peak that matmuls and convolutions reach."""
    depthwise_share: float
    """The same of depthwise convolutions, which reuse little."""


@dataclass(frozen=True)
class FmaTileCosts:
    """A tile of a matmul on the FMA units of a GPU multiprocessor, in cycles."""

    fmas: float
    """Multiply-adds a cycle."""
    full_warps: float
    """Warps that reach that rate."""
    full_reuse: float
    """Multiply-adds for each float from shared memory that reach that rate."""
    l2_bytes: float
    """Bytes a cycle from the L2 cache."""
    copy_latency: float
    """The least that a round takes."""
    round: float
    """Barriers and other overhead of a round."""
    start: float
    """A thread block, until its first operands have arrived."""
    store: float
    """A result that a thread stores."""
    split: float
    """Synchronizing the thread blocks that share a tile."""
    add_part: float
    """Adding one partial sum to a result."""
    launch: float
    """Launching one more kernel, where the blocks that share a tile cannot synchronize."""


@dataclass(frozen=True)
class TensorTileCosts:
    """A tile of a matmul on the tensor cores of a GPU multiprocessor, in cycles."""

    fmas: float
    """Multiply-adds of fp16 a cycle."""
    full_warps: float
    """Warps that reach that rate."""
    l2_bytes: float
    """Bytes a cycle from the L2 cache."""
    l2_share: float
    """Bytes a cycle from there where all multiprocessors read at once."""
    copy_latency: float
    """A copy from the L2 cache to shared memory."""
    round: float
    """The barrier of a round."""
    step: float
    """Loads and products of a warp for 32 bytes of k, without its results."""
    results: float
    """Results of a warp for each further cycle of a step."""
    copy: float
    """A copy of 16 bytes that a thread issues."""
    start: float
    """A thread block, until it begins to copy."""
    store: float
    """A result that a thread stores."""
    add_slice: float
    """Adding the sum of another set of warps to a result."""
    split: float
    """Synchronizing the thread blocks that share a tile."""
    add_part: float
    """Adding one partial sum to a result."""
    cluster: float
    """Synchronizing the thread blocks of a cluster that share a tile."""
    add_remote_part: float
    """Adding one partial sum from the shared memory of another thread block of the cluster."""
    gather_piece: float
    """A copy of less than 16 bytes of the activations, with its address."""
    gather_element: float
    """An element of the activations that a thread reads, computes and stores."""
    gather_issue: float
    """The same two, for every warp that does so at the same time."""
    bulk_bytes: float
    """Cost of a byte of the weights where their tiles are copied as a whole, over that of one copied by threads."""
    bulk_start: float
    """A thread block, until the first such tile has arrived."""
    two_of_four: float
    """Factor by which products by weights with two of each four elements are faster."""
    two_of_four_gain: float
    """The gain, by this model, from which on they are: 1.15, times what it errs; 0.01 for wherever they can be."""


@dataclass(frozen=True)
class GroupTileCosts:
    """A tile of a matmul that groups of four warps multiply from shared memory, in cycles."""

    fmas: float
    """Multiply-adds of fp16 a cycle."""
    full_warps: float
    """Warps that reach that rate."""
    narrow: float
    """The share of that rate that tiles of at most 64 columns reach."""
    l2_bytes: float
    """Bytes a cycle from the L2 cache."""
    bulk_start: float
    """A thread block, until it has asked for tiles of the weights that are copied as a whole."""
    bulk_latency: float
    """Such a copy."""
    bulk_bytes: float
    """Cost of a byte of such a tile, over that of one copied by threads."""
    round: float
    """The barrier of a round."""
    copy: float
    """A copy of 16 bytes that a thread issues."""
    start: float
    """A thread block, until its first operands have arrived."""
    store: float
    """A result that a thread stores."""
    operation: float
    """An operation on a result before it is stored, of one warp of each scheduler."""
    cluster: float
    """Synchronizing the thread blocks of a cluster that share a tile."""
    cluster_part: float
    """The same for each of them."""
    cluster_multiprocessors: float
    """Multiprocessors of a part of the GPU: a cluster lies within one."""
    cluster_share: float
    """The share of the clusters that parts of that size have room for which run at once: some parts are smaller."""
    add_remote_part: float
    """Adding one partial sum from the shared memory of another thread block of the cluster."""


@dataclass(frozen=True)
class Costs:
    """All fitted costs of a device, a table each."""

    kernel: KernelCosts
    peak_share: PeakShare
    gpu: GpuCosts
    threads: ThreadCosts
    sparse: SparseCosts
    register_tile: RegisterTileCosts
    compression: CompressionCosts
    fma_tile: FmaTileCosts
    tensor_tile: TensorTileCosts
    tensor_tile_fp32: TensorTileCosts
    """The same of fp32, each product as three of TF32."""
    group_tile: GroupTileCosts


_RECORDS: Mapping[str, Any] = get_type_hints(Costs)
#: What may cost nothing; everything else is divided by somewhere, or would be a mistake.
_MAY_BE_ZERO = {"copy", "bulk_start"}
#: Numbers beyond these are slips of the finger, and products of them would overflow.
_LEAST, _MOST = 1e-12, 1e12


def checked(given: object, where: str) -> dict[str, dict[str, float]]:
    """The `[costs]` of a device file. Raises DeviceError for tables, keys or numbers that there are not."""
    if not isinstance(given, dict) or not all(isinstance(table, dict) for table in given.values()):
        raise DeviceError("'costs' must be tables of numbers", hint="write [costs.sparse], say", where=where)
    for name, table in given.items():
        _refuse_unknown(name, _RECORDS, "costs", where)
        for key, value in table.items():
            _refuse_unknown(key, get_type_hints(_RECORDS[name]), f"costs.{name}", where)
            is_zero = type(value) in (int, float) and value == 0 and key in _MAY_BE_ZERO
            if type(value) not in (int, float) or not (is_zero or _LEAST <= value <= _MOST):
                message = f"'costs.{name}.{key}' must be a number from {_LEAST:g} to {_MOST:g}, not {value!r}"
                raise DeviceError(message, where=where)
    return {name: {key: float(value) for key, value in table.items()} for name, table in given.items()}


def _refuse_unknown(key: str, known: Mapping[str, Any], of: str, where: str) -> None:
    if key not in known:
        hint = did_you_mean(key, known, f"known are {', '.join(known)}")
        raise DeviceError(f"unknown key '{key}' in [{of}]", hint=hint, where=where)


def merged(base: Table, own: Table) -> dict[str, dict[str, float]]:
    """Costs of a base with those of a file in their place, number by number."""
    return {name: {**base.get(name, {}), **own.get(name, {})} for name in (*base, *own)}


def costs_of(table: Table) -> Costs:
    """The record of complete tables."""
    return Costs(**{name: record(**table[name]) for name, record in _RECORDS.items()})


@cache
def root_table() -> Table:
    """The costs that every device inherits."""
    path = data_folder("devices") / ROOT
    return checked(tomllib.loads(path.read_text(encoding="utf-8"))["costs"], str(path))


@cache
def usual_costs() -> Costs:
    """Costs of a device whose file has none of its own."""
    return costs_of(root_table())

"""Register tiles of contractions: the shapes that fit into registers, and the one with the least predicted time."""

from __future__ import annotations

from math import ceil

import numpy as np

from edgec.device.device import Device
from edgec.errors import UsageError
from edgec.schedule.contract.micro_kernel import MicroKernel
from edgec.schedule.contract.micro_kernels.fma import FMA
from edgec.schedule.division import parts, uneven

#: Cycles that a load of a step takes where a long L is read in place, from the second-level cache.
IN_PLACE_CYCLES = 0.25
#: The share by which a product in several panels, which threads share, may take longer than in one.
SHARED = 0.05
#: Tiles of a thread from which on its share is about as long as any other.
FEW = 64


def tile_shape(
    m: int,
    n: int,
    k: int,
    device: Device,
    row_step: int = 0,
    sums: int = 1,
    micro: MicroKernel = FMA,
    in_place: bool = False,
    threads: int = 1,
    around: int = 1,
) -> tuple[int, int]:
    """(rows, vectors) of the register tile with the least predicted time for M x N x K; a row may be several ``sums``.

    Per step of k a tile of r x v issues r*v multiply-adds (two a cycle, four cycles of latency each) and r + v loads
    (two a cycle); accumulators, one row of L and one broadcast must fit the registers. Where products take a factor
    from one lane of a register (64-bit Arm), compilers load a step's column of S before they use it: it must fit too;
    steps of several elements are broadcast there by the units that multiply, but for those of matrix instructions, of
    which a register has two rows. A panel beyond the first-level cache
    streams from the second at about half a line a cycle, for every tile anew; one beyond that, from memory.
    ``row_step`` is how many bytes of S lie between rows. For a micro-kernel of cores that run in order,
    ``in_order_step`` is the cost of a step. A long L that is ``in_place`` is read past the first-level cache; one that
    the second does not hold comes from memory for the first rows of each panel.
    Several ``threads`` wait for the longest share of the tiles, of so many products ``around``.
    """
    if (alone := tiles_of_one_vector(m, device, sums, micro)) is not None:
        return alone
    found = tile_costs(m, n, k, device, row_step, sums, micro, in_place)
    cost, *_, rows, vectors = min(found)
    columns = ceil(n / device.vector_lanes)
    if threads > 1:
        longest = [(t[0] * around * _uneven(m, columns, t[3], t[4], around, threads), t) for t in found]
        usual = next(share for share, t in longest if t[3:] == (rows, vectors))
        least, best = min(longest)
        if usual - least > threads * device.costs.threads.barrier:
            *_, rows, vectors = best
    elif m == 1 and vectors == columns:  # what one thread would do alone is shared where it takes hardly longer
        *_, vectors = min((t for t in found if t[0] <= cost * (1 + SHARED)), key=lambda t: (t[4] == columns, t))
    return ceil(m / ceil(m / rows)), vectors  # as even as can be, so that threads have shares of one size


def _uneven(m: int, columns: int, rows: int, vectors: int, around: int, threads: int) -> float:
    """The longest share of the tiles of products over the mean; 1 where each has many."""
    if around * ceil(m / rows) * ceil(columns / vectors) > FEW * threads:
        return 1.0
    return uneven(np.tile(np.outer(parts(columns, vectors), parts(m, rows)).ravel(), around), threads)


def tiles_of_one_vector(m: int, device: Device, sums: int, micro: MicroKernel) -> tuple[int, int] | None:
    """(rows, 1) where the micro-kernel limits the rows of tiles of one vector; None where registers decide."""
    if micro.most_rows is None:
        return None
    room = micro.most_rows(device, micro.order is not None) // sums
    return ceil(m / ceil(m / max(1, min(room, m)))), 1


def tile_costs(
    m: int,
    n: int,
    k: int,
    device: Device,
    row_step: int = 0,
    sums: int = 1,
    micro: MicroKernel = FMA,
    in_place: bool = False,
) -> list[tuple[float, int, int, int, int]]:
    """Every tile that registers hold: its predicted cycles, what decides between equal ones, rows and vectors."""
    lanes, costs = device.vector_lanes, device.costs.register_tile
    each = lanes // min(device.lanes(4), lanes)  # registers of a vector: where there are none, one a lane
    registers = device.vector_registers - micro.reserved(device)
    takes_lanes = device.arch == "aarch64"
    tall, in_order = micro.rows, micro.order is not None
    # What units that multiply do for a row of S besides: SVE's loads broadcast, but two rows are put together there.
    spread = (tall - 1) / 2 if device.has("sve") else float(takes_lanes and micro.size > 1 and tall == 1)
    # Rows a page apart share the sets of the first-level cache: more of them than it has ways push one another out.
    ways = max(8, device.l1d_bytes // 4096 - 2)
    tallest = ways if row_step and row_step % 4096 == 0 else 30
    found: list[tuple[float, int, int, int, int]] = []
    vectors_needed = ceil(n / lanes)
    is_far = in_place and 0 < device.l2_bytes < 4 * n * k
    for v in range(1, min(vectors_needed, 8) + 1):
        panel = k * v * lanes * 4
        stream = costs.l2_vector * v if panel > device.l1d_bytes // 2 else 0.0
        if device.l2_bytes and panel > device.l2_bytes:
            stream = v * lanes * 4 / device.costs.kernel.memory_bytes
        for r in range(1, min(m, tallest) + 1):
            if in_order and v == 1 and vectors_needed > 1:
                continue
            ready = 5 if in_order else v  # vectors of L that are held, and one for the compiler
            column = ceil(r * sums / tall) if takes_lanes else 1
            if (_even(r * sums, tall) * v + ready * tall) * each + column > registers and r * v > 1:
                continue
            full_panels, last = divmod(vectors_needed, v)
            cost = 0.0
            for width, panels in ((v, full_panels), (last, 1)):
                for height, tiles in ((r, m // r), (m % r, 1)):
                    if width and height and panels and tiles:
                        of_s = _even(height * sums, tall)
                        held = of_s * width
                        latency = 4 if held < 8 else 0
                        updates = of_s * (width + spread)
                        step = max(updates / 2, (of_s + tall * width) / 2, latency, stream)
                        step += IN_PLACE_CYCLES * (of_s + width) * in_place
                        if in_order:
                            step = in_order_step(height * sums, width)
                        cost += panels * tiles * (k * step + costs.tile + held * costs.store)
                        if is_far and height == r:
                            cost += panels * k * max(0.0, width * lanes * 4 / device.costs.kernel.memory_bytes - step)
            found.append((cost, -r * v, -v, r, v))
    return found


def _even(rows: int, tall: int) -> int:
    """Rows that sums are held for where so many are multiplied at once."""
    return ceil(rows / tall) * tall


def in_order_step(rows: int, vectors: int) -> float:
    """Cycles of a step of k where one multiply-add starts in a cycle, and one other instruction beside it.

    A vector is three others (its fp16, and joining them): of L for a step, of S for four. The loop is five. Half of
    the vectors are counted as cycles, which is between cores: none where loads start beside multiply-adds, else all.
    """
    others = 3 * (vectors + rows / 4) + 1.25
    return max(rows * vectors, others, 4) + (vectors + rows / 4) / 2


def decided_tile(tile: tuple[int, int], m: int, n: int, device: Device, sums: int = 1) -> tuple[int, int]:
    """A tile that somebody decided, no larger than the product; raises UsageError where registers do not hold it."""
    rows, vectors = min(tile[0], m), min(tile[1], ceil(n / device.vector_lanes))
    registers = device.vectors_in_registers
    needed = rows * sums * vectors + vectors + 1
    if needed > registers and rows * vectors > 1:
        raise UsageError(
            f"a tile of {rows} rows x {vectors} vectors needs {needed} registers",
            hint=f"'{device.name}' has {registers}",
        )
    return rows, vectors


def chunk_of(tiles: int, rows: int, k: int, panels: int, outer: int, by_rows: bool = False) -> int:
    """Row tiles per task: enough work to be worth a task, enough tasks to share out; 1 where a result is written
    ``by_rows``, whole ones one after the other, as a large one streams to memory."""
    if by_rows:
        return 1
    if panels * outer >= 16:
        target = max(1, (256 * 1024) // max(1, rows * k * 4))
    else:
        target = ceil(tiles / ceil(16 / (panels * outer)))
    return max(1, min(tiles, target))

"""Dot products of blocks of sixteen bytes, whose sums become lanes when they are complete.

Helium reduces sixteen products at once into a general-purpose register. NEON without dot products multiplies byte by
byte, adds two products in 16 bits, and pairs of those to four sums in 32: two products of bytes fit 16 bits, but for
two of the least byte by itself.
"""

from edgec.device.device import Device
from edgec.schedule.contract.micro_kernel import LANE_BYTES, InOrder, MicroKernel, Sum, in_order_forms

BLOCK = 16
#: Rows of a tile with Helium, whose sums lie in registers of integers, four a row: with a third, there are not enough.
HELIUM_ROWS = 2


def has_block_dot(device: Device) -> bool:
    """Has it NEON, and neither dot products nor matrices of bytes?"""
    return device.has("neon") and not any(map(device.has, ("dotprod", "i8mm", "sve")))


def _suits(of: Sum) -> bool:
    if not of.is_contiguous or not of.has_plain_weights:
        return False
    if of.device.has("mve"):
        return of.extent > LANE_BYTES
    return has_block_dot(of.device) and 2 * of.steps(BLOCK) < of.steps(LANE_BYTES) and of.least_weight > -128


def _most_rows(device: Device, in_order: bool) -> int:
    """Sums of a tile: four of each row, and its block of S, lie in registers.

    Beside them are a block of each column and two products of bytes; in order, products of every row.
    """
    registers = device.vectors_in_registers
    return HELIUM_ROWS if device.has("mve") else (registers - 4) // 6 if in_order else (registers - 6) // 5


INT8_BLOCK = MicroKernel(
    "int8_block", ("int8",), "ec_dot_blocks({c}, {s}, {l})", _suits,
    size=BLOCK, panel="i32", s_type="ec_vi", l_type="int32_t *", accumulator="ec_sums",
    initial="ec_sums_from({l})", finish="ec_lanes_of({c})", read="ec_block", read_partial="ec_block_first",
    keeps_order=True, most_rows=_most_rows,
)  # fmt: skip
INT8_BLOCK_IN_ORDER, INT8_BLOCK_DUAL_ISSUE = in_order_forms(
    INT8_BLOCK,
    InOrder(
        "_i", 1,
        (
            "{p} = ec_low_products({s}, {l})",
            "{p} = ec_high_products({p}, {s}, {l})",
            "{c} = ec_add_products({c}, {p})",
        ),
        by_column=True, least_steps=1,
    ),
)  # fmt: skip

"""Matrix instructions of 64-bit Arm for bytes (i8mm): two rows of S by two columns of L, eight bytes of each."""

from dataclasses import replace

from edgec.schedule.contract.micro_kernel import LANE_BYTES, MicroKernel, Sum
from edgec.schedule.contract.micro_kernels.int8_dot import is_taken_as_signed

BYTES_OF_A_ROW = 8


def _suits(of: Sum) -> bool:
    is_there = of.device.arch == "aarch64" and of.device.has("i8mm") and not of.device.has("mve")
    if not is_there or of.rows < 2 or not of.is_contiguous or not of.has_plain_weights:
        return False
    return of.steps(BYTES_OF_A_ROW) < of.steps(LANE_BYTES)


INT8_MATRIX_SS = MicroKernel(
    "int8_matrix_ss", ("int8",), "ec_matrix_ss({c}, {s}, {l})",
    lambda of: _suits(of) and is_taken_as_signed(of.signed, of.device),
    size=BYTES_OF_A_ROW, rows=2, panel="i32", s_type="ec_vi", l_type="int32_t *", accumulator="ec_two_i",
    initial="ec_two_i_from({l})", finish="ec_two_i_lanes({c}, {row})", read="ec_rows", read_partial="ec_rows_first",
)  # fmt: skip
INT8_MATRIX_US = replace(
    INT8_MATRIX_SS,
    name="int8_matrix_us",
    update="ec_matrix_us({c}, {s}, {l})",
    suits=lambda of: _suits(of) and not is_taken_as_signed(of.signed, of.device),
    signed=False,
)

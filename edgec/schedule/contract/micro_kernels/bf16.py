"""Products of bf16, added up in fp32: pairs of them in every lane, and the matrix instructions of 64-bit Arm."""

from edgec.schedule.contract.micro_kernel import MicroKernel, Sum

PAIR = 2
#: Numbers of a row that a matrix instruction multiplies.
FOUR = 4


def _suits_matrix(of: Sum) -> bool:
    is_there = of.device.arch == "aarch64" and of.device.has("bf16")
    return is_there and of.rows > 1 and of.is_contiguous and of.extent > PAIR


BF16_DOT = MicroKernel(
    "bf16_dot", ("bf16",), "ec_dot_bf16({c}, {s}, {l})",
    size=PAIR, panel="i32", s_type="ec_vi", l_type="ec_vi", read="ec_word", gather="ec_pair_of",
)  # fmt: skip
BF16_MATRIX = MicroKernel(
    "bf16_matrix", ("bf16",), "ec_matrix_bf16({c}, {s}, {l})", _suits_matrix,
    size=FOUR, rows=2, panel="i32", s_type="ec_vi", l_type="int32_t *", accumulator="ec_two", zero="ec_two_zero()",
    finish="ec_two_lanes({c}, {row})", read="ec_rows_16", read_partial="ec_rows_16_first",
)  # fmt: skip

"""Dot products of eight bytes a lane. Use it with --micro-kernels and the folder of this file."""

from pathlib import Path

from edgec.schedule.contract.micro_kernel import MicroKernel, Sum


def suits(of: Sum) -> bool:
    """Signed bytes that are neighbors in memory, by constants; on a real instruction also `of.device.has("dot8")`."""
    return of.signed and of.is_contiguous and of.has_plain_weights and of.extent >= 8


INT8_DOT8 = MicroKernel(
    name="int8_dot8",
    factors=("int8",),
    suits=suits,
    size=8,
    panel="i32",
    s_type="ec_eight",
    l_type="int32_t *",
    accumulator="ec_vi",
    read="ec_eight_of",
    read_partial="ec_eight_first",
    update="ec_dot8({c}, {s}, {l})",
    header=Path(__file__).with_name("ec_dot8.h"),
)

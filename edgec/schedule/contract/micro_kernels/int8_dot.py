"""Dot products of four bytes, added to a lane of 32 bits: signed by signed, and unsigned by signed.

x86 with VNNI has the unsigned form alone, NEON without i8mm and Helium the signed one; everywhere else there are both,
or both are made of multiplications. RISC-V has no such products: what they are made of takes registers, too.
"""

from dataclasses import replace

from edgec.device.device import Device
from edgec.schedule.contract.micro_kernel import InOrder, MicroKernel, Sum, in_order_forms


def is_taken_as_signed(signed: bool, device: Device) -> bool:
    """Does the machine take these bytes as signed ones, where it has one form of the instruction alone?"""
    if signed:
        return not (device.has("avx512vnni") or device.has("avxvnni"))
    return device.has("mve") or (device.has("neon") and not device.has("i8mm"))


def _signed(of: Sum) -> bool:
    return is_taken_as_signed(of.signed, of.device)


INT8_DOT_SS = MicroKernel(
    "int8_dot_ss", ("int8",), "ec_dot_ss({c}, {s}, {l})", _signed,
    size=4, panel="i32", s_type="ec_vi", l_type="ec_vi", accumulator="ec_vi",
    read="ec_word", read_last="ec_word_last", gather="ec_word_of",
    reserved=lambda device: 12 if device.has("v") else 0,
)  # fmt: skip
INT8_DOT_US = replace(
    INT8_DOT_SS,
    name="int8_dot_us",
    update="ec_dot_us({c}, {s}, {l})",
    suits=lambda of: not _signed(of),
    signed=False,
)
INT8_DOT_SS_IN_ORDER, INT8_DOT_SS_DUAL_ISSUE = in_order_forms(
    INT8_DOT_SS, InOrder("_i", 4, ("{c} = ec_dot_ss_lane({c}, {s}, {lane}, {l})",), needs="dotprod")
)
INT8_DOT_US_IN_ORDER, INT8_DOT_US_DUAL_ISSUE = in_order_forms(
    INT8_DOT_US, InOrder("_i", 4, ("{c} = ec_dot_us_lane({c}, {s}, {lane}, {l})",), needs="dotprod")
)

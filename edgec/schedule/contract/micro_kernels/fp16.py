"""Multiply-adds of fp16, in fp16: 64-bit Arm takes eight columns of L an instruction (see `fp16_sums`)."""

from edgec.schedule.contract.micro_kernel import InOrder, MicroKernel, in_order_forms

FP16_FMA = MicroKernel(
    "fp16_fma", ("fp16",), "ec_fma_h({s}, {l}, {c})", lambda of: of.device.has_fp16_fma,
    columns=2, panel="f16", s_type="ec_vh", l_type="ec_vh",
)  # fmt: skip
FP16_FMA_IN_ORDER, FP16_FMA_DUAL_ISSUE = in_order_forms(
    FP16_FMA, InOrder("_h", 8, ("{c} = ec_fma_lane_h({s}, {lane}, {l}, {c})",))
)

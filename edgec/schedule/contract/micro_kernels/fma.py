"""Multiply-adds of floats, a vector at a time; numbers of 16 bits become floats first."""

from edgec.schedule.contract.micro_kernel import InOrder, MicroKernel, in_order_forms

FMA = MicroKernel("fma", ("fp32", "fp16", "bf16"), "ec_fma({s}, {l}, {c})")
FMA_IN_ORDER, FMA_DUAL_ISSUE = in_order_forms(FMA, InOrder("", 4, ("{c} = ec_fma_lane({s}, {lane}, {l}, {c})",)))

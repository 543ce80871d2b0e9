"""The choice of micro-kernels: every one of them is taken by some device for some product, and by no other name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from chance import RANDOM
from compiled import program_of
from small_graphs import graph, value

from edgec import ops
from edgec.device.load import load_device
from edgec.ir import expr as X
from edgec.ir.graph import Node, constant
from edgec.schedule.contract import micro_kernels
from edgec.schedule.contract.contract import Contract
from edgec.schedule.contract.micro_kernel import MicroKernel, Sum, chosen, defined_in, is_known, named, register

IN_ORDER: dict[str, Any] = {"in_order": True, "dual_issue_load": False}
BESIDE: dict[str, Any] = {"in_order": True, "dual_issue_load": True}
A55 = ("neon", "fp16", "dotprod")

#: name: (device, precision, type of S, rows, columns, changed facts of the device)
TAKEN: dict[str, tuple[str, str, str, int, int, dict[str, Any]]] = {
    "fma": ("x86_64_avx2", "fp32", "f32", 5, 33, {}),
    "fma_in_order": ("cortex_a55", "fp32", "f32", 8, 32, IN_ORDER),
    "fma_dual_issue": ("cortex_a55", "fp32", "f32", 8, 32, BESIDE),
    "fp16_fma": ("pixel_8", "fp16", "f32", 64, 512, {}),
    "fp16_fma_in_order": ("cortex_a55", "fp16", "f32", 64, 512, IN_ORDER),
    "fp16_fma_dual_issue": ("cortex_a55", "fp16", "f32", 64, 512, BESIDE),
    "bf16_dot": ("x86_64_avx512", "bf16", "f32", 64, 512, {}),
    "bf16_matrix": ("pixel_8", "bf16", "f32", 64, 512, {}),
    "int8_dot_us": ("x86_64_avx512", "fp32", "u8", 5, 33, {}),
    "int8_dot_us_in_order": ("cortex_a55", "fp32", "u8", 1, 32, IN_ORDER | {"instruction_sets": (*A55, "i8mm")}),
    "int8_dot_us_dual_issue": ("cortex_a55", "fp32", "u8", 1, 32, BESIDE | {"instruction_sets": (*A55, "i8mm")}),
    "int8_dot_ss": ("arm64", "fp32", "i8", 5, 3, {"instruction_sets": ("neon", "dotprod")}),
    "int8_dot_ss_in_order": ("cortex_a55", "fp32", "u8", 8, 32, IN_ORDER),
    "int8_dot_ss_dual_issue": ("cortex_a55", "fp32", "i8", 8, 32, BESIDE),
    "int8_matrix_us": ("pixel_8", "fp32", "u8", 5, 33, {}),
    "int8_matrix_ss": ("pixel_8", "fp32", "i8", 5, 33, {}),
    "int8_block": ("cortex_m55", "fp32", "i8", 5, 33, {}),
    "int8_block_in_order": ("raspberry_pi_3", "fp32", "i8", 8, 32, IN_ORDER),
    "int8_block_dual_issue": ("raspberry_pi_3", "fp32", "i8", 8, 32, BESIDE),
}


def product(dtype: str, rows: int, columns: int) -> Node:
    """Rows of 64 numbers by constants."""
    x = value("x", rows, 64, dtype=dtype)
    if dtype == "f32":
        hidden = ops.node("matmul", x, constant(RANDOM.standard_normal((64, 64)).astype(np.float32)))
        return ops.node("matmul", hidden, constant(RANDOM.standard_normal((64, columns)).astype(np.float32)))
    weights = constant(RANDOM.integers(-127, 128, (64, columns)).astype(np.int32))
    return ops.node("matmul", ops.node("cast", x, to="i32"), weights)


@pytest.mark.parametrize("name", TAKEN)
def test_the_choice(name: str) -> None:
    device, precision, dtype, rows, columns, facts = TAKEN[name]
    made = replace(load_device(device), precision=precision, **facts)
    program = program_of(graph(product(dtype, rows, columns)), made)
    schedules = [s.schedule for k in program.kernels for s in k.steps]
    assert name in [s.micro_kernel for s in schedules if isinstance(s, Contract)]


def test_every_micro_kernel_is_chosen_above() -> None:
    modules = [m for name, m in vars(micro_kernels).items() if not name.startswith("_") and hasattr(m, "__file__")]
    assert {m.name for module in modules for m in defined_in(module)} == set(TAKEN)


def test_one_of_a_users_own_is_taken_where_it_is_offered() -> None:
    mine = MicroKernel("mine_of_a_test", ("fp32",), "f({s}, {l}, {c})")
    if not is_known(mine.name):
        register(mine, "here", own=True)
    of = Sum(load_device("x86_64_avx2"), "fp32", (), X.const(1.0), X.const(1.0), 4)
    assert chosen(of) == named("fma") and chosen(replace(of, own=(mine.name,))) == mine

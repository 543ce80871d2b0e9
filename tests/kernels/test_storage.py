"""Values and constants that lie in memory in 16 bits: sizes from which on, positions, reciprocals, integers, tables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from chance import RANDOM
from small_graphs import graph, number, value

from edgec import ops
from edgec.device.load import load_device
from edgec.fuse import plan
from edgec.fuse.plan import Plan
from edgec.ir import expr as X
from edgec.ir.graph import Node, constant
from edgec.schedule.program import Buffer
from edgec.schedule.storage import (
    LEAST,
    LEAST_OF_A_STEP,
    LEAST_OF_AN_INPUT,
    WORTH_A_COPY,
    as_read,
    exact_dtype,
    half_dtype,
    kept_narrow,
    narrow_dtype,
    with_copies,
)

GPU = replace(load_device("cuda_sm90"), precision="fp16")
CPU = replace(load_device("x86_64_avx512"), precision="bf16")


def products(x: Node, *columns: int) -> list[Node]:
    """Products, each of the one before."""
    found: list[Node] = []
    for n in columns:
        w = constant(RANDOM.standard_normal((x.type.shape[-1], n)).astype(np.float32))
        x = ops.node("matmul", x, w)
        found.append(x)
    return found


def planned(*outputs: Node) -> Plan:
    return plan(graph(*outputs))


@pytest.mark.parametrize("rows", [127, 128])
def test_values_of_a_step_from_a_size_on(rows: int) -> None:
    """Operands of a result keep 32 bits in a step, and so do small values."""
    a, b, y = products(value("x", rows, 64), LEAST_OF_A_STEP // 128, 128, 128)
    found = planned(y)
    assert kept_narrow(found, GPU, is_step=True) == ({a, y} if a.type.elements >= LEAST_OF_A_STEP else set())
    assert kept_narrow(found, GPU) == {a, b, y}


@pytest.mark.parametrize(("rows", "is_kept"), [(63, False), (64, True)])
def test_factors_from_a_size_on(rows: int, is_kept: bool) -> None:
    """On a processor, factors of products are kept in 16 bits; the result, which nothing multiplies, is not."""
    a, y = products(value("x", rows, 8), LEAST // 64, 16)
    assert (a in kept_narrow(planned(y), CPU)) == is_kept and y not in kept_narrow(planned(y), CPU)
    for device in (replace(CPU, precision="fp32"), replace(GPU, precision="fp32")):
        assert kept_narrow(planned(y), device) == frozenset()


def test_types_of_16_bits() -> None:
    for precision, dtype in (("fp32", None), ("fp16", "f16"), ("bf16", "bf16")):
        for device in (GPU, CPU):
            own = replace(device, precision=precision)
            assert half_dtype(own) == dtype and narrow_dtype(own) == (None if device is GPU else dtype)


def standing(n: Node) -> Node:
    """A sum of rows of some value, so that the value before it is a block of its own."""
    return ops.node("reduce", n, combine="max", axes=(n.type.rank - 1,))


def kept(y: Node, *nodes: Node) -> list[bool]:
    found = kept_narrow(planned(y), GPU)
    return [n in found for n in nodes]


def test_what_is_large_on_a_gpu_keeps_32_bits() -> None:
    """Integers of 32 bits that are not scaled yet, and reciprocals, through additions and movement alone."""
    for dtype, made, is_kept in (
        ("i32", lambda x: ops.node("cast", x, to="f32"), False),
        ("u32", lambda x: ops.node("cast", x, to="f32"), False),
        ("i64", lambda x: ops.node("cast", x, to="f32"), False),
        ("u64", lambda x: ops.node("cast", x, to="f32"), False),
        ("i16", lambda x: ops.node("cast", x, to="f32"), True),
        ("u8", lambda x: ops.node("cast", x, to="f32"), True),
        ("f32", lambda x: ops.node("div", number(1.0), x), False),
        ("f32", lambda x: ops.node("div", x, number(3.0)), True),
        ("f32", lambda x: ops.node("div", x, ops.node("exp", x)), True),
        ("i32", lambda x: ops.node("mul", ops.node("cast", x, to="f32"), number(0.01)), True),
        ("i32", lambda x: ops.node("add", ops.node("cast", x, to="f32"), number(0.5)), False),
        ("i32", lambda x: ops.node("sub", number(0.5), ops.node("cast", x, to="f32")), False),
    ):
        x = made(value("x", 64, 48, dtype=dtype))
        largest = standing(ops.node("transpose", x, perm=(1, 0)))
        y = ops.node("exp", ops.node("mul", largest, number(0.01)))
        for n in (x, ops.node("reshape", x, shape=(48, 64))):
            found = kept_narrow(planned(n, y), GPU)
            assert (n in found) == is_kept, (dtype, n.op)


def test_positions_keep_32_bits_and_so_do_terms_of_their_sums() -> None:
    """Up to constant factors; the factors of a product of two are none of its terms."""
    rows = {k: ops.node("reduce", value(k, 64, 64), combine="add", axes=(1,)) for k in "abcdef"}
    difference = ops.node("sub", ops.node("mul", rows["a"], number(2.0)), ops.node("div", rows["b"], number(8.0)))
    product = ops.node("mul", rows["c"], rows["d"])
    chosen = ops.node("select", ops.node("lt", rows["e"], number(0.0)), rows["e"], number(1.0))
    whole = ops.node("add", ops.node("add", difference, product), chosen)
    index = ops.node("cast", ops.node("min", ops.node("max", whole, number(0.0)), number(499.0)), to="i64")
    y = ops.node("gather", value("table", 500, 8), index, axis=0)
    made = graph(y, *(ops.node("exp", r) for r in rows.values()))
    found = plan(replace(made, origin={whole: ("whole",), **{r: (k,) for k, r in rows.items()}}), gpu=True,
                 materialize=("whole", *rows))  # fmt: skip
    assert {b.output for b in found.blocks} >= {whole, *rows.values()}
    kept = kept_narrow(found, GPU)
    assert {k for k, r in rows.items() if r in kept} == {"c", "d", "f"} and whole not in kept


@pytest.mark.parametrize(("rows", "columns", "copied"), [(256, 256, True), (255, 256, False)])
def test_copies_that_products_reuse_enough(rows: int, columns: int, copied: bool) -> None:
    """An input of a GPU that its product and others read, from a size on; a step's from a smaller one."""
    x = value("x", LEAST_OF_A_STEP // 256 * rows // 256 * 4, 64)
    (y,) = products(x, columns)
    found = planned(y, ops.node("exp", x))
    assert x.type.elements < LEAST_OF_AN_INPUT and len(with_copies(found, GPU).blocks) == len(found.blocks)
    is_long = x.type.elements >= LEAST_OF_A_STEP
    assert is_long == copied
    assert (len(with_copies(found, GPU, is_step=True).blocks) == len(found.blocks) + 1) == copied
    assert with_copies(found, replace(GPU, precision="fp32"), is_step=True) is found
    assert with_copies(found, load_device("generic_opencl"), is_step=True) is found


@pytest.mark.parametrize("columns", [2 * WORTH_A_COPY // 2 - 1, WORTH_A_COPY])
def test_copies_are_worth_the_products_that_read_them(columns: int) -> None:
    """A value of its own that a product with so many columns and an addition read."""
    (a,) = products(value("x", 64, 8), 64)
    a = ops.node("exp", a)
    (y,) = products(a, columns)
    found = planned(y, ops.node("add", standing(a), number(1.0)))
    assert a.type.elements == LEAST and a in {b.output for b in found.blocks}
    copies = [b for b in with_copies(found, CPU).blocks if b.output not in {o.output for o in found.blocks}]
    assert len(copies) == (columns >= WORTH_A_COPY)
    assert len(with_copies(found, CPU, exact=len(found.blocks)).blocks) == len(found.blocks)
    assert with_copies(found, replace(CPU, precision="fp32")) is found


def weights_of(data: np.ndarray) -> X.Expr:
    return X.load(Buffer("w", "weights", "f32", data.size, data), (X.fresh(data.size),), "f32")


def test_constants_that_16_bits_hold() -> None:
    whole = (RANDOM.integers(-100, 101, LEAST)).astype(np.float32)
    for change, dtype in ((0.0, "f16"), (1.0 + 2**-10, "f16"), (2.0**20, "bf16"), (1.0 + 2**-12, "f32")):
        data = whole.copy()
        data[LEAST // 3] = change or data[LEAST // 3]
        assert exact_dtype(weights_of(data)) == dtype, change
        assert exact_dtype(weights_of(data[:-1])) == "f32"  # too few to matter
    late = np.concatenate([np.zeros(LEAST * 3, np.float32), np.full(7, 1 + 2**-12, np.float32)])
    assert exact_dtype(weights_of(late)) == "f32"
    assert exact_dtype(weights_of(whole) * 2.0) == "f32"


def test_tables_lie_in_the_more_exact_type_that_holds_them() -> None:
    whole = RANDOM.standard_normal(LEAST).astype(np.float32)
    large, larger = whole.copy(), whole.copy()
    large[5], larger[5] = -65504, 65536
    for table, dtype in ((whole, "float16"), (large, "float16"), (larger, "bfloat16"), (whole[:-1], "float32")):
        assert as_read(table, CPU).dtype == dtype
        assert as_read(table, GPU) is table and as_read(table, replace(CPU, precision="fp32")) is table
    numbers = np.arange(LEAST)
    assert as_read(numbers, CPU) is numbers

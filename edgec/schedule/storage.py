"""Storage types of floats: 16 bits, if the device's precision says so and matmuls read them.

Weights of matmuls then take half the memory and half the time to read. On a CPU, intermediate values are rounded where
a matmul reads them as a factor, as the rounding errors of many terms average out. Values that only additions,
normalizations and softmax read keep 32 bits, so that errors do not accumulate along a residual stream; values that both
read are copied in 16 bits where the matmuls reuse the copy enough. Arithmetic is in fp32 (but see
`contract.fp16_sums`), and so are inputs, outputs and the operands and results of procedures.

A GPU stores all intermediate values in 16 bits, except positions: values from which an index is computed, and the sums
that lead to them. A rounded coordinate would read another element, and a loop would round it again in each iteration.
Sums of integers that were not scaled yet exceed 65504, the largest number of fp16, and stay in 32 bits too; so do
reciprocals, which for a norm of zeros are as large as its guard is small.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from edgec.device.device import Device, Precision
from edgec.fuse import Plan
from edgec.fuse.block import Block
from edgec.fuse.cost_model import work
from edgec.fuse.plan import copy_block
from edgec.ir import expr as X
from edgec.ir.dtypes import DTYPES, ends
from edgec.ir.expr import Expr
from edgec.ir.graph import RESULT, Formula, Node, Procedure
from edgec.ir.loads import replace_loads
from edgec.ir.nest import coefficient
from edgec.ir.vector import HALF
from edgec.schedule.contract.int8_dot import BYTES

#: Values with fewer elements stay in fp32: biases, scales and vectors, whose memory is negligible next to the weights.
LEAST = 1 << 12
#: The same for values of a training step on a GPU.
LEAST_OF_A_STEP = 1 << 14
#: Inputs of a network from so many elements on are copied on a GPU: with fewer a launch costs more than the copy gains.
LEAST_OF_AN_INPUT = 1 << 20
#: From this many multiply-adds per element on, the cost of a copy in 16 bits is small compared with the arithmetic.
WORTH_A_COPY = 64
#: Operators whose results are as large as their operands.
_ADDING = frozenset({"reshape", "transpose", "slice", "pad", "concat", "broadcast", "add", "sub"})
_TYPES: dict[Precision, Literal["f16", "bf16"]] = {"fp16": "f16", "bf16": "bf16"}


def half_dtype(device: Device) -> Literal["f16", "bf16"] | None:
    """The type of 16 bits of the device's precision; None where that has 32."""
    return _TYPES.get(device.precision)


def narrow_dtype(device: Device) -> str | None:
    """The type of 16 bits that a processor keeps weights and factors of products in; None where it is to use fp32."""
    return None if device.is_gpu else half_dtype(device)


def device_for(plan: Plan, block: Block, device: Device, chosen: Collection[str] | None) -> Device:
    """The device as a block is to use it: where layers are ``chosen``, by their names, they alone are in bf16."""
    if chosen is None:
        return device
    names = {name for n in block.nodes for name in plan.graph.names(n)}
    return replace(device, precision="fp32" if names.isdisjoint(chosen) else "bf16")


def kept_narrow(
    plan: Plan, device: Device, chosen: Collection[str] | None = None, is_step: bool = False
) -> frozenset[Node]:
    """The owners of memory whose floats lie there in 16 bits. Of ``chosen`` layers: what nobody else reads.

    In a training step, gradients that weights are changed by and small values, as those of a loss are, keep 32 bits.
    """
    if chosen is not None:
        return _read_by(plan, device, chosen)
    called = {plan.root_of(n)[0] for b in plan.blocks for n in _kept_wide(b, device)}
    if device.is_gpu:
        positions = {plan.root_of(n)[0] for n in _positions(plan)}
        large = {plan.root_of(b.output)[0] for b in plan.blocks if _may_be_large(b.output)}
        everything = {plan.root_of(b.output)[0] for b in plan.blocks} - called - positions - large
        if is_step:
            outputs = {plan.root_of(n)[0] for _, n in plan.outputs}
            ends = (b for b in plan.blocks if plan.root_of(b.output)[0] in outputs)
            everything -= {plan.root_of(n)[0] for b in ends for n in b.inputs}
            everything = {n for n in everything if n.type.is_fixed and n.type.elements >= LEAST_OF_A_STEP}
        return frozenset(n for n in everything if n.type.dtype == "f32") if half_dtype(device) else frozenset()
    if narrow_dtype(device) is None:
        return frozenset()
    read = {plan.root_of(n)[0] for b in plan.blocks for n in _factors(b)}
    return frozenset(n for n in read - called if n.type.dtype == "f32" and n.type.elements >= LEAST)


def _kept_wide(block: Block, device: Device) -> Iterator[Node]:
    """The values that a procedure reads and writes in the types that its operator gives them."""
    if isinstance(block.meaning, Procedure):
        narrow = block.meaning.narrow if device.is_gpu else frozenset[int]()
        operands = {RESULT: block.output, **dict(enumerate(block.output.args))}
        yield from (n for k, n in operands.items() if k not in narrow)


def copied_alike(plan: Plan, narrow: frozenset[Node]) -> frozenset[Node]:
    """Of values in 16 bits (``narrow``), those that no procedure copies, byte by byte, from or to one in 32 bits."""
    narrow = narrow.difference(plan.graph.inputs, (n for _, n in plan.outputs))  # as the caller has them
    copied = [
        {plan.root_of(n)[0] for n in (b.output, *b.output.args)}
        for b in plan.blocks
        if isinstance(b.meaning, Procedure) and b.meaning.alike
    ]
    while wide := [nodes & narrow for nodes in copied if nodes & narrow and not nodes <= narrow]:
        narrow = narrow.difference(*wide)
    return narrow


def _may_be_large(n: Node) -> bool:
    """Is it made of integers of 32 bits or more, or of reciprocals, by movement and addition alone?"""
    stack, seen = [n], set[Node]()
    while stack:
        n = stack.pop()
        if n in seen or n.type.dtype != "f32":
            continue
        seen.add(n)
        if n.op == "cast" and n.args[0].type.dtype in ("i32", "u32", "i64", "u64"):
            return True
        if n.op == "div" and n.args[0].is_const and not n.args[1].is_const:
            return True
        stack += n.args if n.op in _ADDING else ()
    return False


def _read_by(plan: Plan, device: Device, chosen: Collection[str]) -> frozenset[Node]:
    """Values that only ``chosen`` layers read, and only as factors."""
    mine, others = set[Node](), {n for _, n in plan.outputs} | set(plan.graph.inputs)
    for block in plan.blocks:
        is_chosen = narrow_dtype(device_for(plan, block, device, chosen)) is not None
        factors = _factors(block) if is_chosen and block.kind == "contract" else set()
        mine |= {plan.root_of(n)[0] for n in factors}
        others |= {plan.root_of(n)[0] for n in _read_beside(block, factors)}
    return frozenset(n for n in mine - others if n.type.dtype == "f32" and n.type.elements >= LEAST)


def _positions(plan: Plan) -> set[Node]:
    """Values that say where others are read, and the terms they are sums of, block after block."""
    bodies = {b.output: b.formula.body for b in plan.blocks if not b.is_procedure}
    indices = (a for body in bodies.values() for load in X.loads(body) for a in load.args)
    waiting = [load.value for a in indices for load in X.loads(a)]
    found: set[Node] = set()
    while waiting:
        node = waiting.pop()
        if node not in found and not node.is_const:
            found.add(node)
            waiting += _terms(bodies[node]) if node in bodies else ()
    return found


def _terms(e: Expr) -> set[Node]:
    """Addends of a formula, up to constant factors: 1/8 (x + y) + c has x and y."""
    if e.op == "load":
        return {e.value}
    if e.op in ("add", "sub", "neg", "select"):
        return {n for a in e.args for n in _terms(a)}
    if e.op in ("mul", "div"):
        varying = [a for a in e.args if any(not load.value.is_const for load in X.loads(a))]
        return _terms(varying[0]) if len(varying) == 1 else set()
    return set()


def _factors(block: Block) -> set[Node]:
    """Factors of a block's contraction."""
    if block.is_procedure or block.kind not in ("contract", "window"):
        return set()
    sums = [e for e in X.walk(block.formula.body) if e.op == "reduce" and e.args[0].op == "mul"]
    return {load.value for e in sums for load in X.loads(e) if not load.value.is_const}


def with_copies(
    plan: Plan, device: Device, chosen: Collection[str] | None = None, is_step: bool = False, exact: int = 0
) -> Plan:
    """The plan with copies, to be kept in 16 bits, of what products (of ``chosen`` layers) and others read.

    The first ``exact`` blocks compute in fp32, and read no copies.
    On a GPU they are of inputs, such as a training step's weights and samples: tensor cores' operands are then copied
    to shared memory as they are, by all the products that read them.
    """
    if device.is_gpu:
        if device.language != "cuda" or half_dtype(device) is None:
            return plan
    elif narrow_dtype(device) != "bf16" and not device.has_fp16_fma and chosen is None:
        return plan
    products: dict[Node, list[Block]] = {}
    others = {n for _, n in plan.outputs} | set(plan.graph.inputs)
    for number, block in enumerate(plan.blocks):
        is_half = device.is_gpu or narrow_dtype(device_for(plan, block, device, chosen)) is not None
        is_product = is_half and block.kind == "contract" and number >= exact
        factors = _factors(block) if is_product else set()
        for node in factors:
            products.setdefault(node, []).append(block)
        others |= _read_beside(block, factors)
    placed = set(plan.aliases) | {p.parent for p in plan.aliases.values()} | set(plan.halos) | set(plan.guards)
    inputs = frozenset(plan.graph.inputs)
    least = LEAST if not device.is_gpu else LEAST_OF_A_STEP if is_step else LEAST_OF_AN_INPUT
    copies = {
        n: copy_block(n, n, ("narrow",))
        for n, blocks in products.items()
        if n in others - placed and n.type.dtype == "f32" and n.type.elements >= least
        and (n in inputs or not device.is_gpu)
        and sum(map(work, blocks)) / 2 >= WORTH_A_COPY * n.type.elements
    }  # fmt: skip
    changed: list[Block] = []
    waiting = dict(copies)
    for block in plan.blocks:
        read = {n: copies[n].output for n in block.inputs if n in copies and block in products[n]}
        changed += [waiting.pop(n) for n in read if n in waiting]
        changed.append(replace(block, meaning=reading_copies(block.formula, read)) if read else block)
    return replace(plan, blocks=tuple(changed))


def _read_beside(block: Block, factors: set[Node]) -> set[Node]:
    """Values that a block reads, but not as a factor."""
    if block.is_procedure:
        return set(block.inputs)
    outside = X.transform(block.formula.body, lambda e: X.const(0.0, e.dtype) if e.op == "reduce" else None)
    return set(block.inputs) - factors | {load.value for load in X.loads(outside)}


def reading_copies(formula: Formula, copies: Mapping[Node, Node]) -> Formula:
    """The formula with the factors of its sums read from their copies."""

    def change(slot: Any, place: tuple[Expr, ...]) -> Expr | None:
        return X.load(copies[slot], place, slot.type.dtype) if slot in copies else None

    def inside(e: Expr) -> Expr | None:
        return replace_loads(e, change) if e.op == "reduce" else None

    return Formula(formula.type, formula.variables, X.transform(formula.body, inside))


def as_read(value: np.ndarray, device: Device) -> np.ndarray:
    """A constant that is looked up, as it lies in memory: large tables of floats take 16 bits.

    Nothing multiplies them in pairs, so that they are of the more exact type where their range allows it.
    """
    if narrow_dtype(device) is None or value.dtype != np.float32 or value.size < LEAST:
        return value
    fits = bool(np.abs(value).max() <= ends("f16")[1])
    return value.astype(DTYPES["f16" if fits else "bf16"])


def exact_dtype(weights: Expr) -> str:
    """The narrowest type that holds constant weights exactly: 16 bits where the model has them in 16 bits."""
    if weights.op != "load" or weights.dtype != "f32" or weights.value.data.size < LEAST:
        return "f32"
    values = weights.value.data
    for part in (values[:: max(values.size // LEAST, 1)], values):  # most weights of 32 bits show it in the first
        with np.errstate(over="ignore"):
            fitting = [t for t in HALF if np.array_equal(part.astype(DTYPES[t]).astype(np.float32), part)]
        if not fitting:
            return "f32"
    return fitting[0]


def in_words(dtype: str) -> str:
    """The type that a value has in memory of words of 32 bits; what has no such type keeps its own."""
    return "i32" if dtype in ("bool", "i8", "u8", "i16", "u16", "i64") else dtype


def memory_type(load: Expr) -> str:
    """The type in memory of what a formula loads: a float may lie there as less."""
    lies: str = getattr(load.value, "dtype", load.dtype)
    return lies if load.dtype == "f32" and lies in (*HALF, *BYTES) else load.dtype


def bytes_along(load: Expr, loop: Expr) -> int:
    """Bytes between the elements of a load in consecutive steps of ``loop``."""
    step = coefficient(load.args[0], loop) if loop.op == "var" and load.args else 0
    return abs(step or 0) * DTYPES[memory_type(load)].itemsize

"""Every compiled kernel beside its formula, on operands of which none is zero: what outputs hide, kernels show.

Outputs that are the number of a class, or integers of a few steps, hide most mistakes before them, and so does a unit
that is zero on all inputs that were drawn. So each kernel of a small network runs alone, on values that no zero is
among: those of the network plus some noise that is not negative.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf, prod

import numpy as np

from edgec.build import Built
from edgec.check.compare import TOLERANCE, Difference, compare, step_of
from edgec.check.drawn import floats_of, scaled
from edgec.errors import EdgecError
from edgec.execute.executor import ProgramRun
from edgec.execute.kernels import Kernels, library_of
from edgec.execute.samples import random_inputs
from edgec.frontend import states
from edgec.fuse.block import Block
from edgec.ir import expr as X
from edgec.ir.evaluate import evaluate_formula
from edgec.ir.expr import Expr
from edgec.ir.graph import Graph
from edgec.ir.index import upper
from edgec.ir.nest import most
from edgec.ir.types import DTYPES, ends, is_float
from edgec.progress import Progress
from edgec.report.facts import macs
from edgec.schedule.program import Kernel

#: Multiply-adds of a network whose kernels are run so: the formulas of larger ones take long.
MOST_MACS = 30_000_000
#: Rounds with other inputs, for each step of a kernel, and the seed of the first.
MOST_ROUNDS, SEED = 32, 7000
#: Rounds, at least, with inputs that are none of the samples.
LEAST_VARIED = 2
#: Factors on inputs that are noise alone.
PLAIN = (0.1, 1.0, 10.0, 0.01)
#: Largest part of a result that noise is, and of integers its greatest number.
NOISE, STEPS = 0.25, 64
#: The tolerance over the rounding of one operand, and the multiple of what such rounding makes that passes too.
ROUNDINGS = 64.0
SLACK = 8.0
#: Smaller relative differences are no mistake: normalizations of nearly equal numbers come as far as that. Sums of
#: products, as far as twice the tolerance.
LEAST, LEAST_OF_SUMS = 2e-3, 2.0
#: Operators whose results are no more off than their operands, but for sums of what cancels.
_TAME = frozenset(
    ("matmul", "conv", "reduce", "pool", "add", "sub", "mul", "neg", "max", "min", "abs", "select", "cast", "reshape",
     "transpose", "slice", "concat", "pad", "broadcast", "copy", "sigmoid", "tanh", "lt", "le", "gt", "ge")
)  # fmt: skip
#: Values of which none is larger are as good as zero: kernels flush what follows from them.
NOTHING = 1e-30
#: The least number of 16 bits above 0, and the least that has all of their bits.
FP16_LEAST, FP16_NORMAL = 2.0**-24, 2.0**-14
#: Part of the elements of an integer result that may differ, of rounded ones by a step: numbers that are nearly equal.
DIFFER = 0.01
#: The same, and how many of few, of integers of 16 bits, whose steps are hardly more than what floats round off.
DIFFER_FINE, FEW_FINE = 0.05, 3.0
#: Steps that a rounded integer is off where the kernel is wrong: others round several times, each by a step.
FAR = 16.0


def is_small(built: Built) -> bool:
    """Are kernels of the network called one by one here, in time?"""
    program = built.program
    alone = not (built.options.device.is_gpu or program.parts or program.levels or program.ranks)
    return alone and upper(macs(built.stages.graph)) <= MOST_MACS


def wrong_kernels(
    built: Built, sets: Sequence[Mapping[str, np.ndarray]], tolerance: float, progress: Progress
) -> Iterator[str]:
    """A sentence for each compiled kernel that is farther off its formula than ``tolerance``, and than it rounds.

    Inputs are ``sets`` and others of many sizes and forms; the fewer the larger the network is.
    """
    kernels = Kernels(built.program, library_of(built), built.options.name, built.options.templates)
    deepest = max((len(k.steps) for k in built.program.kernels), default=1)  # of several steps, the last one shows
    rounds = min(MOST_ROUNDS * max(1, deepest), MOST_MACS // max(1, upper(macs(built.stages.graph))))
    rounds = max(rounds, len(sets) + LEAST_VARIED)
    told: set[int] = set()
    for r in range(rounds):
        progress("check", f"kernels beside their formulas, round {r + 1}/{rounds}", r / rounds)
        random = np.random.default_rng(r)
        inputs = sets[r] if r < len(sets) else _varied(built.stages.graph, SEED + r, random)
        for k, sentence in _wrong(built, kernels, inputs, tolerance, random):
            if k not in told:
                told.add(k)
                yield sentence


def _wrong(
    built: Built, kernels: Kernels, inputs: Mapping[str, np.ndarray], tolerance: float, random: np.random.Generator
) -> Iterator[tuple[int, str]]:
    """Numbers of the kernels that are wrong in one round, and what to say of each."""
    program = built.program
    try:
        meant, real, moved = (ProgramRun(program, inputs) for _ in range(3))
    except EdgecError:
        return  # what these inputs stand for has bounds
    kernels.lend(real)
    for k, kernel in enumerate(program.kernels):
        _copy(meant, moved)
        with np.errstate(all="ignore"):
            ran = kernels.beside(k, meant, real)
        if not ran or kernel.block is None:
            continue
        node = kernel.block.output
        got, want = real.array(node), meant.array(node)
        step = step_of(node.args[0] if node.op == "copy" else node)
        difference = compare(node.op, got, want)
        if difference.mismatches and _is_exact(kernel):
            yield k, f"kernel {k} ({kernel.describe}) alone is off its formula in {difference.mismatches} integers"
        elif difference.max_abs <= _flushed(kernel.block) + _lost(kernel.block, moved, built.options.device.precision):
            pass
        elif not _passes(difference, got, want, step, tolerance):
            amplified = SLACK * _amplified(moved, k, tolerance / ROUNDINGS, random, want)
            if not _passes(difference, got, want, step, max(_least(kernel.block, tolerance), amplified)):
                yield k, f"kernel {k} ({kernel.describe}) alone is {difference.max_rel:.1e} off its formula"
        place = meant.place(node)
        if place.ndim:
            place[...] = _lively(place, random)


def _least(block: Block, tolerance: float) -> float:
    """The relative difference that always passes."""
    return min(LEAST, LEAST_OF_SUMS * tolerance) if all(n.op in _TAME for n in block.nodes) else LEAST


def _flushed(block: Block) -> float:
    """The most that a result loses where kernels make 0 of terms that are no normal floats."""
    return float(np.finfo(np.float32).tiny) * max((upper(n.type.elements) for n in block.inputs), default=1)


def _lost(block: Block, run: ProgramRun, precision: str) -> float:
    """The most that sums lose by weights in fp16 that are below its normal numbers: these have fewer bits, or none."""
    weights = [n for n in block.inputs if n.is_const and is_float(n.type.dtype)]
    if precision != "fp16" or block.is_procedure or not weights:
        return 0.0
    small = sum(int(np.count_nonzero((n.value != 0) & (np.abs(n.value) < FP16_NORMAL))) for n in weights)
    sums = (e for e in X.walk(block.formula.body) if e.op == "reduce")
    terms = min(small, max((prod(most(v) for v in X.reduction_variables(e)) for e in sums), default=1))
    floats = (n for n in block.inputs if not n.is_const and is_float(n.type.dtype) and n in run.program.views)
    largest = max((float(np.abs(run.place(n)).max(initial=0.0)) for n in floats), default=1.0)
    return terms * largest * FP16_LEAST / 2


def _is_exact(kernel: Kernel) -> bool:
    """Does it compute integers from integers alone in all of its steps, which no kernel rounds otherwise?"""
    blocks = [s.block for s in kernel.steps if s.block is not None]
    return not any(is_float(n.type.dtype) for b in blocks for n in (*b.nodes, *b.inputs))


def _copy(source: ProgramRun, target: ProgramRun) -> None:
    """Give an execution the values of another one of the same program."""
    target.arena[...] = source.arena
    target.sizes = dict(source.sizes)
    for buffer, array in source.memory.items():
        if buffer not in source.program.offsets and buffer.data is None:
            target.elements(buffer)[...] = array


def _amplified(run: ProgramRun, k: int, least: float, random: np.random.Generator, want: np.ndarray) -> float:
    """Relative change of the formula of kernel ``k`` when its operands of floats change by parts of ``least``.

    Of results that are integers, infinite where one of them moves.
    """
    kernel = run.program.kernels[k]
    blocks = [b for b in (kernel.block, *(s.block for s in kernel.steps)) if b is not None]
    made = {b.output for b in blocks}
    for node in {n for b in blocks for n in b.inputs if not n.is_const and n not in made}:
        if is_float(node.type.dtype) and node in run.program.views:
            place = run.place(node)
            place[...] = place * (1 + least * random.standard_normal(place.shape))
    with np.errstate(all="ignore"):
        run.step(k)
        assert kernel.block is not None
        difference = compare(kernel.block.output.op, run.array(kernel.block.output), want)
        underflown = _underflown(kernel, run)
    if underflown is not None and not (difference.mismatches or difference.note):
        again = compare(kernel.block.output.op, underflown, want)
        difference = max(difference, again, key=lambda d: d.max_rel if not (d.mismatches or d.note) else inf)
    return inf if difference.mismatches or difference.note else difference.max_rel


def _underflown(kernel: Kernel, run: ProgramRun) -> np.ndarray | None:
    """The result of a kernel whose exponentials are 0 where they are no normal floats, as those of vectors may be.

    None where it has none. What is divided by a sum of them may be another number then.
    """
    blocks = [b for b in (*(s.block for s in kernel.steps[:-1]), kernel.block) if b is not None]
    if any(b.is_procedure for b in blocks) or not any(
        e.op == "exp" and e.dtype == "f32" for b in blocks for e in X.walk(b.formula.body)
    ):
        return None
    result: np.ndarray | None = None
    for block in blocks:
        formula = replace(block.formula, body=X.transform(block.formula.body, _flushed_exponential))
        result = evaluate_formula(formula, run.array, run.sizes)
        if block is not kernel.block:
            run.place(block.output)[...] = result
    return result


def _flushed_exponential(e: Expr) -> Expr | None:
    if e.op != "exp" or e.dtype != "f32":
        return None
    least = X.const(float(np.finfo(np.float32).tiny), "f32")
    return X.select(X.call("lt", e, least), X.const(0.0, "f32"), e)


def _varied(graph: Graph, seed: int, random: np.random.Generator) -> dict[str, np.ndarray]:
    """Inputs of any size: noise, what changes slowly along the last dimension, and the same for all, in drawn shares.

    Every second time it is noise alone. Units that are zero on noise of one size, whatever its seed, are not on some of
    the others, and some units are on noise of one size alone. Small integers are flat along all dimensions but one.
    """
    drawn = random_inputs(graph, seed)
    kept = states.initial(graph)
    for node in graph.inputs:
        name = str(node.attributes["name"])
        if node.type.dtype in ("i8", "u8") and name not in kept and drawn[name].ndim:
            drawn[name] = _flat(drawn[name], random)
    if seed % 2:
        return scaled(graph, drawn, PLAIN[seed // 2 % len(PLAIN)])
    for name in floats_of(graph):
        noise = drawn[name].astype(np.float64)
        slow = np.cumsum(noise, -1) if noise.ndim else noise
        sizes = 10.0 ** random.uniform(-2, 1.5, 3) * random.choice((-1, 1), 3)
        drawn[name] = np.asarray(sizes[0] * noise + sizes[1] * slow + sizes[2], drawn[name].dtype)
    return drawn


def _flat(values: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Integers that differ along one dimension alone, many of them the ends of their range: sums of such are large."""
    low, high = np.iinfo(values.dtype).min, np.iinfo(values.dtype).max
    axis = int(random.integers(values.ndim))
    shape = [n if d == axis else 1 for d, n in enumerate(values.shape)]
    line = np.where(
        random.integers(2, size=shape), random.integers(low, high + 1, shape), random.choice((low, high), shape)
    )
    return np.ascontiguousarray(np.broadcast_to(line.astype(values.dtype), values.shape))


def _passes(difference: Difference, got: np.ndarray, want: np.ndarray, step: float | None, tolerance: float) -> bool:
    if difference.note:  # what is not finite says nothing on values that no input leads to
        return bool(np.isfinite(got.astype(np.float64)).any() or not np.isfinite(want.astype(np.float64)).any())
    if step is not None and difference.max_abs > FAR * step:
        return False  # what is rounded once is a step off, however many elements are
    if step is not None and difference.max_abs <= step * (1 + tolerance):
        off = np.abs(got.astype(np.float64) - want.astype(np.float64)) > step / 2
        few, part = (FEW_FINE, DIFFER_FINE) if difference.max_rel <= TOLERANCE else (1.0, DIFFER)
        return bool(np.count_nonzero(off) <= max(few, part * off.size))
    if difference.mismatches is not None:
        return difference.mismatches <= DIFFER * difference.elements or tolerance == inf
    return difference.max_rel <= tolerance


def _lively(values: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Values with noise, truth values and positions as they are.

    Floats keep their signs: either what is added is not negative, or they are multiplied by numbers from 0 to 2. Small
    integers move up, or take any value.
    """
    adds = bool(random.integers(2))
    name = next((n for n, dtype in DTYPES.items() if dtype == values.dtype), "")
    if name in ("i8", "u8", "i16", "u16"):
        low, high = ends(name)
        noisy = values.astype(np.int64) + random.integers(0, STEPS + 1, values.shape)
        noisy = noisy if adds else random.integers(int(low), int(high) + 1, values.shape)
        return np.asarray(np.clip(noisy, low, high), values.dtype)
    if not name or not is_float(name) or not values.size:
        return values
    wide = values.astype(np.float64)
    large = float(np.abs(wide[np.isfinite(wide)]).max(initial=0.0))
    if large < NOTHING:
        large, adds = 1.0, True
    noise = random.random(values.shape)
    with np.errstate(over="ignore"):
        return np.asarray(wide + NOISE * large * noise if adds else wide * 2 * noise, values.dtype)

"""Tuning: blocks that choices are about are compiled alone, timed on this machine, and kept in the profile database.

A plan is made by the prices that are known; what it would have liked to know is measured, and it is made again, until
nothing is unknown or the time is up. Blocks that are equal are measured once, whichever networks they come from.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from edgec.device.compilers import compiler_for, runs_here
from edgec.device.toolchain import Compiler
from edgec.errors import EdgecError, UsageError
from edgec.fuse import Block
from edgec.fuse.choice import BlockCosts
from edgec.fuse.cost_model import CostModel, work
from edgec.fuse.plan import plan as plan_graph
from edgec.ir.graph import Graph
from edgec.options import Options
from edgec.options.dispatch import require_one
from edgec.progress import Progress, silent
from edgec.schedule.build import kernel_of
from edgec.schedule.build import schedule as schedule_plan
from edgec.schedule.contract.micro_kernel import load_micro_kernels
from edgec.schedule.flat import Weights
from edgec.schedule.options import ScheduleOptions
from edgec.schedule.program import Program
from edgec.schedule.variants import Product, Variants, entry
from edgec.text import counted
from edgec.tune.database import Measured, Profiles
from edgec.tune.known import target
from edgec.tune.single_kernel import measured, program_of, single_kernel_program

#: Blocks that are compiled together.
BATCH = 12


@dataclass(frozen=True)
class Tuned:
    """Result of tuning: blocks measured now, known before, skipped for lack of time; seconds it took.

    Where it was done in the network: what a run takes with what was found, and what it takes with the model's choices,
    if these are others. If they are quicker after all, they stay.
    """

    measured: int
    known: int
    skipped: int
    seconds: float
    tuned_ms: float | None = None
    untuned_ms: float | None = None


def tune(graph: Graph, options: Options, limit_s: float, progress: Progress = silent) -> Tuned:
    """Measure what planning ``graph`` asks for, then variants of its products, for about ``limit_s`` seconds.

    Raises UsageError for a device that is not this machine, ToolchainError without a compiler.
    """
    require_one(options.levels, "kernels are timed")
    if not runs_here(options.device):
        hint = "tune over a link (--link ssh:user@host), or there: edgec profiles export, edgec profiles import"
        raise UsageError(f"nothing can be timed here for '{options.device.name}'", hint=hint)
    compiler = compiler_for(options.device, options.compiler)
    assert isinstance(compiler, Compiler)
    bench = Bench(options, compiler, limit_s, progress)
    fusing = _tune_plan(graph, bench)
    products = _tune_products(graph, bench)
    known, skipped = fusing.known + products.known, fusing.skipped + products.skipped
    return Tuned(fusing.measured + products.measured, known, skipped, time.monotonic() - bench.begun)


class Bench:
    """Common state of measurements: the database with its times for this target, and the remaining time."""

    def __init__(self, options: Options, compiler: Compiler, limit_s: float, progress: Progress) -> None:
        self.options, self.compiler, self.limit_s, self.progress = options, compiler, limit_s, progress
        self.database, self.target = Profiles(), target(options)
        self.begun = time.monotonic()
        self.known = self.database.known(self.target)

    @property
    def is_late(self) -> bool:
        return time.monotonic() - self.begun > self.limit_s

    def measure(self, programs: Mapping[str, Program | None], what: Mapping[str, str]) -> set[str]:
        """Time kernels and keep the times under their names; gives the names of those that cannot be had."""
        times = measured(list(programs.values()), self.options.device, self.compiler, self.options.templates)
        found = {name: s for name, s in zip(programs, times) if s is not None}
        self.database.put([Measured(name, self.target, s, what[name]) for name, s in found.items()])
        self.known.update(found)
        return set(programs) - set(found)


def _tune_plan(graph: Graph, bench: Bench) -> Tuned:
    """The blocks that the planner has choices about, until it asks for no more."""
    options, before, new = bench.options, 0, 0
    refused: set[str] = set()
    while True:
        asked: set[str] = set()

        def look(fingerprint: str, asked: set[str] = asked) -> float | None:
            asked.add(fingerprint)
            return bench.known.get(fingerprint)

        prices = BlockCosts(CostModel(options.device), look)
        plan_graph(graph, options.fuse, prices)
        before = max(before, len(asked & set(bench.known)) - new)
        unknown = [(f, b) for f, b in prices.unknown.items() if f not in refused]
        if not unknown or bench.is_late:
            return Tuned(new, before, len(unknown), 0.0)
        bench.progress("tune", f"{new} measured, {len(unknown)} to go")
        batch = dict(unknown[:BATCH])
        programs = {f: single_kernel_program(block, options.device) for f, block in batch.items()}
        failed = bench.measure(programs, {f: describe(block) for f, block in batch.items()})
        refused |= failed
        new += len(batch) - len(failed)


def _tune_products(graph: Graph, bench: Bench) -> Tuned:
    """Measure variants of every product in its layout in the network, those with the most arithmetic first."""
    options = bench.options
    variants = Variants()
    plan = plan_graph(graph, options.fuse, BlockCosts(CostModel(options.device), bench.known.get))
    own = load_micro_kernels(options.micro_kernels)
    wanted = ScheduleOptions(options.threads, options.numeric, variants=variants, micro_kernels=own)
    schedule_plan(plan, options.device, wanted)
    asked: dict[str, tuple[Product, str]] = {}
    for key, product in sorted(variants.seen.items(), key=lambda item: -work(item[1].block)):
        asked |= {entry(key, variant): (product, variant) for variant in product.variants(options.numeric)}
    unknown = [name for name in asked if name not in bench.known]
    known, new, done = len(asked) - len(unknown), 0, 0
    while done < len(unknown) and not bench.is_late:
        bench.progress(
            "tune", f"{counted(new, 'variant')} of matmuls measured, {len(unknown) - done} to go", done / len(unknown)
        )
        batch = unknown[done : done + BATCH]
        done += len(batch)
        programs = {name: _single_variant(*asked[name], options) for name in batch}
        failed = bench.measure(programs, {n: f"{asked[n][1]}: {describe(asked[n][0].block)}" for n in batch})
        new += len(batch) - len(failed)
    return Tuned(new, known, len(unknown) - done, 0.0)


def describe(block: Block) -> str:
    """A block in a few words, for the list of the database."""
    operators = " ".join(n.op for n in block.nodes)
    return f"{block.kind}: {operators} -> {block.output.type}"


def _single_variant(product: Product, variant: str, options: Options) -> Program | None:
    """A program of one product in a variant, its operands as in their network, but none over another."""
    views = {n: replace(v, buffer=replace(v.buffer, space="arena")) for n, v in product.views.items()}
    try:
        wanted = ScheduleOptions(numeric=options.numeric, micro_kernels=product.micro_kernels)
        kernel = kernel_of(product.block, views, product.device, Weights(), (), wanted, variant)
    except EdgecError:
        return None
    return program_of(kernel, views) if kernel.schedule.variant == variant else None

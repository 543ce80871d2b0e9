"""Tuning: blocks that choices are about are compiled alone, timed on this machine, and kept in the profile database.

A plan is made by the prices that are known; what it would have liked to know is measured, and it is made again, until
nothing is unknown or the time is up. Blocks that are equal are measured once, whichever networks they come from.
"""

from __future__ import annotations

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
from edgec.tune.budget import Budget
from edgec.tune.database import Measured, Profiles, Target
from edgec.tune.features import NAMES, Features, features
from edgec.tune.known import target
from edgec.tune.ranking import Sample
from edgec.tune.search import TRIALS, Search, Trial
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


def tune(
    graph: Graph, options: Options, limit_s: float, progress: Progress = silent, seed: int = 0, trials: int = TRIALS
) -> Tuned:
    """Measure what planning ``graph`` asks for, then variants of its products, for at most ``limit_s`` seconds.

    ``trials`` is the most variants of a product; ``seed`` is that of the random ones among them.
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
    products = _tune_products(graph, bench, seed, trials)
    known, skipped = fusing.known + products.known, fusing.skipped + products.skipped
    return Tuned(fusing.measured + products.measured, known, skipped, bench.budget.spent)


class Bench:
    """Common state of measurements: the database with its times for this target, and the remaining time."""

    def __init__(self, options: Options, compiler: Compiler, limit_s: float, progress: Progress) -> None:
        self.budget = Budget(limit_s)
        self.options, self.compiler, self.progress = options, compiler, progress
        self.database, self.target = Profiles(), target(options)
        self.known = self.database.known(self.target)

    def measure(
        self, programs: Mapping[str, Program | None], what: Mapping[str, str], of: Mapping[str, Features | None]
    ) -> dict[str, float | None]:
        """Time kernels and keep the times under their names; None for those that cannot be had."""
        times = measured(list(programs.values()), self.options.device, self.compiler, self.options.templates)
        found = dict(zip(programs, times))
        new = {name: s for name, s in found.items() if s is not None}
        self.database.put([Measured(name, self.target, s, what[name], of.get(name)) for name, s in new.items()])
        self.known.update(new)
        return found


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
        batch = dict(unknown[: bench.budget.fitting(BATCH)])
        if not batch:
            return Tuned(new, before, len(unknown), 0.0)
        bench.progress("tune", f"{new} measured, {len(unknown)} to go")
        begun = bench.budget.spent
        programs = {f: single_kernel_program(block, options.device) for f, block in batch.items()}
        times = bench.measure(programs, {f: describe(block) for f, block in batch.items()}, {})
        refused |= {f for f, s in times.items() if s is None}
        new += sum(s is not None for s in times.values())
        bench.budget.took(len(batch), bench.budget.spent - begun)


def _tune_products(graph: Graph, bench: Bench, seed: int, trials: int) -> Tuned:
    """Measure variants of every product in its layout in the network, those with the most arithmetic first."""
    options, budget = bench.options, bench.budget
    variants = Variants()
    plan = plan_graph(graph, options.fuse, BlockCosts(CostModel(options.device), bench.known.get))
    own = load_micro_kernels(options.micro_kernels)
    wanted = ScheduleOptions(options.threads, options.numeric, variants=variants, micro_kernels=own)
    schedule_plan(plan, options.device, wanted)
    products = dict(sorted(variants.seen.items(), key=lambda item: -work(item[1].block)))
    spaces = {key: trials_of(key, product, options) for key, product in products.items()}
    known = sum(t.name in bench.known for space in spaces.values() for t in space)
    search = Search(spaces, bench.known, history_of(bench.database, bench.target), seed, trials)
    new, wanted_trials = 0, max(1, search.left)
    while True:
        begun = budget.spent
        batch = search.next(budget.fitting(BATCH))
        if not batch:
            return Tuned(new, known, search.left, 0.0)
        to_go = f"{counted(new, 'variant')} of matmuls measured, {search.left} to go ({search.ranking.name})"
        bench.progress("tune", to_go, new / wanted_trials)
        split = {t.name: (products[key], variant) for t in batch for key, _, variant in [t.name.partition("/")]}
        programs = {name: single_variant(product, variant, options) for name, (product, variant) in split.items()}
        what = {name: f"{variant}: {describe(product.block)}" for name, (product, variant) in split.items()}
        times = bench.measure(programs, what, {t.name: t.features for t in batch})
        search.tell(times)
        new += sum(s is not None for s in times.values())
        budget.took(len(batch), budget.spent - begun)


def trials_of(key: str, product: Product, options: Options) -> list[Trial]:
    """Every variant of a product as a trial: the usual one first, then by the formulas."""
    found = {c.variant: features(c, product.device) for c in product.candidates(options.numeric)}
    order = dict.fromkeys([product.usual, *found])
    return [Trial(entry(key, variant), found.get(variant)) for variant in order]


def history_of(database: Profiles, on: Target) -> list[Sample]:
    """Times of a target from before, as far as its features are those of today."""
    known, of = database.known(on), database.features(on)
    return [Sample(n.partition("/")[0], of[n], s) for n, s in known.items() if n in of and of[n].keys() >= {*NAMES}]


def describe(block: Block) -> str:
    """A block in a few words, for the list of the database."""
    operators = " ".join(n.op for n in block.nodes)
    return f"{block.kind}: {operators} -> {block.output.type}"


def single_variant(product: Product, variant: str, options: Options) -> Program | None:
    """A program of one product in a variant, its operands as in their network, but none over another."""
    views = {n: replace(v, buffer=replace(v.buffer, space="arena")) for n, v in product.views.items()}
    try:
        wanted = ScheduleOptions(numeric=options.numeric, micro_kernels=product.micro_kernels)
        kernel = kernel_of(product.block, views, product.device, Weights(), (), wanted, variant)
    except EdgecError:
        return None
    return program_of(kernel, views) if kernel.schedule.variant == variant else None

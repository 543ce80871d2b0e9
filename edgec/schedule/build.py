"""The scheduler: a plan becomes a program for a device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from math import inf, prod
from types import MappingProxyType
from typing import Any

from edgec import limits
from edgec.device.device import Device
from edgec.errors import ModelError
from edgec.fuse import Block, Plan
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.extent import sizes
from edgec.ir.graph import Node
from edgec.ir.index import upper
from edgec.ir.lanes import NARROWEST
from edgec.schedule.chain import PrivateVectors, chained
from edgec.schedule.choose import Request, choose, packed
from edgec.schedule.contract.few_bits import FewBits
from edgec.schedule.contract.lookup import decoded, in_panels, tied
from edgec.schedule.contract.sparse import Sparse
from edgec.schedule.flat import Weights, flatten
from edgec.schedule.gpu.attention_gradients import OPERATORS, on_tensor_cores
from edgec.schedule.gpu.coarse import with_coarse_functions
from edgec.schedule.gpu.early_launch import early_after_loops
from edgec.schedule.gpu.levels import in_levels
from edgec.schedule.gpu.tiles import has_tensor_cores
from edgec.schedule.gpu.together import together
from edgec.schedule.gpu.weight_prefetch import prefetch_constants, prefetch_weights
from edgec.schedule.halo_fill import halo_fill
from edgec.schedule.least import least_arena
from edgec.schedule.memory import ALIGNMENT, TooLarge, plan_memory
from edgec.schedule.options import ScheduleOptions
from edgec.schedule.procedure import made_in_outputs, procedure_call
from edgec.schedule.program import BlockSchedule, Buffer, Kernel, Program, View
from edgec.schedule.states import copied_last, overwritten_early, pairs
from edgec.schedule.storage import as_read, copied_alike, device_for, half_dtype, in_words, kept_narrow, with_copies
from edgec.schedule.turned import with_turned_copies
from edgec.schedule.variants import Product, key_of
from edgec.schedule.views import views_in, views_of
from edgec.text import listed, printable

#: One of so many matmuls of a network stays in fp32 (see ``leading``): with fp32 and with fp16 accumulation.
DEEP, DEEP_IN_HALVES = 32, 6
#: Terms of a sum that needs no fp32.
LONG_SUM = 512
#: Thread blocks of maps and reductions that a multiprocessor of a GPU runs at once.
RESIDENT = 8

DEFAULTS = ScheduleOptions()
NO_PANELS: Mapping[Node, FewBits] = MappingProxyType({})


@dataclass
class _Names:
    """Buffers by the node that owns them."""

    inputs: dict[Node, str]
    outputs: dict[Node, str]
    narrow: frozenset[Node] = frozenset()  # nodes whose buffers store 16 bits, in the type ``half``
    half: str = "f16"
    stored: Callable[[str], str] = str  # the type in memory of values of a type
    count: int = 0

    def buffer(self, node: Node, elements: int) -> Buffer:
        if node in self.outputs:
            return Buffer(self.outputs[node], "output", self.stored(node.type.dtype), elements)
        if node in self.inputs:
            return Buffer(self.inputs[node], "input", self.stored(node.type.dtype), elements)
        self.count += 1
        dtype = self.half if node in self.narrow else self.stored(node.type.dtype)
        return Buffer(f"b{self.count}", "arena", dtype, elements)


def schedule(
    plan: Plan,
    device: Device,
    options: ScheduleOptions = DEFAULTS,
    progress: Callable[[str], None] | None = None,
) -> Program:
    """The program of a plan: a layout and an address for every buffer, a schedule for every block.

    ``progress`` is called with the name of every block. Raises TooLarge where the arena takes more than is wanted.
    """
    if options.numeric == "exact" and device.has_fp16_fma:
        device = replace(device, instruction_sets=tuple(i for i in device.instruction_sets if i != "fp16"))
    lead = options.fp32_blocks is None
    exact = leading(plan, device) if options.fp32_blocks is None else options.fp32_blocks
    plan = with_turned_copies(with_copies(plan, device, options.bf16_layers, options.in_levels, exact), device)
    if lead:
        options = replace(options, fp32_blocks=leading(plan, device))
    return _scheduled(plan, device, options, progress, exact=_exact(device, lead))


def _exact(device: Device, lead: bool) -> Device:
    """The device in the precision of the blocks that compute in fp32; those that ``lead`` a network round factors to
    TF32, as storing them in fp16 would, but not their results."""
    if not device.is_gpu and not device.has_fp16_fma:
        return device
    return replace(
        device, precision="tf32" if lead and has_tensor_cores(device) and device.precision != "fp32" else "fp32"
    )


def leading(plan: Plan, device: Device) -> int:
    """Number of leading blocks whose results stay in fp32 although the device's precision is lower: up to the last
    matmul that does.

    With CUDA these are the first matmul and one more for every 32; with fp16 accumulation, one for every six. They end
    before a first matmul (on a GPU any) that reads a value that is normalized at run time, as in transformers: there
    fp32 gains nothing (the error of BERT-base is 1.9e-3 without and 2.2e-3 with fp32 blocks; that of GPT-2 is 1.1e-3 in
    both cases); on a GPU also before one with long sums, in which rounding errors average out, and before one whose
    results only such sums and normalizations read.
    """
    if device.language != "cuda" and not device.has_fp16_fma:
        return 0
    products = [number for number, block in enumerate(plan.blocks) if block.kind == "contract"]
    if not products:
        return 0
    count = len(products) // DEEP_IN_HALVES if device.has_fp16_fma else len(products) // DEEP + 1
    rows = {block.output for block in plan.blocks if block.kind == "row"}
    for place, block in enumerate(plan.blocks[number] for number in products[:count]):
        is_normalized = not rows.isdisjoint(block.inputs) and (device.is_gpu or not place)
        if is_normalized or (device.is_gpu and (_longest_sum(block) >= LONG_SUM or _averages_out(plan, block, rows))):
            count = place
            break
    return products[count - 1] + 1 if count else 0


def _averages_out(plan: Plan, block: Block, rows: Set[Node]) -> bool:
    """Do only long sums and rows that are normalized read what a block computes?"""
    readers = [b for b in plan.blocks if block.output in b.inputs]
    is_result = any(node is block.output for _, node in plan.outputs)
    if is_result or any(b.is_procedure for b in readers):
        return False
    return bool(readers) and all(b.output in rows or _longest_sum(b) >= LONG_SUM for b in readers)


def _longest_sum(block: Block) -> float:
    """Terms of the longest sum of a block's formula."""
    sums = [e for e in X.walk(block.formula.body) if e.op == "reduce"]
    return max((upper(prod(v.extent for v in e.value[1])) for e in sums), default=0)


def _scheduled(
    plan: Plan,
    device: Device,
    options: ScheduleOptions,
    progress: Callable[[str], None] | None,
    states_last: bool = False,
    *,
    exact: Device,
) -> Program:
    """The program of a plan with all its copies: with those of states at the end too, unless it has them already."""
    bf16_layers, fp32_blocks, threads = options.bf16_layers, options.fp32_blocks or 0, options.threads
    graph = plan.graph
    names = _Names(
        {n: n.attributes["name"] for n in graph.inputs},
        {n: name for name, n in plan.outputs},
        copied_alike(
            plan,
            kept_narrow(plan, device, bf16_layers, options.in_levels)
            - {plan.root_of(b.output)[0] for b in plan.blocks[:fp32_blocks]},
        ),
        half_dtype(device) or ("f16" if bf16_layers is None else "bf16"),
        in_words if device.in_words else str,
    )
    if not device.is_gpu and options.arena < inf:  # how many bytes there are does not depend on how they lie
        places = views_in(plan, replace(names).buffer, {})
        made_in_outputs(plan, places)
        if options.arena < least_arena(plan, places):
            raise TooLarge
    views = views_of(plan, names.buffer, NARROWEST if device.is_gpu else device.vector_lanes)
    for n in graph.inputs:
        if n not in views:
            views[n] = View(names.buffer(n, n.type.elements), n.type.shape, (0,) * n.type.rank)
    if not device.is_gpu and plan.assignment is None:
        made_in_outputs(plan, views)
    weights = Weights(in_words if device.in_words else str)
    kernels: list[Kernel] = []
    bordered: set[Node] = set()
    vectors = PrivateVectors(plan, views, device, threads)

    def made(number: int, block: Block, panels: Mapping[Node, FewBits] = NO_PANELS) -> Kernel:
        target = exact if number < fp32_blocks else device_for(plan, block, device, bf16_layers)
        return kernel_of(block, views, target, weights, _origin(plan, block), options, panels=panels)

    shared = {} if device.is_gpu else tied(plan.blocks)
    first = {b.output: made(n, b) for n, b in enumerate(plan.blocks) if b in shared.values()}
    schedules = {table: first[block.output].schedule for table, block in shared.items()}
    panels = {t: s for t, s in schedules.items() if isinstance(s, FewBits) and in_panels(t, s)}
    for number, block in enumerate(plan.blocks):
        limits.step(partial(listed, _origin(plan, block)))
        if progress:
            progress(", ".join(_origin(plan, block)) or block.output.op)
        borders = _borders(plan, block, views, bordered)
        if not block.output.type.elements:
            kernels += borders
            continue
        kernel = first[block.output] if block.output in first else made(number, block, panels)
        guards = tuple((views[n].buffer, truth) for n, truth in plan.guards.get(block.output, ()))
        if guards:  # the kernel may be skipped, the halo is filled in any case
            kernels += [*borders, replace(kernel, guards=guards)]
        elif kernel.schedule.merges:
            kernels += [*borders, kernel]
        else:
            kernels.append(vectors.taken_in(kernels, chained(borders, kernel, threads=threads)))
    kernels = prefetch_constants(prefetch_weights(kernels, device), device)
    kernels = with_coarse_functions(kernels, device)
    if options.in_levels:
        kernels = in_levels(kernels, pairs(plan, views))
    sizes = {s: views[n].buffer for s, n in plan.sizes.items()}
    if device.is_gpu:
        kernels = [reading(k, sizes) for k in kernels]
    demands = tuple((message, views[n].buffer) for message, n in plan.demands)
    early = set() if states_last else {b.name for b in overwritten_early(kernels, pairs(plan, views))}
    if early:
        return _scheduled(copied_last(plan, early), device, options, progress, states_last=True, exact=exact)
    memory = plan_memory(kernels, frozenset((*sizes.values(), *(b for _, b in demands))), options.arena)
    used = dict.fromkeys(b for k in kernels for b in k.operands if b.space == "weights")
    offsets, weights_bytes = dict(memory.offsets), 0
    for b in used:
        offsets[b] = weights_bytes
        weights_bytes += -(-b.bytes // ALIGNMENT) * ALIGNMENT
    missing = [name for name, n in plan.outputs if n not in views]
    if missing:  # in the plan of a file alone
        raise ModelError(f"no block computes the output '{printable(missing[0])}'")
    program = Program(
        graph,
        tuple(kernels),
        tuple((n.attributes["name"], views[n].buffer, n) for n in graph.inputs),
        tuple((name, views[n].buffer, n) for name, n in plan.outputs),
        offsets,
        memory.arena_bytes,
        memory.lower_bound_bytes,
        weights_bytes,
        max((k.scratch_bytes for k in kernels), default=0),
        threads,
        views,
        sizes,
        demands,
        max((k.schedule.locks for k in kernels), default=0),
        pairs(plan, views),
        choices={c.key: c.taken.name for c in plan.decisions.choices},
    )
    if device.language == "cuda" and not options.in_levels:
        program = together(program, RESIDENT * device.gpu.multiprocessors)
    return replace(program, kernels=tuple(early_after_loops(program.kernels, device)))


def _origin(plan: Plan, block: Block) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for n in block.nodes for name in plan.graph.names(n)))


def _borders(plan: Plan, block: Block, views: dict[Node, View], done: set[Node]) -> list[Kernel]:
    """The kernel that fills the halo of the buffer that ``block`` writes, where ``block`` is the first to write it."""
    root, offset = plan.root_of(block.output)
    if root not in plan.halos or root in done:
        return []
    done.add(root)
    mine = views[block.output]
    start = X.plain(mine.offset - sum(o * s for o, s in zip(offset, mine.strides)))
    params = halo_fill(plan.halos[root], replace(mine, shape=root.type.shape, offset=start), root.type.dtype)
    if not params.slabs:
        return []
    return [Kernel(params, params.operands, None, plan.graph.names(root), 0, tuple(sizes_within(params)))]


def kernel_of(
    block: Block,
    views: dict[Node, View],
    device: Device,
    weights: Weights,
    names: tuple[str, ...] = (),
    options: ScheduleOptions = DEFAULTS,
    variant: str | None = None,
    panels: Mapping[Node, FewBits] = NO_PANELS,
) -> Kernel:
    """The kernel of one block: the first schedule, from the most to the least specialized, that accepts it.

    A matmul takes ``variant``, or the one that the options choose; tiles in the options have precedence. ``names`` are
    the nodes of the model in the block. Tables in ``panels`` are looked up there, unless it is a matmul.
    """
    schedule: BlockSchedule
    offer = None
    if block.is_procedure:
        call = procedure_call(block, views, weights, device, options.threads)
        is_attention = device.language == "cuda" and call.node.op in OPERATORS
        schedule = on_tensor_cores(call, device) if is_attention else call
    else:
        decided = next((options.tiles[name] for name in reversed(names) if name in options.tiles), None)
        looked_up = block.kind in ("map", "row")

        def in_panel(node: Node, place: tuple[Expr, ...]) -> Expr | None:
            return decoded(panels[node], place) if node in panels and block.kind != "contract" else None

        reading = (lambda value: as_read(value, device)) if looked_up else None

        def request(weights: Weights) -> Request:
            flat = flatten(block, views, weights, reading, in_panel)
            threads = 1 if device.is_gpu else options.threads
            flat = replace(flat, tile=decided, micro_kernels=options.micro_kernels, threads=threads)
            return Request(block, flat, device, weights, options.numeric, variant, options.threads, options.scratch)

        if options.known is None or panels:
            schedule, offer = choose(request(weights))
        else:
            further = (options.numeric, variant, options.threads, decided, options.micro_kernels, options.scratch)
            schedule, offer = options.known.schedule(
                block, views, device, weights, further, lambda noted: choose(request(noted))
            )
        usual, variants = schedule.variant, options.variants
        if variants is not None and usual is not None and decided is None:
            key = key_of(block, views, device, options.micro_kernels)
            variants.seen.setdefault(key, Product(block, views, device, usual, options.micro_kernels))
            better = variants.choose(key, usual, options.numeric)
            if better != usual:
                schedule, _ = choose(replace(request(weights), variant=better))
                if offer is not None and not device.is_gpu:  # on a GPU, all variants skip zeros, or none
                    offer = replace(offer, taken=schedule.template == Sparse.template)
    schedule = packed(schedule, weights)
    operands, scratch = schedule.operands, schedule.scratch_bytes
    if scratch:
        copies = 1 if schedule.shares_scratch else options.threads
        operands = (Buffer(f"scratch_{block.output.key}", "arena", "u8", scratch * copies), *operands)
    return Kernel(schedule, operands, block, names, scratch, tuple(sizes_within(schedule)), sparsity=offer)


def reading(kernel: Kernel, sizes: Mapping[Expr, Buffer]) -> Kernel:
    """The kernel with those of the computed ``sizes`` that it needs as operands: on a GPU, the host knows none."""
    mine = {s: sizes[s] for s in kernel.sizes if s in sizes}
    more = dict.fromkeys(b for b in mine.values() if b not in kernel.operands[:-1])
    return replace(kernel, operands=(*kernel.operands[:-1], *more, kernel.operands[-1]), read_sizes=mine)


def sizes_within(record: Any) -> list[Expr]:
    """The run-time sizes that a schedule's record depends on, sorted by name."""
    found: set[Expr] = set()
    stack = [record]
    while stack:
        value = stack.pop()
        if isinstance(value, Expr):
            found.update(sizes(value))
        elif isinstance(value, (tuple, Mapping)):
            stack.extend(value.values() if isinstance(value, Mapping) else value)
        elif isinstance(value, Node):
            found.update(s for n in (value, *value.args) for s in n.sizes)
        elif is_dataclass(value) and not isinstance(value, Buffer):
            stack.extend(getattr(value, f.name) for f in fields(value))
    return sorted(found, key=lambda s: str(s.value.name))

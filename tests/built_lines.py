"""A graph built for one of many devices: reasons, prices and code, as a line of counts and checksums."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import replace

from edgec.device.device import Device
from edgec.device.load import load_device
from edgec.emit.language import language_of
from edgec.emit.source import generate
from edgec.errors import EdgecError
from edgec.fuse import plan
from edgec.fuse.aliasing import Plan
from edgec.fuse.choice import BlockCosts, Choice
from edgec.fuse.cost_model import CostModel
from edgec.ir.graph import Graph
from edgec.schedule.build import schedule
from edgec.schedule.gpu.attention import largest_head
from edgec.schedule.options import ScheduleOptions
from edgec.schedule.program import Program
from edgec.schedule.variants import Variants

#: Devices with the precision of a build, in turns: every family, as many as divide no group evenly.
BUILDS = (
    ("x86_64_avx512_vnni", "fp32"), ("cuda_sm90", "fp16"), ("neoverse_v1", "fp16"), ("cortex_m55", "fp32"),
    ("cuda_sm86", "fp32"), ("x86_64_avx2", "fp32"), ("adreno_740", "fp16"), ("x86_64_avx512", "bf16"),
    ("riscv64_rvv", "fp32"), ("jetson_orin_nano", "fp16"), ("cortex_m4", "fp32"), ("cuda_sm90", "bf16"),
    ("arm64_i8mm", "fp32"), ("webgpu", "fp32"), ("a64fx", "fp32"), ("generic_opencl", "fp32"), ("wasm32", "fp32"),
)  # fmt: skip
NUMERICS = ("reassociates", "approximates", "exact")


def verdicts_of(made: Plan) -> list[str]:
    """The fused nodes, or the reason against them."""
    found = made.decisions.verdicts
    return [f"{v.writer.op} {v.reader.op} {v.fused} {v.constraint} {v.why}" for v in found]


def choices_of(found: list[Choice]) -> list[str]:
    """The variants of every choice with their prices, the one taken first."""
    priced = ((c, [f"{v.name} {v.seconds:.4g}" for v in (c.taken, *c.others)]) for c in found)
    return [f"{c.kind} {c.source}: {variants}" for c, variants in priced]


def prices_of(made: Plan, program: Program, device: Device, variants: Variants, k: int) -> Iterator[str]:
    """Demands and limits of each block, the model of each kernel, and cycles of each variant."""
    model = CostModel(device, 1 + k % 2 * 3)
    yield f"{model.rates.launch:.4g} {model.rates.near:.4g} {model.rates.far:.4g} {model.rates.results:.4g}"
    for block in made.blocks:
        a = model.amounts(block)
        limits = " ".join(f"{s:.4g}" for s in (*model.limits(block), model(block)))
        yield f"{a.kind} {a.operations:.6g} {a.bytes} {a.results} {a.is_far} {a.queries} {limits}"
        yield f"waits {model.waits_for_weights(block)} transfer {model.transfer(a.bytes):.4g}"
    for kernel in program.kernels:
        own = kernel.schedule
        seconds, tiles = own.predicted_seconds(device), list(own.register_tiles(device))
        yield f"{type(own).__name__} {'none' if seconds is None else format(seconds, '.4g')} {own.variant} {tiles}"
        if device.is_gpu:
            yield f"{own.multiply_adds(device):.4g} {own.merges} {own.locks}"
    for product in variants.seen.values():
        numeric = NUMERICS[k % 3]
        yield f"variants {product.variants(numeric)}"
        yield " ".join(f"{name} {cycles:.4g}" for name, cycles in product.tiles()(device).items())
        if not device.is_gpu:
            found = product.candidates(numeric)
            yield " ".join(f"{c.variant} {c.cycles:.4g} {c.beside:.4g}" for c in found)


def built(graph: Graph, k: int) -> tuple[str, list[list[str]]]:
    """The device of a graph, and its verdicts, choices, prices and code; or the message of what refuses it."""
    name, precision = BUILDS[k % len(BUILDS)]
    device = replace(load_device(name), precision=precision)
    variants = Variants()
    threads = 1 + k % 2 * 3
    options = ScheduleOptions(threads, numeric=NUMERICS[k % 3], variants=variants, in_levels=k % 2 == 0)
    costs = BlockCosts(CostModel(device, threads))
    try:
        made = plan(graph, prices=costs, gpu=device.is_gpu, head=largest_head(device), few_bits=k % 2 == 0)
        program = schedule(made, device, options)
        code = generate(program, "net", language=language_of(device))
    except EdgecError as error:
        return f"{name} {precision}", [[error.message], [], [], []]
    found = prices_of(made, program, device, variants, k)
    calls = [f"{c.function.name}{c.arguments}{c.barrier}{c.condition}" for c in code.calls]
    texts = [*(f.text + f.prototype for f in code.functions), *calls]
    return f"{name} {precision}", [verdicts_of(made), choices_of(made.decisions.choices), list(found), texts]


def line(name: str, graph: Graph, k: int) -> str:
    """The number of verdicts on fusion, of choices, of lines on prices and of functions, and a checksum of each."""
    device, found = built(graph, k)
    counts = " ".join(str(len(part)) for part in found)
    checksums = " ".join(f"{zlib.crc32(repr(part).encode()):08x}" for part in found)
    return f"{name} | {device} | {counts} | {checksums}"

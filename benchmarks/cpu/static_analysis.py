"""Inner loops relative to a core's peak, by llvm-mca's model of the core: no such core is needed.

    python -m benchmarks.cpu.static_analysis [--write docs/results/throughput-models.md]

Products of matrices (fp32, fp16, bf16, int8) and a 3 x 3 convolution are compiled for each core with the cross
compiler, the loop that multiplies is found in the assembly, and llvm-mca says how many cycles a round takes; for cores
that run in order, so do rules that were measured on them (in_order.py). The peak is what the same model says of
twenty-four multiply-adds that wait for nothing.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import which

import numpy as np
import onnx

import edgec
from benchmarks.cpu import in_order
from benchmarks.networks.graph_writer import Writer
from edgec.device.device import Precision
from edgec.device.load import load_device
from edgec.device.toolchain import pick_compiler
from edgec.schedule.contract.fp16_sums import COLUMNS, TERMS


@dataclass(frozen=True)
class Core:
    """A core, the device file that its kernels are built for, and options that replace that file's processor."""

    name: str
    device: str
    flags: tuple[str, ...]
    is_in_order: bool = False
    loads_first: bool = False  # as if it were not known to run in order


@dataclass(frozen=True)
class Loop:
    """The loop of one tile: what stands in it, in instructions, and what a round takes."""

    tile: str
    products: int
    instructions: int
    spills: int
    body: tuple[str, ...]
    before: tuple[str, ...] = ()  # of the loop around it: what is done once before and after its rounds
    after: tuple[str, ...] = ()

    @property
    def of_a_part(self) -> Loop:
        """A round of the loop around it: all terms that are added up in fp16, and what becomes of their sum."""
        rows, vectors = map(int, self.tile.partition("_")[0].split("x"))
        rounds = TERMS * rows * (vectors // COLUMNS) // self.products
        whole = (*self.before, *self.body * rounds, *self.after)
        return replace(self, products=self.products * rounds, instructions=len(whole), body=whole)


CORES = (
    Core("neoverse-n1", "raspberry_pi_5", ("-mcpu=neoverse-n1",)),
    Core("neoverse-n2", "pixel_8", ("-mcpu=neoverse-n2",)),
    Core("neoverse-v1", "neoverse_v1", ("-mcpu=neoverse-v1",)),
    Core("cortex-a72", "raspberry_pi_4", ("-mcpu=cortex-a72",)),
    Core("cortex-a55", "cortex_a55", ("-mcpu=cortex-a55",), is_in_order=True),
    Core("cortex-a55", "cortex_a55", ("-mcpu=cortex-a55",), is_in_order=True, loads_first=True),
    Core("cortex-a53", "raspberry_pi_3", ("-mcpu=cortex-a53",), is_in_order=True),
    Core("cortex-a53", "raspberry_pi_3", ("-mcpu=cortex-a53",), is_in_order=True, loads_first=True),
)
#: What multiplies and adds up, by type; and as many of it as wait for nothing.
PRODUCT = {
    "fp32": ("fmla v{}.4s, v30.4s, v31.s[0]",),
    "fp16": ("fmla v{}.8h, v30.8h, v31.8h",),
    "int8": ("sdot v{}.4s, v30.16b, v31.4b[0]",),
    "int8 by NEON": (
        "smull v{}.8h, v30.8b, v31.8b",
        "smlal2 v{}.8h, v30.16b, v31.16b",
        "sadalp v{}.4s, v29.8h",
    ),
    "int8 by matrices": ("smmla v{}.4s, v30.16b, v31.16b",),
    "bf16 by matrices": ("bfmmla v{}.4s, v30.8h, v31.8h",),
}
#: The same for vectors of SVE.
PRODUCT_OF_SVE = {
    "fp32": ("fmla z{}.s, p0/m, z30.s, z31.s",),  # or fmad, where a factor is not needed any more
    "int8 by matrices": ("smmla z{}.s, z30.b, z31.b",),
    "bf16 by matrices": ("bfmmla z{}.s, z30.h, z31.h",),
}
ROUNDS = 200
#: A jump of AArch64's, and where to.
JUMP = r"\s+(?:b\.?[a-z]+|cbn?z\s+\w+,|tbn?z .*,)\s*(\.L\w+)"


def networks(folder: Path) -> Iterator[tuple[str, str, Path]]:
    """Name, type and file of each."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((256, 256)).astype(np.float32)
    w = Writer()
    w.node("MatMul", "x", w.weight("w", weights), name="y")
    floats = save(w, (196, 256), (196, 256), folder / "product.onnx")
    yield "product 196 x 256 x 256", "fp32", floats
    yield "product 196 x 256 x 256", "bf16", floats
    yield "product 196 x 256 x 256", "fp16", floats
    w = Writer()
    kernel = rng.standard_normal((64, 64, 3, 3)).astype(np.float32)
    first = w.node("Relu", w.node("Conv", "x", w.weight("one", kernel[:, :, :1, :1])))
    w.node("Conv", first, w.weight("three", kernel), name="y", strides=[2, 2], pads=[1, 1, 1, 1])
    shapes = (1, 64, 28, 28), (1, 64, 14, 14)
    yield "convolution 3 x 3 by 2, 64 channels", "fp32", save(w, *shapes, folder / "convolution.onnx")
    w = Writer()
    grid = w.weight("scale", np.float32(0.02)), w.weight("zero", np.int8(0))
    x = w.node("DequantizeLinear", w.node("QuantizeLinear", "x", *grid), *grid)
    l = w.node("DequantizeLinear", w.weight("w", np.clip(weights * 40, -127, 127).astype(np.int8)), *grid)
    w.node("DequantizeLinear", w.node("QuantizeLinear", w.node("MatMul", x, l), *grid), *grid, name="y")
    yield "product 196 x 256 x 256", "int8", save(w, (196, 256), (196, 256), folder / "bytes.onnx")


def save(w: Writer, x: tuple[int, ...], y: tuple[int, ...], path: Path) -> Path:
    onnx.save(w.model(path.stem, {"x": (onnx.TensorProto.FLOAT, x)}, {"y": (onnx.TensorProto.FLOAT, y)}, 13), path)
    return path


def assembly(model: Path, core: Core, folder: Path, precision: Precision = "fp32") -> str:
    device = load_device(core.device)
    described = folder / f"{core.device}_loads_first.toml"
    described.write_text(f'base = "{core.device}"\nin_order = false\n')
    taken = str(described) if core.loads_first else device.name
    built = edgec.build(
        model, folder / f"{core.name}{core.loads_first}", device=taken, precision=precision, compile=False
    )
    options = [f for f in device.toolchain.cflags if not f.startswith(("-mcpu", "-march"))]
    command = [*pick_compiler(device, "gcc").command, "-O3", "-std=c11", *options, *core.flags, "-S", "-o", "-"]
    sources = sorted(built.folder.glob("*_kernels_*.c"))
    made = (subprocess.run([*command, str(p)], check=True, capture_output=True, text=True) for p in sources)
    return "".join(done.stdout for done in made)


def loops(text: str, products: Sequence[str]) -> Iterator[Loop]:
    """The innermost loops of every tile in which products stand."""
    for name, lines in functions(text):
        labels = {m[1]: k for k, line in enumerate(lines) if (m := re.match(r"(\.L\w+):", line))}
        for k, line in enumerate(lines):
            jump = re.match(JUMP, line)
            start = labels.get(jump[1], k) if jump else k
            body = [x for x in lines[start : k + 1] if re.match(r"\s+[a-z]", x)]
            found = sum(x.split()[0] in products for x in body)
            within = {x.split()[-1] for x in body[:-1]}  # where else the loop goes, which another loop inside would
            if start < k and found >= 8 and not any(x.partition(":")[0] in within for x in lines[start + 1 : k]):
                spills = sum("[sp" in x for x in body)
                tile = re.sub(r".*_contract_(?:\d+_(?=\d+x))?|\..*", "", name)
                before, after = around(lines, labels, start, k)
                yield Loop(tile, found, len(body), spills, tuple(body), before, after)


def around(lines: list[str], labels: dict[str, int], start: int, end: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Instructions before and after a loop in the smallest loop around it."""
    for k, line in enumerate(lines[end + 1 :], end + 1):
        jump = re.match(JUMP, line)
        first = labels.get(jump[1], k) if jump else k
        if first < start:
            parts = lines[first:start], lines[end + 1 : k + 1]
            before, after = (tuple(x for x in part if re.match(r"\s+[a-z]", x)) for part in parts)
            return before, after
    return (), ()


def functions(text: str) -> Iterator[tuple[str, list[str]]]:
    parts = re.split(r"^([A-Za-z_][\w.]*):$", text, flags=re.MULTILINE)
    yield from ((name, body.splitlines()) for name, body in zip(parts[1::2], parts[2::2]))


def cycles(body: Sequence[str], core: str) -> float:
    """Cycles of one round by llvm-mca's model of the core."""
    rounds = max(4, ROUNDS // max(1, len(body) // 100))
    command = [analyser(), "-mtriple=aarch64", f"-mcpu={core}", f"-iterations={rounds}"]
    done = subprocess.run(command, input="\n".join(body), check=True, capture_output=True, text=True)
    (total,) = re.findall(r"Total Cycles:\s+(\d+)", done.stdout)
    return int(total) / rounds


def shares(loop: Loop, free: list[str], core: str, model: Callable[[Sequence[str], str], float]) -> str:
    """Multiply-adds a cycle of a model, and the share of its peak."""
    peak, reached = len(free) / model(free, core), loop.products / model(loop.body, core)
    return f"| {reached:.2f} of {peak:.2f} | {reached / peak:.0%} |"


def analyser() -> str:
    """llvm-mca, the newest there is: old ones take other cores' models for neoverse-n1."""
    found = [p for v in (*range(25, 16, -1), "") if (p := which(f"llvm-mca-{v}".rstrip("-")))]
    if not found:
        sys.exit("llvm-mca 17 or newer is needed (Debian: apt install llvm-19)")
    return found[0]


def main(arguments: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--write", type=Path, metavar="FILE", help="write the page")
    o = p.parse_args(arguments)
    rows = []
    with tempfile.TemporaryDirectory(prefix="edgec-static-") as name:
        for what, kind, model in networks(Path(name)):
            for core in CORES:
                has = load_device(core.device).has
                way = kind
                if kind == "int8" and not has("dotprod"):
                    way = "int8 by NEON"
                elif kind in ("int8", "bf16") and has("i8mm", "bf16"):
                    way = f"{kind} by matrices"
                if (kind == "bf16" and not has("bf16")) or (kind == "fp16" and (not has("fp16") or has("sve"))):
                    continue
                forms = (PRODUCT_OF_SVE if has("sve") else PRODUCT)[way]
                products = ["fmad", *(line.split()[0] for line in forms)]
                text = assembly(model, core, Path(name), kind if kind in ("bf16", "fp16") else "fp32")
                best = max(loops(text, products), key=lambda loop: loop.products)
                if kind == "fp16":
                    best = best.of_a_part
                each = best.instructions / best.products
                free = [line.format(k) for line in forms for k in range(24 // len(forms))]
                told = [shares(best, free, core.name, cycles)]
                told += [shares(best, free, core.name, in_order.cycles).lstrip("| ") if core.is_in_order else "| |"]
                label = core.name + " (in order)" * core.is_in_order + ", loads first" * core.loads_first
                rows.append(
                    f"| {what} | {way} | {label} | {best.tile} | {best.spills} | {each:.2f} {told[0]} {told[1]}"
                )
                print(rows[-1], flush=True)
    if o.write:
        o.write.write_text(page(rows))
    return 0


def page(rows: list[str]) -> str:
    return f"""\
# Inner loops on 64-bit Arm

Written by `python -m benchmarks.cpu.static_analysis --write docs/results/throughput-models.md`,
with gcc 12 and llvm-mca 19.

The inner loop of the largest tile of each kernel, as compiled for a core: vector multiply-adds a cycle, and the maximum
without stalls, by llvm-mca's model of that core, and for in-order cores by rules that were measured on them
(`benchmarks/cpu/in_order.py` contains them, with their sources). Spills are accesses to the stack inside the loop;
instructions are counted per multiply-add.

| kernel | type | core | tile | spills | instructions | llvm-mca | of peak | rules | of peak |
|---|---|---|---|---:|---:|---:|---:|---:|---:|
{chr(10).join(rows)}

Out-of-order cores come close to their peak: a tile leaves registers for the whole column of S that a step reads, so
that nothing is spilled.

In fp16 a multiply-add has eight lanes, in fp32 four; the analysis covers a whole partial sum, {TERMS} iterations of the
loop with the widening of their result.

"By matrices" are the matrix instructions of i8mm and bf16, each of which multiplies two rows by two columns: 32 int8
products, 16 in bf16. "By NEON" is the code for a core without dot products: SMULL and SMLAL2 multiply eight int8 values
each and add them in 16 bits, SADALP adds pairs of these to 32-bit accumulators; the peak is that of the three in
sequence, without stalls.

SVE vectors have a size known at compile time (256 bits on Neoverse V1, `-msve-vector-bits`). A load broadcasts one
number of S, at no cost for the multiply units. The two rows of a matrix instruction are combined by a ZIP, which takes
the place of a multiply-add: such tiles have few rows. gcc 12 sets a predicate again before most of the broadcasting
loads, and computes addresses that NEON's loads would reach (these reach 252 bytes): there are more instructions per
multiply-add than with NEON, but they do not compete with multiply-adds. Occasionally it emits a load and a move instead
of one broadcasting load, and the move does compete.

For in-order cores (`in_order = true` in the device file) loads are interleaved with the multiply-adds: L three columns
ahead, in 64-bit halves, one of them through an integer register; S of a row as soon as the row has used its previous
value. A half is inserted together with the load of the next one, because A53 issues these two together and neither
together with a multiply-add. gcc is prevented from reordering (`EC_NO_RESCHEDULE`). "Loads first" is the same kernel
without it.

**Interpretation of the two columns.** Cortex-A55 reaches 85 % by the rules, A53 does not: a vector costs it a cycle,
four steps of a tile of r x v want r + 4 v vectors for 4 r v multiply-adds, and with 32 registers r v is at most 25 or
so: 83 % in fp32 at the very most, before a loop's own instructions. In int8 the tile of 4 rows has 48 instructions to
eight vectors, 86 % at most.

llvm-mca models these cores differently:

* A55: LLVM's file states that it is also the default for unknown CPUs and does not model the core precisely. It issues
  two 128-bit floating-point multiply-adds in a cycle, where the core has two 64-bit units. With two instructions a
  cycle in all, each vector loaded takes the place of a multiply-add: 83 % at most, by the same count of vectors.
  It counts integer products correctly, but assumes in-order write-back: a load, an address computation or an insert
  after one costs a cycle, a branch three.
* A53: write-back is in order too, and a floating-point multiply-add takes ten cycles: the first load after one costs
  five cycles, whatever it is paired with, an address computation six, a branch eight. Adjacent loads are cheapest, the
  opposite of the measurements on the core.

So the kernels follow the rules. No such core was available for measurements.
"""


if __name__ == "__main__":
    sys.exit(main())

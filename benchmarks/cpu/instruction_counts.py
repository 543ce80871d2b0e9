"""Instructions of matmuls on other CPUs, counted by qemu one by one.

    python -m benchmarks.cpu.instruction_counts [--write docs/results/instruction-counts.md]

A product of 64 x 64 by 64 x 64 (262144 multiply-adds), in fp32, with sums of fp16 where a device has them, and of
bytes, is compiled for each device and run by qemu with a line in its log for every instruction; those that stand in the
kernel are counted.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx

import edgec
from benchmarks.networks.graph_writer import Writer
from edgec.device.device import Precision
from edgec.device.load import load_device
from edgec.errors import EdgecError

N = 64
#: Devices, and what of them matters to the kernel.
DEVICES = {
    "raspberry_pi_3": "NEON, loads between multiply-adds",
    "raspberry_pi_4": "NEON",
    "cortex_a55": "NEON and dotprod, loads between multiply-adds",
    "raspberry_pi_5": "NEON and dotprod",
    "pixel_8": "NEON, dotprod and i8mm",
    "neoverse_v1": "SVE, 256 bits, and i8mm",
    "a64fx": "SVE, 512 bits",
    "arm32": "32-bit NEON",
    "riscv64": "no vectors",
    "riscv64_rvv": "RVV, 128 bits",
}


def products(folder: Path) -> dict[str, Path]:
    """The two networks, by type."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((N, N)).astype(np.float32)
    floats, bytes_ = Writer(), Writer()
    floats.node("MatMul", "x", floats.weight("w", weights), name="y")
    grid = bytes_.weight("scale", np.float32(0.02)), bytes_.weight("zero", np.int8(0))
    x = bytes_.node("DequantizeLinear", bytes_.node("QuantizeLinear", "x", *grid), *grid)
    w = bytes_.node("DequantizeLinear", bytes_.weight("w", np.clip(weights * 40, -127, 127).astype(np.int8)), *grid)
    y = bytes_.node("QuantizeLinear", bytes_.node("MatMul", x, w), *grid)
    bytes_.node("DequantizeLinear", y, *grid, name="y")
    found = {"fp32": folder / "product.onnx", "fp16": folder / "product.onnx", "int8": folder / "bytes.onnx"}
    for writer, path in ((floats, found["fp32"]), (bytes_, found["int8"])):
        shape = (onnx.TensorProto.FLOAT, (N, N))
        onnx.save(writer.model(path.stem, {"x": shape}, {"y": shape}, 13), path)
    return found


def executed(pipe: Path) -> tuple[int, int]:
    """Lines of qemu's log: those of instructions of the kernel, as far as it has names, and of all."""
    kernel = program = 0
    with pipe.open("rb") as log:
        for line in log:
            program += line.startswith(b"Trace")
            kernel += b"_contract" in line
    return kernel, program


def count(network: Path, kind: str, device: str, folder: Path) -> tuple[int, int] | None:
    """Instructions of the kernel and of the program in one run; None where the emulator or the device cannot run it."""
    precision: Precision = "fp16" if kind == "fp16" else "fp32"
    if kind == "fp16" and not replace(load_device(device), precision=precision).has_fp16_fma:
        return None
    pipe = folder / "log"
    os.mkfifo(pipe)
    logging = {"QEMU_SINGLESTEP": "1", "QEMU_LOG": "exec,nochain", "QEMU_LOG_FILENAME": str(pipe)}
    try:
        with ThreadPoolExecutor() as pool:
            counted = pool.submit(executed, pipe)
            held = os.open(pipe, os.O_WRONLY)  # until all is over, so that the reader sees the end once
            os.environ |= logging
            try:
                right = edgec.check(str(network), samples=1, device=device, precision=precision, link="qemu").ok
            except EdgecError as error:
                print(f"{device}: {error}", file=sys.stderr)
                return None
            finally:
                os.close(held)
            if not right:
                sys.exit(f"{device}: {network.stem} is wrong")
            return counted.result()
    finally:
        for name in logging:
            os.environ.pop(name, None)
        pipe.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--devices", nargs="+", choices=list(DEVICES), default=list(DEVICES))
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the page")
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="edgec-counts-") as name:
        networks = products(Path(name))
        for device in given.devices:
            counts = [count(path, kind, device, Path(name)) for kind, path in networks.items()]
            cells = [told(*c) if c else "- | - | -" for c in counts]
            rows.append(f"| `{device}` | {DEVICES[device]} | {' | '.join(cells)} |")
            print(rows[-1], flush=True)
    if given.write:
        given.write.write_text(page(rows), encoding="utf-8")


def told(kernel: int, program: int) -> str:
    return f"{kernel} | {N**3 / kernel:.2f} | {program}" if kernel else f"- | - | {program}"


def page(rows: list[str]) -> str:
    return f"""\
# Instruction counts of matmuls

Written by `python -m benchmarks.cpu.instruction_counts --write docs/results/instruction-counts.md`, with qemu 7.2.

A matmul of 64 x 64 by 64 x 64, 262144 multiply-adds, executed correctly by qemu: the instructions of its kernel,
including rounding and stores (in fp16 without the copy of its operand in fp16); multiply-adds an instruction; and the
instructions of the whole program, which reads its input from a file. Programs compiled by zig (RVV) contain no symbols
that identify a kernel.

| device | kernel | fp32 | each | program | fp16 | each | program | int8 | each | program |
|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|
{chr(10).join(rows)}

int8 matmuls for RVV run correctly, but qemu 7.2 fails with an internal assertion when it counts them.
"""


if __name__ == "__main__":
    main()

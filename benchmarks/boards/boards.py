"""Integer networks on Cortex-M boards: memory, stack and instructions, compared with TensorFlow Lite Micro's figures.

    python -m benchmarks.boards.boards [--models FOLDER] [--micro PYTHON] [--cmsis-nn FOLDER] [--write PAGE]

The boards are emulated (qemu-system-arm), one instruction a nanosecond, so a time is a count of instructions and the
same in every run; it is no time of a real core. Arena bytes of TensorFlow Lite Micro are those that its own allocator
records, where the package `tflite-micro` can be imported by the Python of ``--micro`` (its interpreter is built for 64
bits: pointers in its arena are twice as long as on a board). Instructions of CMSIS-NN are counted on the same boards,
by cmsis_nn.py, where ``--cmsis-nn`` names a checkout of https://github.com/ARM-software/CMSIS-NN. The exit code is 1
where outputs are more than one unit in the last place from LiteRT's, or the stack goes deeper than its bound.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import edgec
from benchmarks import ROOT
from benchmarks.boards import cmsis_nn
from edgec.bench.remote import Remote, compile_runner
from edgec.check.compare import compare_all
from edgec.check.reference import open_reference
from edgec.device.load import load_device
from edgec.execute.samples import random_inputs
from edgec.link.choose import open_link
from edgec.report.facts import macs
from edgec.report.fit import fit

NETWORKS = {
    "keyword spotting": "kws_ref_model.tflite",
    "anomaly detection": "ad01_int8.tflite",
    "image classification": "pretrainedResnet_quant.tflite",
    "visual wake words": "vww_96_int8.tflite",
}
BOARDS = {"M3": "mps2_an385", "M4": "mps2_an386", "M7": "mps2_an500", "M33": "mps2_an505", "M55": "mps3_an547"}
#: The stack that such a network may take, in bytes, its caller and the C library with it.
STACK = 1024
#: RAM to compute visual wake words in, beside what it takes whole.
ROOMS = (None, 70_000, 56_000, 50_000)
_MICRO = """
import sys
from tflite_micro import runtime
runtime.Interpreter.from_file(sys.argv[1]).print_allocations()
"""


@dataclass(frozen=True)
class Row:
    """One network on one board, in bytes; instructions of one run."""

    network: str
    board: str
    lsb: float
    instructions: float
    macs: int
    arena: int
    ports: int
    stack: int
    weights: int
    code: int
    file: int
    cmsis_nn: float | None = None
    cmsis_nn_lsb: float | None = None
    room: int | None = None
    stripes: int = 1


_HEAD = """# Boards

Written by `python -m benchmarks.boards.boards --micro PYTHON --cmsis-nn FOLDER --write docs/results/boards.md`:
`PYTHON` has `tflite-micro`, and `FOLDER` is a checkout of https://github.com/ARM-software/CMSIS-NN (here {version}).

MLPerf Tiny's integer networks as firmware images for Cortex-M, run on boards that qemu emulates, with the outputs
compared with LiteRT's reference kernels (*off by*: units in the last place). *Instructions* are counted for one run,
and are not cycles. *RAM* is the arena, inputs and outputs; for TensorFlow Lite Micro, whose arena includes inputs and
outputs, it is the size that its own allocator records (a 64-bit build: its pointers are longer than on a board).
*Stack* is measured by painting it, including the test program and newlib; more than 1,024 fails. *Code* is that of the
network only. All sizes are in bytes. The M55 uses Helium, compiled by clang (zig); the others are compiled by gcc.
*CMSIS-NN* is the number of instructions of its kernels for the same file and input on the same board, by the same
compiler with the same options: every layer by the call that TensorFlow Lite Micro makes for it
(`benchmarks/boards/cmsis_nn.c`), without an interpreter. Its outputs are {their_lsb}.
*Of it* is ours over theirs. *File* is the .tflite, which TensorFlow Lite Micro keeps in flash as a whole, in addition
to its interpreter and kernels. Zero weights of visual wake words are skipped where that is faster. TinyEngine has
published figures for MCUNet's networks only, for none of these.

| network | core | off by | instructions | a MAC | CMSIS-NN | of it | RAM | TFLM arena | stack | weights | code | file |
|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"""
_STRIPES = """
## In stripes

Visual wake words on the M4 with a limit on RAM (`--ram`): the head of the network is computed in stripes of rows, and
outputs still equal LiteRT's bit by bit. `edgec inspect MODEL --device stm32h743` reports this before a build: an int8
MobileNetV2 (224 x 224) takes 488 KiB of its 512 in eight stripes, 1.6 MiB without.

| room | stripes | RAM | instructions | stack | weights | code |
|---:|---:|---:|---:|---:|---:|---:|"""


def measured(network: str, path: Path, core: str, library: Path | None = None, room: int | None = None) -> Row:
    device = load_device(BOARDS[core])
    built = edgec.build(str(path), device=device, compile=False, ram=room)
    striped = built.stages.stripes
    arrays = random_inputs(built.stages.graph, 0)
    assert built.parsed is not None
    reference = open_reference(built.parsed, {}, {})
    want = reference.run(arrays)
    with open_link(device) as link, tempfile.TemporaryDirectory() as scratch:
        remote = Remote(built, link, progress=lambda *told: None)
        (ran,) = remote.run([arrays])
        image = compile_runner(built, Path(scratch) / "runner")
        listed = subprocess.run(
            [f"{device.toolchain.gcc_target}-nm", "-S", str(image)], capture_output=True, text=True, check=True
        )
    lsb = max(d.max_abs for d in compare_all(ran.outputs, want))
    theirs = cmsis_nn.counted(library, path, built, *arrays.values()) if library is not None else None
    their_lsb = None
    if theirs is not None:
        their_lsb = max(d.max_abs for d in compare_all(dict.fromkeys(want, theirs.outputs), want))
    memory = fit(built.program, device)
    name = built.options.name
    code = sum(
        int(size, 16)
        for size, kind, symbol in re.findall(r"^\w+ (\w+) ([tTrR]) (\w+)$", listed.stdout, re.MULTILINE)
        if symbol.startswith(f"{name}_") and symbol != f"{name}_weights"
    )
    return Row(
        network, core, lsb, float(np.median(ran.nanoseconds)), macs(built.stages.graph), memory["ram"]["arena"],
        memory["ram"]["inputs_and_outputs"], remote.stack_bytes or 0, memory["flash"]["bytes"], code,
        path.stat().st_size, theirs.instructions if theirs is not None else None, their_lsb, room,
        striped.count if striped is not None else 1,
    )  # fmt: skip


def micro_arena(python: str, path: Path) -> int | None:
    done = subprocess.run([python, "-c", _MICRO, str(path)], capture_output=True, text=True, check=False)
    found = re.search(r"Arena allocation total (\d+) bytes", done.stdout + done.stderr)
    return int(found[1]) if found else None


def page(rows: list[Row], in_stripes: list[Row], arenas: dict[str, int | None], library: Path | None) -> str:
    version = f"`{cmsis_nn.version(library)}`" if library is not None else "not given"
    worst = max((r.cmsis_nn_lsb for r in rows if r.cmsis_nn_lsb is not None), default=None)
    exact = sum(r.cmsis_nn_lsb == 0 for r in rows)
    told = f"LiteRT's in {exact} of {len(rows)} cases, {worst:g} off in the others" if worst is not None else "not had"
    lines = [_HEAD.format(version=version, their_lsb=told)]
    for r in rows:
        micro = arenas.get(r.network)
        each = r.instructions / r.macs
        theirs = "- | -"
        if r.cmsis_nn is not None:
            theirs = f"{r.cmsis_nn / 1e6:.2f} M | {r.instructions / r.cmsis_nn:.2f}"
        lines.append(
            f"| {r.network} | {r.board} | {r.lsb:g} | {r.instructions / 1e6:.2f} M | {each:.2f} | "
            f"{theirs} | "
            f"{r.arena + r.ports:,} | {f'{micro:,}' if micro else '-'} | {r.stack:,} | "
            f"{r.weights:,} | {r.code:,} | {r.file:,} |"
        )
    lines.append(_STRIPES)
    for r in in_stripes:
        room = "-" if r.room is None else f"{r.room:,}"
        lines.append(
            f"| {room} | {r.stripes} | {r.arena + r.ports:,} | {r.instructions / 1e6:.2f} M | {r.stack:,} | "
            f"{r.weights:,} | {r.code:,} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(os.environ.get("EDGEC_MODELS", ROOT.parent / "shared" / "models"))
    parser.add_argument("--models", type=Path, default=default)
    parser.add_argument("--micro", metavar="PYTHON", help="a Python that has the package tflite-micro")
    parser.add_argument("--cmsis-nn", metavar="FOLDER", type=Path, help="a checkout of CMSIS-NN")
    parser.add_argument("--write", type=Path)
    chosen = parser.parse_args()
    rows, arenas = [], {}
    for network, file in NETWORKS.items():
        path = chosen.models / "mlperf_tiny" / file
        arenas[network] = micro_arena(chosen.micro, path) if chosen.micro else None
        for core in BOARDS:
            rows.append(measured(network, path, core, chosen.cmsis_nn))
            print(rows[-1], flush=True)
    largest = list(NETWORKS)[-1]
    in_stripes = []
    for room in ROOMS:
        in_stripes.append(measured(largest, chosen.models / "mlperf_tiny" / NETWORKS[largest], "M4", room=room))
        print(in_stripes[-1], flush=True)
    text = page(rows, in_stripes, arenas, chosen.cmsis_nn)
    print(text)
    if chosen.write:
        chosen.write.write_text(text, encoding="utf-8")
    sys.exit(any(max(r.lsb, r.cmsis_nn_lsb or 0) > 1 or r.stack > STACK for r in (*rows, *in_stripes)))


if __name__ == "__main__":
    main()

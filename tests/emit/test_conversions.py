"""Generated C has no implicit conversion that changes a value or its sign, as gcc and clang see them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from chance import RANDOM
from compiled import STRICT, target, write_graphs
from kernel_cases import cases
from needed import need

import edgec
from edgec.cli.demo import digits
from edgec.device.load import load_device
from edgec.device.toolchain import device_flags, pick_compiler

CONVERSIONS = ("-Wconversion", "-Wsign-conversion")
#: Groups of kernels that are drawn for each device.
GROUPS = 1


def clean(compiler: str, flags: list[str], folder: Path, sources: list[str]) -> None:
    program = need(compiler, compiler)
    tuned = [f for f in flags if compiler == "gcc" or not f.startswith(("-mtune", "-mprefer"))]
    command = [program, *STRICT, *CONVERSIONS, *tuned, "-fsyntax-only", *sources]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]


@pytest.mark.parametrize("device", ["host", "x86_64_avx2"])
def test_kernels(device: str, tmp_path: Path) -> None:
    groups, at = cases(), target(device)
    for name in RANDOM.choice(sorted(groups), GROUPS, replace=False):
        folder = tmp_path / str(name)
        folder.mkdir()
        write_graphs(groups[str(name)], folder, at.device)
        for compiler in ("gcc", "clang"):
            clean(compiler, [f for f in at.flags if f.startswith("-m")], folder, ["all.c"])


@pytest.mark.parametrize("weights", ["incbin", "file"])
def test_whole_project(weights: str, tmp_path: Path) -> None:
    """Example, runner and pool included."""
    folder = edgec.build(digits()[0], tmp_path / "out", weights=weights, threads=2, compile=False).folder
    for compiler in ("gcc", "clang"):
        clean(compiler, ["-march=native"], folder, sorted(p.name for p in folder.glob("*.c")))


@pytest.mark.parametrize(
    ("device", "program", "library"),
    [
        ("arm64", "aarch64-linux-gnu-gcc", "libc6-dev-arm64-cross"),
        ("arm32", "arm-linux-gnueabihf-gcc", "libc6-dev-armhf-cross"),
        ("cortex_m4", "arm-none-eabi-gcc", "libnewlib-arm-none-eabi"),
    ],
)
def test_whole_project_on_arm(device: str, program: str, library: str, tmp_path: Path) -> None:
    """As the compilers of Arm see it, whose integers of 32 bits may be long."""
    need(program, f"gcc-{program.removesuffix('-gcc')}", library)
    facts = load_device(device)
    flags = device_flags(pick_compiler(facts, "gcc"), facts)
    for quantized in ({}, {"quantize": "int8", "calibrate": "random"}):
        folder = tmp_path / ("bytes" if quantized else "floats")
        edgec.build(digits()[0], folder, device=device, compile=False, **quantized)
        sources = sorted(p.name for p in folder.glob("*.c"))
        command = [program, *STRICT, *CONVERSIONS, *flags, "-fsyntax-only", *sources]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:4000]

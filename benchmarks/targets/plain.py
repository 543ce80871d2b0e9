"""Cells without an app: checked where code of the device runs here or in an emulator, else compiled for it."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import edgec
from benchmarks.targets.programs import Outcome, Sample, called, objects, on_webgpu
from edgec.artifact.folder import read_lock
from edgec.bench.remote import compile_runner
from edgec.build import Built
from edgec.device.compilers import runs_here
from edgec.device.device import Device
from edgec.device.toolchain import compile_objects, pick_compiler
from edgec.errors import CheckError, EmulatorError, ToolchainError

#: Warnings that kernels in OpenCL C have to be free of.
_KERNELS = ("-x", "cl", "--target=spir64", "-Xclang", "-finclude-default-header", "-Wall", "-Wextra", "-Werror",
            "-Wno-unused-variable", "-Wno-unused-function", "-Wno-unused-parameter", "-Wno-ignored-pragmas",
            "-fgnu-keywords", "-fsyntax-only")  # fmt: skip
#: The most that quantization may lose, of the largest value, and that code may differ from its own program: integers
#: that are rounded the other way at a tie.
LOSS, OWN = 0.03, 3e-3
#: Versions of clang, which has the headers of OpenCL C.
_CLANGS = ("clang", *(f"clang-{n}" for n in range(21, 13, -1)))


def check(model: Path, device: Device, sample: Sample, settings: Mapping[str, Any], folder: Path) -> Outcome:
    """The network beside onnxruntime. Raises CheckError where they differ."""
    if device.language == "wgsl":
        return on_webgpu(edgec.build(model, folder, **settings), sample)
    link, how = _way(device)
    if how is None:
        built = edgec.build(model, folder, compile=False, **settings)
        return _opencl(built) if device.language == "opencl" else _compiled(built)
    more: dict[str, Any] = {"compiler": "emulated"} if device.language == "cuda" else {}
    if settings.get("quantize"):
        more["tolerance"] = LOSS
    try:
        checked = edgec.check(model, inputs={"image": sample.image}, link=link, **settings, **more)
    except EmulatorError as problem:
        edgec.build(model, folder, **settings)
        return Outcome("built", f"a library; {problem.message.partition(chr(10))[0]} ({how})")
    worst = max(max(d.max_rel, d.group_rel) for d in checked.outputs)
    if checked.verdict != "ok":
        raise CheckError(f"{checked.verdict}: {worst:.1e} beside {checked.reference}")
    own = {entry.stage: entry.added_rel for entry in checked.stages}
    if own["emit"] > OWN:
        raise CheckError(f"the code is {own['emit']:.1e} from its own program")
    return Outcome("ran", f"{how}; {worst:.0e}")


def _way(device: Device) -> tuple[str | None, str | None]:
    """The link to the device, and what it is called; None for the latter where nothing runs its code here."""
    if device.language == "cuda":
        return None, "kernels in emulation"
    if runs_here(device):
        return None, "PoCL" if device.is_gpu else "this machine"
    if device.is_gpu:
        return None, None
    if device.arch == "wasm32":
        return "node", "Node.js"
    if device.hosted:
        return "qemu", "qemu-user"
    machine = device.board.qemu_machine
    return ("board", f"qemu-system-arm -M {machine}") if machine else (None, None)


def _compiled(built: Built) -> Outcome:
    """Compiled for a board that nothing emulates: an image where its memory is known, else object files."""
    device = built.options.device
    if device.has_board:
        compile_runner(built, built.folder / "runner.elf")
        return Outcome("built", "an image; no emulator of this board")
    sources = [built.folder / name for name in read_lock(built.folder)["sources"]]
    return Outcome(
        "built", f"object files; a chip has no memory map of its own; {objects(device, sources, built.folder)}"
    )


def _opencl(built: Built) -> Outcome:
    """The host's part compiled for the device's processor, and its kernels read by clang as its OpenCL C."""
    device, folder = built.options.device, built.folder
    clang = next(filter(None, map(shutil.which, _CLANGS)), None)
    if clang is None:
        raise ToolchainError("no clang reads OpenCL C here", hint="apt install clang")
    sources = [folder / name for name in read_lock(folder)["sources"]]
    with tempfile.TemporaryDirectory() as scratch:
        compile_objects(pick_compiler(device), device, sources, Path(scratch), (f"-I{folder}",))
        kernels = sorted(p for p in folder.glob("*.cl") if re.search(r"_kernels_\d+\.cl$", p.name))
        if not kernels:
            raise CheckError("the build holds no kernels")
        text = "".join(p.read_text() for p in (folder / "ec_opencl.h", folder / "ec_scalar.h", *kernels))
        (Path(scratch) / "all.cl").write_text(text)
        options = re.search(r'_build\[\] = "(.*)"', (folder / f"{built.options.name}.c").read_text())
        defined = [f"-D{e}=1" for e in device.gpu.opencl_extensions if not e.startswith("cl_khr")]
        called(clang, *_KERNELS, *(options[1].split() if options else ()), *defined, "all.cl", cwd=Path(scratch))
    return Outcome("validated", "host compiled; kernels read by clang")

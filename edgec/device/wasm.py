"""The modules of a web page: the kernels without a system around them, or with a C library where they need one."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from edgec.device.device import Device
from edgec.device.toolchain import Compiler, compile_objects, device_flags, pick_compiler
from edgec.errors import ToolchainError

#: Of a thread; kernels keep little there.
STACK_BYTES = 1 << 20
#: The most of a memory that threads share, in whole pages; how large it becomes is up to the page.
MOST_BYTES = (1 << 32) - (1 << 16)

#: Functions that a page calls of a language model (`language/conversation.h.jinja`).
CONVERSATION = ("conversation_bytes", "begin", "sample_by", "add", "ask", "answer", "interrupt")
#: Those that it calls of a thread pool (`runtime/wasm/ec_pool.h`).
POOL = ("bytes", "init", "destroy", "may_sleep", "patience", "work", "fail", "failed")
#: Memory that threads share, each with a stack and thread-local variables of its own.
_SHARED = ("--shared-memory", "--import-memory", f"--max-memory={MOST_BYTES}")
_OF_THREADS = ("__stack_pointer", "__wasm_init_tls")

Progress = Callable[[Path, int, int], None]


def assemble(folder: Path, name: str, device: Device, sources: Sequence[str], progress: Progress | None = None) -> Path:
    """Compile the artefact in ``folder``, written with the app ``web``, into ``web/NAME.wasm``, the weights beside it.

    With a thread pool among the ``sources`` there is ``web/NAME_threads.wasm`` too, which imports a shared memory.
    Raises ToolchainError where zig is missing, or refuses.
    """
    compiler = pick_compiler(device, "zig")
    output = folder / "web" / f"{name}.wasm"
    found = [f"{name}_{function}" for function in CONVERSATION] if f"{name}_conversation.c" in sources else []
    files = [folder / source for source in sources if source != f"{name}_weights.S"]
    _module(compiler, device, files, [f"{name}_run", *found, "__heap_base"], (), output, progress)
    if "ec_pool.c" in sources:
        exported = [f"{name}_run_pool", *(f"{name}_ec_pool_{function}" for function in POOL), *_OF_THREADS]
        _module(
            compiler, _with_atomics(device), files, exported, _SHARED, output.with_stem(f"{name}_threads"), progress
        )
    shutil.copyfile(folder / f"{name}_weights.bin", folder / "web" / f"{name}_weights.bin")
    return output


def _with_atomics(device: Device) -> Device:
    """The device, as all browsers have it that have threads."""
    cpu = f"{device.toolchain.zig_mcpu or 'generic'}+atomics+bulk_memory"
    return replace(device, toolchain=replace(device.toolchain, zig_mcpu=cpu))


def _module(
    compiler: Compiler,
    device: Device,
    files: Sequence[Path],
    exported: Sequence[str],
    flags: Sequence[str],
    output: Path,
    progress: Progress | None,
) -> None:
    """Compile and link a module that exports so much; raises ToolchainError where zig refuses."""
    words = [*(f"--export={symbol}" for symbol in exported), *flags, "-z", f"stack-size={STACK_BYTES}"]
    with tempfile.TemporaryDirectory(prefix="edgec-") as scratch:
        include = [f"-I{files[0].parent}"]
        objects = compile_objects(compiler, device, files, Path(scratch), include, progress=progress)
        bare = [*compiler.command[:-1], "wasm-ld", "--no-entry", "-s", *words]
        if _links([*bare, *map(str, objects), "-o", str(output)]) is None:
            return
        # a function of the C library is missing
        command = [*compiler.command, *device_flags(compiler, device), "-mexec-model=reactor", "-s"]
        problem = _links([*command, f"-Wl,{','.join(words)}", *map(str, objects), "-lm", "-o", str(output)])
        if problem is not None:
            raise ToolchainError(f"{compiler} refused it\n{problem}", where=str(output))


def _links(command: Sequence[str]) -> str | None:
    """None when it does; else what the linker says."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else done.stderr.strip()[:2000]

"""The module of a web page: the kernels without a system around them, or with a C library where they need one."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from edgec.device.device import Device
from edgec.device.toolchain import compile_objects, device_flags, pick_compiler
from edgec.errors import ToolchainError

#: Of the module; kernels keep little there.
STACK_BYTES = 1 << 20

#: What a page calls of a language model (`language/conversation.h.jinja`).
CONVERSATION = ("conversation_bytes", "begin", "sample_by", "add", "ask", "answer", "interrupt")

Progress = Callable[[Path, int, int], None]


def assemble(folder: Path, name: str, device: Device, sources: Sequence[str], progress: Progress | None = None) -> Path:
    """Compile the artefact in ``folder``, written with the app ``web``, into ``web/NAME.wasm``, the weights beside it.

    Raises ToolchainError where zig is missing, or refuses.
    """
    compiler = pick_compiler(device, "zig")
    output = folder / "web" / f"{name}.wasm"
    found = [f"{name}_{function}" for function in CONVERSATION] if f"{name}_conversation.c" in sources else []
    names = [f"{name}_run", *found, "__heap_base"]
    exported = [*(f"--export={symbol}" for symbol in names), "-z", f"stack-size={STACK_BYTES}"]
    with tempfile.TemporaryDirectory(prefix="edgec-") as scratch:
        files = [folder / source for source in sources if source != f"{name}_weights.S"]
        objects = compile_objects(compiler, device, files, Path(scratch), [f"-I{folder}"], progress=progress)
        bare = [*compiler.command[:-1], "wasm-ld", "--no-entry", "-s", *exported]
        if _links([*bare, *map(str, objects), "-o", str(output)]) is not None:  # a function of the C library is missing
            flags = [*device_flags(compiler, device), "-mexec-model=reactor", "-s"]
            flags += [f"-Wl,{','.join(exported)}"]
            problem = _links([*compiler.command, *flags, *map(str, objects), "-lm", "-o", str(output)])
            if problem is not None:
                raise ToolchainError(f"{compiler} refused it\n{problem}", where=str(output))
    shutil.copyfile(folder / f"{name}_weights.bin", folder / "web" / f"{name}_weights.bin")
    return output


def _links(command: Sequence[str]) -> str | None:
    """None when it does; else what the linker says."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else done.stderr.strip()[:2000]

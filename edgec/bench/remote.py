"""A network on its device: the runner is compiled here, started there, and its outputs and times come back.

Inputs go over in batches. What a batch gave can be kept in a folder; the same work begun again, after the device
vanished say, then goes on behind the last batch that came back.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np

from edgec.artifact.folder import read_lock
from edgec.artifact.levels import compiled_for
from edgec.bench import answers
from edgec.bench.answers import Ran
from edgec.bench.timing import Timing
from edgec.build import Built
from edgec.device.android import link_program
from edgec.device.cuda import compile_cuda, pick_cuda_compiler
from edgec.device.device import Device
from edgec.device.probe import host_arch, usable_cores
from edgec.device.toolchain import Compiler, compile_image, compile_program, pick_compiler
from edgec.errors import CheckError, DeviceError, EmulatorError, LinkError, ToolchainError, UsageError
from edgec.execute.executor import Executor, checked_input
from edgec.ir.expr import Expr
from edgec.ir.graph import Node
from edgec.ir.sizes import dimensions
from edgec.ir.types import plain
from edgec.link.base import Ended, Link, told
from edgec.link.choose import open_link
from edgec.link.local import signalled
from edgec.options.dispatch import require_one
from edgec.progress import Progress

Arrays = Mapping[str, np.ndarray]
#: Bytes of inputs that go over at a time, unless one sample has more.
BATCH_BYTES = 16 * 2**20
#: What the runner ends with on a processor that lacks what the code was compiled for.
_WRONG_CPU = 4
#: What qemu says where it ends by itself, and not the program in it.
_EMULATORS_OWN = re.compile(r"^qemu-[\w-]+: .*: Assertion ", re.MULTILINE)
#: How many runs the runner can count.
_MOST_RUNS = 100_000


class Remote:
    """A network that was built, compiled for its device and put there.

    ``profile`` makes the runner tell the nanoseconds of every kernel (``kernels``, of the fastest run of the last
    sample). ``keep`` is a folder for what came back.

    Raises ToolchainError without a compiler, LinkError when the device cannot be reached.
    """

    def __init__(
        self,
        built: Built,
        link: Link,
        *,
        timeout: float = 600.0,
        profile: bool = False,
        keep: Path | None = None,
        progress: Progress,
    ) -> None:
        if profile:
            require_one(built.options.levels, "kernels are timed")
        self.link, self.timeout, self.keep = link, timeout, keep
        self.kernels: tuple[int, ...] = ()
        self.processor: str | None = None  # the level that ran, of a library for several
        self.stack_bytes: int | None = None  # the most that was in use, where the board tells
        self._built, self._progress = built, progress
        self.threads, self.cores = built.options.threads, built.options.cores
        self.runner = f"{built.options.name}_runner"
        self._profile = profile
        with tempfile.TemporaryDirectory(prefix="edgec-") as scratch:
            progress("compile", "the runner")
            program = compile_runner(built, Path(scratch) / self.runner, profile)
            progress("device", f"sending the runner to {link.name}")
            link.send(program, self.runner)
            weights = (read_lock(built.folder).get("weights") or {}).get("file") or ""
            if weights == f"{built.options.name}.weights":  # opened by the runner, not linked into it
                link.send(built.folder / weights, weights)

    def run(self, samples: Sequence[Arrays], runs: int = 1) -> list[Ran]:
        """Run every sample ``runs`` times.

        Raises LinkError when the device goes away, DeviceError for a processor the code was not built for, CheckError
        when the program dies or the network refuses its inputs.
        """
        found: list[Ran] = []
        for batch in _batches([self._packed(s) for s in samples]):
            self._progress("device", f"sample {len(found) + len(batch)}/{len(samples)}", len(found) / len(samples))
            found += self._batch(batch, samples[len(found) : len(found) + len(batch)], runs)
        return found

    def executor(self) -> Executor:
        return lambda arrays: self.run([arrays])[0].outputs

    def time(self, arrays: Arrays, seconds: float) -> Timing:
        """Latency of single runs on the device, by its own clock."""
        first = self.run([arrays], 3)[0].nanoseconds
        runs = int(np.clip(seconds * 1e9 / max(float(np.median(first)), 1.0), 3, _MOST_RUNS))
        return Timing.of([float(n) / 1e9 for n in self.run([arrays], runs)[0].nanoseconds])

    # ---- one batch

    def _batch(self, packed: Sequence[bytes], samples: Sequence[Arrays], runs: int) -> list[Ran]:
        content = b"".join(packed)
        kept = self._kept(content, runs)
        if kept is not None and kept.is_file():
            most = answers.expected_bytes(self._built.program, len(samples), runs)
            return self._unpacked(answers.content(kept, most, str(kept)), samples, runs)
        with tempfile.TemporaryDirectory(prefix="edgec-") as scratch:
            inputs, outputs = Path(scratch, "inputs.bin"), Path(scratch, "outputs.bin")
            inputs.write_bytes(content)
            try:
                self.link.send(inputs, "inputs.bin")
                arguments = ["inputs.bin", "outputs.bin", str(runs), str(self.threads)]
                ended = self.link.start(self.runner, arguments, self.timeout)
                self._judge(ended)
                self.link.fetch("outputs.bin", outputs)
            except LinkError as error:
                raise LinkError(error.message, hint=self._advice(error), where=error.where) from None
            raw = answers.content(
                outputs, answers.expected_bytes(self._built.program, len(samples), runs), self.link.name
            )
        found = self._unpacked(raw, samples, runs)
        self.processor = answers.processor(ended.output)
        self.stack_bytes = answers.stack_bytes(ended.output)
        if self._profile:
            self.kernels = answers.kernel_times(ended.output, self.link.name)
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            half = kept.with_suffix(".part")
            half.write_bytes(raw)
            half.replace(kept)
        return found

    def _kept(self, content: bytes, runs: int) -> Path | None:
        """File that stores the results of this batch, named by everything it depends on."""
        if self.keep is None:
            return None
        lock = read_lock(self._built.folder)
        facts = f"{lock['files_sha256']} {runs} {self.threads} {self.link.name}".encode()
        return self.keep / f"{sha256(facts + content).hexdigest()[:24]}.outputs"

    def _advice(self, error: LinkError) -> str | None:
        if self.keep is not None:
            return f"the same command goes on behind what came back ({self.keep})"
        return error.hint

    def _judge(self, ended: Ended) -> None:
        device = self._built.options.device
        if ended.code == _WRONG_CPU:
            raise DeviceError(
                f"the processor lacks what the code was built for: {device.needs or 'nothing special'}",
                hint="build for the device that is there: edgec device list",
                where=self.link.name,
            )
        if ended.code != 0 and _EMULATORS_OWN.search(ended.errors):
            hint = "take a newer one: qemu before 8.1 knows not every vector instruction of RISC-V"
            raise EmulatorError(
                f"the emulator failed an assertion of its own{told(ended)}", hint=hint, where=self.link.name
            )
        if ended.code != 0:
            died = signalled(ended.code)
            how = f"died of {died}" if died else f"ended with {ended.code}"
            raise CheckError(f"the program {how} on the device{told(ended)}", where=self.link.name)

    # ---- bytes

    @property
    def _inputs(self) -> list[tuple[str, Node]]:
        return [(name, node) for name, _, node in self._built.program.inputs]

    def _sizes(self, arrays: Arrays) -> dict[Expr, int]:
        known: dict[Expr, int] = {}
        for name, node in self._inputs:
            checked_input(name, node.type, arrays, known)
        return known

    def _packed(self, arrays: Arrays) -> bytes:
        known = self._sizes(arrays)
        chosen = dimensions(node.type for _, node in self._inputs)
        parts = [np.int64(known[size] * d.step).tobytes() for size, d in chosen.items()]
        for name, _ in self._inputs:
            data = plain(np.ascontiguousarray(arrays[name])).tobytes()
            parts += [np.uint64(len(data)).tobytes(), data]
        return b"".join(parts)

    def _unpacked(self, raw: bytes, samples: Sequence[Arrays], runs: int) -> list[Ran]:
        place = 0
        found = []
        for arrays in samples:
            ran, place = answers.sample(raw, place, self._built.program, self._sizes(arrays), runs, self.link.name)
            found.append(ran)
        return found


def _batches(packed: Sequence[bytes]) -> list[list[bytes]]:
    batches: list[list[bytes]] = []
    size = BATCH_BYTES
    for sample in packed:
        if size + len(sample) > BATCH_BYTES:
            batches.append([])
            size = 0
        batches[-1].append(sample)
        size += len(sample)
    return batches


def compile_runner(built: Built, output: Path, profile: bool = False) -> Path:
    """The runner of an artefact as one program that needs no library of the device but the driver of its GPU."""
    options, folder = built.options, built.folder
    if options.threads > 1 and not options.device.hosted:
        hint = "leave out --threads; the package of --app web has them, in Node.js too"
        raise UsageError(f"programs for '{options.device.name}' have one thread", hint=hint, where="--threads")
    lock = read_lock(folder)
    defines = ["EC_PROFILE"] if profile else []
    if options.device.language == "cuda":
        return _compile_cuda_runner(
            built, [folder / name for name in (*lock["sources"], "runner.cpp")], output, defines
        )
    names = [*lock["sources"], "runner.c"]
    opens_driver = options.device.is_gpu or bool(built.program.parts)
    if opens_driver and options.device.link == "adb":
        return link_program(options.device, [folder / name for name in names], output, defines)
    compiler = pick_compiler(options.device, options.compiler)
    if not options.device.hosted and options.device.arch != "wasm32":
        flags = board_flags(options.device, folder / f"{lock['name']}.ld")
        sources = [folder / name for name in (*names, "ec_board.c")]
        return compile_image(
            compiler, options.device, sources, output, include=[folder], defines=defines, link_flags=flags
        )
    compiler, flags = (compiler, ()) if opens_driver else _alone(compiler, options.device)
    sources = [folder / name for name in names]
    most, others = compiled_for(lock, options.device)
    return compile_program(
        compiler, most, sources, output, include=[folder], defines=defines, extra_flags=flags, others=others
    )


def _compile_cuda_runner(built: Built, sources: Sequence[Path], output: Path, defines: Sequence[str]) -> Path:
    options = built.options
    compiler = pick_cuda_compiler(options.device, options.compiler)
    crosses = any(word.startswith(("-ccbin", "--compiler-bindir")) for word in compiler.command)
    if compiler.kind == "nvcc" and not crosses and options.device.arch != host_arch():
        hint = (
            f'run edgec on the device, or give --compiler "nvcc -ccbin {options.device.toolchain.gcc_target}-g++ ..."'
        )
        raise ToolchainError(f"{compiler} makes programs for this machine, not for '{options.device.name}'", hint=hint)
    compile_cuda(compiler, options.device, sources, output, usable_cores(), defines=defines, shared=False)
    return output


def _alone(compiler: Compiler, device: Device) -> tuple[Compiler, tuple[str, ...]]:
    """Compiler and linker options for a program that needs no libraries of the device."""
    if compiler.kind == "zig" and "linux-gnu" in compiler.target:  # zig has no static library of GNU's, but musl
        return replace(compiler, target=compiler.target.replace("linux-gnu", "linux-musl")), ("-static",)
    return compiler, ("-static",) if "linux" in compiler.target and device.toolchain.gcc_target else ()


def board_flags(device: Device, script: Path) -> tuple[str, ...]:
    """Linker options of an image for a board, with newlib and its semihosting."""
    if not device.has_board:
        hint = "write ram_bytes, board.flash_bytes, .flash_origin, .ram_origin and .clock_hz into a device file"
        raise UsageError(f"where memory lies on '{device.name}' is not known", hint=hint)
    return "-nostartfiles", "--specs=rdimon.specs", f"-Wl,-T,{script}", "-lm"


@contextmanager
def connect(
    built: Built, link: str, keep: str | Path | None, timeout: float, progress: Progress, profile: bool = False
) -> Iterator[Remote]:
    """A network on its device; with ``profile`` it tells how long each kernel takes."""

    with open_link(built.options.device, None if link == "device" else link) as way:
        folder = Path(keep) if keep is not None else None
        yield Remote(built, way, timeout=timeout, keep=folder, profile=profile, progress=progress)

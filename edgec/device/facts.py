"""What is known of a device: a `Device`, read from TOML files that inherit from one another.

A file's name is the device's name. `base = "other"` inherits every fact of `other`, looked for in the file's
own folder, then in the user's folders, then among the shipped ones; a file that names itself extends the one
it shadows. `probe = true` takes the facts of the machine edgec runs on. A fact given in a file replaces the
inherited one, except that `[measured]` is merged figure by figure.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from edgec.errors import DeviceError
from edgec.locate import data_folder

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Language = Literal["c", "opencl", "cuda"]
Precision = Literal["fp32", "tf32", "fp16", "bf16"]
Arch = Literal["x86_64", "aarch64", "arm", "riscv64", "wasm32", "thumb"]
Link = Literal["local", "qemu", "board", "node", "ssh", "adb", "none"]
Names = tuple[str, ...]
Measured = tuple[tuple[str, float], ...]
#: Extensions of OpenCL with which kernels multiply four bytes at once; the last is NVIDIA's, which takes its assembler.
DOT_EXTENSIONS = ("cl_khr_integer_dot_product", "cl_arm_integer_dot_product_int8", "cl_nv_pragma_unroll")


@dataclass(frozen=True)
class Device:
    """One machine to generate code for. A size of 0 means unknown, or that there is no such memory."""

    name: str
    description: str
    arch: Arch
    bases: Names = ()
    """The devices it inherits from, nearest first."""
    language: Language = "c"
    instruction_sets: Names = ()
    """Spelled as compilers spell them: `-mavx512vnni` is "avx512vnni", `-march=...+dotprod` is "dotprod"."""
    vector_bytes: int = 4
    """Width of one vector register; 4 is scalar code."""
    vector_registers: int = 8
    """How many registers of that width a kernel may count on."""
    in_order: bool = False
    """Whether cores run instructions as they stand: sums of products then load what the next step reads between the
    multiply-adds of this one."""
    loads_beside: bool = False
    """Whether such a core starts a load of half a vector beside a multiply-add (Cortex-A55), and not beside an insert
    alone (Cortex-A53)."""
    unroll: int = 16
    """Compilers are asked to unroll the innermost loop of a sum of at most so many rounds. What they load ahead for it
    lies in registers, which small cores have few of: there it would go to the stack."""
    cores: int = 1
    l1d_bytes: int = 0
    """First-level data cache of one core."""
    l2_bytes: int = 0
    """Second-level cache that one core can use."""
    l3_bytes: int = 0
    """Last-level cache, shared by the cores."""
    ram_bytes: int = 0
    """The largest single block a program can have."""
    flash_bytes: int = 0
    flash_origin: int = 0
    """Where flash begins in the address space, on a device without an operating system."""
    ram_origin: int = 0
    """Where the RAM of `ram_bytes` begins there; with it edgec writes a linker script and a start file."""
    clock_hz: int = 0
    """Clock of the core."""
    page_bytes: int = 0
    """Page of the virtual memory, the alignment of weights that are mapped."""
    compute_capability: int = 0
    """Of an NVIDIA GPU, without the point: 87 is sm_87."""
    multiprocessors: int = 0
    """Of a GPU: how many groups of threads (work-groups, blocks) run side by side without sharing a core."""
    gpu_clock_mhz: int = 0
    gpu_multiply_adds: int = 0
    """Multiply-adds of floats that one multiprocessor begins a clock; 0: unknown, and prices are a processor's."""
    visible: bool = False
    """Whether groups see what others wrote before they counted themselves in, which OpenCL 1.2 does not promise."""
    tensor_multiply_adds: int = 0
    """The same of halves on its tensor cores, with sums of floats."""
    registers: int = 0
    """Registers of 32 bits of one multiprocessor of an NVIDIA GPU; it holds at most ``resident_threads`` in
    ``resident_groups`` at once, which share ``resident_shared_bytes``."""
    resident_threads: int = 0
    resident_groups: int = 0
    resident_shared_bytes: int = 0
    gpu: str = ""
    """The device file of the GPU beside this processor, for `--place`."""
    shared_bytes: int = 0
    """Fast memory that the threads of one group share (OpenCL calls it local)."""
    group_shared_bytes: int = 0
    """The most of it that a kernel may ask for; 0: no more than that."""
    has_local_memory: bool = True
    """Whether that memory is faster than memory; where it is plain memory, sums are blocked in registers."""
    opencl_extensions: Names = ()
    """What an OpenCL device has beyond 1.2, as it spells it; kernels are checked with each."""
    weights_as_images: bool = False
    """Whether weights of products are read as textures, which a GPU may bring from memory by a quicker way."""
    group_items: int = 64
    """Work-items of a group that shares nothing; 1 where a work-item is worth a group of its own."""
    gpu_l2_bytes: int = 0
    """Cache between the multiprocessors of a GPU and its memory."""
    memory_gbps: int = 0
    """What the memory of a GPU delivers at most, in 10^9 bytes a second."""
    precision: Precision = "fp32"
    """fp16 and bf16 keep weights, and what kernels hand on to products, in 16 bits; a GPU's tf32 multiplies in 19. Sums
    are of floats in each, but for parts of them where `multiplies_halves`. A build's own choice replaces it."""
    cflags: Names = ()
    """Options that select the processor, as gcc takes them."""
    gcc_target: str = ""
    """Prefix of the cross compiler (`<prefix>-gcc`); empty for the machine that edgec itself runs on."""
    compiler: str = ""
    """The kind of compiler to take ("zig") where another one makes wrong code; empty for any."""
    zig_target: str = ""
    """What `zig cc -target` takes; empty as for `gcc_target`."""
    zig_mcpu: str = ""
    """What `zig cc -mcpu` takes, in its own spelling: `cortex_a76`, `cortex_m4+vfp4d16sp`."""
    hosted: bool = True
    """Whether there is an operating system with a C library and POSIX threads."""
    link: Link = "none"
    """How edgec runs a program on it."""
    qemu_machine: str = ""
    """The board of qemu's system emulation that is like it."""
    measured: Measured = ()
    """Figures taken on the device, sorted by name, with the unit in the name: `fp32_gflops`, `read_gbps`."""

    @property
    def groups_meet(self) -> bool:
        """Whether the last group of a kernel can go on with what the others have written."""
        return self.language == "cuda" or self.visible

    @property
    def has_clusters(self) -> bool:
        """Whether a few groups can run together and read one another's shared memory."""
        return self.language == "cuda" and self.compute_capability >= 90

    @property
    def largest_shared_bytes(self) -> int:
        """What the threads of one group can share at most."""
        return max(self.shared_bytes, self.group_shared_bytes)

    @property
    def multiplies_bytes(self) -> bool:
        """Whether it is a GPU with tensor cores for bytes, which kernels have."""
        return self.language == "cuda" and self.compute_capability >= 80

    @property
    def multiplies_fours(self) -> bool:
        """Whether a sum of products of four bytes is one instruction of a GPU, which has no tensor cores for them."""
        if self.language == "cuda":
            return 61 <= self.compute_capability < 80
        return self.language == "opencl" and not set(DOT_EXTENSIONS).isdisjoint(self.opencl_extensions)

    @property
    def multiplies_pairs(self) -> bool:
        """Whether a sum of products of two pairs of bf16 is one instruction of a processor."""
        return not self.is_gpu and (self.has("avx512bf16") or self.has("bf16"))

    @property
    def multiplies_halves(self) -> bool:
        """Whether a processor that is to use fp16 adds up products in halves, twice as many at a time as in floats."""
        return self.precision == "fp16" and self.arch == "aarch64" and self.has("fp16") and not self.has("sve")

    @property
    def needs(self) -> str:
        """What a processor must have to run code that was built for this one, in words; empty: nothing special."""
        size = [f"vectors of {8 * self.vector_bytes} bits"] if self.has("sve") else []
        return ", ".join([*self.instruction_sets, *size])

    @property
    def is_gpu(self) -> bool:
        """Whether kernels are launched on a GPU, each with a grid of threads, rather than called."""
        return self.language != "c"

    def has(self, *instruction_sets: str) -> bool:
        """Whether the device has every one of these instruction sets."""
        return set(instruction_sets) <= set(self.instruction_sets)

    def lanes(self, element_bytes: int) -> int:
        """How many elements of this size one vector register holds, at least 1."""
        return max(1, self.vector_bytes // element_bytes)

    def figure(self, name: str) -> float | None:
        """The measured figure `name`, None where it was never measured."""
        return dict(self.measured).get(name)


def load_device(name_or_path: str | Path, folders: Iterable[str | Path] = ()) -> Device:
    """The device of this name, or of this TOML file; `folders` are searched before the shipped one."""
    path = Path(name_or_path)
    if path.suffix == ".toml" or path.parent != Path():
        if not _is_file(path):
            raise DeviceError("no such device file", where=str(path))
        return _inherit(path, _shelves(folders))
    shelves = _shelves(folders)
    name = str(name_or_path)
    for candidate in _files_called(name, shelves):
        return _inherit(candidate, shelves)
    raise DeviceError(f"no device is called '{name}'", hint=_did_you_mean(name, _names(shelves)))


def list_devices(folders: Iterable[str | Path] = ()) -> list[Device]:
    """Every device that `load_device` finds by name, in alphabetical order."""
    shelves = _shelves(folders)
    return [load_device(name, shelves[:-1]) for name in _names(shelves)]


# -- inheritance -----------------------------------------------------------------------------------


def _inherit(path: Path, shelves: Sequence[Path]) -> Device:
    facts: dict[str, Any] = {}
    files = _base_files(path, shelves)
    for _, own in reversed(files):
        if own.pop("probe", False):
            facts |= _probed_facts()
        own.pop("base", None)
        if "measured" in own:
            own["measured"] = tuple(sorted((dict(facts.get("measured", ())) | dict(own["measured"])).items()))
        facts |= own
    for required in ("description", "arch"):
        if required not in facts:
            hint = "add it, or a `base` that has it"
            raise DeviceError(f"'{required}' is not given", hint=hint, where=str(path))
    if not _NAME.fullmatch(path.stem):
        hint = "name the file with letters, digits, _, -, ., + and spaces"
        raise DeviceError(
            f"{path.stem!r} is no name of a device: it is written into sources", hint=hint, where=str(path)
        )
    device = Device(name=path.stem, bases=tuple(file.stem for file, _ in files[1:]), **facts)
    _refuse_contradictions(device, path)
    return device


def _base_files(path: Path, shelves: Sequence[Path]) -> list[tuple[Path, dict[str, Any]]]:
    """The file and the files it inherits from, nearest first, each with the facts it gives itself."""
    chain = [(path, _read(path))]
    while (base := chain[-1][1].get("base")) is not None:
        chain.append(_next_base(base, [file for file, _ in chain], shelves))
    return chain


def _next_base(base: str, visited: Sequence[Path], shelves: Sequence[Path]) -> tuple[Path, dict[str, Any]]:
    candidates = _files_called(base, [visited[-1].parent, *shelves])
    seen = {file.resolve() for file in visited}
    for candidate in candidates:
        if candidate.resolve() not in seen:
            return candidate, _read(candidate)
    where = str(visited[-1])
    if candidates:
        circle = " -> ".join([*(file.stem for file in visited), base])
        raise DeviceError(f"the bases go in a circle: {circle}", where=where)
    raise DeviceError(f"the base '{base}' is unknown", hint=_did_you_mean(base, _names(shelves)), where=where)


def _probed_facts() -> dict[str, Any]:
    from edgec.device.probe import probe_host  # here, because the probe builds a Device

    host = probe_host()
    return {key: getattr(host, key) for key in _FACTS}


# -- folders ---------------------------------------------------------------------------------------


def _shelves(folders: Iterable[str | Path]) -> list[Path]:
    return [*map(Path, folders), data_folder("devices")]


def _files_called(name: str, shelves: Iterable[Path]) -> list[Path]:
    return [file for shelf in shelves if _is_file(file := shelf / f"{name}.toml")]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # no name that a file could have
        return False


def _names(shelves: Iterable[Path]) -> list[str]:
    return sorted({file.stem for shelf in shelves for file in shelf.glob("*.toml")})


def _did_you_mean(word: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f"did you mean '{close[0]}'?" if close else f"known are {', '.join(known)}"


# -- validation ------------------------------------------------------------------------------------

_FACTS = {key: kind for key, kind in get_type_hints(Device).items() if key not in ("name", "bases")}
_KINDS: dict[str, Any] = {**_FACTS, "base": str, "probe": bool}
#: What the names of files and the texts of facts are made of: they stand in build files, sources and command lines.
_NAME, _WORD = re.compile(r"[\w.+() -]{1,100}", re.ASCII), re.compile(r"[\w.+=,:/@%~-]{,1000}", re.ASCII)
#: The largest numbers that a fact may be. 256 bytes is the longest vector there is (SVE), 65534 what gcc unrolls.
_LARGEST = 2**62
_MOST = {
    "vector_bytes": 256, "vector_registers": 256, "unroll": 65_534, "cores": 65_536, "multiprocessors": 65_536,
    "compute_capability": 999, "group_items": 65_536, "gpu_multiply_adds": 2**20, "tensor_multiply_adds": 2**20,
}  # fmt: skip
_WANTED = {
    str: "text",
    bool: "true or false",
    int: "a whole number, 0 or more",
    Names: "a list of texts",
    Measured: "a table of numbers above 0",
}


def _read(path: Path) -> dict[str, Any]:
    """The facts one file gives, each of the type `Device` declares."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError, OSError) as error:
        raise DeviceError(f"not valid TOML: {error}", where=str(path)) from error
    for key in table:
        if key not in _KINDS:
            hint = _did_you_mean(key, sorted(_KINDS))
            raise DeviceError(f"unknown key '{key}'", hint=hint, where=str(path))
    return {key: _checked(key, value, path) for key, value in table.items()}


def _checked(key: str, value: object, path: Path) -> object:
    kind = _KINDS[key]
    fact = _as_kind(kind, value)
    if fact is not None:
        if kind in (str, Names) and key != "description":
            for text in (str(fact),) if kind is str else tuple(map(str, value)):  # type: ignore[call-overload]
                _refuse_strange(key, text, path)
        if type(fact) is int and fact > _MOST.get(key, _LARGEST):
            raise DeviceError(f"'{key}' is more than {_MOST.get(key, _LARGEST)}", where=str(path))
        return fact
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    wanted = f"one of {', '.join(choices)}" if choices else _WANTED[kind]
    hint = _did_you_mean(str(value), choices) if choices else None
    raise DeviceError(f"'{key}' must be {wanted}, not {value!r}", hint=hint, where=str(path))


def _refuse_strange(key: str, text: str, path: Path) -> None:
    """Raises DeviceError for what would be more than a word in build files, sources and command lines."""
    if _WORD.fullmatch(text) is None:
        hint = "one option a text, of at most 1000 letters, digits and _.+=,:/@%~-"
        message = f"{key!r} has the text {text[:60]!r}, which cannot stand in build files"
        raise DeviceError(message, hint=hint, where=str(path))


def _as_kind(kind: Any, value: object) -> object | None:
    """The value as a fact of this kind, None where it is something else. Exact types: `true` is no number."""
    if isinstance(value, dict):
        is_figures = kind == Measured and all(type(n) in (int, float) and 0 < n < _LARGEST for n in value.values())
        return tuple((name, float(figure)) for name, figure in value.items()) if is_figures else None
    if isinstance(value, list):
        return tuple(value) if kind == Names and all(isinstance(word, str) for word in value) else None
    if get_origin(kind) is Literal:
        return value if value in get_args(kind) else None
    if type(value) is not kind or (isinstance(value, int) and value < 0):
        return None
    return value


def _refuse_contradictions(device: Device, path: Path) -> None:
    width = device.vector_bytes
    rules = {
        "'vector_bytes' must be a power of two, 4 or more": width >= 4 and width & (width - 1) == 0,
        "'vector_registers' must be 1 or more": device.vector_registers >= 1,
        "'cores' must be 1 or more": device.cores >= 1,
        "\"sve\" needs 'vector_bytes' of 32 or 64": not device.has("sve") or width in (32, 64),
        "a GPU needs 'multiprocessors' and 'shared_bytes'": (
            not device.is_gpu or (device.multiprocessors >= 1 and device.shared_bytes >= 1)
        ),
        "a GPU needs 'vector_registers' of 8 or more": not device.is_gpu or device.vector_registers >= 8,
        "'group_items' must be 1 or more": device.group_items >= 1,
        "'gpu_multiply_adds' needs 'multiprocessors', 'gpu_clock_mhz' and 'memory_gbps'": (
            not device.gpu_multiply_adds
            or (device.multiprocessors >= 1 and device.gpu_clock_mhz >= 1 and device.memory_gbps >= 1)
        ),
        "'language' = \"cuda\" needs a 'compute_capability' of 50 or more": (
            device.language != "cuda" or device.compute_capability >= 50
        ),
        "a device without an operating system needs 'gcc_target' or 'zig_target'": (
            device.hosted or bool(device.gcc_target or device.zig_target)
        ),
    }
    for rule, holds in rules.items():
        if not holds:
            raise DeviceError(rule, where=str(path))

"""Facts of a device: the record `Device`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from edgec.device.costs import Costs, usual_costs
from edgec.ir.lanes import NARROWEST

Language = Literal["c", "opencl", "cuda", "wgsl"]
Precision = Literal["fp32", "tf32", "fp16", "bf16"]
Arch = Literal["x86_64", "aarch64", "arm", "riscv64", "wasm32", "thumb", "xtensa", "riscv32"]
Link = Literal["local", "qemu", "board", "node", "ssh", "adb", "none"]
Names = tuple[str, ...]
Measured = tuple[tuple[str, float], ...]
#: Extensions of OpenCL with which kernels multiply four bytes at once; the last is NVIDIA's, which takes its assembler.
DOT_EXTENSIONS = ("cl_khr_integer_dot_product", "cl_arm_integer_dot_product_int8", "cl_nv_pragma_unroll")


@dataclass(frozen=True)
class Gpu:
    """A GPU: the `[gpu]` table of a device file. 0 means unknown."""

    compute_capability: int = 0
    """Of an NVIDIA GPU, without the point: 87 is sm_87."""
    multiprocessors: int = 0
    """Of a GPU: how many thread blocks (OpenCL: work-groups) run at once without sharing a multiprocessor."""
    clock_mhz: int = 0
    multiply_adds: int = 0
    """fp32 multiply-adds that one multiprocessor starts per clock; 0: unknown, and costs are those of a CPU."""
    tensor_multiply_adds: int = 0
    """fp16 multiply-adds with fp32 sums that its tensor cores start per clock."""
    tensor_cores: bool = True
    """True where kernels multiply floats on its tensor cores, if it has any that the templates use."""
    registers: int = 0
    """32-bit registers of one multiprocessor of an NVIDIA GPU; it holds at most ``resident_threads`` in
    ``resident_groups`` thread blocks at once, which share ``resident_shared_bytes``."""
    resident_threads: int = 0
    resident_groups: int = 0
    resident_shared_bytes: int = 0
    shared_bytes: int = 0
    """Shared memory of one thread block (OpenCL: local memory of a work-group)."""
    group_shared_bytes: int = 0
    """The most shared memory that a kernel may request; 0: no more than ``shared_bytes``."""
    has_local_memory: bool = True
    """Whether shared memory is faster than global memory; where it is not, matmuls are blocked in registers."""
    coherent_groups: bool = False
    """Whether a work-group sees what others wrote earlier in the same kernel, which OpenCL 1.2 does not promise."""
    group_threads: int = 1024
    """The most threads of one thread block."""
    group_items: int = 64
    """Work-items of a work-group without local memory; 1 where every work-item has a work-group of its own."""
    opencl_extensions: Names = ()
    """Extensions of OpenCL 1.2 that a device has, as OpenCL spells them; kernels are checked with each."""
    weights_as_images: bool = False
    """Whether matmul weights are read as textures, which some GPUs load faster."""
    l2_bytes: int = 0
    """Cache between the multiprocessors of a GPU and its memory."""
    memory_gbps: int = 0
    """The peak bandwidth of a GPU's memory, in 10^9 bytes a second."""
    link_gbps: int = 0
    """The bandwidth to another GPU of the same machine, in one direction, in 10^9 bytes a second."""
    link_us: int = 0
    """Microseconds of a sum over two GPUs of a few bytes, inside a CUDA graph."""


@dataclass(frozen=True)
class Board:
    """A board without an operating system: the `[board]` table of a device file."""

    flash_bytes: int = 0
    flash_origin: int = 0
    """Where flash begins in the address space, on a device without an operating system."""
    constants_bytes: int = 0
    """A second flash, for weights and other constants; 0: they lie in flash beside the code."""
    constants_origin: int = 0
    """The address of its first byte."""
    ram_origin: int = 0
    """Where the RAM of `ram_bytes` begins there; with it edgec writes a linker script and a start file."""
    clock_hz: int = 0
    """Clock of the core."""
    qemu_machine: str = ""
    """The board of qemu's system emulation that is like it."""
    platformio: str = ""
    """Platform and board in the names of PlatformIO: `raspberrypi:pico`."""


@dataclass(frozen=True)
class Toolchain:
    """Compilers and what they are told: the `[toolchain]` table of a device file."""

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
    dual_issue_load: bool = False
    """Whether such a core issues a load of half a vector together with a multiply-add (Cortex-A55), not only with an
    insert (Cortex-A53)."""
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
    page_bytes: int = 0
    """Page of the virtual memory, the alignment of weights that are mapped."""
    gpu_device: str = ""
    """The device file of the GPU next to this CPU, for `--place`."""
    gpu: Gpu = Gpu()
    board: Board = Board()
    toolchain: Toolchain = Toolchain()
    precision: Precision = "fp32"
    """fp16 and bf16 keep weights, and what kernels hand on to products, in 16 bits; a GPU's tf32 multiplies in 19. Sums
    are of floats in each, but for parts of them where `has_fp16_fma`. A build's own choice replaces it."""
    hosted: bool = True
    """Whether there is an operating system with a C library and POSIX threads."""
    link: Link = "none"
    """How edgec runs a program on it."""
    measured: Measured = ()
    """Figures taken on the device, sorted by name, with the unit in the name: `fp32_gflops`, `read_gbps`."""
    costs: Costs = field(default_factory=usual_costs, repr=False, hash=False)
    """Numbers that the cost models of kernels, tiles and threads were fitted with."""

    @property
    def groups_can_sync(self) -> bool:
        """True if the last thread block of a kernel can read what the others have written."""
        return self.language == "cuda" or self.gpu.coherent_groups

    @property
    def has_clusters(self) -> bool:
        """True if thread blocks can form a cluster, whose members read one another's shared memory."""
        return self.language == "cuda" and self.gpu.compute_capability >= 90

    @property
    def has_warp_groups(self) -> bool:
        """Do groups of four warps multiply matrices in shared memory? Instructions of this one generation alone."""
        return self.language == "cuda" and self.gpu.compute_capability == 90

    @property
    def cuda_architecture(self) -> str:
        """The name of the generation that nvcc compiles for, with its own instructions where kernels use them."""
        return f"{self.gpu.compute_capability}{'a' * self.has_warp_groups}"

    @property
    def largest_shared_bytes(self) -> int:
        """The most shared memory that one thread block can have."""
        return max(self.gpu.shared_bytes, self.gpu.group_shared_bytes)

    @property
    def has_int8_tensor_cores(self) -> bool:
        """True if it is a GPU with tensor cores for int8 that kernels use."""
        return self.language == "cuda" and self.gpu.compute_capability >= 80

    @property
    def has_dot4(self) -> bool:
        """True if a GPU without int8 tensor cores has a dot product of four int8 as one instruction."""
        if self.language == "cuda":
            return 61 <= self.gpu.compute_capability < 80
        return self.language == "opencl" and not set(DOT_EXTENSIONS).isdisjoint(self.gpu.opencl_extensions)

    @property
    def has_bf16_dot(self) -> bool:
        """True if a CPU has a dot product of two bf16 as one instruction."""
        return not self.is_gpu and (self.has("avx512bf16") or self.has("bf16"))

    @property
    def has_fp16_fma(self) -> bool:
        """True if a CPU that is to use fp16 has multiply-adds of fp16, twice as many at a time as of fp32."""
        return self.precision == "fp16" and self.arch == "aarch64" and self.has("fp16") and not self.has("sve")

    @property
    def has_board(self) -> bool:
        """True if the device file has all facts that the start file and the linker script of a board need."""
        board = self.board
        return not self.hosted and self.arch == "thumb" and min(board.flash_bytes, board.ram_origin, board.clock_hz) > 0

    @property
    def needs(self) -> str:
        """Requirements of code built for this device on the CPU that runs it, in words; empty: nothing special."""
        size = [f"vectors of {8 * self.vector_bytes} bits"] if self.has("sve") else []
        return ", ".join([*self.instruction_sets, *size])

    @property
    def has_threads(self) -> bool:
        """True if there is a thread pool for it: that of a system, or the workers of a page."""
        return self.hosted or (self.arch == "wasm32" and self.language == "c")

    @property
    def is_gpu(self) -> bool:
        """True if kernels are launched on a GPU, each with a grid of threads, rather than called."""
        return self.language != "c"

    @property
    def is_compiled_here(self) -> bool:
        """True if edgec compiles the code; a browser compiles WGSL itself."""
        return self.language != "wgsl"

    @property
    def in_words(self) -> bool:
        """True if memory is read and written in words of 32 bits alone: narrower and wider numbers take one each."""
        return self.language == "wgsl"

    def has(self, *instruction_sets: str) -> bool:
        """True if the device has every one of these instruction sets."""
        return set(instruction_sets) <= set(self.instruction_sets)

    @property
    def vector_lanes(self) -> int:
        """Lanes of 32 bits in one vector of the generated code: at least four, computed one by one without vectors."""
        return max(self.lanes(4), NARROWEST)

    @property
    def vectors_in_registers(self) -> int:
        """Vectors of `vector_lanes` that a kernel may keep in registers, at least 1."""
        return max(self.vector_registers * self.lanes(4) // self.vector_lanes, 1)

    def lanes(self, element_bytes: int) -> int:
        """Number of elements of this size in one vector register, at least 1."""
        return max(1, self.vector_bytes // element_bytes)

    def figure(self, name: str) -> float | None:
        """The measured figure `name`, None where it was never measured."""
        return dict(self.measured).get(name)

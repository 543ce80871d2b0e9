"""Compilers: which are found, how they are called, and what is said when they refuse."""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from edgec.device import toolchain
from edgec.device.device import Device, Toolchain
from edgec.device.load import list_devices, load_device
from edgec.device.toolchain import (
    Compiler,
    compile_program,
    compile_shared,
    device_flags,
    find_compilers,
    pick_compiler,
)
from edgec.errors import ToolchainError

HOST = load_device("host")
GCC = Compiler("gcc", ("gcc",), "12.2.0", "aarch64-linux-gnu")
needs_zig = pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="pip install ziglang")
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="install gcc")

SCALE_C = """
#include "factor.h"
#include <math.h>
void scale(float *restrict y, const float *restrict x, int n);
void scale(float *restrict y, const float *restrict x, int n) {
    for (int i = 0; i < n; i++) y[i] = FACTOR * sqrtf(x[i]) + OFFSET;
}
"""
WEIGHTS_S = """
.section .rodata
.globl weights
weights:
.incbin "weights.bin"
.section .note.GNU-stack,"",%progbits
"""
BEYOND_C = """
#include <stdlib.h>
int main(int count, char **words) { return words[0][0] + ((char *)calloc(1, 4))[3 + count]; }
"""
OVERFLOW_C = """
#include <stdlib.h>
int main(int count, char **words) { return count > 1 && atoi(words[1]) + 2147483647 == 0; }
"""


BESIDE_C = """
int seen[4] = {1, 2, 3, 4};
int beside(void);
int beside(void) { return seen[4]; }
"""
UNUSED_C = """
int unused(int x);
int unused(int x) { int y = x; return 0; }
"""


@pytest.fixture
def no_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing here"))
    monkeypatch.delenv("CC", raising=False)


def write_library(folder: Path) -> list[Path]:
    (folder / "include").mkdir()
    (folder / "include/factor.h").write_text("#define FACTOR 2.0f\n")
    (folder / "scale.c").write_text(SCALE_C)
    (folder / "weights.S").write_text(WEIGHTS_S)
    (folder / "weights.bin").write_bytes(bytes([7, 8, 9]))
    return [folder / "scale.c", folder / "weights.S"]


def check_library(path: Path) -> None:
    library = ctypes.CDLL(str(path))
    x, y = (ctypes.c_float * 3)(1, 4, 9), (ctypes.c_float * 3)()
    library.scale(y, x, 3)
    assert list(y) == [2.5, 4.5, 6.5]
    assert list((ctypes.c_ubyte * 3).in_dll(library, "weights")) == [7, 8, 9]


def build_library(compiler: Compiler, folder: Path) -> Path:
    sources = write_library(folder)
    output = folder / "out" / "libscale.so"
    include = [folder / "include"]
    return compile_shared(compiler, HOST, sources, output, include=include, defines=["OFFSET=0.5f"])


@pytest.mark.parametrize("compiler", find_compilers(HOST), ids=str)
def test_a_shared_library_is_built_and_loads(compiler: Compiler, tmp_path: Path) -> None:
    check_library(build_library(compiler, tmp_path))


@needs_zig
@pytest.mark.usefixtures("no_path")
def test_zig_alone_is_enough(tmp_path: Path) -> None:
    compiler = pick_compiler(HOST)
    assert (compiler.kind, compiler.target, compiler.command[0]) == ("zig", "native", sys.executable)
    check_library(build_library(compiler, tmp_path))


@pytest.mark.usefixtures("no_path")
def test_without_any_compiler_the_hint_is_one_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ToolchainError, match="no C compiler that builds for 'host'") as caught:
        pick_compiler(HOST)
    assert (caught.value.hint or "").startswith("pip install ziglang")
    with pytest.raises(ToolchainError) as caught:
        pick_compiler(load_device("cortex_m4"), "gcc")
    assert caught.value.hint == "pip install ziglang, or install arm-none-eabi-gcc"


# -- choosing --------------------------------------------------------------------------------------


@needs_gcc
def test_a_compiler_is_found_once_and_the_users_own_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", f"{shutil.which('gcc')} -pipe")
    first, *others = find_compilers(HOST)
    assert first.command[1:] == ("-pipe",)
    assert (first.kind, first.version) not in [(other.kind, other.version) for other in others]


@needs_gcc
def test_a_command_may_be_named() -> None:
    assert pick_compiler(HOST, "gcc -pipe").command[1:] == ("-pipe",)
    with pytest.raises(ToolchainError, match="does not build for 'cortex_m4'"):
        pick_compiler(load_device("cortex_m4"), "gcc -pipe")


@pytest.mark.parametrize("wanted", ["no-such-compiler", "true", ""])
def test_a_command_that_is_no_compiler_is_refused(wanted: str) -> None:
    with pytest.raises(ToolchainError, match="is not a C compiler") as caught:
        pick_compiler(HOST, wanted)
    assert caught.value.hint is not None


@pytest.mark.parametrize(
    ("device", "target", "fits"),
    [
        ("raspberry_pi_5", "aarch64-linux-gnu", True),
        ("raspberry_pi_5", "aarch64-redhat-linux", True),
        ("raspberry_pi_5", "arm64-apple-darwin23.1.0", False),
        ("raspberry_pi_5", "aarch64-none-elf", False),
        ("cortex_m4", "arm-none-eabi", True),
        ("cortex_m4", "arm-linux-gnueabihf", False),
        ("x86_64_avx2", "x86_64-linux-gnu", True),
        ("x86_64_avx2", "i686-linux-gnu", False),
    ],
)
def test_a_compiler_fits_by_processor_and_system(device: str, target: str, fits: bool) -> None:
    assert toolchain._builds_for(Compiler("gcc", ("x",), "1.0", target), load_device(device)) is fits


# -- flags -----------------------------------------------------------------------------------------


def test_gcc_takes_the_flags_as_they_are() -> None:
    device = load_device("raspberry_pi_5")
    assert device_flags(GCC, device) == device.toolchain.cflags


def test_zig_is_told_the_processor_in_its_own_words() -> None:
    zig = Compiler("zig", ("zig", "cc"), "0.17.0", "thumb-freestanding-eabihf")
    expected = ("-target", "thumb-freestanding-eabihf", "-mcpu=cortex_m4+vfp4d16sp")
    assert device_flags(zig, load_device("cortex_m4")) == expected


def test_tuning_that_a_compiler_refuses_is_dropped_and_nothing_else() -> None:
    compiler = pick_compiler(HOST)
    odd = Toolchain(cflags=("-mtune=no-such-cpu", "-O2"))
    device = Device(name="odd", description="", arch=HOST.arch, toolchain=odd)
    assert device_flags(compiler, device) == ("-O2",)


@needs_zig
@pytest.mark.parametrize("device", list_devices(), ids=lambda device: device.name)
def test_zig_knows_every_shipped_processor(device: Device, tmp_path: Path) -> None:
    if gcc := {"esp32s3": "xtensa-esp32s3-elf-gcc", "android_arm32": "arm-linux-gnueabi-gcc"}.get(device.name):
        with pytest.raises(ToolchainError, match=f"no zig that builds for '{device.name}'") as caught:
            pick_compiler(device, "zig")
        assert caught.value.hint == f"install {gcc}"
        return
    source = tmp_path / "vectors.c"
    source.write_text(
        "typedef float v __attribute__((vector_size(16)));\nfloat first(const v *x);\n"
        "float first(const v *x) { const v y = *x * *x + *x; return y[0] + y[3]; }\n"
    )
    zig = pick_compiler(device, "zig")
    toolchain.compile_objects(zig, device, [source], tmp_path)


# -- programs and errors ---------------------------------------------------------------------------


def run(program: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *words], capture_output=True, text=True, check=False)


def test_a_sanitized_program_stops_at_undefined_behavior(tmp_path: Path) -> None:
    source = tmp_path / "overflow.c"
    source.write_text(OVERFLOW_C)
    compiler = pick_compiler(HOST)
    plain = compile_program(compiler, HOST, [source], tmp_path / "plain")
    checked = compile_program(compiler, HOST, [source], tmp_path / "checked", sanitize=["undefined"])
    assert run(plain, "1").returncode == 0
    assert run(checked).returncode == 0
    failed = run(checked, "1")
    assert failed.returncode != 0 and "overflow" in failed.stderr


@needs_gcc
def test_the_address_sanitizer_sees_a_read_beyond_the_end(tmp_path: Path) -> None:
    source = tmp_path / "beyond.c"
    source.write_text(BEYOND_C)
    gcc = pick_compiler(HOST, "gcc")
    program = compile_program(gcc, HOST, [source], tmp_path / "beyond", sanitize=["address"])
    assert "heap-buffer-overflow" in run(program).stderr


def test_zig_says_that_it_has_no_address_sanitizer(tmp_path: Path) -> None:
    zig = Compiler("zig", ("zig", "cc"), "0.17.0", "native")
    with pytest.raises(ToolchainError, match="zig has no address sanitizer"):
        compile_program(zig, HOST, [], tmp_path / "x", sanitize=["address", "undefined"])


@pytest.mark.parametrize("compiler", find_compilers(HOST), ids=str)
def test_an_error_names_the_source_and_quotes_the_compiler(compiler: Compiler, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.c", tmp_path / "bad.c"
    good.write_text("int good(void);\nint good(void) { return 1; }\n")
    bad.write_text("int bad(void) { return missing; }\n")
    with pytest.raises(ToolchainError, match=r"bad\.c:1:.* error: .*missing") as caught:
        compile_shared(compiler, HOST, [good, bad, good], tmp_path / "x.so")
    assert caught.value.where == str(bad)


@pytest.mark.skipif(sys.platform != "linux", reason="other linkers find it by themselves")
@pytest.mark.parametrize("compiler", find_compilers(HOST), ids=str)
def test_a_missing_symbol_is_an_error_when_linking(compiler: Compiler, tmp_path: Path) -> None:
    source = tmp_path / "calls.c"
    source.write_text("int absent(void); int calls(void); int calls(void) { return absent(); }\n")
    with pytest.raises(ToolchainError, match="absent"):
        compile_shared(compiler, HOST, [source], tmp_path / "x.so")


def test_progress_comes_in_the_order_of_the_sources(tmp_path: Path) -> None:
    sources = [tmp_path / f"f{number}.c" for number in range(3)]
    for source in sources:
        source.write_text(f"int {source.stem}(void); int {source.stem}(void) {{ return 1; }}\n")
    told: list[tuple[Path, int, int]] = []
    compiler = pick_compiler(HOST)
    compile_shared(compiler, HOST, sources, tmp_path / "x.so", progress=lambda *news: told.append(news))
    assert told == [(source, number, 3) for number, source in enumerate(sources, start=1)]


def test_the_same_sources_give_the_same_bytes(tmp_path: Path) -> None:
    compiler = pick_compiler(HOST)
    sources = write_library(tmp_path)
    flags = ["-DOFFSET=0.5f"]
    first, again = (
        compile_shared(
            compiler,
            HOST,
            sources,
            tmp_path / "x.so",
            include=[tmp_path / "include"],
            extra_flags=flags,
            jobs=jobs,
        ).read_bytes()
        for jobs in (2, 1)
    )
    assert first == again


def test_bare_metal_has_no_shared_libraries(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="'cortex_m4' has no shared libraries"):
        compile_shared(GCC, load_device("cortex_m4"), [], tmp_path / "x.so")


@needs_gcc
@pytest.mark.parametrize(
    ("region", "helps"), [("FLASH", "--quantize int8"), ("WEIGHTS", "--quantize"), ("RAM", "--ram")]
)
def test_a_program_that_memory_does_not_hold_is_refused_with_what_it_lacks(
    region: str, helps: str, tmp_path: Path
) -> None:
    """The hint is about the memory that lacks, and no other."""
    script, source = tmp_path / "small.ld", tmp_path / "main.c"
    script.write_text(
        f"MEMORY {{ {region} (rx) : ORIGIN = 0, LENGTH = 4 }}\nSECTIONS {{ .text : {{ *(.text*) }} > {region} }}\n"
    )
    source.write_text('int table[1000] __attribute__((section(".text.table"))) = {1};\nint main(void) { return 0; }\n')
    flags = ["-nostdlib", "-static", f"-Wl,-T,{script}"]
    with pytest.raises(
        ToolchainError, match=rf"does not fit into the device: it takes 4,\d+ more bytes of {region}"
    ) as e:
        compile_program(pick_compiler(HOST, "gcc"), HOST, [source], tmp_path / "program", extra_flags=flags)
    assert e.value.hint is not None and e.value.hint.startswith(helps)
    assert ("--ram" in e.value.hint) == (region == "RAM") != ("--quantize" in e.value.hint)


@needs_gcc
@pytest.mark.parametrize(("code", "ends"), [(BESIDE_C, False), (UNUSED_C, True)], ids=["guess", "fault"])
def test_guesses_of_an_optimizer_end_no_build(tmp_path: Path, code: str, ends: bool) -> None:
    """What gcc 13 says of loops that gcc 12 says nothing of is no reason to refuse a network; a fault of emitted code
    is."""
    (tmp_path / "one.c").write_text(code)
    gcc = next(c for c in find_compilers(HOST) if c.kind == "gcc")
    strict = subprocess.run(
        [*gcc.command, "-O3", *toolchain.WARNING_FLAGS, "-c", str(tmp_path / "one.c"), "-o", str(tmp_path / "one.o")],
        capture_output=True,
    )
    assert strict.returncode != 0
    sources = [tmp_path / "one.c"]
    try:
        compile_shared(gcc, HOST, sources, tmp_path / "one.so")
    except ToolchainError:
        assert ends
    else:
        assert not ends

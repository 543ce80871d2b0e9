"""Packages for the tools of boards: their sources run in emulators, under stand-ins of what the tools bring."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
import zipfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from needed import need
from onnx import TensorProto
from onnx.numpy_helper import from_array
from small_models import model, node, tensor_input
from test_boards import DIGITS, need_board

import edgec
from edgec.device.load import load_device
from edgec.emit.apps import APPS
from edgec.errors import UsageError

SCHEMA = Path(__file__).resolve().parents[3] / "shared" / "reference" / "PACK.xsd"
FLAGS = ("-O2", "-Wall", "-Wextra", "-Werror")
BOARD = "mps2_an386"
#: What a sketch finds on a board: a serial line that is the emulator's output, and one round of the loop.
ARDUINO = """
#include <stdint.h>
#include <stddef.h>
extern "C" int printf(const char *, ...);
struct Line {
  void begin(long) {}
  explicit operator bool() const { return true; }
  void print(const char *s) { printf("%s", s); }
  void print(long n) { printf("%ld", n); }
  void print(unsigned long n) { printf("%lu", n); }
  void println(const char *s) { printf("%s\\n", s); }
  void println(int n) { printf("%d\\n", n); }
};
static Line Serial;
static unsigned long millis() { return 0; }
static unsigned long micros() { return 0; }
static void delay(unsigned long) {}
void setup();
void loop();
int main() { setup(); loop(); }
"""
IDF = {
    "tools/cmake/project.cmake": """
function(idf_component_register)
  cmake_parse_arguments(GIVEN "" "" "SRCS;INCLUDE_DIRS;REQUIRES" ${ARGN})
  get_filename_component(name ${CMAKE_CURRENT_LIST_DIR} NAME)
  add_library(${name} STATIC ${GIVEN_SRCS})
  target_include_directories(${name} PUBLIC ${GIVEN_INCLUDE_DIRS})
  target_link_libraries(${name} PUBLIC ${GIVEN_REQUIRES})
  set(COMPONENT_LIB ${name} PARENT_SCOPE)
endfunction()
macro(project name)
  _project(${name} C)
  add_library(esp_timer INTERFACE)
  target_include_directories(esp_timer INTERFACE $ENV{IDF_PATH})
  file(GLOB components ${CMAKE_CURRENT_LIST_DIR}/components/*)
  foreach(component ${components} ${CMAKE_CURRENT_LIST_DIR}/main)
    add_subdirectory(${component})
  endforeach()
  add_executable(${name} $ENV{IDF_PATH}/start.c)
  target_link_libraries(${name} main m)
endmacro()
""",
    "esp_timer.h": "#include <stdint.h>\nstatic inline int64_t esp_timer_get_time(void) { return 0; }\n",
    "start.c": "void app_main(void);\nint main(void) { app_main(); }\n",
}
ZEPHYR = {
    "ZephyrConfig.cmake": """
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
project(Kernel C)
file(STRINGS ${CMAKE_CURRENT_SOURCE_DIR}/prj.conf settings REGEX "^CONFIG_")
foreach(setting ${settings})
  string(REPLACE "=" ";" setting ${setting})
  list(GET setting 0 option)
  list(GET setting 1 ${option})
endforeach()
macro(zephyr_library_named name)
  set(ZEPHYR_CURRENT_LIBRARY ${name})
  add_library(${name} STATIC)
  target_link_libraries(app PRIVATE ${name})
endmacro()
macro(zephyr_library_sources)
  target_sources(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${ARGN})
endmacro()
macro(zephyr_library_compile_options)
  target_compile_options(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${ARGN})
endmacro()
macro(zephyr_include_directories)
  target_include_directories(app PRIVATE ${ARGN})
endmacro()
add_executable(app $ENV{ZEPHYR_BASE}/board.c)
target_include_directories(app PRIVATE $ENV{ZEPHYR_BASE})
foreach(module ${ZEPHYR_EXTRA_MODULES})
  file(STRINGS ${module}/zephyr/module.yml where REGEX "^  cmake: ")
  string(REPLACE "  cmake: " "" where ${where})
  add_subdirectory(${module}/${where} ${CMAKE_BINARY_DIR}/module)
endforeach()
target_link_libraries(app PRIVATE m)
""",
    "zephyr/kernel.h": """
#include <stdint.h>
static inline uint32_t k_cycle_get_32(void) { return 0; }
static inline uint32_t k_cyc_to_us_floor32(uint32_t cycles) { return cycles; }
""",
}


def built(folder: Path, device: str, *apps: str) -> Path:
    out = folder / "net"
    edgec.build(DIGITS / "digits.onnx", out, name="digits", device=device, extras=apps, compile=False)
    return out


def written(folder: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def call(*words: str | Path, **environment: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, **environment})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def image(sources: Iterable[Path], headers: Iterable[Path], build: Path, output: Path) -> Path:
    """An image of the emulated board: C by gcc, and what is C++ as such, with the start file of the build."""
    objects = []
    for number, source in enumerate([*sources, build / "ec_board.c"]):
        objects.append(output.with_name(f"{output.name}-{number}.o"))
        kind = ["-x", "c++", "-std=gnu++17"] if source.suffix in (".ino", ".cpp") else ["-std=gnu11"]
        shown = [word for folder in headers for word in ("-I", folder)]
        flags = load_device(BOARD).toolchain.cflags
        call("arm-none-eabi-gcc", *flags, *FLAGS, *kind, *shown, "-I", build, "-c", source, "-o", objects[-1])
    call("arm-none-eabi-gcc", *linked(build), *objects, "-lm", "-o", output)
    return output


def linked(build: Path) -> list[str]:
    flags = load_device(BOARD).toolchain.cflags
    stack = "-Wl,--defsym=stack_bytes=16384"
    return [*flags, "-nostartfiles", "--specs=rdimon.specs", stack, f"-Wl,-T,{build / 'digits.ld'}"]


def emulated(program: Path) -> str:
    machine = load_device(BOARD).board.qemu_machine
    options = ["-nographic", "-monitor", "none", "-serial", "none", "-semihosting-config", "enable=on,target=native"]
    return call("qemu-system-arm", "-M", machine, *options, "-kernel", program)


def answered(text: str) -> None:
    """The example tells what onnxruntime answers on the same numbers."""
    import onnxruntime

    state, drawn = 1, []
    session = onnxruntime.InferenceSession(DIGITS / "digits.onnx", providers=["CPUExecutionProvider"])
    (port,) = session.get_inputs()
    shape = [1, 1, 8, 8]
    for _ in range(int(np.prod(shape))):
        state = (state * 1664525 + 1013904223) % 2**32
        drawn.append((state >> 8) / 16777216)
    (scores,) = session.run(None, {port.name: np.array(drawn, np.float32).reshape(shape)})
    told = re.search(r"element (\d+) is (\d+) thousandths", text)
    assert told is not None, text
    assert int(told[1]) == int(scores.argmax()) and abs(int(told[2]) - 1000 * float(scores.max())) <= 1, text


def test_a_sketch_runs(tmp_path: Path) -> None:
    need_board()
    out = built(tmp_path, BOARD, "arduino", "platformio")
    library, headers = out / "arduino" / "digits", written(tmp_path / "core", {"Arduino.h": ARDUINO})
    (sketch,) = library.glob("examples/*/*.ino")
    assert sketch.stem == sketch.parent.name, "the folder of a sketch has its name"
    sources = [sketch, *library.glob("src/*.c")]
    answered(emulated(image(sources, [headers, library / "src"], out, tmp_path / "a.elf")))
    told = dict(line.split("=", 1) for line in (library / "library.properties").read_text().splitlines()[1:])
    assert {"name", "version", "author", "maintainer", "sentence", "paragraph", "category", "url"} <= set(told)
    assert (library / "src" / told["includes"]).is_file() and "avr" not in told["architectures"].split(",")
    with zipfile.ZipFile(out / "arduino" / "digits.zip") as archive:
        inside = {f"digits/{path.relative_to(library)}" for path in library.rglob("*") if path.is_file()}
        assert set(archive.namelist()) == inside
        assert archive.read("digits/src/digits.c") == (out / "digits.c").read_bytes()
    project = out / "platformio"
    manifest = json.loads((project / "lib" / "digits" / "library.json").read_text())
    assert (project / "lib" / "digits" / "src" / manifest["headers"]).is_file()
    sources = [project / "src" / "main.cpp", *project.glob("lib/digits/src/*.c")]
    answered(emulated(image(sources, [headers, project / "lib" / "digits" / "src"], out, tmp_path / "p.elf")))


def test_manifests_as_platformio_reads_them(tmp_path: Path) -> None:
    parser = pytest.importorskip("platformio.package.manifest.parser", reason="pip install platformio")
    from platformio.package.manifest.schema import ManifestSchema

    out = built(tmp_path, "nrf52840", "arduino", "platformio")
    for path in ("arduino/digits/library.properties", "platformio/lib/digits/library.json"):
        read = parser.ManifestParserFactory.new_from_file(str(out / path)).as_dict()
        assert ManifestSchema().load_manifest(read)["version"] == "1.0.0"
    assert "board = nrf52840_dk" in (out / "platformio" / "platformio.ini").read_text()


def test_a_component_runs(tmp_path: Path) -> None:
    """The project of ESP-IDF for 32-bit RISC-V, with doubles, which the chip lacks and Linux's C library needs."""
    cmake, qemu = need("cmake", "cmake"), need("qemu-riscv32", "qemu-user")
    pytest.importorskip("ziglang")
    out = built(tmp_path, "esp32p4", "esp-idf")
    compiler = tmp_path / "cc"
    target = "-target riscv32-linux-musl -mcpu=generic_rv32+m+a+f+d+c -static -fno-sanitize=undefined"
    compiler.write_text(f'#!/bin/sh\nexec {sys.executable} -m ziglang cc {target} "$@"\n')
    compiler.chmod(0o755)
    kit = written(tmp_path / "idf", IDF)
    given = [f"-DCMAKE_C_COMPILER={compiler}", "-DCMAKE_SYSTEM_NAME=Linux", f"-DCMAKE_C_FLAGS={' '.join(FLAGS)}"]
    given += [
        "-DCMAKE_AR=/bin/false",
        f"-DCMAKE_C_CREATE_STATIC_LIBRARY={sys.executable} -m ziglang ar rcs <TARGET> <OBJECTS>",
    ]
    call(cmake, "-S", out / "esp-idf", "-B", tmp_path / "build", *given, IDF_PATH=str(kit))
    call(cmake, "--build", tmp_path / "build", IDF_PATH=str(kit))
    answered(call(qemu, tmp_path / "build" / "digits_run"))
    assert 'CONFIG_IDF_TARGET="esp32p4"' in (out / "esp-idf" / "sdkconfig.defaults").read_text()


def test_manifest_as_the_component_manager_reads_it(tmp_path: Path) -> None:
    manager = pytest.importorskip("idf_component_tools.manager", reason="pip install idf-component-manager")
    out = built(tmp_path, "esp32s3", "esp-idf")
    read = manager.ManifestManager(str(out / "esp-idf" / "components" / "digits"), "digits").load()
    assert read.targets == ["esp32s3"] and str(read.version) == "1.0.0"


def test_xtensa(tmp_path: Path) -> None:
    """Every source, by the gcc of another Xtensa core: that of the chip is not packaged by distributions."""
    need_board()  # whose C library has headers for any core
    gcc = need("xtensa-lx106-elf-gcc", "gcc-xtensa-lx106")
    out = built(tmp_path, "esp32s3", "esp-idf", "arduino", "platformio", "zephyr")
    flags = [*load_device("esp32s3").toolchain.cflags, *FLAGS, "-std=gnu11", "-isystem", "/usr/include/newlib"]
    for source in out.glob("esp-idf/components/digits/src/*.c"):
        call(gcc, *flags, "-c", source, "-o", tmp_path / "x.o")
    assert "architectures=esp32" in (out / "arduino" / "digits" / "library.properties").read_text()


def test_a_module_runs(tmp_path: Path) -> None:
    cmake = need("cmake", "cmake")
    need_board()
    out = built(tmp_path, BOARD, "zephyr")
    kit = written(tmp_path / "zephyr", {**ZEPHYR, "board.c": (out / "ec_board.c").read_text()})
    flags = " ".join((*load_device(BOARD).toolchain.cflags, *FLAGS, f"-I{out}"))
    given = ["-DCMAKE_SYSTEM_NAME=Generic", "-DCMAKE_C_COMPILER=arm-none-eabi-gcc", f"-DCMAKE_C_FLAGS={flags}"]
    given += [f"-DCMAKE_EXE_LINKER_FLAGS={' '.join(linked(out))}"]
    module = out / "zephyr" / "digits"
    call(cmake, "-S", module / "samples" / "run", "-B", tmp_path / "build", *given, ZEPHYR_BASE=str(kit))
    call(cmake, "--build", tmp_path / "build", ZEPHYR_BASE=str(kit))
    answered(emulated(tmp_path / "build" / "app"))
    (option,) = re.findall(r"^config (\w+)", (module / "zephyr" / "Kconfig").read_text(), re.MULTILINE)
    assert f"CONFIG_{option}=y" in (module / "samples" / "run" / "prj.conf").read_text()


def test_a_package_has_the_headers_of_its_bindings(tmp_path: Path) -> None:
    out = built(tmp_path, "nrf52840", "arduino", "cpp")
    headers = {path.name for path in out.glob("arduino/digits/src/*.h*")}
    assert headers == {path.name for path in out.glob("*.h*")} - {"ec_board.h"} and "digits.hpp" in headers


@pytest.mark.parametrize(
    ("device", "core"), [(BOARD, "Cortex-M4"), ("rp2040", "Cortex-M0+"), ("cortex_m55", "Cortex-M55")]
)
def test_a_pack_holds_what_it_lists(device: str, core: str, tmp_path: Path) -> None:
    out = built(tmp_path, device, "cmsis-pack")
    listed = ElementTree.fromstring((out / "cmsis-pack" / "edgec.digits.pdsc").read_bytes())
    names = {file.attrib["name"] for file in listed.iter("file")}
    assert [r.attrib["Dcore"] for r in listed.iter("require")] == [core]
    with zipfile.ZipFile(out / "cmsis-pack" / "edgec.digits.1.0.0.pack") as pack:
        assert names < set(pack.namelist()) and "edgec.digits.pdsc" in pack.namelist()
        pack.extractall(tmp_path / "pack")
    if device == BOARD:
        need_board()
        sources = [tmp_path / "pack" / name for name in names if name.endswith(".c")]
        answered(emulated(image(sources, [tmp_path / "pack" / "src"], out, tmp_path / "c.elf")))


def test_a_pack_fits_its_schema(tmp_path: Path) -> None:
    schema = pytest.importorskip("xmlschema", reason="pip install xmlschema")
    if not SCHEMA.is_file():
        pytest.skip("the schema of packs (Open-CMSIS-Pack, PACK.xsd) is not beside the project")
    out = built(tmp_path, BOARD, "cmsis-pack")
    schema.XMLSchema(str(SCHEMA)).validate(str(out / "cmsis-pack" / "edgec.digits.pdsc"))


def test_examples_of_any_network(tmp_path: Path) -> None:
    """Two inputs, one of integers, and an open size, which is the greatest one in examples."""
    need_board()
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    nodes = [node("Gather", ["table", "which"], ["rows"], axis=0), node("Add", ["rows", "x"], ["y"])]
    inputs = [tensor_input("which", ("n",), TensorProto.INT64), tensor_input("x", ("n", 3))]
    net = model(nodes, inputs, ["y"], [from_array(table, "table")])
    out = tmp_path / "net"
    edgec.build(net, out, name="digits", device=BOARD, dims={"n": (1, 5)}, extras=["cmsis-pack"], compile=False)
    package = out / "cmsis-pack"
    sources = [package / "example.c", *package.glob("src/*.c")]
    told = emulated(image(sources, [package / "src"], out, tmp_path / "c.elf"))
    state, drawn = 1, []
    for _ in range(5 + 15):
        state = (state * 1664525 + 1013904223) % 2**32
        drawn.append(state)
    which = [(s >> 24) & 1 for s in drawn[:5]]
    y = table[which] + np.array([(s >> 8) / 16777216 for s in drawn[5:]]).reshape(5, 3)
    assert told.startswith(f"element {int(y.argmax())} is {int(1000 * np.float32(y.max()))} thousandths"), told


def test_what_has_no_package_is_refused(tmp_path: Path) -> None:
    for app in ("arduino", "platformio", "zephyr", "esp-idf", "cmsis-pack"):
        for device in ("host", "arm64", "wasm32", *(["mps2_an386"] if app == "esp-idf" else [])):
            with pytest.raises(UsageError, match="is not for"):
                edgec.build(DIGITS / "digits.onnx", tmp_path / "net", device=device, app=app, compile=False)
        assert APPS[app].package
    for app, device, name in (("esp-idf", "esp32p4", "heap"), ("zephyr", "nrf52840", "kernel")):
        with pytest.raises(UsageError, match=f"'{name}' cannot be a name in {app}"):
            edgec.build(DIGITS / "digits.onnx", tmp_path / "net", device=device, app=app, name=name, compile=False)
    with pytest.raises(UsageError, match="weights that are linked"):
        edgec.build(DIGITS / "digits.onnx", tmp_path / "net", device=BOARD, app="arduino", weights="file")
    assert not (tmp_path / "net").exists()

"""Kernels for every OpenCL device that has a file are OpenCL C 1.2 with the extensions of that file, and no others."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from handed_on import handed_on
from kernel_cases import cases
from opencl_networks import driver, joined, refused

from edgec.device.device import Device
from edgec.device.load import list_devices, load_device
from edgec.emit.project import files
from edgec.fuse import plan
from edgec.schedule.build import schedule
from edgec.schedule.gpu.attention import largest_head

DEVICES = [d.name for d in list_devices() if d.language == "opencl"]
#: Whatever a device file names: kernels ask for these by macros.
NAMED = sorted({e for name in DEVICES for e in load_device(name).gpu.opencl_extensions})
CLANG = ("-x", "cl", "--target=spir64", "-Xclang", "-finclude-default-header")
#: Extensions whose names the compiler does not know: the macro that drivers define, and what else is taken for granted.
UNKNOWN = {
    "cl_arm_integer_dot_product_int8": ("-Dcl_arm_integer_dot_product_int8=1", "-Wno-ignored-pragmas"),
    "cl_nv_pragma_unroll": ("-Dcl_nv_pragma_unroll=1", "-fgnu-keywords"),  # asm
}
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Wno-unused-variable", "-Wno-unused-function", "-Wno-unused-parameter")
GROUPS = ("contractions", "convolutions", "functions", "maps", "rows", "windows")
EACH = 2  # cases of a group
#: Extensions with functions and types that the compiler knows.
KNOWN = frozenset(
    {
        "cl_khr_fp16", "cl_khr_fp64", "cl_khr_subgroups", "cl_intel_subgroups", "cl_khr_image2d_from_buffer",
        "cl_khr_integer_dot_product",
    }
)  # fmt: skip
DOTS = "__opencl_c_integer_dot_product_input_4x8bit_packed"  # the feature of OpenCL C 3.0 with those functions


def clang() -> str | None:
    """A clang with the headers of OpenCL C; PoCL comes with one."""
    driver()
    return next((path for n in (19, 18, 17, 16, 15, 14) if (path := shutil.which(f"clang-{n}"))), None)


def told(
    compiler: str, folder: Path, device: Device, extensions: tuple[str, ...], action: str = "-fsyntax-only"
) -> str:
    """The compiler's messages on kernels for ``device`` with these extensions."""
    groups = cases()
    some = {f"{g}_{c}": graph for g in GROUPS for c, graph in list(groups[g].items())[:EACH]}
    some |= handed_on()
    some["bytes"] = groups["byte_convolutions"]["byte conv chain"]
    some["long"] = groups["comparisons"]["constant comparisons u64"]
    graph = joined({case: graph for case, graph in some.items() if refused(graph, device) is None})
    assert len(graph.outputs) > EACH
    written = files(schedule(plan(graph, gpu=True, head=largest_head(device)), device), device, "net")
    kernels = b"".join(text for name, text in written.items() if re.fullmatch(r"net_kernels_\d+\.cl", name))
    others = "".join(f"#undef {e}\n" for e in NAMED if e not in extensions)  # headers define some for every target
    text = written["ec_opencl.h"] + written["ec_scalar.h"] + kernels
    (folder / "net.cl").write_bytes(others.encode() + text)
    assert (b"-DEC_DOTS" in written["net.c"]) == device.has_dot4
    assert re.search(rb"\d(ll|ull)\b", kernels, re.IGNORECASE) is None  # of 128 bits
    # Doubles are of the model, not of the device: the host asks for them when the network is opened.
    own = [e for e in extensions if e in KNOWN] + ["cl_khr_fp64", "__opencl_c_fp64"] * (b"double" in kernels)
    own += ["__opencl_c_images"] * device.gpu.weights_as_images  # of the core until 3.0
    own += [DOTS] * ("cl_khr_integer_dot_product" in own)
    only = ",".join(["-all", *(f"+{e}" for e in own)])
    options = re.search(rb'_build\[\] = "(.*)"', written["net.c"])
    assert options is not None
    more = [option for e in extensions for option in UNKNOWN.get(e, ())]
    command = [compiler, *CLANG, *options[1].decode().split(), *WARNINGS, *more, "-Xclang", f"-cl-ext={only}", "net.cl"]
    done = subprocess.run([*command, action], cwd=folder, capture_output=True, text=True, check=False)
    return done.stderr + done.stdout


@pytest.fixture(name="compiler")
def found_compiler() -> str:
    found = clang()
    if found is None:
        pytest.skip("no clang for OpenCL C here: apt-get install clang")
    return found


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("kind", DEVICES)
def test_kernels_are_opencl_c(kind: str, precision: str, compiler: str, tmp_path: Path) -> None:
    device = replace(load_device(kind), precision=precision)
    assert told(compiler, tmp_path, device, device.gpu.opencl_extensions) == ""


@pytest.mark.parametrize("kind", DEVICES)
def test_bytes_are_multiplied_as_the_file_says(kind: str, compiler: str, tmp_path: Path) -> None:
    device = load_device(kind)
    words = {
        "cl_khr_integer_dot_product": "dot_4x8packed_su_int(a", "cl_arm_integer_dot_product_int8": "arm_dot(__builtin",
        "cl_nv_pragma_unroll": "dp4a.",
    }  # fmt: skip
    left = told(compiler, tmp_path, device, device.gpu.opencl_extensions, "-E")
    assert [w for w in words.values() if w in left] == [
        w for e, w in words.items() if e in device.gpu.opencl_extensions
    ]


def test_an_extension_that_is_not_there_is_noticed(compiler: str, tmp_path: Path) -> None:
    device = replace(load_device("adreno_740"), precision="fp16")
    assert "half" in told(compiler, tmp_path, device, ())

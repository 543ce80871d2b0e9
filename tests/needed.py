"""Programs that tests need and that may have to be installed."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from functools import cache

import pytest

from edgec.device.opencl import extensions, has_opencl


@cache
def _installable(package: str) -> bool:
    """Install a package of the distribution, where that is possible without asking anybody."""
    if shutil.which("apt-get") is None:
        return False
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", package]
    for _ in range(2):
        if subprocess.run(command, capture_output=True, check=False, timeout=600).returncode == 0:
            return True
        subprocess.run(["apt-get", "update", "-qq"], capture_output=True, check=False, timeout=600)
    return False


def _is_there(package: str) -> bool:
    """True for a package of the distribution that is installed, and where none can be asked for."""
    if shutil.which("dpkg-query") is None:
        return True
    asked = ["dpkg-query", "--show", "--showformat=${Status}", package]
    return "install ok installed" in subprocess.run(asked, capture_output=True, text=True, check=False).stdout


def need(program: str, *packages: str) -> str:
    """The path of a program, installed now where it is missing; skips with the command to install it otherwise.

    A cross compiler may be there without the library of its system, which is installed, too.
    """
    if shutil.which(program) is None:
        all(_installable(package) for package in packages)
    for package in packages:
        if package.startswith("lib") and not _is_there(package):
            _installable(package)
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"{program} is missing and cannot be installed here: apt install {' '.join(packages)}")
    return path


def driver() -> bool:
    """True if there is an OpenCL device; PoCL is installed now if there is none and that is possible."""
    if not has_opencl():
        _installable("pocl-opencl-icd")
        _installable("ocl-icd-libopencl1")
        extensions.cache_clear()
    return has_opencl()


def need_opencl() -> None:
    """Skip where there is no OpenCL device."""
    if not driver():
        pytest.skip("no OpenCL here: apt-get install pocl-opencl-icd ocl-icd-libopencl1")


def fuzzer() -> None:
    """Clang with the library of its fuzzer, installed now where it is missing; skips with the command otherwise."""
    clang = need("clang", "clang")
    if not _fuzzes(clang):
        told = subprocess.run([clang, "-dumpversion"], capture_output=True, text=True, check=False).stdout
        package = f"libclang-rt-{told.partition('.')[0]}-dev"
        if not _installable(package) or not _fuzzes(clang):
            pytest.skip(f"clang's fuzzer is missing and cannot be installed here: apt install {package}")


def _fuzzes(clang: str) -> bool:
    source = "int LLVMFuzzerTestOneInput(const char *data, unsigned long size) { return (int)size * 0 * !data; }\n"
    with tempfile.TemporaryDirectory() as folder:
        command = [clang, "-fsanitize=fuzzer,address,undefined", "-x", "c", "-", "-o", f"{folder}/fuzzer"]
        return subprocess.run(command, input=source, text=True, capture_output=True, check=False).returncode == 0

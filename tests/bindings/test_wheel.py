"""Wheels of a build: one for this machine runs, those for other systems hold libraries of their kind."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
import re
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from chance import SEED
from needed import need

import edgec
from edgec.artifact.folder import read_lock
from edgec.artifact.wheel import SYSTEMS, _device, _less_needy, _system, wheel
from edgec.cli.main import main
from edgec.device.compilers import runs_here
from edgec.device.load import load_device
from edgec.device.probe import host_arch
from edgec.errors import UsageError
from edgec.resources import data_folder

pytest.importorskip("ziglang")

DIGITS = data_folder("apps") / "digits"
#: How libraries begin, and what their processors are called there.
ELF, MACH, PE = b"\x7fELF", b"\xcf\xfa\xed\xfe", b"MZ"
CASES = [
    ("arm64", "manylinux", "manylinux_2_17_aarch64", ELF + bytes([2])),
    ("arm32", "manylinux", "manylinux_2_17_armv7l", ELF + bytes([1])),
    ("android_arm32", "musllinux_armv7", "musllinux_1_1_armv7l", ELF + bytes([1])),
    ("riscv64", "manylinux_riscv64", "manylinux_2_27_riscv64", ELF + bytes([2])),
    ("arm64", "musl", "musllinux_1_1_aarch64", ELF + bytes([2])),
    ("arm64", "macos", "macosx_11_0_arm64", MACH),
    ("x86_64_avx2", "windows", "win_amd64", PE),
]


def built(folder: Path, device: str, **more: object) -> Path:
    edgec.build(DIGITS / "digits.onnx", folder / "net", name="digits", device=device, compile=False, **more)
    return folder / "net"


def members(file: Path) -> dict[str, bytes]:
    """The files of a wheel, every one of which its record lists with its digest and size."""
    with zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None
        content = {name: archive.read(name) for name in archive.namelist()}
    (record,) = (name for name in content if name.endswith("/RECORD"))
    rows = {row[0]: row[1:] for row in csv.reader(content[record].decode().splitlines())}
    assert set(rows) == set(content) and rows[record] == ["", ""]
    for name, (digest, size) in rows.items():
        if name != record:
            found = base64.urlsafe_b64encode(hashlib.sha256(content[name]).digest()).rstrip(b"=").decode()
            assert (digest, int(size)) == (f"sha256={found}", len(content[name]))
    return content


def test_a_wheel_is_installed_and_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By pip, without an index, in a folder of its own; the answers are onnxruntime's."""
    import onnxruntime

    out = built(tmp_path, "generic")
    with pytest.raises(SystemExit) as ended:
        main(["wheel", str(out), "--json"])
    assert not ended.value.code
    said = json.loads(capsys.readouterr().out)
    assert said["tag"] == f"py3-none-manylinux_2_17_{host_arch()}" and said["needs"] == said["hint"] == ""
    content = members(Path(said["file"]))
    assert content["digits/digits_weights.bin"][:64] not in content["digits/libdigits.so"], "weights twice"
    site = tmp_path / "site"
    installs = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target", site, said["file"]]
    subprocess.run(installs, check=True)
    x = np.random.default_rng(SEED).standard_normal((1, 1, 8, 8)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    program = "import digits, numpy; numpy.save('y.npy', digits.Net()(numpy.load('x.npy')))"
    subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(site)!r}); {program}"], cwd=tmp_path, check=True
    )
    session = onnxruntime.InferenceSession(DIGITS / "digits.onnx", providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {session.get_inputs()[0].name: x})
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected, atol=1e-5)
    with pytest.raises(UsageError, match="there already"):
        wheel(out)


@pytest.mark.parametrize(("device", "system", "tag", "head"), CASES)
def test_wheels_for_other_systems(device: str, system: str, tag: str, head: bytes, tmp_path: Path) -> None:
    made = wheel(built(tmp_path, device), system, tmp_path / "a" / "new")
    assert made.file == tmp_path / "a" / "new" / f"digits-1.0.0-py3-none-{tag}.whl"
    library = members(made.file)["digits/libdigits.so"]
    assert library.startswith(head) and b"digits_run_array" in library
    if device.endswith("32"):  # wheels have floats in vector registers, where softfp has them in those of integers
        assert struct.unpack_from("<I", library, 36)[0] & 0x400
    versions = {tuple(map(int, v.split(b"."))) for v in re.findall(rb"GLIBC_([0-9.]+)\0", library)}
    newest = (2, 27) if device == "riscv64" else (2, 17)
    assert bool(versions) == tag.startswith("manylinux") and max(versions, default=(0,)) <= newest
    assert ("avx2" in made.needs) == ("--device x86_64_sse4" in made.hint) == (device == "x86_64_avx2")


def test_a_library_for_windows_runs(tmp_path: Path) -> None:
    """Under wine, loaded by a program: on one thread, and by a pool of two."""
    wine = need("wine", "wine64", "wine")
    if not runs_here(load_device("x86_64_avx2")):
        pytest.skip("no compiler or processor for x86_64")
    out = built(tmp_path, "x86_64_avx2", threads=2)
    content = members(wheel(out, "windows").file)
    for path in ("digits/libdigits.so", "digits/digits_weights.bin"):
        (tmp_path / Path(path).name).write_bytes(content[path])
    image = np.random.default_rng(SEED).random((1, 1, 8, 8), np.float32)
    image.tofile(tmp_path / "image.bin")
    source, program = Path(__file__).with_name("programs") / "windows.c", tmp_path / "program.exe"
    zig = [
        sys.executable,
        "-m",
        "ziglang",
        "cc",
        "-target",
        "x86_64-windows-gnu",
        "-mcpu=x86_64_v3",
        "-Wall",
        "-Wextra",
    ]
    subprocess.run([*zig, "-Werror", source, "-o", program], check=True)
    words = [
        "libdigits.so",
        "digits_weights.bin",
        "image.bin",
        "probabilities.bin",
        str(read_lock(out)["arena_bytes"]),
        "2",
    ]
    quiet = {
        **os.environ,
        "WINEPREFIX": str(tmp_path / "wine"),
        "WINEDEBUG": "-all",
        "WINEDLLOVERRIDES": "mscoree,mshtml=",
    }
    done = subprocess.run([wine, program, *words], cwd=tmp_path, env=quiet, check=False, timeout=300)
    assert done.returncode == 0
    wanted = edgec.build(DIGITS / "digits.onnx", device="generic")(image).reshape(-1)
    for found in np.fromfile(tmp_path / "probabilities.bin", np.float32).reshape(2, -1):
        np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_a_library_with_levels_needs_what_its_least_level_needs(tmp_path: Path) -> None:
    out = built(tmp_path, "x86_64_avx512", dispatch="x86_64_sse4")
    device = _device(read_lock(out), out)
    assert device.needs == "sse4.2" and _less_needy(device) == ""


def test_names_of_targets(tmp_path: Path) -> None:
    """A processor behind the system is that of the build, or the error has the command that builds for it."""
    assert _system("manylinux") == ("manylinux", "")
    for target in ("aarch64", "arm64", "jetson", "manylinux_arm64"):
        assert _system(target) == ("manylinux", "aarch64")
    for target, arch in {
        "armv7": "arm",
        "manylinux_armv7l": "arm",
        "x86_64": "x86_64",
        "windows_amd64": "x86_64",
    }.items():
        assert _system(target)[1] == arch
    out = built(tmp_path, "arm64")
    with pytest.raises(UsageError, match="the build is for aarch64, not for x86_64") as refused:
        wheel(out, "manylinux_x86_64")
    assert refused.value.hint and "--device x86_64_sse4" in refused.value.hint
    for target in ("manylinux_sparc", "windows_armv7", "musllinux_", "jetson_nano"):
        with pytest.raises(UsageError, match="there is no system"):
            wheel(out, target)


@pytest.mark.parametrize("place", ["file", "array"])
def test_places_of_weights(place: str, tmp_path: Path) -> None:
    """A file of weights is in the wheel; weights as an array are in the library alone."""
    content = members(wheel(built(tmp_path, "generic", weights=place)).file)
    assert ("digits/digits.weights" in content) == (place == "file") and "digits/digits_weights.bin" not in content
    for path, data in content.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(data)
    program = "import digits, numpy; print(digits.Net()(numpy.zeros((1, 1, 8, 8), 'f4')).sum())"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert float(done.stdout) == pytest.approx(1, abs=1e-5)


def test_a_lock_says_nothing_to_compilers_but_the_processor(tmp_path: Path) -> None:
    """A built folder may be a stranger's: options that write or load files, and lines in the metadata, are refused."""
    out = built(tmp_path, "arm64")
    place = out / "edgec.lock"
    right = json.loads(place.read_text())
    toolchain = right["device_facts"]["toolchain"]
    for strange in ("-o/tmp/x", "-fplugin=x.so", "@options", "-include", "/etc/passwd", "-Wl,-rpath,/tmp", "-B/tmp"):
        facts = {**right["device_facts"], "toolchain": {**toolchain, "cflags": [strange]}}
        place.write_text(json.dumps({**right, "device_facts": facts}))
        with pytest.raises(UsageError, match="does not tell the device"):
            wheel(out)
    for change in (
        {"device": "arm64\nRequires-Dist: evil"},
        {"device_facts": {**right["device_facts"], "instruction_sets": ["a\nRequires-Dist: evil"]}},
        {"device_facts": {**right["device_facts"], "toolchain": {**toolchain, "cflags": None}}},
        {"device_facts": {**right["device_facts"], "toolchain": {**toolchain, "zig_mcpu": "x -o/tmp/x"}}},
    ):
        place.write_text(json.dumps({**right, **change}))
        with pytest.raises(UsageError, match="does not tell the device"):
            wheel(out)
    for source in ("-o/tmp/x.c", "@options.c"):
        place.write_text(json.dumps({**right, "sources": [source]}))
        with pytest.raises(UsageError, match="no lock that edgec writes"):
            wheel(out)


def test_wheels_that_cannot_be(tmp_path: Path) -> None:
    out = built(tmp_path, "riscv64")
    with pytest.raises(UsageError, match="windows has no wheels for riscv64"):
        wheel(out, "windows")
    with pytest.raises(UsageError, match="there is no system 'amiga'"):
        wheel(out, "amiga")
    with pytest.raises(UsageError, match="not a folder made by edgec"):
        wheel(tmp_path)
    renamed = out / "edgec.lock"
    right = renamed.read_text()
    renamed.write_text(right.replace('"name": "digits"', '"name": "lambda"'))
    with pytest.raises(UsageError, match="'lambda' cannot be a name in Python"):
        wheel(out)
    renamed.write_text(right)
    lock = json.loads((out / "edgec.lock").read_text())
    lock["device_facts"]["toolchain"]["cflags"] = ["-fplugin=a b.so"]
    (out / "edgec.lock").write_text(json.dumps(lock))
    with pytest.raises(UsageError, match="does not tell the device"):
        wheel(out)
    for device, target, message, hint in (
        ("cortex_m4", "manylinux", "for computers", "--device of C"),
        ("jetson", "jetson", "for computers", "nvcc"),
    ):
        folder = tmp_path / device
        folder.mkdir()
        with pytest.raises(UsageError, match=message) as refused:
            wheel(built(folder, device), target)
        assert hint in str(refused.value.hint)
    assert not list(tmp_path.rglob("*.whl")) and set(SYSTEMS) == {"manylinux", "musllinux", "macos", "windows"}

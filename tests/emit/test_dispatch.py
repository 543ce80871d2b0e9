"""One library for several processors of an architecture: the level that runs on each, and that all give the same."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from convnet import convnet, tokens
from needed import need
from small_models import model, node, tensor_input, weights

import edgec
from edgec.artifact.folder import read_lock
from edgec.artifact.levels import compiled_for
from edgec.bench import remote
from edgec.build import Built
from edgec.device.load import load_device
from edgec.device.probe import host_arch
from edgec.errors import DeviceError, EdgecError, UsageError
from edgec.execute.executor import executor, run_graph
from edgec.progress import silent

X86 = {"device": "x86_64_sse4", "dispatch": "x86_64_avx2,x86_64_avx512_vnni"}
ARM = {"device": "arm64", "dispatch": "neoverse_v1,arm64_i8mm,arm64_dotprod"}
INT8 = {"quantize": "int8", "calibrate": "random"}
#: qemu's programs and packages, those of the cross compilers, and the level that each processor has to take.
EMULATED = {
    "x86_64": ("qemu-x86_64", X86, {"Nehalem": "x86_64_sse4", "Haswell": "x86_64_avx2", "max": "x86_64_avx2"}),
    "aarch64": (
        "qemu-aarch64",
        ARM,
        {
            "cortex-a53": "arm64", "cortex-a76": "arm64_dotprod", "neoverse-n1": "arm64_dotprod",
            "max": "arm64_i8mm", "max,sve256=on,sve512=off": "neoverse_v1",
        },
    ),
}  # fmt: skip


#: Opens the folder that is named, runs the network, and tells the level and whether results are numbers.
OPENED = """
import sys, edgec, numpy
network = edgec.Network(sys.argv[1])
found = network.run({"image": numpy.ones((1, 3, 10, 10), "f4")})
print(network.processor, all(numpy.isfinite(array).all() for array in found.values()))
"""


def _needed(arch: str) -> None:
    need(EMULATED[arch][0], "qemu-user")
    if host_arch() != arch:
        short = arch.replace("_", "-")
        need(f"{arch}-linux-gnu-gcc", f"gcc-{short}-linux-gnu")


def _image(seed: int = 0) -> dict[str, np.ndarray]:
    return {"image": np.random.default_rng(seed).standard_normal((1, 3, 10, 10)).astype(np.float32)}


def _meant(built: Built, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs by the graph that was planned."""
    return executor(run_graph, built.graph)(arrays)


@pytest.fixture(autouse=True)
def compiled_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The runner of a build is the same for all processors."""
    made: dict[Path, Path] = {}

    def runner(built: Built, output: Path, profile: bool = False) -> Path:
        if built.folder not in made:
            made[built.folder] = compile_runner(built, tmp_path / f"runner_{len(made)}", profile)
        return Path(shutil.copy(made[built.folder], output))

    compile_runner = remote.compile_runner
    monkeypatch.setattr(remote, "compile_runner", runner)


def _ran(built: Built, processor: str, arrays: Mapping[str, np.ndarray]) -> tuple[str | None, dict[str, np.ndarray]]:
    """(level, outputs) of the runner on a processor of qemu's."""
    with remote.connect(built, f"qemu:{processor}", None, 300.0, silent) as there:
        outputs = there.run([arrays])[0].outputs
        return there.processor, outputs


def _near(found: Mapping[str, np.ndarray], meant: Mapping[str, np.ndarray], relative: float) -> None:
    for name, array in meant.items():
        assert np.abs(found[name] - array).max() <= relative * np.abs(array).max(), name


@pytest.mark.parametrize("more, relative", [({}, 1e-5), (INT8, 1e-2)], ids=["fp32", "int8"])
@pytest.mark.parametrize("arch", EMULATED)
def test_each_processor_takes_its_level(arch: str, more: dict[str, Any], relative: float, tmp_path: Path) -> None:
    _needed(arch)
    built = edgec.build(convnet(), tmp_path / "net", compile=False, **EMULATED[arch][1], **more)
    arrays = _image()
    meant = _meant(built, arrays)
    for processor, level in EMULATED[arch][2].items():
        taken, outputs = _ran(built, processor, arrays)
        assert taken == level, processor
        _near(outputs, meant, relative)


def test_the_environment_names_a_level(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that the processor has; no other, and nothing runs on a processor that has none of them."""
    _needed("x86_64")
    built = edgec.build(convnet(), tmp_path / "net", compile=False, **X86)
    with pytest.raises(DeviceError, match="lacks"):
        _ran(built, "Conroe", _image())
    monkeypatch.setenv("EDGEC_LEVEL", "x86_64_sse4")
    taken, outputs = _ran(built, "Haswell", _image())
    assert taken == "x86_64_sse4"
    _near(outputs, _meant(built, _image()), 1e-5)
    for level, processor in (("x86_64_avx2", "Nehalem"), ("x86_64", "Haswell"), ("sse4", "Haswell")):
        monkeypatch.setenv("EDGEC_LEVEL", level)
        with pytest.raises(DeviceError, match="lacks"):
            _ran(built, processor, _image())
    monkeypatch.setenv("EDGEC_LEVEL", "")
    assert _ran(built, "Haswell", _image())[0] == "x86_64_avx2"


def _widening() -> onnx.ModelProto:
    """x [rows, 48] -> y [rows, 40]: two products, of which the first is wide."""
    random = np.random.default_rng(3)
    first, second = (random.standard_normal(shape).astype(np.float32) / 8 for shape in ((48, 640), (640, 40)))
    nodes = [node("MatMul", ["x", "a"], ["m"]), node("Relu", ["m"], ["r"]), node("MatMul", ["r", "b"], ["y"])]
    return model(nodes, [tensor_input("x", ["rows", 48])], ("y",), [weights("a", first), weights("b", second)])


def test_a_level_of_arm_multiplies_in_bf16(tmp_path: Path) -> None:
    """On a processor with the instructions; the level for others computes the same network without them."""
    _needed("aarch64")
    objdump = need("aarch64-linux-gnu-objdump", "binutils-aarch64-linux-gnu")
    options: Any = {"device": "arm64_dotprod", "dispatch": "arm64_i8mm", "precision": "bf16", "dims": {"rows": 8}}
    built = edgec.build(_widening(), tmp_path / "net", compile=False, **options)
    arrays = {"x": np.random.default_rng(0).standard_normal((8, 48)).astype(np.float32)}
    meant = _meant(built, arrays)
    for processor, level in {"cortex-a76": "arm64_dotprod", "max": "arm64_i8mm"}.items():
        taken, outputs = _ran(built, processor, arrays)
        assert taken == level, processor
        _near(outputs, meant, 2e-2)
    code = subprocess.run([objdump, "-d", tmp_path / "runner_0"], capture_output=True, text=True, check=True).stdout
    assert "bfmmla" in code or "bfdot" in code


@pytest.mark.parametrize("place", ["array", "file"])
def test_open_sizes_threads_and_places_of_weights(place: str, tmp_path: Path) -> None:
    _needed("x86_64")
    options: Any = {**X86, "dims": {"rows": (1, 9)}, "threads": 3, "weights": place}
    built = edgec.build(_widening(), tmp_path / "net", compile=False, **options)
    for rows in (1, 7):
        x = np.random.default_rng(rows).standard_normal((rows, 48)).astype(np.float32)
        for processor in ("Nehalem", "Haswell"):
            _near(_ran(built, processor, {"x": x})[1], _meant(built, {"x": x}), 1e-5)


def test_equal_weights_are_stored_once_and_memory_is_that_of_the_largest() -> None:
    ids = np.arange(6, dtype=np.int64).reshape(1, 6)
    shared = edgec.build(tokens(words=5000), compile=False, **X86)
    alone = edgec.build(tokens(words=5000), compile=False, device="x86_64_sse4")
    assert shared.weights_bytes == alone.weights_bytes
    built = edgec.build(convnet(channels=24), compile=False, **X86)
    each = [level.program for level in built.program.levels]
    assert built.arena_bytes == max(p.arena_bytes for p in each)
    lock = read_lock(built.folder)
    assert [e["arena_bytes"] for e in lock["levels"]] == [p.arena_bytes for p in each]
    assert built.weights_bytes < sum(e["weights_bytes"] for e in lock["levels"])
    assert _meant(shared, {"ids": ids, "attention_mask": ids})["y"].shape == (1, 6, 4)


def test_the_order_of_devices_does_not_matter() -> None:
    one = edgec.build(convnet(), compile=False, **X86)
    turned = edgec.build(convnet(), compile=False, device="x86_64_avx512_vnni", dispatch="x86_64_avx2,x86_64_sse4")
    assert {p.name: p.read_bytes() for p in one.folder.iterdir()} == {
        p.name: p.read_bytes() for p in turned.folder.iterdir()
    }


@pytest.mark.skipif(host_arch() != "x86_64", reason="levels of x86-64 are loaded")
def test_python_loads_the_library(tmp_path: Path) -> None:
    folder, file = tmp_path / "net", tmp_path / "net.onnx"
    onnx.save(convnet(), file)
    built = edgec.build(file, folder, **X86)
    meant = _meant(built, _image())
    network = edgec.Network(folder)
    assert network.processor in {"x86_64_sse4", "x86_64_avx2", "x86_64_avx512_vnni"}
    assert {row.device for row in network.where()} == {network.processor}
    assert {name for row in network.where() for name in row.operators} == {
        n for k in built.program.kernels for n in k.names
    }
    _near(network.run(_image()), meant, 1e-5)
    for level, told in (("x86_64_sse4", "x86_64_sse4 True"), ("arm64", "EDGEC_LEVEL")):  # chosen once a process
        environment = {**os.environ, "EDGEC_LEVEL": level}
        done = subprocess.run([sys.executable, "-c", OPENED, folder], env=environment, capture_output=True, text=True)
        assert told in done.stdout + done.stderr
    assert edgec.check(folder).ok
    with pytest.raises(UsageError, match="several of each"):
        edgec.profile(folder)


def test_the_project_builds_without_warnings(tmp_path: Path) -> None:
    """By CMake, which gives each level its own options and the rest none."""
    need("cmake", "cmake")
    folder = tmp_path / "net"
    edgec.build(convnet(), folder, compile=False, extras=("cpp",), **X86)
    (folder / "main.c").write_text(
        '#include <stdio.h>\n#include "net.h"\nint main(void) { puts(net_processor()); return !net_runs_here(); }\n'
    )
    made = tmp_path / "made"
    flags = "-DCMAKE_C_FLAGS=-Wall -Wextra -Werror -Wshadow"
    if host_arch() != "x86_64":
        need("x86_64-linux-gnu-gcc", "gcc-x86-64-linux-gnu")
        flags += " -DCMAKE_C_COMPILER=x86_64-linux-gnu-gcc -DCMAKE_SYSTEM_NAME=Linux"
    subprocess.run(["cmake", "-S", folder, "-B", made, flags, "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"], check=True)
    subprocess.run(["cmake", "--build", made, "--target", "net_example"], check=True)
    commands = json.loads((made / "compile_commands.json").read_text())
    options = {Path(c["file"]).name: [w for w in c["command"].split() if w.startswith("-m")] for c in commands}
    assert options["net.c"] == options["ec_pool.c"] == [] != options["net_on_x86_64_avx2_kernels_0.c"]
    for level in read_lock(folder)["levels"]:
        assert all(options[source] == level["cflags"] for source in level["sources"])


def test_a_saved_stage_gives_the_same_files(tmp_path: Path) -> None:
    stages = tmp_path / "stages"
    whole = edgec.build(convnet(), compile=False, save_stages=stages, **X86)
    for stage, file in (("schedule", "4_fuse.txt"), ("emit", "5_schedule.txt")):
        again = edgec.build(stages / file, start=stage, compile=False, **X86)
        for path in read_lock(whole.folder)["files"]:
            assert (again.folder / path).read_bytes() == (whole.folder / path).read_bytes(), path
    kept = edgec.build(convnet(), compile=False, lock=whole.folder, **X86)
    assert read_lock(kept.folder)["files_sha256"] == read_lock(whole.folder)["files_sha256"]


@pytest.mark.parametrize(
    "options, told",
    [
        ({"dispatch": "x86_64_avx2"}, "processor of this machine"),
        ({**X86, "dispatch": "arm64_i8mm"}, "another architecture"),
        ({**X86, "dispatch": "x86_64_avx2,x86_64_avx2"}, "there twice"),
        ({**X86, "dispatch": "x86_64_sse4"}, "there twice"),
        ({**X86, "dispatch": "x86_64_avx2,"}, "no list of devices"),
        ({**X86, "dispatch": "x86_64_avx3"}, "no device is called"),
        ({"device": "stm32h743", "dispatch": "cortex_m4"}, "tells a program nothing"),
        ({"device": "riscv64", "dispatch": "riscv64_rvv"}, "tells a program nothing"),
        ({"device": "cuda_sm86", "dispatch": "cuda_sm90"}, "is a GPU"),
        ({**X86, "weights": "stream", "ram": "1M"}, "one level"),
        ({**X86, "loss": "cross_entropy:scores"}, "training step"),
        ({"device": "host_pocl", "place": "auto", "dispatch": "x86_64_avx2"}, "GPU|two devices"),
        ({**X86, "extras": ("rust",)}, "'rust' compiles all sources"),
        ({**X86, "extras": ("python",)}, "'python' compiles all sources"),
    ],
)
def test_what_does_not_go_together_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(EdgecError, match=told) as refused:
        edgec.build(convnet(), compile=False, **options)
    assert refused.value.hint


def test_what_is_of_one_device_is_refused() -> None:
    with pytest.raises(UsageError, match="one device at a time"):
        edgec.tune(convnet(), 0.0, **X86)
    with pytest.raises(UsageError, match="one device at a time"):
        edgec.certify(convnet(), inputs=_image(), eps=0.01, **X86)


def test_the_options_of_a_lock_run_nothing() -> None:
    device = load_device("x86_64_sse4")
    level = {"sources": ["a.c"], "cflags": ["-march=x86-64-v3"], "zig_mcpu": "x86_64_v3"}
    most, others = compiled_for({"levels": [level]}, device)
    assert most.toolchain.cflags == () and others["a.c"].toolchain.cflags == ("-march=x86-64-v3",)
    assert compiled_for({}, device) == (device, {})
    for wrong in ({"cflags": ["-fplugin=evil.so"]}, {"cflags": 3}, {"zig_mcpu": "a b"}, {"sources": None}):
        with pytest.raises(UsageError, match="how levels are compiled"):
            compiled_for({"levels": [{**level, **wrong}]}, device)

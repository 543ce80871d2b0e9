"""This machine, and processors and boards that qemu emulates on it."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convnet import convnet
from links import DIGITS, need, pictures, product, random_picture
from onnx import TensorProto
from small_models import model, node, tensor_input, weights

import edgec
from edgec import api
from edgec.bench import remote
from edgec.cli.main import main
from edgec.device.load import load_device
from edgec.errors import DeviceError, EdgecError, EmulatorError, LinkError, UsageError
from edgec.link.choose import open_link
from edgec.schedule.variants import Product
from edgec.tune import on_device
from edgec.tune.database import Measured, Profiles

#: Bytes, whatever they lose.
INT8 = {"quantize": "int8", "calibrate": "random"}


def test_the_host_gives_what_the_library_gives() -> None:
    picture = random_picture()
    there = api.run_on_device(str(DIGITS), picture, device="generic", link="local")
    here = edgec.build(str(DIGITS), device="generic")(**picture)
    assert len(there) == 1 and there[0].nanoseconds.shape == (1,)
    np.testing.assert_array_equal(there[0].outputs["probabilities"], here)


def test_an_emulated_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runner of CUDA, and `edgec tune` where the GPU is this machine's."""
    monkeypatch.setenv("EDGEC_PROFILES", str(tmp_path / "profiles.sqlite"))
    path, where = product(tmp_path), {"device": "cuda_sm90", "compiler": "emulated"}
    assert edgec.check(path, samples=2, link="local", **where).ok
    done = edgec.tune(path, 0.0, **where)
    assert done.measured == 1 and done.skipped > 2


@pytest.mark.parametrize("milliseconds", [[2.0, 1.0], [1.0, 2.0]])
def test_what_is_no_quicker_as_a_whole_is_forgotten(
    milliseconds: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the clock says: the second way of the product is quicker, and so is the network as a whole, or not."""

    def told(*given: Any) -> Iterator[Measured]:
        return (replace(m, seconds=1e-3 if m.block.endswith("/6x2") else 1e-6) for m in measured(*given))

    measured = on_device._measured
    monkeypatch.setenv("EDGEC_PROFILES", str(tmp_path / "profiles.sqlite"))
    monkeypatch.setattr(Product, "variants", lambda *_: ["6x2", "4x2"])
    monkeypatch.setattr(on_device, "_measured", told)
    monkeypatch.setattr(on_device, "_in_turns", lambda *_: milliseconds)
    done = on_device.tune_on_device(product(tmp_path), link="local", device="generic")
    assert (done.measured, done.skipped, [done.untuned_ms, done.tuned_ms]) == (2, 0, milliseconds)
    kept = [e.block.partition("/")[2] for e in Profiles().entries()]
    assert sorted(kept) == (["4x2", "6x2"] if milliseconds[1] < milliseconds[0] else ["6x2"])


@pytest.mark.parametrize(
    ("device", "program", "packages"),
    [
        ("raspberry_pi_3", "qemu-aarch64", ("qemu-user", "gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross")),
        ("arm32", "qemu-arm", ("qemu-user", "gcc-arm-linux-gnueabihf", "libc6-dev-armhf-cross")),
        ("android_arm32", "qemu-arm", ("qemu-user", "gcc-arm-linux-gnueabi", "libc6-dev-armel-cross")),
        ("riscv64", "qemu-riscv64", ("qemu-user", "gcc-riscv64-linux-gnu", "libc6-dev-riscv64-cross")),
    ],
)
def test_emulated_processors(device: str, program: str, packages: tuple[str, ...], tmp_path: Path) -> None:
    need(program, *packages)
    need(f"{load_device(device).toolchain.gcc_target}-gcc", *packages)
    checked = edgec.check(str(DIGITS), inputs=pictures(tmp_path, 3), device=device, link="qemu")
    assert (
        checked.ok and checked.executed_stage == "emit" and checked.link is not None and checked.link.startswith("qemu")
    )


def test_a_processor_that_lacks_instructions_is_told_so() -> None:
    need("qemu-aarch64", "qemu-user")
    need("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross")
    with pytest.raises(DeviceError, match="lacks what the code was built for: neon, fp16, dotprod") as caught:
        api.run_on_device(str(DIGITS), random_picture(), device="raspberry_pi_5", link="qemu:cortex-a53")
    assert caught.value.where == "qemu:cortex-a53"
    ran = api.run_on_device(str(DIGITS), random_picture(), device="raspberry_pi_5", link="qemu:cortex-a76")
    assert np.isclose(ran[0].outputs["probabilities"].sum(), 1, atol=1e-5)


def test_vectors_of_another_size_are_refused() -> None:
    need("qemu-aarch64", "qemu-user")
    need("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross")
    built = edgec.build(str(DIGITS), device="neoverse_v1", compile=False)
    for processor in ("cortex-a72", "max,sve128=on", "max,sve512=on"):
        with pytest.raises(DeviceError, match=r"lacks what the code was built for: .*, sve, vectors of 256 bits"):
            api.run_on_device(built, random_picture(), link=f"qemu:{processor}")
    ran = api.run_on_device(built, random_picture(), link="qemu")
    assert np.isclose(ran[0].outputs["probabilities"].sum(), 1, atol=1e-5)


@pytest.mark.parametrize("device", ["mps2_an385", "mps2_an386", "mps2_an500", "mps2_an505", "mps3_an547"])
def test_boards_without_an_operating_system(device: str) -> None:
    need("qemu-system-arm", "qemu-system-arm")
    need("arm-none-eabi-gcc", "gcc-arm-none-eabi", "libnewlib-arm-none-eabi")
    assert edgec.check(str(DIGITS), samples=1, device=device, link="device").ok


@pytest.mark.parametrize("device", ["mps2_an386", "mps3_an547"])
def test_bytes_on_boards(device: str) -> None:
    """Products of bytes by the instructions of a Cortex-M4 and by Helium, beside those in plain C here."""
    need("qemu-system-arm", "qemu-system-arm")
    need("arm-none-eabi-gcc", "gcc-arm-none-eabi", "libnewlib-arm-none-eabi")
    image = np.random.default_rng(0).standard_normal((1, 1, 3, 10, 10)).astype(np.float32)
    (there,) = api.run_on_device(convnet(), {"image": image}, device=device, link="device", **INT8)
    here = edgec.build(convnet(), device="generic", **INT8).network.run({"image": image[0]})
    for name, wanted in here.items():  # but for a mean of floats that is rounded to the next byte
        np.testing.assert_allclose(there.outputs[name], wanted, atol=0.01 * np.abs(wanted).max(), err_msg=name)


@pytest.mark.parametrize("device", ["mps2_an385", "mps3_an547"])
def test_sums_of_bytes_on_boards_to_the_bit(device: str) -> None:
    """Words of four bytes, blocks of sixteen by Helium: full ones and not, odd rows and columns, either sign."""
    need("qemu-system-arm", "qemu-system-arm")
    need("arm-none-eabi-gcc", "gcc-arm-none-eabi", "libnewlib-arm-none-eabi")
    random = np.random.default_rng(1)
    given, kernels, nodes, inputs = {}, [], [], []
    for k, (rows, inner, columns, is_signed) in enumerate([(3, 37, 5, True), (1, 16, 4, False), (4, 100, 9, False)]):
        kind = np.int8 if is_signed else np.uint8
        limits = np.iinfo(kind)
        given[f"x{k}"] = random.integers(limits.min, limits.max + 1, (rows, inner)).astype(kind)
        kernels.append(weights(f"w{k}", random.integers(-128, 128, (inner, columns)).astype(np.int8)))
        inputs.append(tensor_input(f"x{k}", [rows, inner], TensorProto.INT8 if is_signed else TensorProto.UINT8))
        nodes.append(node("MatMulInteger", [f"x{k}", f"w{k}"], [f"y{k}"]))
    given["x3"] = random.integers(0, 256, (1, 3, 7, 6)).astype(np.uint8)
    inputs.append(tensor_input("x3", [1, 3, 7, 6], TensorProto.UINT8))
    kernels += [weights("w3", random.integers(-128, 128, (6, 3, 3, 3)).astype(np.int8)), weights("z", np.uint8(9))]
    nodes.append(node("ConvInteger", ["x3", "w3", "z"], ["y3"], pads=[1, 1, 1, 1]))
    made = model(nodes, inputs, [f"y{k}" for k in range(4)], kernels).SerializeToString()
    there = edgec.build(made, device=device, compile=False)
    sources = "".join(f.decode() for name, f in there.stages["emit"].files.items() if name.endswith(".c"))
    assert ("ec_dot_blocks" in sources and "ec_block_first" in sources) == (device == "mps3_an547")
    (ran,) = api.run_on_device(there, given, link="device")
    want = edgec.build(made, device="generic").network.run(given)
    for name, array in want.items():
        np.testing.assert_array_equal(ran.outputs[name], array, err_msg=name)


def test_instructions_of_a_board_are_counted_the_same_every_time() -> None:
    need("qemu-system-arm", "qemu-system-arm")
    need("arm-none-eabi-gcc", "gcc-arm-none-eabi", "libnewlib-arm-none-eabi")
    timings = [edgec.bench(str(DIGITS), device="mps2_an386", link="device", seconds=1e-6) for _ in range(2)]
    first, second = (t.timing.median_ms for t in timings)
    assert first == pytest.approx(second, rel=1e-3)
    kernels = timings[0].kernels
    assert sum(ms for _, ms in kernels) == pytest.approx(first, rel=0.05)


def test_batches_and_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "BATCH_BYTES", 600)  # two pictures
    started: list[str] = []
    start = open_link(load_device("generic"), "local").__class__.start

    def counted(self, program, arguments, timeout):  # type: ignore[no-untyped-def]
        started.append(program)
        return start(self, program, arguments, timeout)

    monkeypatch.setattr("edgec.link.local.Local.start", counted)
    path = pictures(tmp_path, 5)
    built = edgec.build(str(DIGITS), device="generic", compile=False)
    first = api.run_on_device(built, path, link="local", keep=tmp_path / "kept")
    assert len(started) == 3 and len(list((tmp_path / "kept").iterdir())) == 3
    again = api.run_on_device(built, path, link="local", keep=tmp_path / "kept")
    assert len(started) == 3
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a.outputs["probabilities"], b.outputs["probabilities"])
    whole = api.run_on_device(built, path, link="local")
    for a, b in zip(first, whole, strict=True):
        np.testing.assert_array_equal(a.outputs["probabilities"], b.outputs["probabilities"])


def test_threads() -> None:
    one, three = (
        api.run_on_device(str(DIGITS), random_picture(), device="generic", link="local", threads=n) for n in (1, 3)
    )
    np.testing.assert_array_equal(one[0].outputs["probabilities"], three[0].outputs["probabilities"])


def test_sizes_chosen_and_computed_at_run_time() -> None:
    from onnx import helper

    nodes = [helper.make_node("NonZero", ["x"], ["where"]), helper.make_node("Relu", ["x"], ["y"])]
    graph = helper.make_graph(
        nodes, "open",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
        [helper.make_tensor_value_info("where", TensorProto.INT64, [1, "found"]),
         helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    file = io.BytesIO(model.SerializeToString()).getvalue()
    built = edgec.build(file, dims={"n": range(2, 17)}, device="generic", compile=False)
    for n in (2, 9, 16):
        x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
        x[::3] = 0
        ran = api.run_on_device(built, {"x": x}, link="local")[0]
        np.testing.assert_array_equal(ran.outputs["where"], np.nonzero(x))
        np.testing.assert_array_equal(ran.outputs["y"], np.maximum(x, 0))
    with pytest.raises(EdgecError, match="expected"):
        api.run_on_device(built, {"x": np.zeros(17, np.float32)}, link="local")


@pytest.mark.parametrize(
    ("device", "text", "kind", "message"),
    [
        ("generic", "serial", UsageError, "names no link"),
        ("raspberry_pi_5", None, UsageError, "is reached by ssh"),
        ("cortex_m4", None, LinkError, "no way to 'cortex_m4' is known"),
        ("generic", "ssh:-oProxyCommand=x", LinkError, "is no host"),
        ("cortex_m4", "qemu", LinkError, "runs no programs of 'thumb'"),
    ],
)
def test_links_that_make_no_sense(device: str, text: str | None, kind: type[EdgecError], message: str) -> None:
    with pytest.raises(kind, match=message):
        open_link(load_device(device), text)


def test_a_program_that_dies_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "compile_runner", _killed)
    with pytest.raises(EdgecError, match="died of SIGILL"):
        api.run_on_device(str(DIGITS), random_picture(), device="generic", link="local")


def _killed(built: object, output: Path, profile: bool = False) -> Path:
    output.write_text("#!/bin/sh\nkill -ILL $$\n")
    return output


def test_an_emulator_that_fails_by_itself_is_no_mistake_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "compile_runner", _failed_by_the_emulator)
    with pytest.raises(EmulatorError, match="an assertion of its own") as failed:
        api.run_on_device(str(DIGITS), random_picture(), device="generic", link="local")
    assert "insn_start" in str(failed.value) and "hint: take a newer one" in str(failed.value)


def _failed_by_the_emulator(built: object, output: Path, profile: bool = False) -> Path:
    text = "qemu-riscv64: ../../target/riscv/translate.c:213: decode: Assertion `ctx->insn_start != NULL' failed."
    output.write_text(f'#!/bin/sh\necho "{text.replace("`", chr(92) + "`")}" >&2\nkill -SEGV $$\n')
    return output


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.npz"
    words = ["device", "run", str(DIGITS), "--device", "generic", "--link", "local", "--inputs"]
    words.append(str(pictures(tmp_path, 2)))
    for code in (0, 2):  # the second time the file is there
        with pytest.raises(SystemExit) as end:
            main([*words, "-o", str(out)])
        assert end.value.code == code, capsys.readouterr()
    assert np.load(out)["probabilities"].shape[0] > 1
    with pytest.raises(SystemExit) as end:
        main(["device", "bench", str(DIGITS), "--device", "generic", "--link", "local", "--seconds", "0.01"])
    assert end.value.code == 0 and "kernels, the slowest" in capsys.readouterr().out


@pytest.mark.parametrize("device", ["mps2_an385", "mps2_an386"])  # without and with instructions for pairs of halves
def test_integers_on_a_board(device: str) -> None:
    need("qemu-system-arm", "qemu-system-arm")
    need("arm-none-eabi-gcc", "gcc-arm-none-eabi", "libnewlib-arm-none-eabi")
    model = Path(__file__).parents[3] / "shared" / "models" / "mlperf_tiny" / "kws_ref_model.tflite"
    if not model.is_file():
        pytest.skip(f"no {model}")
    checked = edgec.check(str(model), samples=2, device=device, link="device")
    assert checked.ok and all(d.max_abs <= 1 for d in checked.outputs)


def test_accuracy_on_the_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Labelled data go over in batches, and what came back is kept."""
    monkeypatch.setattr(remote, "BATCH_BYTES", 40 * 264)
    with np.load(DIGITS.with_name("digits_test.npz")) as data:
        np.savez(tmp_path / "data.npz", image=data["image"][:100], labels=data["label"][:100])
    settings = {"device": "generic", "link": "local", "keep": tmp_path / "kept"}
    scored = api.score(str(DIGITS), tmp_path / "data.npz", **settings)  # type: ignore[arg-type]
    here = api.score(str(DIGITS), tmp_path / "data.npz", device="generic")
    assert scored.ok and scored.samples == 100 and len(list((tmp_path / "kept").iterdir())) == 3
    assert [v.name for v in scored.variants] == [here.variants[0].name, "local"]
    assert scored.variants[1].value == here.variants[1].value > 90


def test_emulated_vectors_of_riscv() -> None:
    need("qemu-riscv64", "qemu-user")
    with open_link(load_device("riscv64_rvv"), "qemu") as link:
        assert link.name == "qemu:rv64,v=true,vext_spec=v1.0,vlen=128"


def test_emulated_vectors_of_arm() -> None:
    need("qemu-aarch64", "qemu-user")
    for device, name in (("neoverse_v1", "qemu:max,sve256=on"), ("a64fx", "qemu:a64fx")):
        with open_link(load_device(device), "qemu") as link:
            assert link.name == name

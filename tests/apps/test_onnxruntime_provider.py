"""The execution provider in sessions of onnxruntime, beside its own: claims, refusals with their reason, threads."""

from __future__ import annotations

import gc
import importlib.util
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from needed import need
from onnx import TensorProto
from small_models import model, node, tensor_input, weights

import edgec
from edgec.errors import UsageError
from edgec.frontend.onnx import ModelWarning

pytestmark = pytest.mark.skipif(
    not hasattr(onnxruntime, "register_execution_provider_library"), reason="onnxruntime with plugins is not installed"
)
_STRICT = "-Werror -Wconversion -Wshadow -Wpedantic"


def built(proto: onnx.ModelProto, folder: Path, name: str, flags: str = "", **settings: Any) -> Path:
    """The file of a model, beside the folder of its provider, which was compiled without a warning."""
    cmake = need("cmake", "cmake")
    path, app = folder / f"{name}.onnx", folder / name / "onnxruntime"
    if not path.exists():
        onnx.save(proto, path)
    edgec.build(path, folder / name, name=name, app="onnxruntime", compile=False, **settings)
    words_of = [f"-DCMAKE_CXX_FLAGS={_STRICT} {flags}", f"-DCMAKE_C_FLAGS=-Werror {flags}"]
    for words in (("-S", app, "-B", app / "build", *words_of), ("--build", app / "build")):
        done = subprocess.run([cmake, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return path


@contextmanager
def provider(path: Path) -> Iterator[ModuleType]:
    """The generated module of a build; its library is let go behind it, when all sessions have ended."""
    file = path.parent / path.stem / "onnxruntime" / f"{path.stem}_session.py"
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    gc.collect()
    if any(device.ep_name == module.PROVIDER for device in onnxruntime.get_ep_devices()):
        onnxruntime.unregister_execution_provider_library(module.PROVIDER)


def options(level: str = "ORT_ENABLE_ALL") -> onnxruntime.SessionOptions:
    made = onnxruntime.SessionOptions()
    made.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    made.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    return made


def assigned(session: onnxruntime.InferenceSession) -> dict[str, list[str]]:
    """The operators that each provider computes."""
    found: dict[str, list[str]] = {}
    for part in session.get_provider_graph_assignment_info():
        found.setdefault(part.ep_name, []).extend(n.op_type for n in part.get_nodes())
    return found


def plain(source: Any, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    source = source.SerializeToString() if isinstance(source, onnx.ModelProto) else source
    found: list[np.ndarray] = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"]).run(None, inputs)
    return found


def same(session: onnxruntime.InferenceSession, source: Any, inputs: dict[str, np.ndarray]) -> None:
    for found, wanted in zip(session.run(None, inputs), plain(source, inputs), strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def convolutions(seed: int = 3, shape: tuple[Any, ...] = (1, 3, 8, 8)) -> onnx.ModelProto:
    """A batch normalization, which onnxruntime folds into the convolution before it asks providers."""
    chance = np.random.default_rng(seed)
    drawn = {"w": (4, 3, 3, 3), "scale": (4,), "bias": (4,), "mean": (4,)}
    made = [weights(k, chance.standard_normal(s).astype(np.float32)) for k, s in drawn.items()]
    made.append(weights("variance", chance.uniform(1, 2, 4).astype(np.float32)))
    nodes = [
        node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["c", "scale", "bias", "mean", "variance"], ["n"]),
        node("Relu", ["n"], ["r"]),
        node("GlobalAveragePool", ["r"], ["y"]),
    ]
    return model(nodes, [tensor_input("x", shape)], ["y"], made)


def image(batch: int = 1, seed: int = 4) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(seed).standard_normal((batch, 3, 8, 8)).astype(np.float32)}


def test_whole_model(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = built(convolutions(), tmp_path, "whole", threads=2)
    with provider(path) as own:
        for level in ("ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_ALL"):
            session = own.session(path, options(level))
            assert set(assigned(session)) == {own.PROVIDER}, level
            same(session, path, image())
            del session
        for given in (path.read_bytes(), onnx.load(path)):
            assert set(assigned(own.session(given, options()))) == {own.PROVIDER}, "known by its digest"
        runs = [own.session(path, threads=2).run for _ in range(2)]
        feeds = [image(seed=seed) for seed in range(24)]
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda k, run: run(None, feeds[k])[0], range(24), runs * 12))
        for feed, y in zip(feeds, found):
            np.testing.assert_allclose(y, plain(path, feed)[0], rtol=1e-5, atol=1e-5)
        assert "computes nothing" not in capfd.readouterr().err
        with pytest.raises(Exception, match=r"a number from 1 on, not '2x'"):
            own.session(path, threads="2x")
        del runs


def test_other_models_are_left_to_onnxruntime(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Of the same names and shapes, and of other weights; and bytes that nobody vouches for."""
    path = built(convolutions(), tmp_path, "mine")
    other = tmp_path / "other.onnx"
    onnx.save(convolutions(seed=5), other)
    with provider(path) as own:
        for given, reason in (
            (other, "other.onnx is another one: its SHA-256 is "),
            (other.read_bytes(), "the option model_sha256 is "),
        ):
            session = own.session(given, options())
            assert set(assigned(session)) == {"CPUExecutionProvider"}
            assert f"edgec_mine computes nothing of this session: {'the session' * isinstance(given, Path)}" in (
                told := capfd.readouterr().err
            )
            assert reason in told
            same(session, given if isinstance(given, bytes) else str(given), image())
            del session
        bare = options()
        bare.add_provider_for_devices(own.devices(), {})
        session = onnxruntime.InferenceSession(path.read_bytes(), bare)
        assert set(assigned(session)) == {"CPUExecutionProvider"}
        assert "the session's model comes from memory" in capfd.readouterr().err
        del session


def test_several_inputs_and_outputs(tmp_path: Path) -> None:
    """Integers of 64 bits and booleans; an output that is an input, one that is a constant, an input nobody reads."""
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    nodes = [
        node("Gather", ["table", "which"], ["rows"], axis=0),
        node("Add", ["rows", "x"], ["sum"]),
        node("Less", ["sum", "x"], ["less"]),
        node("Identity", ["which"], ["same"]),
        node("Identity", ["table"], ["constant"]),
    ]
    inputs = [tensor_input("which", (5,), TensorProto.INT64), tensor_input("x", (5, 3)), tensor_input("unread", (2,))]
    net = model(nodes, inputs, ["sum", "less", "same", "constant"], [weights("table", table)])
    kinds = (TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64, TensorProto.FLOAT)
    for output, kind in zip(net.graph.output, kinds):
        output.type.tensor_type.elem_type = kind
    path = built(net, tmp_path, "several")
    feed = {
        "which": np.array([3, 0, -1, 2, 3]),
        "x": np.random.default_rng(7).standard_normal((5, 3)).astype(np.float32),
        "unread": np.zeros(2, np.float32),
    }
    with provider(path) as own:
        for level in ("ORT_DISABLE_ALL", "ORT_ENABLE_ALL"):
            session = own.session(path, options(level))
            assert {"Gather", "Add", "Less"} <= set(assigned(session)[own.PROVIDER])
            same(session, path, feed)
            del session


def test_options_are_for_one_session(tmp_path: Path) -> None:
    path = built(convolutions(), tmp_path, "once")
    with provider(path) as own:
        made = options()
        session = own.session(path, made)
        with pytest.raises(ValueError, match="options are for one session"):
            own.session(path, made)
        with pytest.raises(ValueError, match="give others there"):
            own.session(path, providers=["CPUExecutionProvider"])
        with pytest.raises(ValueError, match="under another --name"):
            own.session(path, library=tmp_path / "libother.so")
        same(session, path, image())
        del session


def test_quantized(tmp_path: Path) -> None:
    chance = np.random.default_rng(8)
    scales = [weights("s", np.float32(0.05)), weights("z", np.uint8(128)), weights("t", np.float32(0.02))]
    w = weights("w", chance.integers(-100, 100, (4, 3, 3, 3)).astype(np.int8))
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        node("DequantizeLinear", ["w", "t"], ["v"]),
        node("Conv", ["d", "v"], ["c"]),
        node("Relu", ["c"], ["r"]),
        node("QuantizeLinear", ["r", "s", "z"], ["y"]),
    ]
    net = model(nodes, [tensor_input("x", (1, 3, 8, 8))], ["y"], [*scales, w])
    path = built(net, tmp_path, "quantized")
    with provider(path) as own:
        session = own.session(path, options())
        assert set(assigned(session)) == {own.PROVIDER}
        (y,) = session.run(None, image())
        assert y.dtype == np.uint8 and np.ptp(y) > 50
        assert np.abs(y.astype(int) - plain(path, image())[0]).max() <= 1
        del session


def test_open_batch(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = built(convolutions(shape=("n", 3, 8, 8)), tmp_path, "batches", dims={"n": (1, 4)})
    with provider(path) as own:
        session = own.session(path, options())
        assert set(assigned(session)) == {own.PROVIDER}
        for batch in (1, 4, 3):
            same(session, path, image(batch))
        with pytest.raises(Exception, match="a size is 5, and batches takes multiples of 1 from 1 to 4"):
            session.run(None, image(5))
        same(session, path, image(2))
        del session
        fixed = options()
        fixed.add_free_dimension_override_by_name("n", 5)
        session = own.session(path, fixed)
        assert set(assigned(session)) == {"CPUExecutionProvider"}
        assert "'x' is [5, 3, 8, 8] in the session and [?, 3, 8, 8] in the network" in capfd.readouterr().err
        del session


def test_fixed_batch_of_an_open_model(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = built(convolutions(shape=("n", 3, 8, 8)), tmp_path, "twos", dims={"n": 2})
    with provider(path) as own:
        assert own.FIXED == {"n": 2}
        session = own.session(path, options())
        assert set(assigned(session)) == {own.PROVIDER}, "the dimension is fixed"
        same(session, path, image(2))
        del session
        bare = options()
        bare.add_provider_for_devices(own.devices(), {})
        session = onnxruntime.InferenceSession(path, bare)
        assert set(assigned(session)) == {"CPUExecutionProvider"}
        assert "fix its open dimensions in the session's options" in capfd.readouterr().err
        same(session, path, image(3))
        del session
        other = tmp_path / "other.onnx"
        onnx.save(convolutions(seed=5, shape=("n", 3, 8, 8)), other)
        session = own.session(other, options())
        same(session, other, image(3))
        del session


def test_parts_around_an_operator_that_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Both parts need the same constant, and one of them a value from before the other."""
    chance = np.random.default_rng(9)
    nodes = [
        node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        node("Cast", ["half"], ["factor"], to=TensorProto.FLOAT),
        node("Mul", ["c", "factor"], ["a"]),
        node("SampleOp", ["a"], ["r"], name="sample", domain="com.microsoft"),
        node("Mul", ["a", "r"], ["b"]),
        node("Mul", ["b", "factor"], ["d"]),
        node("Relu", ["d"], ["y"]),
    ]
    made = [weights("w", chance.standard_normal((3, 3, 3, 3)).astype(np.float32)), weights("half", np.float64(0.5))]
    net = model(nodes, [tensor_input("x", ("n", 3, 8, 8))], ["y", "c"], made, domains=["com.microsoft"])
    net.graph.value_info.append(tensor_input("r", ("n", 3, 8, 8)))
    with pytest.warns(ModelWarning, match=r"2 parts of the model can be built.*SampleOp, used by 'sample'"):
        path = built(net, tmp_path, "parted", dims={"n": 1})
    with provider(path) as own:
        for level, left in (("ORT_DISABLE_ALL", "2 nodes"), ("ORT_ENABLE_ALL", "1 node")):  # the cast is folded
            session = own.session(path, options(level))
            found = assigned(session)
            assert {"Conv", "Mul", "Relu"} <= set(found[own.PROVIDER]) and found[own.PROVIDER].count("Mul") == 3
            assert "SampleOp" in found["CPUExecutionProvider"]
            told = capfd.readouterr().err
            assert (
                f"edgec_parted leaves {left} of this session to other providers: com.microsoft::SampleOp, used by"
                in told
            )
            same(session, path, image())
            del session


def test_weights_in_files_and_branches(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    sides = {}
    for name, operator in (("then", "Neg"), ("else", "Abs")):
        body = onnx.helper.make_graph([node(operator, ["p"], [name])], name, [], [tensor_input(name, (2, 40))])
        sides[f"{name}_branch"] = body
    w = weights("w", np.random.default_rng(2).standard_normal((30, 40)).astype(np.float32))
    nodes = [node("MatMul", ["x", "w"], ["p"]), node("If", ["side"], ["y"], **sides)]
    net = model(nodes, [tensor_input("x", (2, 30)), tensor_input("side", (), TensorProto.BOOL)], ["y"], [w])
    path = tmp_path / "apart.onnx"
    onnx.save(net, path, save_as_external_data=True, location="apart.weights", size_threshold=0)
    built(net, tmp_path, "apart")
    feed = {"x": np.random.default_rng(3).standard_normal((2, 30)).astype(np.float32), "side": np.array(True)}
    with provider(path) as own:
        session = own.session(path, options())
        assert "MatMul" in assigned(session)[own.PROVIDER] and "computes nothing" not in capfd.readouterr().err
        same(session, path, feed)
        same(session, path, {**feed, "side": np.array(False)})
        del session
        raw = bytearray((tmp_path / "apart.weights").read_bytes())
        raw[2] ^= 1
        (tmp_path / "apart.weights").write_bytes(raw)
        session = own.session(path, options())
        assert own.PROVIDER not in assigned(session), "the weights are others"
        del session


def test_weights_that_a_run_may_replace(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Models of old exporters list weights as inputs; those of the oldest format have to, and nothing replaces them."""
    net = convolutions()
    net.graph.input.extend(tensor_input(w.name, tuple(w.dims)) for w in net.graph.initializer)
    onnx.save(net, tmp_path / "listed.onnx")
    with pytest.warns(ModelWarning, match="lists 5 weights as inputs, which a run of onnxruntime may replace") as seen:
        path = built(net, tmp_path, "listed")
    with provider(path) as own:
        session = own.session(path, options())
        assert set(assigned(session)) == {"CPUExecutionProvider"}
        assert "is a weight that the model lists as an input" in capfd.readouterr().err
        same(session, path, image())
        del session
    command = str(seen[0].message).partition("build that file: ")[2].split()
    subprocess.run([sys.executable, *command[1:]], check=True, cwd=tmp_path)
    net.ir_version = 3
    onnx.save(net, tmp_path / "oldest.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("error", ModelWarning)
        for name in ("fixed", "oldest"):
            edgec.build(tmp_path / f"{name}.onnx", tmp_path / name, app="onnxruntime", compile=False)


def test_cpp_under_sanitizers(tmp_path: Path) -> None:
    """Sessions made and ended, on threads side by side, in a program that has the library of the wheel alone.

    The library has two networks, around an operator that is onnxruntime's; the log has the reason.
    """
    flags = "-fsanitize=address,undefined -fno-sanitize-recover=all -g1"
    net = convolutions()
    net.graph.node.insert(2, node("SampleOp", ["n"], ["s"], name="sample", domain="com.microsoft"))
    net.graph.node[3].input[0] = "s"
    net.graph.value_info.append(tensor_input("s", (1, 4, 8, 8)))
    net.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    with pytest.warns(ModelWarning, match="2 parts of the model can be built"):
        path = built(net, tmp_path, "checked", flags, threads=2)
    app, engine = path.parent / "checked" / "onnxruntime", tmp_path / "libonnxruntime.so.1"
    (library,) = Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.*")
    engine.symlink_to(library)
    program, source = tmp_path / "program", Path(__file__).parent / "programs" / "onnxruntime_session.cpp"
    strict = ["-std=c++17", "-Wall", "-Wextra", *_STRICT.split(), *flags.split(), f"-I{app}", "-pthread"]
    command = ["g++", *strict, source, engine, f"-Wl,-rpath,{tmp_path}", "-o", program]
    subprocess.run(command, check=True)
    image()["x"].tofile(tmp_path / "x")
    done = subprocess.run(
        [program, path, app / "build" / "libchecked_ep.so", tmp_path / "x", tmp_path / "y"],
        capture_output=True, text=True, check=False,
        env={"ASAN_OPTIONS": "detect_leaks=0"},  # of onnxruntime, which keeps its schemas
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for part, count in (("checked", 1), ("checked_2", 2)):
        assert len(re.findall(rf"\b{part} computes {count} nodes? of this session", done.stderr)) == 3, done.stderr
    left = "edgec_checked leaves 1 node of this session to other providers: com.microsoft::SampleOp, used by 'sample'"
    assert done.stderr.count(left) == 3, done.stderr
    np.testing.assert_allclose(np.fromfile(tmp_path / "y", np.float32), plain(path, image())[0].ravel(), atol=1e-5)


def test_refused(tmp_path: Path) -> None:
    found = model([node("NonZero", ["x"], ["y"])])
    with pytest.raises(UsageError, match="the data of a run decide the shape of 'y'"):
        edgec.build(found, tmp_path / "net", app="onnxruntime", compile=False)
    relu = model([node("Relu", ["x"], ["y"])])
    with pytest.raises(UsageError, match="is not for"):
        edgec.build(relu, tmp_path / "net", device="mps2_an386", app="onnxruntime", compile=False)
    narrow = model([node("Identity", ["x"], ["y"])], [tensor_input("x", (4,), TensorProto.INT4)], opset=21)
    with pytest.raises(UsageError, match="'x' has elements of i4, which onnxruntime keeps packed"):
        edgec.build(narrow, tmp_path / "net", app="onnxruntime", compile=False)
    drawn = model([node("RandomUniformLike", ["x"], ["r"]), node("Add", ["x", "r"], ["y"])])
    with pytest.raises(UsageError, match="random numbers need the state 'random_step', which a session does not"):
        edgec.build(drawn, tmp_path / "net", app="onnxruntime", compile=False)
    texts = model([node("StringConcat", ["x", "x"], ["y"])], [tensor_input("x", (4,), TensorProto.STRING)], opset=20)
    with pytest.raises(UsageError, match="'x' is of strings, which a session does not"):
        edgec.build(texts, tmp_path / "net", app="onnxruntime", shapes={"x": (4, 8)}, compile=False)
    alone = model([node("SampleOp", ["x"], ["y"], domain="com.microsoft")], domains=["com.microsoft"])
    with pytest.raises(edgec.errors.ModelError, match="SampleOp, used by 'y'"):
        edgec.build(alone, tmp_path / "net", app="onnxruntime", compile=False)
    assert not (tmp_path / "net").exists()

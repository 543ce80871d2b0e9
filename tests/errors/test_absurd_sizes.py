"""Small files that mean terabytes: what they cost to compile does not depend on the sizes they name."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import onnx
import pytest
from small_models import model, node, tensor_input, weights

import edgec
from benchmarks.robustness.seeds import from_tests
from edgec import ops, pipeline
from edgec.errors import DeviceError, ModelError, UsageError
from edgec.frontend.onnx import import_model
from edgec.ir.graph import constant
from edgec.rewrite import affine
from edgec.rewrite.facts import is_known, is_static

ROOM = 6 << 30  # bytes of address space; a process that has done nothing yet takes two thirds of one gigabyte


def of_sizes(name: str, operator: str, *sizes: int) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    """A constant that an operator makes of sizes, and of which one number is added to x."""
    made = [node(operator, [*(["one"] if operator != "ConstantOfShape" else []), "sizes"], ["c"])]
    last = [node("ReduceSum", [name], ["s"], keepdims=0), node("Add", ["x", "s"], ["y"])]
    return made + last, [weights("sizes", np.array(sizes)), weights("one", np.ones(1, np.float32))]


def absurd() -> dict[str, onnx.ModelProto]:
    summed, given = of_sizes("c", "ConstantOfShape", 2**40)
    tiled, tiles = of_sizes("e", "Tile", 2**33)
    padded, pads = of_sizes("c", "Pad", 2**36, 2**36)
    unit, square = of_sizes("e", "ConstantOfShape", 2**18, 2**18)
    return {
        "summed": model(summed, initializers=given),
        "tiled": model([node("Exp", ["c"], ["e"]), *tiled], initializers=tiles),
        "padded": model(padded, initializers=pads),
        "unit": model([node("EyeLike", ["c"], ["e"]), *unit], initializers=square),
        "input": model([node("Relu", ["x"], ["y"])], [tensor_input("x", [2**40])]),
    }


def test_compiling_takes_no_memory(tmp_path: Path) -> None:
    """Each is built, sources alone, by a process with little room."""
    for name, proto in absurd().items():
        onnx.save(proto, tmp_path / f"{name}.onnx")
    code = f"""
import resource, sys, edgec
resource.setrlimit(resource.RLIMIT_AS, ({ROOM}, {ROOM}))
from edgec.report.build import record
for path in sys.argv[1:]:
    record(edgec.build(path, compile=False))
"""
    files = [str(tmp_path / f"{name}.onnx") for name in absurd()]
    done = subprocess.run([sys.executable, "-c", code, *files], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]


def tables() -> dict[str, onnx.ModelProto]:
    """Nodes whose tables of places or weights are as large as a number in them says."""
    large = 2**31 - 1

    def of(op: str, shape: list[int], *operands: np.ndarray, domain: str = "", **attributes: Any) -> onnx.ModelProto:
        names = [f"w{k}" if array is not None else "" for k, array in enumerate(operands)]
        given = [weights(name, array) for name, array in zip(names, operands) if name]
        made = [node(op, ["x", *names], ["y"], domain=domain, **attributes)]
        proto = model(made, [tensor_input("x", shape)], initializers=given, opset=18)
        proto.opset_import.add(domain="ai.onnx.ml", version=3)
        return proto

    trees = {"nodes_treeids": [0], "nodes_nodeids": [0], "nodes_modes": ["LEAF"], "nodes_featureids": [0],
             "nodes_values": [0.0], "nodes_truenodeids": [0], "nodes_falsenodeids": [0], "target_treeids": [0],
             "target_nodeids": [0], "target_ids": [0], "target_weights": [1.0]}  # fmt: skip
    grams = {"ngram_counts": [0], "ngram_indexes": [large], "pool_int64s": [7], "mode": "TF", "min_gram_length": 1,
             "max_gram_length": 1, "max_skip_count": 0}  # fmt: skip
    counted = model(
        [node("TfIdfVectorizer", ["x"], ["y"], **grams)], [tensor_input("x", [4], onnx.TensorProto.INT64)], opset=18
    )
    sparse = model([node("Add", ["x", "s"], ["y"])], [tensor_input("x", [1])])
    sparse.graph.sparse_initializer.append(
        onnx.helper.make_sparse_tensor(
            weights("s", np.ones(1, np.float32)), weights("i", np.zeros(1, np.int64)), [large]
        )
    )
    return {
        "windows over nothing": of("AveragePool", [1, 1, large, 1], kernel_shape=[large, 2]),
        "taps": of("Resize", [1, 1, 2**30], None, None, np.int64([1, 1, 1]), mode="linear", antialias=1),
        "pieces": model(
            [node("SplitToSequence", ["x"], ["s"]), node("SequenceLength", ["s"], ["y"])],
            [tensor_input("x", [2**30])], opset=18,
        ),
        "votes": of("TreeEnsembleRegressor", [1, 1], domain="ai.onnx.ml", n_targets=large, **trees),
        "grams": counted,
        "sparse": sparse,
    }  # fmt: skip


def lite_tables() -> dict[str, bytes]:
    lite = from_tests("tflite", "small_tflite")
    found = {}

    def case(op: str, shape: tuple[int, ...], out: tuple[int, ...], options: Any, *constants: Any) -> None:
        file = lite.File()
        x = file.main.input("f32", shape)
        y = file.main.tensor("f32" if op != "RANGE" else "i32", out, "y")
        given = [file.main.const(c) for c in constants]
        file.main.op(op, [x, *given] if op != "RANGE" else given, [y], options)
        file.main.output(y)
        found[f"{op}.tflite"] = file.content()

    large = 2**30
    case("TILE", (1,), (large,), None, [large])
    case("MIRROR_PAD", (4,), (4,), lite.options("MirrorPad", mode=1), [[0, large]])
    case("RANGE", (4,), (large,), None, 0, large, 1)
    pool = lite.options("Pool2D", filterHeight=2, filterWidth=1, strideH=1, strideW=1)
    case("AVERAGE_POOL_2D", (1, 2**15, 2**15, 1), (1, 2**15, 2**15, 1), pool)
    return found


def test_tables_are_not_made_of_numbers_alone(tmp_path: Path) -> None:
    """They took the memory there is, and were then told as nodes that do not fit their operators."""
    content = {f"{name}.onnx": proto.SerializeToString() for name, proto in tables().items()}
    for name, text in (content | lite_tables()).items():
        (tmp_path / name).write_bytes(text)
    code = f"""
import resource, sys, edgec
resource.setrlimit(resource.RLIMIT_AS, ({ROOM // 2}, {ROOM // 2}))
for path in sys.argv[1:]:
    try:
        edgec.load(path)
    except edgec.EdgecError as error:
        assert not isinstance(error.__cause__ or error.__context__, MemoryError), (path, error)
        print(path, error.message)
"""
    files = sorted(map(str, tmp_path.iterdir()))
    done = subprocess.run([sys.executable, "-c", code, *files], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    refused = [Path(line.partition(" ")[0]).name for line in done.stdout.splitlines()]
    assert len(refused) == len(files) - 1, done.stdout


@pytest.mark.parametrize("device", ["cortex_m4", "generic_opencl"])
def test_kernels_that_count_in_32_bits(device: str) -> None:
    with pytest.raises(DeviceError, match=f"kernels for '{device}' count in 32 bits"):
        edgec.build(absurd()["input"], device=device, compile=False)


def test_too_little_memory_is_said_in_words(tmp_path: Path) -> None:
    onnx.save(absurd()["input"], tmp_path / "input.onnx")
    command = [sys.executable, "-m", "edgec", "check", str(tmp_path / "input.onnx")]

    def little() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (ROOM, ROOM))

    done = subprocess.run(command, capture_output=True, text=True, timeout=120, preexec_fn=little)
    assert done.returncode == 2 and done.stderr.startswith("error: out of memory: Unable to allocate")


@pytest.mark.parametrize("fuse", ["planner", "none"])
def test_a_concatenation_of_many_parts_is_no_deep_formula(fuse: str) -> None:
    """Of rows in another order: a formula that chooses one part after the other would be as deep as there are parts."""
    count = 700
    order = np.arange(count) * 9 % count
    parts = [f"s{k}" for k in range(count)]
    nodes = [
        node("Split", ["x"], parts, axis=0, num_outputs=count),
        node("Concat", [parts[k] for k in order], ["z"], axis=0),
        node("Neg", ["z"], ["y"]),
    ]
    built = edgec.build(model(nodes, [tensor_input("x", [count, 2])], opset=18), compile=False, fuse=fuse)
    x = np.arange(2 * count, dtype=np.float32).reshape(count, 2)
    step = next(s for s in built.stages.steps if s.stage.name == "schedule")
    assert np.array_equal(step.stage.executor(step.value, built.stages.context)({"x": x})["y"], -x[order])


def test_inputs_that_no_memory_holds_are_told(tmp_path: Path) -> None:
    """Drawn inputs of 2^40 numbers are no mistake of the program, in a command as in Python."""
    path = tmp_path / "net.onnx"
    onnx.save(absurd()["input"], path)
    options = "device='generic_opencl', precision='mixed', calibrate='random', compile=False"
    for line, code in (
        (f"from edgec.cli.main import main; main(['check', {str(path)!r}])", 2),
        (f"import edgec; edgec.build({str(path)!r}, 'out', {options})", 1),
    ):
        limited = f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({ROOM}, {ROOM})); {line}"
        done = subprocess.run(
            [sys.executable, "-c", limited], capture_output=True, text=True, timeout=120, cwd=tmp_path
        )
        assert done.returncode == code and "out of memory: Unable to allocate" in done.stderr, done.stderr[-2000:]
        assert code == 2 or "UsageError" in done.stderr


@pytest.mark.parametrize("call", ["check", "bench", "explain", "certify"])
def test_too_little_memory_is_an_error_in_python(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> NoReturn:
        raise MemoryError("Unable to allocate 1 TiB")

    monkeypatch.setattr(pipeline, "run", full)
    with pytest.raises(UsageError, match="out of memory: Unable to allocate 1 TiB"):
        getattr(edgec, call)(
            model([node("Relu", ["x"], ["y"])], [tensor_input("x", [4])]), *["y"] * (call == "explain")
        )


def test_a_constant_that_is_absurdly_large_is_not_computed() -> None:
    """Whoever asks for it; weights that are stored are, however large."""
    one = constant(np.ones((1, 1), np.float32))
    grown = ops.node("exp", ops.node("broadcast", one, shape=(2**14, 2**13)))
    assert is_static(grown) and not is_known(grown)
    with pytest.raises(ModelError, match="too large to compute"):
        affine.value_of(grown)
    stored = constant(np.zeros(2**27, np.int8))
    assert is_known(ops.node("cast", stored, to="f32"))
    assert not is_known(ops.node("cast", ops.node("broadcast", stored, shape=(5, 2**27)), to="f32"))


def test_what_is_large_by_its_shape_alone_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An offset of 2^27 equal numbers, which took their memory while rules looked for integers behind it."""

    def run(*_: object) -> NoReturn:
        raise AssertionError("it is computed")

    sizes = weights("sizes", np.array([2**14, 2**13]))
    nodes = [node("Exp", ["one"], ["e"]), node("Expand", ["e", "sizes"], ["c"]), node("Cast", ["x"], ["f"], to=1)]
    given = [tensor_input("x", [2**14, 2**13], onnx.TensorProto.INT8)]
    proto = model(
        [*nodes, node("Add", ["f", "c"], ["y"])], given, ["y"], [sizes, weights("one", np.ones((1, 1), "f4"))]
    )
    monkeypatch.setattr(affine, "run", run)
    ((_, total),) = import_model(proto).outputs
    assert total.op == "add" and not any(a.is_const for a in total.args)
    assert affine.affine(total, 4) is None

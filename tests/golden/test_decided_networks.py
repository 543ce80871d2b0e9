"""Decisions of all stages for small networks built with options that change plans: precisions, memory, training.

A file of ``networks`` has a network, its options, the schedules of its kernels (how often each), memory, and a
checksum of the program as text. ``pytest tests/golden --update-golden`` writes the files.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from golden_models import MODELS, numbers
from small_models import model, node, tensor_input, weights

from edgec.api import Context, resolve
from edgec.frontend.onnx.model import read
from edgec.pipeline import run
from edgec.pipeline.training import trained_run
from edgec.schedule.program import Program
from edgec.schedule.text import write_program

FOLDER = Path(__file__).with_name("networks")


def attention(tokens: int = 24, width: int = 16, heads: int = 2) -> onnx.ModelProto:
    """A layer of attention with its residual and norm, and two products behind it."""
    nodes, held = [], {"scale": np.float32(0.25), "split": np.array([0, 0, heads, width // heads])}
    for name, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        held[f"w{name}"] = numbers(width, width)
        nodes += [
            node("MatMul", ["x", f"w{name}"], [f"p{name}"], f"{name}_product"),
            node("Reshape", [f"p{name}", "split"], [f"s{name}"]),
            node("Transpose", [f"s{name}"], [name], perm=order),
        ]
    nodes += [
        node("MatMul", ["q", "k"], ["scores"]), node("Mul", ["scores", "scale"], ["scaled"]),
        node("Softmax", ["scaled"], ["shares"], axis=-1), node("MatMul", ["shares", "v"], ["mixed"]),
        node("Transpose", ["mixed"], ["back"], perm=[0, 2, 1, 3]), node("Reshape", ["back", "join"], ["joined"]),
        node("Add", ["joined", "x"], ["sum"]), node("ReduceMean", ["sum"], ["mean"], axes=[2], keepdims=1),
        node("Sub", ["sum", "mean"], ["centered"]), node("Mul", ["centered", "centered"], ["squares"]),
        node("ReduceMean", ["squares"], ["variance"], axes=[2], keepdims=1),
        node("Add", ["variance", "eps"], ["above"]), node("Sqrt", ["above"], ["deviation"]),
        node("Div", ["centered", "deviation"], ["norm"]),
        node("MatMul", ["norm", "up"], ["wide"], "up"), node("Relu", ["wide"], ["bent"]),
        node("MatMul", ["bent", "down"], ["y"], "down"),
    ]  # fmt: skip
    held |= {"join": np.array([0, 0, width]), "eps": np.float32(1e-5)}
    held |= {"up": numbers(width, 4 * width), "down": numbers(4 * width, width)}
    return model(nodes, [tensor_input("x", [1, tokens, width])], ["y"], [weights(n, v) for n, v in held.items()])


def mobile(size: int = 24) -> onnx.ModelProto:
    """Two inverted bottlenecks, one with a residual, a pool and a dense layer."""
    nodes, held, before, channels = [], {}, "x", 3
    for k, (outputs, stride) in enumerate(((8, 2), (8, 1))):
        sizes = {"a": (4 * outputs, channels, 1, 1), "b": (4 * outputs, 1, 3, 3), "c": (outputs, 4 * outputs, 1, 1)}
        held |= {f"{part}{k}": numbers(*shape) for part, shape in sizes.items()}
        depthwise = {"group": 4 * outputs, "pads": [1, 1, 1, 1], "strides": [stride, stride]}
        nodes += [
            node("Conv", [before, f"a{k}"], [f"wide{k}"], f"expand{k}"),
            node("Relu", [f"wide{k}"], [f"bent{k}"]),
            node("Conv", [f"bent{k}", f"b{k}"], [f"deep{k}"], f"depthwise{k}", **depthwise),
            node("Relu", [f"deep{k}"], [f"low{k}"]),
            node("Conv", [f"low{k}", f"c{k}"], [f"out{k}"], f"project{k}"),
        ]
        if channels == outputs:
            nodes.append(node("Add", [f"out{k}", before], [f"sum{k}"]))
        before, channels = (f"sum{k}" if channels == outputs else f"out{k}"), outputs
    nodes += [
        node("Conv", [before, "last"], ["whole"], "last", pads=[1, 1, 1, 1]),
        node("GlobalAveragePool", ["whole"], ["mean"]), node("Flatten", ["mean"], ["flat"]),
        node("MatMul", ["flat", "classes"], ["y"], "classes"),
    ]  # fmt: skip
    held |= {"last": numbers(16, 8, 3, 3), "classes": numbers(16, 5)}
    return model(nodes, [tensor_input("x", [1, 3, size, size])], ["y"], [weights(n, v) for n, v in held.items()])


NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "attention": attention, "mobile": mobile, "classifier": MODELS["classifier"][0], "blend": MODELS["blend"][0],
    "few queries": lambda: attention(3, 32, 2), "long": lambda: attention(160, 64, 4),
}  # fmt: skip
TRAINED: dict[str, Any] = {"loss": "mse", "batch": 4, "optimizer": "adam"}
BUILDS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("attention", {"device": "x86_64_avx512", "threads": 4}),
    ("attention", {"device": "cuda_sm90", "precision": "fp16"}),
    ("attention", {"device": "x86_64_avx2", **TRAINED}),
    ("attention", {"device": "cuda_sm90", "precision": "bf16", **TRAINED}),
    ("few queries", {"device": "neoverse_v1", "threads": 2}),
    ("few queries", {"device": "cuda_sm86"}),
    ("long", {"device": "cuda_sm90", "precision": "bf16"}),
    ("long", {"device": "jetson_orin_nano", "precision": "fp16"}),
    ("long", {"device": "adreno_740", "precision": "fp16"}),
    ("long", {"device": "cortex_a55", "threads": 2}),
    ("mobile", {"device": "cortex_m4", "ram": 60000}),
    ("mobile", {"device": "cortex_m55", "fuse": "none"}),
    ("mobile", {"device": "neoverse_v1", "numeric": "approximates"}),
    ("mobile", {"device": "generic_opencl"}),
    ("mobile", {"device": "cuda_sm90", "precision": "fp16"}),
    ("mobile", {"device": "x86_64_avx512", **TRAINED}),
    ("mobile", {"device": "cuda_sm86", **TRAINED}),
    ("classifier", {"device": "cuda_sm90", "precision": "tf32"}),
    ("blend", {"device": "cortex_m7"}),
    ("mobile", {"device": "x86_64_avx2", "bounds": True, "numeric": "exact"}),
    ("classifier", {"device": "cuda_sm86", "bounds": True}),
    ("attention", {"device": "neoverse_v1", "bounds": True}),
    ("attention", {"device": "x86_64_avx2", "loss": "mse", "batch": 8, "optimizer": "sgd", "accumulate": 2}),
    ("attention", {"device": "x86_64_avx2", **TRAINED, "update": "lora=4"}),
    ("mobile", {"device": "cortex_a55", **TRAINED, "update": "last:1"}),
    ("mobile", {"device": "cortex_m7", **TRAINED, "update": "last:2", "ram": 400_000}),
    (
        "classifier",
        {"device": "cuda_sm90", **TRAINED, "loss": "cross_entropy", "optimizer": "adamw", "precision": "fp16"},
    ),
    ("classifier", {"device": "x86_64_avx512", **TRAINED, "dropout": "0.1"}),
    ("mobile", {"device": "cortex_m55", "quantize": "int8-dynamic"}),
    ("long", {"device": "x86_64_avx512", "quantize": "int4-weight", "threads": 4}),
    ("long", {"device": "x86_64_avx2", "precision": "bf16", "threads": 8}),
    ("long", {"device": "galaxy_s20", "place": "auto"}),
    ("mobile", {"device": "galaxy_s20", "place": "gpu"}),
    ("mobile", {"device": "cortex_m4", "ram": 16_000}),
    ("mobile", {"device": "cortex_m4", "ram": 24_000}),
    ("mobile", {"device": "x86_64_avx2", "threads": 4, "materialize": ["project0"]}),
    ("mobile", {"device": "a64fx", "threads": 4}),
    ("classifier", {"device": "riscv64_rvv", "numeric": "exact"}),
    ("attention", {"device": "webgpu"}),
    ("attention", {"device": "cortex_m55"}),
)


def decided(network: bytes, context: Context) -> Program:
    """The program of a network, or of the step that trains it."""
    if context.options.training is None:
        found: Program = run(network, context, until="schedule")["schedule"]
        return found
    _, done = trained_run(read(network), context)
    assert done["schedule"].training is not None
    step: Program = done["schedule"].training.step
    return step


@pytest.mark.parametrize("k", range(len(BUILDS)))
def test_decided_networks(k: int, update_golden: bool) -> None:
    name, options = BUILDS[k]
    program = decided(NETWORKS[name]().SerializeToString(), Context(resolve({**options, "name": "net"})))
    kinds = Counter(type(kernel.schedule).__name__ for kernel in program.kernels)
    text = write_program(program).text
    line = " | ".join(
        [
            name,
            " ".join(f"{option}={value}" for option, value in options.items()),
            " ".join(f"{kind} {count}" for kind, count in sorted(kinds.items())),
            f"{program.arena_bytes} {program.weights_bytes} {program.scratch_bytes}",
            f"{zlib.crc32(text.encode()):08x}",
        ]
    )
    kept = FOLDER / f"{k}.txt"
    if update_golden:
        FOLDER.mkdir(exist_ok=True)
        kept.write_text(line + "\n", encoding="utf-8")
    assert kept.read_text(encoding="utf-8") == line + "\n", "pytest tests/golden --update-golden"

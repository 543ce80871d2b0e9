"""Kernels that are alike are rendered once, and their text is what each would have alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from drawn import part
from kernel_cases import cases
from opencl_networks import accepted, joined
from small_models import model, node, tensor_input, weights

from benchmarks.build_time import chain
from edgec import pipeline
from edgec.device.load import load_device
from edgec.emit import source
from edgec.emit.language import language_of
from edgec.emit.project import files
from edgec.fuse import plan
from edgec.options import resolve
from edgec.pipeline.context import Context
from edgec.schedule.build import schedule
from edgec.schedule.program import Program


def almost_alike() -> onnx.ModelProto:
    """Products of one size, of which each is followed by something a little else, and two are followed by the same."""
    ends = [
        node("LeakyRelu", ["p0"], ["e0"], alpha=0.25), node("LeakyRelu", ["p1"], ["e1"], alpha=0.125),
        node("LeakyRelu", ["p2"], ["e2"], alpha=0.25), node("LeakyRelu", ["p3"], ["e3"], alpha=0.25),
        node("Add", ["p4", "e3"], ["e4"]), node("Add", ["p5", "p5"], ["e5"]), node("Mul", ["p6", "e5"], ["e6"]),
        node("Transpose", ["p7"], ["e7"], perm=[1, 0]),
    ]  # fmt: skip
    nodes, given, value = [], [], "x"
    for k, end in enumerate(ends):
        nodes += [node("MatMul", [value, f"w{k}"], [f"p{k}"]), end]
        given.append(weights(f"w{k}", np.float32(np.arange(64).reshape(8, 8) % (k + 3)) - 1))
        value = f"e{k}"
    return model(nodes, [tensor_input("x", [8, 8])], [value], given)


def program(source: onnx.ModelProto | str, device: str) -> Program:
    made = pipeline.run(source, Context(resolve({"device": device, "profiles": False, "threads": 1})), until="schedule")
    found: Program = made["schedule"]
    return found


def rendered(program: Program, rendering: source.Rendering) -> list[str]:
    return [rendering.of(k, "KERNEL", source.aliases_of(k, program))[1] for k in program.kernels]


@pytest.mark.parametrize("device", ["x86_64_avx2", "cuda_sm86", "generic_opencl"])
def test_text_is_what_each_has_alone(device: str, tmp_path: Path) -> None:
    for model_of in (almost_alike(), str(chain(30, tmp_path / "chain.onnx"))):
        found = program(model_of, device)
        language = language_of(resolve({"device": device}).device)
        alone = [source.Rendering((), language).of(k, "KERNEL", source.aliases_of(k, found))[1] for k in found.kernels]
        assert rendered(found, source.Rendering((), language)) == alone
        assert 1 < len({*alone}) < len(alone)


def test_alike_blocks_are_rendered_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original, calls = source.render, list[str]()

    def counted(template: str, *rest: object, **values: object) -> str:
        calls.append(template)
        return original(template, *rest, **values)

    monkeypatch.setattr(source, "render", counted)
    counts = []
    for nodes in (50, 100):
        calls.clear()
        source.generate(program(str(chain(nodes, tmp_path / "chain.onnx")), "x86_64_avx2"), "net")
        counts.append(len(calls))
    assert counts[0] == counts[1] < 15


@pytest.mark.parametrize("name", ["host", "cortex_a55", "cortex_m7", "cuda_sm90", "generic_opencl", "mali_g78"])
def test_every_kind_of_kernel_is_as_if_none_were_alike(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    device, every = load_device(name), cases()
    for group in part(every, name):
        graphs = accepted(every[group], device)[0] if device.is_gpu else every[group]
        made = schedule(plan(joined(graphs), gpu=device.is_gpu), device)
        once = files(made, device, "net")
        with monkeypatch.context() as m:
            m.setattr(source, "likeness", lambda *of: object())
            assert files(made, device, "net") == once, group

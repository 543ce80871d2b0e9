"""An operator, a kernel template and a device of the user's own: each is one file in a folder outside the package."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from convnet import convnet
from small_models import model, node

import edgec
from edgec.errors import ModelError
from edgec.resources import data_folder

OPERATOR = '''
"""com.example.tests::Tripled: y = 3 * x."""

from edgec.frontend import Value
from edgec.frontend.onnx import Call, onnx


@onnx("Tripled", domain="com.example.tests")
def tripled(call: Call) -> Value:
    return call[0] * 3.0
'''


def test_an_operator(tmp_path: Path) -> None:
    proto = model([node("Tripled", ["x"], ["y"], domain="com.example.tests")], domains=["com.example.tests"])
    with pytest.raises(ModelError, match="Tripled"):
        edgec.build(proto, compile=False)
    (tmp_path / "tripled.py").write_text(OPERATOR, encoding="utf-8")
    net = edgec.build(proto, operators=[tmp_path])
    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    np.testing.assert_array_equal(net(x), 3 * x)
    checked = edgec.check(net)
    assert checked.ok and checked.reference == "the graph in numpy"  # onnxruntime does not know it


def test_a_template(tmp_path: Path) -> None:
    shipped = (data_folder("codegen_templates") / "c" / "map.c.jinja").read_text(encoding="utf-8")
    mine = shipped.replace("//# kernel: map", "//# kernel: my_map\n//# schedule: map", 1)
    assert mine != shipped
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "my_map.c.jinja").write_text(mine, encoding="utf-8")
    net = edgec.build(model([node("Sin", ["x"], ["y"])]), templates=[tmp_path])
    assert "net_0_my_map" in (net.folder / "net.c").read_text(encoding="utf-8")
    assert edgec.check(net).ok


def test_a_template_of_a_gpu(tmp_path: Path) -> None:
    """One in ``gpu`` is for every language that has the schedule; one in a language's own folder goes before it."""
    shipped = (data_folder("codegen_templates") / "gpu" / "map.gpu.jinja").read_text(encoding="utf-8")
    for path, comment in (("gpu/map.gpu.jinja", "mine"), ("cuda/map.cu.jinja", "mine, in CUDA")):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text(shipped.replace("${k.head}", f"/* {comment} */\n${{k.head}}", 1), encoding="utf-8")
    for device, file, comment in (
        ("generic_opencl", "net_kernels_0.cl", "/* mine */"), ("jetson", "net_kernels_0.cu", "/* mine, in CUDA */"),
    ):  # fmt: skip
        built = edgec.build(model([node("Sin", ["x"], ["y"])]), device=device, templates=[tmp_path], compile=False)
        assert comment in (built.folder / file).read_text(encoding="utf-8")


def test_a_device(tmp_path: Path) -> None:
    text = 'base = "host"\ndescription = "this machine, with half its registers"\nvector_registers = 8\n'
    (tmp_path / "half.toml").write_text(text, encoding="utf-8")
    net = edgec.build(convnet(), device="half", devices=[tmp_path])
    assert net.options.device.vector_registers == 8 and edgec.check(net).ok


def test_a_law_of_ones_own_is_proved_first(tmp_path: Path) -> None:
    rule = '''
from edgec.rewrite import rule


@rule("identity", numeric="exact")
def {name}(x):
    """(x + x) + x {word} 3 * x."""
    return (x + x) + x, x * {factor}
'''
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> net (float[2,3] x) => (float[2,3] y) '
        "{ a = Sin(x) b = Add(a, a) y = Add(b, a) }"
    )
    good, bad = tmp_path / "good", tmp_path / "bad"
    for folder, name, factor in ((good, "triple_my_way", 3), (bad, "double_by_mistake", 2)):
        folder.mkdir()
        (folder / "rule.py").write_text(rule.format(name=name, word="=", factor=factor), encoding="utf-8")
    assert edgec.check(proto, rules=[good]).ok
    with pytest.raises(edgec.errors.EdgecError, match="double_by_mistake"):
        edgec.build(proto, rules=[bad], compile=False)

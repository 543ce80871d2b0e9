"""One file in a folder outside the package adds an operator, a template or a device; a model is built with it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from chance import RANDOM
from onnx import TensorProto
from small_models import model, node, tensor_input, weights

import edgec
from edgec.errors import EdgecError
from edgec.resources import data_folder

DOMAIN = "com.example.extensions"

OPERATORS = '''
"""Operators of one's own, each a core operator and its spelling in ONNX."""

from edgec.frontend import Value
from edgec.frontend.onnx import Call, onnx
from edgec.ir.graph import Formula
from edgec.ops import Tensor, compute, op, over, reduce_over


@op
def pairwise(a: Tensor, b: Tensor) -> Formula:
    """y[m, n] = sum over k of |a[m, k] - b[n, k]|."""

    def body(m, n):
        (k,) = over(a.shape[1])
        d = a[m, k] - b[n, k]
        return reduce_over("add", (k,), d * d)

    return compute((a.shape[0], b.shape[0]), body)


@op
def bilinear(x: Tensor, w: Tensor) -> Formula:
    """y[b, o] = sum over i of x[b, i] * w[o, i]: a contraction that is not called matmul."""

    def body(b, o):
        (i,) = over(x.shape[1])
        return reduce_over("add", (i,), x[b, i] * w[o, i])

    return compute((x.shape[0], w.shape[0]), body)


@onnx("Pairwise", domain="com.example.extensions")
def pairwise_(call: Call) -> Value:
    return call.node("pairwise", call[0], call[1])


@onnx("Bilinear", domain="com.example.extensions")
def bilinear_(call: Call) -> Value:
    return call.node("bilinear", call[0], call[1])
'''


def floats(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def close(got: np.ndarray, want: np.ndarray) -> None:
    np.testing.assert_allclose(got, want, atol=1e-5 * np.abs(want).max())


def test_operators(tmp_path: Path) -> None:
    (tmp_path / "distances.py").write_text(OPERATORS, encoding="utf-8")
    w = floats(9, 21)
    nodes = [
        node("Exp", ["x"], ["e"]),
        node("Pad", ["e", "pads"], ["p"]),
        node("Bilinear", ["p", "w"], ["s"], domain=DOMAIN),
        node("Relu", ["s"], ["r"]),
        node("Transpose", ["p"], ["t"], perm=[0, 1]),
        node("Pairwise", ["t", "w"], ["d"], domain=DOMAIN),
        node("Softmax", ["d"], ["y"], axis=1),
    ]
    proto = model(
        nodes, [tensor_input("x", [5, 18])], ["r", "y"],
        [weights("pads", np.array([0, 1, 0, 2])), weights("w", w)], domains=[DOMAIN],
    )  # fmt: skip
    x = floats(5, 18)
    padded = np.pad(np.exp(x), ((0, 0), (1, 2)))
    distances = ((padded[:, None] - w[None]) ** 2).sum(2)
    e = np.exp(distances - distances.max(1, keepdims=True))
    for fuse in (True, False):
        net = edgec.build(proto, operators=[tmp_path], fuse=fuse)
        got = net(x)
        close(got["r"], np.maximum(padded @ w.T, 0))
        close(got["y"], e / e.sum(1, keepdims=True))
        kinds = {k.block.nodes[0].op: k.template for k in net.program.kernels if k.block}
        assert kinds["bilinear"] == "contract"  # by its formula, whatever its name


def products(*rows: int) -> onnx.ModelProto:
    """Vectors and matrices times constants, as many outputs as rows."""
    return model(
        [node("MatMul", [f"x{m}", f"w{m}"], [f"y{m}"]) for m in rows],
        [tensor_input(f"x{m}", [m, 20], TensorProto.FLOAT) for m in rows],
        [f"y{m}" for m in rows],
        [weights(f"w{m}", floats(20, 33)) for m in rows],
    )


@pytest.mark.parametrize("file", ["vector_matrix", "contract"])  # the second has the name of a shipped file
def test_a_template(file: str, tmp_path: Path) -> None:
    shipped = (data_folder("codegen_templates") / "c" / "contract.c.jinja").read_text(encoding="utf-8")
    head = "//# kernel: vector_matrix\n//# schedule: contract\n//# require: k.m_extent == 1\n"
    mine = re.sub(r"^//# kernel: contract\n", head, shipped).replace(
        "${kernel(k)", "/* one row, my way */\n${kernel(k)", 1
    )
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / f"{file}.c.jinja").write_text(mine, encoding="utf-8")
    net = edgec.build(products(1, 2), templates=[tmp_path])
    sources = {p.name: p.read_text(encoding="utf-8") for p in net.folder.glob("net*.c")}
    text = "".join(sources.values())
    assert text.count("one row, my way") == 1
    functions = re.findall(r"^void (net_\d+_\w+)\(", text, re.MULTILINE)
    assert sorted(f.split("_", 2)[2] for f in functions) == ["contract", "vector_matrix"]
    assert edgec.check(net).ok


@pytest.mark.parametrize(
    "head, message",
    [
        ("//# schedule: contract", "a kernel template starts with '//# kernel: NAME'"),
        ("//# kernel: mine\n//# schedule: spiral", "no schedule 'spiral'"),
        ("//# kernel: mine\n//# schedule: contract\n//# require: k.no_such_fact == 1", "no_such_fact"),
        ("//# kernel: mine\n//# schedule: contract\n//# require: k.m_extent ==", "require: k.m_extent =="),
        ("//# kernel: mine\n//# schedule: contract\n${k.no_such_fact}", "mine.c.jinja:3"),
        ("//# kernel: mine\n//# schedule: contract\n\n${1 + 'a'}", "mine.c.jinja:4"),
        ("//# kernel: mine\n//# schedule: contract\n//% if k.name", "mine.c.jinja:3"),
    ],
)
def test_a_template_with_a_mistake(head: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "mine.c.jinja").write_text(f"{head}\n", encoding="utf-8")
    with pytest.raises(EdgecError, match=re.escape(message)) as raised:
        edgec.build(products(1), templates=[tmp_path], compile=False)
    assert "mine.c.jinja" in str(raised.value)


@pytest.mark.parametrize(
    "facts",
    [
        "vector_bytes = 4\nvector_registers = 13\n[toolchain]\ncflags = []",  # a core without vectors
        "vector_bytes = 16\nvector_registers = 8\nl1d_bytes = 0\nl2_bytes = 0\n[toolchain]\ncflags = []",
    ],
)
def test_a_device(facts: str, tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(f'base = "host"\ndescription = "small"\n{facts}\n', encoding="utf-8")
    net = edgec.build(products(1, 7), device="tiny", devices=[tmp_path], threads=2)
    assert net.options.device.name == "tiny"
    source = (net.folder / "net_kernels_0.c").read_text(encoding="utf-8")
    assert "for tiny with vectors of 4 floats" in source
    assert edgec.check(net).ok


MICRO = """
from pathlib import Path
from edgec.schedule.contract.micro_kernel import MicroKernel

MINE = MicroKernel(
    "{name}", ("fp32",), "ec_{name}({{s}}, {{l}}, {{c}})", header=Path(__file__).with_name("{name}.h")
)
"""
ADDED = "EC_INLINE ec_vf ec_{name}(ec_vf s, ec_vf l, ec_vf c) {{ return s * l + c{more}; }}\n"


def a_micro_kernel(folder: Path, name: str, more: str = "") -> Path:
    """A folder with a multiply-add under another name; ``more`` is what a mistake adds to it."""
    folder.mkdir()
    (folder / f"{name}.py").write_text(MICRO.format(name=name), encoding="utf-8")
    (folder / f"{name}.h").write_text(ADDED.format(name=name, more=more), encoding="utf-8")
    return folder


@pytest.mark.parametrize("fuse", [True, False])
def test_a_micro_kernel(fuse: bool, tmp_path: Path) -> None:
    folder = a_micro_kernel(tmp_path / "mine", f"own_{fuse}".lower())
    net = edgec.build(products(1, 7), micro_kernels=[folder], fuse=fuse, threads=2)
    kernels = "".join(p.read_text(encoding="utf-8") for p in net.folder.glob("net_kernels_*.c"))
    assert kernels.count(f"= ec_own_{fuse}(".lower()) > 1 and "ec_fma(" not in kernels
    assert edgec.check(net).ok
    saved = tmp_path / "stages"
    again = edgec.build(products(1, 7), tmp_path / "a", micro_kernels=[folder], fuse=fuse, threads=2, save_stages=saved)
    restarted = edgec.build(
        saved / "5_schedule.txt", tmp_path / "b", start="emit", micro_kernels=[folder], fuse=fuse, threads=2
    )
    files = [{p.name: p.read_bytes() for p in n.folder.glob("net*.c")} for n in (again, restarted)]
    assert files[0] == files[1] and files[0]


def test_a_micro_kernel_with_a_mistake(tmp_path: Path) -> None:
    """A wrong sum is found by the check, at the stage that writes C."""
    net = edgec.build(products(7), micro_kernels=[a_micro_kernel(tmp_path / "mine", "off_by_one", " + 1")])
    checked = edgec.check(net)
    assert not checked.ok and checked.executed_stage == "emit"


@pytest.mark.parametrize(
    "text, message",
    [
        ("x = 1 / 0", "ZeroDivisionError"),
        ("x = 1", "defines no micro-kernel"),
        (MICRO.format(name="fma"), "there is a micro-kernel 'fma' already"),
        (MICRO.format(name="a b"), "'a b' cannot be the name of a micro-kernel"),
        (MICRO.format(name="lost").replace("lost.h", "gone.h"), "the header of 'lost' is missing: gone.h"),
    ],
)
def test_files_that_are_no_micro_kernels(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(text, encoding="utf-8")
    for name in ("fma", "a b"):
        (tmp_path / f"{name}.h").write_text("", encoding="utf-8")
    with pytest.raises(EdgecError, match=message) as raised:
        edgec.build(products(1), micro_kernels=[tmp_path], compile=False)
    assert "mine.py" in str(raised.value)
    with pytest.raises(EdgecError, match="no such folder of micro-kernels"):
        edgec.build(products(1), micro_kernels=[tmp_path / "nowhere"], compile=False)

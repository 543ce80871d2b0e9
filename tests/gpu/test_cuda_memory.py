"""The host's ways to give a CUDA network its memory: ports in page-locked or shared memory hold what a run needs."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from chance import RANDOM
from emulated import Emulated, emulate
from small_graphs import constant, graph, number, relu, total, transpose, value

from edgec import ops
from edgec.device.load import load_device
from edgec.emit.project import files
from edgec.fuse import plan
from edgec.ir import evaluate
from edgec.ir.graph import Node
from edgec.resources import data_folder
from edgec.rewrite import simplify
from edgec.schedule.build import schedule
from edgec.schedule.options import ScheduleOptions

PINNED, UNIFIED = 1, 2


@pytest.mark.parametrize("memory", [PINNED, UNIFIED])
def test_ports_hold_inputs_and_outputs(memory: int, tmp_path: Path) -> None:
    network = emulate({"relu": graph(relu(value("x", 3, 5)))}, tmp_path, load_device("jetson"))["relu"]
    assert isinstance(network, Emulated)
    library, prefix = network.library, network.prefix
    session = ctypes.c_void_p()
    weights = ctypes.create_string_buffer(8)
    assert getattr(library, f"{prefix}_open_as")(ctypes.byref(session), weights, memory) == 0
    port = getattr(library, f"{prefix}_port")
    port.restype = ctypes.c_void_p
    x, y = (
        np.ctypeslib.as_array(ctypes.cast(port(session, k), ctypes.POINTER(ctypes.c_float)), (3, 5)) for k in (0, 1)
    )
    assert port(session, 2) is None
    x[...] = np.random.default_rng(0).standard_normal((3, 5))
    assert getattr(library, f"{prefix}_run_ports")(session) == 0
    assert (y == np.maximum(x, 0)).all()
    getattr(library, f"{prefix}_close")(session)


def test_a_session_of_its_own_memory_has_no_ports(tmp_path: Path) -> None:
    network = emulate({"relu": graph(relu(value("x", 3, 5)))}, tmp_path, load_device("jetson"))["relu"]
    assert isinstance(network, Emulated)
    assert getattr(network.library, f"{network.prefix}_run_ports")(network.session) != 0


def test_what_is_summed_up_to_a_position_keeps_its_bits() -> None:
    """Of halves: where something is read, and what was added to it, are floats; what is read there is not."""
    device = replace(load_device("jetson"), precision="fp16")
    start, move, x = (ops.node("reduce", value(n, 6, 4), combine="add", axes=(1,)) for n in "abx")
    place = ops.node("add", start, ops.node("mul", move, constant(np.float32(0.5))))
    read = ops.node("gather", x, ops.node("cast", ops.node("floor", place), to="i64"), axis=0)
    made = graph(ops.node("reduce", read, combine="add", axes=(0,)), *(ops.node("neg", n) for n in (start, move, x)))
    program = schedule(plan(made, gpu=True), device, ScheduleOptions(fp32_blocks=0))
    types = {n: program.views[n].buffer.dtype for n in (start, move, x) if n in program.views}
    assert types == {start: "f32", move: "f32", x: "f16"}


#: The first statements of a kernel in templates that CUDA shares with OpenCL; in CUDA they are ``ec_wait();``.
PROLOGUE = "//% for line in k.prologue\n  ${line}\n//% endfor\n"


@pytest.mark.parametrize(("folder", "waiting"), [("cuda", "ec_wait();"), ("gpu", PROLOGUE)])
def test_kernels_wait_before_they_touch_what_others_wrote(folder: str, waiting: str) -> None:
    """If launches overlap, a kernel without ec_wait would also let the following one continue too early.

    A launch of several kernels leaves that to each of them.
    """
    texts = {p.name: p.read_text() for p in data_folder("codegen_templates").joinpath(folder).glob("*.jinja")}
    kernels = {name: text for name, text in texts.items() if "EC_KERNEL" in text and "k.steps" not in text}
    assert kernels
    assert [name for name, text in kernels.items() if waiting not in text] == []


def test_the_first_statement_of_a_shared_template_waits_in_cuda() -> None:
    device = load_device("jetson")
    written = files(schedule(plan(graph(ops.node("neg", value("x", 6, 4))), gpu=True), device), device, "net")
    kernel = written["net_kernels_0.cu"].decode().partition("EC_KERNEL(")[2]
    assert kernel.splitlines()[1] == "  ec_wait();"


def test_products_in_fp32_read_no_copies_in_halves() -> None:
    """A large input is copied for the products in halves that read it; the first product, in fp32, reads it itself."""
    device = replace(load_device("cuda_sm90"), precision="fp16")
    x = value("x", 4096, 256)
    first, second = (
        ops.node("matmul", x, constant(np.full((256, 256), k, np.float32) * np.arange(256, dtype=np.float32)))
        for k in (0.1, 0.2)
    )
    one, both = (
        schedule(plan(graph(r), gpu=True), device) for r in (relu(first), ops.node("add", relu(first), second))
    )
    for program, types in ((one, ["f32"]), (both, ["f32", "f16", "f32"])):
        assert [k.writes.dtype for k in program.kernels] == types
        assert any(b.space == "input" for b in program.kernels[0].reads)


def test_norms_of_zeros_in_16_bits(tmp_path: Path) -> None:
    """A row of zeros is multiplied with 1 over the guard of its norm, more than fp16 holds: it stays in fp32."""

    def normed(x: Node) -> Node:
        return ops.node("div", x, ops.node("max", ops.node("sqrt", total(ops.node("mul", x, x), 2)), number(1e-12)))

    rows, columns = (normed(value(name, 1, 16, 600)) for name in "xy")
    one, applied = simplify(graph(ops.node("matmul", rows, transpose(columns, 0, 2, 1))))
    assert "scale_after_product" in {a.rule for a in applied}
    given = {name: RANDOM.standard_normal((1, 16, 600)).astype(np.float32) for name in "xy"}
    given["x"][0, 3] = 0
    run = emulate({"norms": one}, tmp_path, replace(load_device("cuda_sm90"), precision="fp16"))["norms"]
    assert isinstance(run, Emulated)
    np.testing.assert_allclose(run(given)["y0"], evaluate.run(one, given)["y0"], atol=2e-3)

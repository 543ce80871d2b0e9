"""Long sums of few results in one pass over their terms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from compiled import Compiled, compile_graphs, program_of
from small_graphs import conv, graph, pad, value, weights
from sweep_cases import of_taps

from edgec.device.load import load_device
from edgec.ir.graph import Graph
from edgec.schedule import sweep as module
from edgec.schedule.sweep import Sweep
from edgec.schedule.text import read_program, write_program

ROUNDING = 2.0**-24


def taps(channels: int, kernel: int, rows: int = 13, batch: int = 1) -> Graph:
    """The gradient of depthwise weights between convolutions, which have channels last."""
    x = conv(value("x", batch, 40, rows + kernel - 1, 11 + kernel), weights(channels, 40, 1, 1))
    return graph(of_taps(x, conv(value("g", batch, 40, rows, 12), weights(channels, 40, 1, 1))))


def sweeps(g: Graph, device: str = "x86_64_avx512") -> list[Sweep]:
    schedules = (k.schedule for k in program_of(g, load_device(device)).kernels)
    return [s for s in schedules if isinstance(s, Sweep)]


@pytest.mark.parametrize(
    ("device", "kernel", "at_once"),
    [
        ("x86_64_avx512", 3, 9),
        ("x86_64_avx512", 5, 25),
        ("x86_64_avx512", 7, 7),
        ("x86_64_avx2", 3, 9),
        ("x86_64_avx2", 5, 5),
    ],
)
def test_registers_hold_all_taps_or_a_row_of_them(device: str, kernel: int, at_once: int) -> None:
    (found,) = sweeps(taps(64, kernel), device)
    assert found.at_once == at_once


@pytest.mark.parametrize("batch", [1, 3])
def test_samples_are_part_of_the_sum(batch: int) -> None:
    (found,) = sweeps(taps(32, 3, batch=batch))
    terms = np.prod([v.value.extent for v in found.walk])
    assert (found.at_once, terms) == (9, batch * 13 * 12)


def test_a_saved_program_comes_back() -> None:
    program = program_of(taps(32, 3), load_device("x86_64_avx512"))
    assert any(isinstance(k.schedule, Sweep) for k in program.kernels)
    written = write_program(program)
    assert write_program(read_program(written.text, written.arrays)).text == written.text


def test_a_convolution_forward_is_none() -> None:
    """Its sums are short, and its results many."""
    x = conv(value("x", 1, 40, 20, 20), weights(32, 40, 1, 1))
    assert not sweeps(graph(conv(pad(x, 1, 1), weights(32, 1, 3, 3), groups=32)))


def test_a_product_of_matrices_is_none() -> None:
    """Its rows share what lies along the lanes, and what is broadcast too: tiles of both read less."""
    assert not sweeps(graph(of_taps(value("x", 1, 40, 30, 30), value("g", 1, 40, 30, 30))))
    assert not sweeps(graph(conv(value("x", 8, 3, 40, 40), value("g", 64, 3, 38, 38))))


def test_long_sums_round_off_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one sign, the terms of 30,000 pixels in one chain round off more than five times as much."""
    g = graph(of_taps(value("x", 3, 16, 102, 102), value("g", 3, 16, 100, 100)))
    assert sweeps(g)
    random = np.random.default_rng(0)
    given = {
        str(n.attributes["name"]): random.uniform(0.5, 1.5, n.type.shape).astype(np.float32)
        for n in g.inputs
        if n.attributes["name"] != "w"
    }
    x, y = given["x"].astype(np.float64), given["g"].astype(np.float64)
    exact = np.array([[(x[:, :, i : i + 100, j : j + 100] * y).sum((0, 2, 3)) for j in range(3)] for i in range(3)])
    errors = []
    for terms in (module.TERMS, 1 << 40):
        monkeypatch.setattr(module, "TERMS", terms)
        (folder := tmp_path / str(terms)).mkdir()
        made = compile_graphs({"taps": g}, folder)["taps"]
        assert isinstance(made, Compiled)
        got = made(given)["y0"].reshape(16, 3, 3).transpose(1, 2, 0)
        errors.append(float(np.abs(got / exact - 1).max()) / ROUNDING)
    assert errors[0] <= 8
    assert errors[0] * 5 < errors[1]

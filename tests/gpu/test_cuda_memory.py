"""The host's ways to give a CUDA network its memory: ports in page-locked or shared memory hold what a run needs."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
from emulated import Emulated, emulate
from small_graphs import graph, relu, value

from edgec.device.facts import load_device

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

"""Reductions by sub-groups, on a driver that has them (Intel's): results, and what the host asks for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from chance import RANDOM
from opencl_networks import driver, extensions, network
from small_graphs import graph, softmax, total, value

from edgec import ops
from edgec.device.load import load_device
from edgec.emit.project import files
from edgec.fuse import plan
from edgec.ir import evaluate
from edgec.ir.graph import Graph
from edgec.schedule.build import schedule


def long_rows() -> Graph:
    """A softmax and a mean of rows that are long enough for a whole group of work-items."""
    x = value("x", 3, 5000)
    return graph(softmax(x, 1), total(ops.node("mul", x, x), 1))


def test_the_host_asks_for_what_kernels_use() -> None:
    with_them, without = (
        files(schedule(plan(long_rows(), gpu=True), load_device(d)), load_device(d), "net")
        for d in ("adreno_740", "generic_opencl")
    )
    kernels, host = with_them["net_kernels_0.cl"].decode(), with_them["net.c"].decode()
    assert kernels.count("sub_group_reduce_add") == 2, "two sums, and a maximum that NaN forbids"
    assert '"cl_khr_subgroups"' in host and "-cl-std=CL2.0" in host
    assert b"sub_group" not in without["net_kernels_0.cl"] and b"-cl-std=CL1.2" in without["net.c"]


@pytest.mark.skipif(
    not driver() or "cl_intel_subgroups" not in (extensions() or ()),
    reason="no sub-groups here; Intel's runtime has them: pip install intel-opencl-rt intel-cmplr-lib-rt",
)
def test_sub_groups_sum(tmp_path: Path) -> None:
    whole = long_rows()
    given = {"x": RANDOM.standard_normal((3, 5000)).astype(np.float32)}
    want = evaluate.run(whole, given)
    found = load_device("adreno_740")
    phone = replace(found, gpu=replace(found.gpu, opencl_extensions=("cl_intel_subgroups",)))
    with network(whole, tmp_path / "net", phone) as run:
        for name, got in run(given).items():
            np.testing.assert_allclose(got, want[name], rtol=1e-4, atol=1e-6)

"""Every fused block of every network computes, compiled and alone, what its operators do."""

from __future__ import annotations

from pathlib import Path

import networks_here as networks
import pytest
from small_models import model, node, tensor_input

import edgec
from edgec.resources import data_folder


@pytest.mark.parametrize("name", networks.here())
def test_every_kernel_alone(name: str) -> None:
    checked = edgec.check(
        networks.source(name), samples=1, blocks=True, shapes=networks.TRAINED.get(name, {})
    )  # fmt: skip
    assert checked.ok and checked.executed_stage == "emit"
    assert checked.blocks and all(b.ok for b in checked.blocks), [b for b in checked.blocks if not b.ok]


def test_in_numpy_for_a_device_that_is_not_here() -> None:
    checked = edgec.check(networks.SMALL["convnet"](), samples=1, blocks=True, device="cortex_m4")
    assert checked.ok and checked.executed_stage == "schedule" and len(checked.blocks) >= 3


def test_a_wrong_kernel_is_named(tmp_path: Path) -> None:
    """Only the kernels of the broken template are wrong: the others begin with right values."""
    template = (data_folder("codegen_templates") / "c" / "row.c.jinja").read_text(encoding="utf-8")
    (tmp_path / "c").mkdir()
    broken = template.replace("${p.number};", "${p.number} * 1.25f;")
    assert broken != template
    (tmp_path / "c" / "row.c.jinja").write_text(broken, encoding="utf-8")
    checked = edgec.check(networks.SMALL["convnet"](), samples=1, blocks=True, templates=[tmp_path])
    wrong = [b for b in checked.blocks if not b.ok]
    assert not checked.ok and wrong and all("row" in b.template for b in wrong)


def test_kernels_of_a_gpu_are_run_by_their_formulas(tmp_path: Path) -> None:
    """They are not called one by one, neither alone nor to find the one that is wrong."""
    (tmp_path / "gpu").mkdir()
    template = (data_folder("codegen_templates") / "gpu" / "map.gpu.jinja").read_text(encoding="utf-8")
    broken = template.replace(">= ${k.tasks}", ">= 0")
    assert broken != template
    proto = model([node("Exp", ["x"], ["y"], "exp")], [tensor_input("x", [2, 3])])
    (tmp_path / "gpu" / "map.gpu.jinja").write_text(broken, encoding="utf-8")
    checked = edgec.check(
        proto, samples=1, blocks=True, locate=True, reproducer=tmp_path / "piece", device="cuda_sm90",
        compiler="emulated", templates=[tmp_path],
    )  # fmt: skip
    assert not checked.ok and [b.ok for b in checked.blocks] == [True]
    assert any("by its formula in numpy" in note for note in checked.notes)
    assert checked.located is not None and checked.located.stage == "emit"

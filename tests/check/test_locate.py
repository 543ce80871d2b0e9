"""A mistake put into one stage is found there, at its node, with a model that shows it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from convnet import convnet

import edgec
from edgec import ops
from edgec.check.bisect import locate
from edgec.check.ledger import Entry
from edgec.check.reference import Reference
from edgec.compress import Compressed
from edgec.frontend.onnx import call as registry
from edgec.frontend.onnx.model import read
from edgec.fuse import Plan
from edgec.ir.graph import Formula, Graph, Node, rewrite
from edgec.pipeline import stages
from edgec.resources import data_folder


def located(tmp_path: Path, **settings: Any) -> Any:
    checked = edgec.check(convnet(), locate=True, reproducer=tmp_path / "found", samples=1, **settings)
    assert not checked.ok and checked.located is not None
    return checked.located


def shows_it(folder: Path) -> tuple[onnx.ModelProto, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The reproducer: onnxruntime computes what was expected from its inputs."""
    proto = onnx.load(folder / "reproducer.onnx")
    inputs, expected = dict(np.load(folder / "inputs.npz")), dict(np.load(folder / "expected.npz"))
    got = Reference(read(folder / "reproducer.onnx")).run(inputs)
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-5)
    return proto, inputs, expected


def test_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = registry.lowering("", "Add")
    assert right is not None
    wrong = {**registry._LOWERINGS, ("", "Add"): lambda call: call[0] + call[1] * 1.01}
    monkeypatch.setattr(registry, "_LOWERINGS", wrong)
    found = located(tmp_path)
    assert (found.stage, found.nodes) == ("import", ("sum",))
    proto, inputs, expected = shows_it(tmp_path / "found")
    assert [n.name for n in proto.graph.node] == ["sum"]
    assert (set(inputs), set(expected)) == ({"b", "c"}, {"d"})


def test_a_stage_of_the_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(graph: Graph, *options: Any) -> Compressed:
        def change(old: Node, args: tuple[Node, ...]) -> Node:
            new = old if args == old.args else ops.node(old.op, *args, **old.attributes)
            return ops.node("mul", new, new) if "relu" in graph.names(old) else new

        return Compressed(rewrite(graph, change))

    monkeypatch.setattr(stages, "compress_graph", broken)
    found = located(tmp_path)
    assert (found.stage, found.nodes, found.notes) == ("compress", ("relu",), ())
    shows_it(tmp_path / "found")


def test_fuse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = stages.plan_graph

    def broken(graph: Graph, fuse: str, **options: Any) -> Plan:
        plan = right(graph, fuse, **options)
        blocks = list(plan.blocks)
        k = next(k for k, b in enumerate(blocks) if "mix" in graph.names(b.output) + graph.names(b.nodes[0]))
        f = blocks[k].formula
        blocks[k] = replace(blocks[k], meaning=Formula(f.type, f.variables, f.body * 1.5))
        return replace(plan, blocks=tuple(blocks))

    monkeypatch.setattr(stages, "plan_graph", broken)
    found = located(tmp_path)
    assert found.stage == "fuse" and "mix" in found.nodes and "contract" in found.what


def test_emit(tmp_path: Path) -> None:
    """A template of the user's own is wrong: the kernels that use it are found."""
    template = (data_folder("codegen_templates") / "c" / "row.c.jinja").read_text(encoding="utf-8")
    broken = template.replace("${p.number};", "${p.number} * 1.25f;")
    assert broken != template
    (tmp_path / "templates" / "c").mkdir(parents=True)
    (tmp_path / "templates" / "c" / "row.c.jinja").write_text(broken, encoding="utf-8")
    found = located(tmp_path, templates=[tmp_path / "templates"])
    assert found.stage == "emit" and found.what.startswith("kernel ") and "row" in found.what
    assert set(found.nodes) <= {"pool", "soft"}


def test_nothing_to_locate(tmp_path: Path) -> None:
    checked = edgec.check(convnet(), locate=True, reproducer=tmp_path / "found", samples=1)
    assert checked.ok and checked.located is None and not (tmp_path / "found").exists()


@pytest.mark.parametrize("tolerance", [0.0, 1e-4])
def test_an_error_as_large_as_the_tolerance_is_none(tolerance: float) -> None:
    built: Any = None  # which nothing looks at
    entries = tuple(Entry(stage, 0.1, tolerance, 0.0, "y", 0.1) for stage in ("import", "fuse", "emit"))
    found = locate(built, entries, {}, tolerance, None, lambda *_: None)
    assert (found.stage, found.nodes, found.reproducer) == ("none", (), None) and "within tolerance" in found.notes[0]

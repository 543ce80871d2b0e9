"""Models that grow end in an error that names the node, and what is asked for twice is computed once."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType

import numpy as np
import onnx
import pytest
from small_models import model, node, tensor_input, weights

import edgec
from benchmarks.robustness.families import FAMILIES
from edgec import limits, pipeline
from edgec.cli.main import main
from edgec.errors import LimitError, ModelError, UsageError
from edgec.frontend.onnx import import_model
from edgec.options import resolve
from edgec.pipeline.context import Context
from edgec.pipeline.run import Run


def run(name: str, size: int, **most: float) -> Run:
    return pipeline.run(FAMILIES[name](size), Context(resolve({"profiles": False, "limits": most})))


#: Each limit, a model that is above it, and the node that its error names.
ABOVE = {
    "nodes": ("rounds of nested loops", 8, 40, "wo"),
    "nodes of a scan": ("rounds of a scan", 40, 40, "Scan"),
    "nodes of functions": ("nested functions", 7, 40, "y"),
    "nodes of a sum": ("operands of a sum", 90, 40, "y"),
    "kernels": ("parts side by side", 12, 10, "t"),
    "c_bytes": ("parts side by side", 12, 9_000, "t"),
}


@pytest.mark.parametrize("case", ABOVE)
def test_what_is_above_a_limit_is_named(case: str) -> None:
    (name, size, most, place), limit = ABOVE[case], case.split()[0]
    with pytest.raises(LimitError) as refused:
        run(name, size, **{limit: most})
    assert place in str(refused.value.where) and f"{most:,}" in refused.value.message
    given = re.search(r"--limits (\w+)=(\d+)", str(refused.value.hint))
    assert given is not None and given[1] == limit and int(given[2]) > most
    run(name, size, **{limit: most * 1000})


def test_constants_made_of_little_are_counted() -> None:
    """Four numbers are repeated to a million ten times; what comes of stored weights is not counted."""

    def made(stored: np.ndarray, count: int) -> onnx.ModelProto:
        names = ["r", *(f"c{k}" for k in range(10))]
        nodes = [node("Tile", ["w", "n"], ["r"])]
        nodes += [node("CumSum", [names[k], "axis"], [names[k + 1]], name=f"step {k}") for k in range(10)]
        given = [weights("w", stored), weights("n", np.int64([count])), weights("axis", np.int64(0))]
        return model([*nodes, node("Add", ["x", "c9"], ["y"])], [tensor_input("x", [1])], initializers=given)

    def built(proto: onnx.ModelProto) -> None:
        pipeline.run(proto, Context(resolve({"profiles": False, "limits": {"computed": 1 << 22}})), until="import")

    with pytest.raises(LimitError, match="4,194,304 elements of computed constants") as refused:
        built(made(np.float32([1, 2, 3, 4]), 1 << 18))
    assert "step 3" in str(refused.value.where) and "--limits computed=" in str(refused.value.hint)
    built(made(np.ones(1 << 20, np.float32), 1))


@pytest.mark.parametrize(("count", "passes"), [(25, True), (90, False)])
def test_constants_that_are_there_already_count_as_work(count: int, passes: bool) -> None:
    """The masks of all layers of a network may be equal: a million elements, each time a sixteenth of them."""
    nodes = [node("Tile", ["w", "n"], [f"r{k}"], name=f"step {k}") for k in range(count)]
    nodes += [node("Gather", [f"r{k}", "first"], [f"g{k}"]) for k in range(count)]
    nodes.append(node("Sum", ["x", *(f"g{k}" for k in range(count))], ["y"]))
    given = [weights("w", np.float32([1, 2, 3, 4])), weights("n", np.int64([1 << 18])), weights("first", np.int64(0))]
    proto = model(nodes, [tensor_input("x", [1])], initializers=given)
    context = Context(resolve({"profiles": False, "limits": {"computed": 1 << 22}}))
    if passes:
        pipeline.run(proto, context, until="import")
    else:
        with pytest.raises(LimitError, match="elements of computed constants"):
            pipeline.run(proto, context, until="import")


@pytest.mark.parametrize("stage", ["import", "simplify", "fuse", "schedule", "emit"])
def test_every_stage_looks_at_the_clock(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that stands still until a stage begins, and then jumps."""
    begun = []

    class Clock:
        def process_time(self) -> float:
            return 1e9 if begun else 0.0

    entered = limits.stage

    def watched(name: str, most: limits.Limits | None = None) -> object:
        found = entered(name, most)
        if name == stage and not begun:
            found.__enter__()
            begun.append(name)
            return _Open(found)
        return found

    monkeypatch.setattr(limits, "time", Clock())
    monkeypatch.setattr(limits, "_STRIDE", 1)
    monkeypatch.setattr(limits, "stage", watched)
    with pytest.raises(LimitError, match=f"the stage '{stage}' takes more than 60 s") as refused:
        run("parts side by side", 3, seconds=60)
    assert refused.value.where


class _Open:
    """A context that was entered already."""

    def __init__(self, context: object) -> None:
        self.context = context

    def __enter__(self) -> None:
        """Nothing: it was."""

    def __exit__(self, *error: object) -> None:
        self.context.__exit__(*error)  # type: ignore[attr-defined]


def test_an_import_alone_has_limits_too(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = limits.Limits.__init__.__defaults__
    assert usual is not None
    monkeypatch.setattr(limits.Limits.__init__, "__defaults__", (2000, *usual[1:]))
    with pytest.raises(LimitError, match="2,000 core operators"):
        edgec.load(FAMILIES["nested functions"](40))


def test_nothing_is_counted_outside_of_a_stage() -> None:
    with limits.at("here"):
        limits.node()
        limits.step()
        limits.hold("kernels", 10**9)


@pytest.mark.parametrize("given", [{"speed": 1}, {"nodes": 0}, {"seconds": float("nan")}, {"seconds": float("inf")}])
def test_limits_that_are_none(given: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        resolve({"limits": given})


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(FAMILIES["rounds of a scan"](40), tmp_path / "scan.onnx")
    (tmp_path / "edgec.toml").write_text('model = "scan.onnx"\n[limits]\nnodes = 20\n[build]\ncompile = false\n')
    for words in ((str(tmp_path),), (str(tmp_path / "scan.onnx"), "--limits", "nodes=20")):
        with pytest.raises(SystemExit) as ended:
            main(["build", *words, "--json"])
        error = json.loads(capsys.readouterr().out)["error"]
        assert ended.value.code == 2 and error["kind"] == "LimitError" and "Scan" in error["where"]


def test_one_value_again_and_again_is_stored_once() -> None:
    """k doublings were 2^k kernels."""
    program = run("doubled concatenations", 12)["schedule"]
    assert len(program.kernels) == 1 and program.outputs[0][2].type.elements == 4 << 12


def test_doubled_with_something_between() -> None:
    nodes = [onnx.helper.make_node("Concat", [f"t{k}", f"t{k}", "x"], [f"t{k + 1}"], axis=0) for k in range(10)]
    source = FAMILIES["doubled concatenations"](1)
    del source.graph.node[1:]
    source.graph.node.extend(nodes)
    source.graph.output[0].name = "t10"
    built = pipeline.run(source, Context(resolve({"profiles": False})))["schedule"]
    assert len(built.kernels) <= 4 * len(nodes)


@pytest.mark.parametrize("name", FAMILIES)
def test_families_grow_no_faster_than_their_nodes(name: str) -> None:
    """Counted, not timed: core operators, kernels and bytes of C at one size, and at twice that many nodes."""
    small, large = {
        "nested functions": (4, 5),
        "rounds of nested loops": (5, 7),
        "doubled concatenations": (5, 10),
    }.get(name, (12, 24))
    sizes = []
    for size in (small, large):
        found = run(name, size)
        files = found["emit"].files
        written = sum(len(content) for path, content in files.items() if path.endswith((".c", ".S")))
        sizes.append((len(found.graph.nodes()), len(found["schedule"].kernels), written))
    assert all(after <= 2.2 * before + 8 for before, after in zip(*sizes)), sizes
    assert edgec.load(FAMILIES[name](small)).outputs


def calls_made(name: str, size: int) -> Counter[CodeType]:
    """By function of ours: how often it called anything, from a model to its schedule."""
    found: Counter[CodeType] = Counter()

    def note(frame: FrameType, event: str, _: object) -> None:
        caller = frame if event == "c_call" else frame.f_back if event == "call" else None
        if caller is not None and "/edgec/" in caller.f_code.co_filename:
            found[caller.f_code] += 1

    source, context = FAMILIES[name](size), Context(resolve({"profiles": False}))
    sys.setprofile(note)
    try:
        pipeline.run(source, context, until="schedule")
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.parametrize("name", ["rounds of a scan", "parts side by side", "operands of a sum", "chain of matrices"])
def test_no_function_works_more_than_its_nodes(name: str) -> None:
    """Calls between the readers of a value, or of all operands: they were the square of the nodes."""
    small, large = (60, 120) if name != "operands of a sum" else (150, 300)
    calls_made(name, large)  # what is remembered from run to run is remembered for both
    before, after = calls_made(name, small), calls_made(name, large)
    grown = {code.co_qualname: (before[code], n) for code, n in after.items() if n > 2.8 * before[code] + 2000}
    assert not grown and sum(after.values()) < 2.3 * sum(before.values())


@pytest.mark.parametrize("count", [0, -1, 4, 2**31, 2**62])
def test_a_scan_of_more_operands_than_there_are(count: int) -> None:
    """A list of 2^31 places filled the memory."""
    proto = FAMILIES["rounds of a scan"](3)
    (scan,) = (n for n in proto.graph.node if n.op_type == "Scan")
    next(a for a in scan.attribute if a.name == "num_scan_inputs").i = count
    with pytest.raises(ModelError, match="operands cannot be scanned"):
        import_model(proto)

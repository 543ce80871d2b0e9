"""Reports on small networks, all that they say: documents of builds, histories of nodes, differences, as text too.

A line of ``reports.txt`` has a network with its device, a part of a report, its number of characters and a checksum;
times of measurements are drawn, those of the build are left out. ``pytest tests/golden --update-golden`` writes the
lines; look at the reports that changed before they are committed.
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from golden_models import blend, classifier
from rich.console import Console, RenderableType
from small_models import model, node, tensor_input, weights
from test_decided_networks import attention, mobile

import edgec
from edgec import pipeline
from edgec.advise import costly, price, switches
from edgec.advise.changes import changes
from edgec.errors import UsageError
from edgec.frontend.source import read
from edgec.fuse import Plan
from edgec.options import resolve
from edgec.pipeline.context import Context
from edgec.progress import silent
from edgec.report import build, diff, explain, ledger, measure, memory, predicted, profile, sparsity, trace, traffic
from edgec.report.fit import fit
from edgec.report.page import diff_page, page
from edgec.report.record import finite, shown
from edgec.report.terminal import pairs
from edgec.schedule.program import Program
from edgec.text import printable

KEPT = Path(__file__).with_name("reports.txt")
#: What is of the machine, of the moment or of the place of a build.
MOMENTARY = frozenset(
    [
        "seconds",
        "folder",
        "where",
        "compiler",
        "edgec",
        "code_bytes",
        "provenance",
        "trace",
        "files",
        "runs_here",
        "cross",
    ]
)


def choosing() -> onnx.ModelProto:
    """Data choose elements and their number; a name that a terminal must not print as it is, and an unused input."""
    nodes = [
        node("NonZero", ["x"], ["places"], "found\x1b[31m"), node("Shape", ["places"], ["count"]),
        node("TopK", ["x", "k"], ["largest", "order"], "best", axis=1),
        node("Gather", ["table", "order"], ["rows"], "look [up]"),
        node("ReduceSum", ["rows", "axes"], ["sum"], keepdims=0),
        node("Add", ["sum", "largest"], ["y"]),
    ]  # fmt: skip
    held = {"k": np.array([2]), "table": np.arange(12, dtype=np.float32).reshape(4, 3), "axes": np.array([2])}
    inputs = [tensor_input("x", [3, 4]), tensor_input("unused", [1])]
    return model(nodes, inputs, ["y", "count"], [weights(n, v) for n, v in held.items()])


#: Networks with the settings of two builds, of which the second is held against the first.
BUILDS: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "classifier": (classifier, {"device": "x86_64_avx512", "threads": 2}, {"device": "cortex_m55"}),
    "blend": (blend, {"device": "neoverse_v1", "threads": 4}, {"device": "generic", "fuse": False, "threads": 1}),
    "attention": (attention, {"device": "cuda_sm90", "precision": "fp16"}, {"device": "cuda_sm86"}),
    "mobile": (mobile, {"device": "cortex_m4"}, {"device": "cortex_m4", "quantize": "int8-dynamic"}),
    "choosing": (choosing, {"device": "x86_64_avx2", "threads": 2}, {"device": "riscv64_rvv", "threads": 4}),
}


def steady(value: Any) -> Any:
    """The same data with something else for what changes from one build to the next; fractions to four digits."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        is_other = {k: k in MOMENTARY or str(k).endswith("sha256") for k in value}
        return {k: _same(v) if is_other[k] else steady(v) for k, v in value.items()}
    return [steady(v) for v in value] if isinstance(value, (list, tuple)) else value


def _same(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _same(v) for k, v in value.items()}
    return "here" if isinstance(value, str) else 1.5 if isinstance(value, (int, float)) else None


def drawn(found: RenderableType, width: int = 110) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False, color_system="truecolor", force_terminal=True)
    console.print(found)
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def documented(name: str, settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The document of a build whose kernels took times that are drawn."""
    built = edgec.build(BUILDS[name][0](), folder, name=name, compile=False, **settings)
    random = np.random.default_rng(len(built.program.kernels))
    seconds = [float(10 ** random.uniform(-6, -3)) if random.random() < 0.9 else None for _ in built.program.kernels]
    facts: measure.Facts = {"benched": None, "seconds": seconds, "checked": None, "fidelity": None}
    return json.loads(json.dumps(finite(measure.describe(built, facts)), default=str))


def documents(name: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Every part of the document of the first build, its profile and trace."""
    document = documented(name, BUILDS[name][1], folder)
    yield from ((key, json.dumps(steady(part))) for key, part in document.items() if key not in MOMENTARY)
    build = document["build"] | {"seconds": dict.fromkeys(document["build"]["seconds"], 0.25)}
    timed = document | {"bench": {"median_ms": 1.5}, "build": build}
    yield "profile", drawn(profile.draw(steady(profile.record(timed, None))))
    yield "trace", json.dumps(steady(trace.trace(timed)))
    assert document["model"] in page(document)


def differences(name: str, folder: Path) -> Iterator[tuple[str, str]]:
    before, after = (documented(name, s, folder / str(k)) for k, s in enumerate(BUILDS[name][1:]))
    yield from ((f"after {key}", json.dumps(steady(part))) for key, part in after.items() if key not in MOMENTARY)
    different = diff.diff(before, after)
    yield "diff", json.dumps(steady(different))
    yield "diff drawn", drawn(diff.draw(steady(different)))
    yield "diff markdown", diff.markdown(steady(different))
    assert "<html" in diff_page(different)


def histories(name: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Lines about the model, and about every node."""
    make, first, _ = BUILDS[name]
    for moved in (False, True):
        told = edgec.inspect(make(), traffic=moved, **first)
        yield f"inspect {moved}", json.dumps(steady(finite(dict(told)))) + drawn(told.draw(shown(steady(dict(told)))))
    parsed = read(make())
    run = pipeline.run(parsed, Context(resolve(first)), until="schedule")
    for label in map(printable, [*(n.name or n.output[0] for n in make().graph.node), "0", "1", "softmax"]):
        try:
            found = steady(finite(explain.explain(run, parsed, label)))
        except UsageError as error:
            yield f"explain {label}", f"{error.message} / {error.hint}"
        else:
            yield f"explain {label}", json.dumps(found) + drawn(explain.draw(shown(found)))


def figures(name: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Predictions for both programs, and advice."""
    make, *builds = BUILDS[name]
    for settings in builds:
        of, options = settings["device"], resolve(settings)
        run = pipeline.run(read(make()), Context(options), until="schedule")
        program: Program = run["schedule"]
        plan: Plan = run["fuse"]
        device = options.device
        yield f"{of} costliest", repr(steady([asdict(c) for c in costly.costliest(program, device, 2)]))
        yield f"{of} uneven", repr(steady([asdict(c) for c in costly.uneven(program, device, 2)]))
        before_ms = price.predicted_ms(program, device, options.threads)
        yield (
            f"{of} milliseconds",
            f"{steady(before_ms)} {[steady(price.seconds_of(k, device, 3)) for k in program.kernels]}",
        )
        advised = changes(read(make()), settings, 10 * (before_ms or 1.0), silent)  # type: ignore[arg-type]
        yield f"{of} changes", repr(steady([asdict(c) | {"gain": c.gain} for c in advised]))
        yield f"{of} switches", repr([str(s) for s in switches.single(options, settings, True)])
        yield f"{of} ledger", json.dumps(steady(ledger.record(run))) + drawn(ledger.draw(steady(ledger.record(run))))
        moved = [traffic.of_plan(plan), traffic.unfused(run.graph), traffic.least(plan)]
        yield f"{of} traffic", f"{moved} {[traffic.of_kernel(k) for k in program.kernels]}"
        yield f"{of} sparsity", json.dumps(steady(sparsity.kernels(program)))
        seconds = [None if k % 5 == 3 else (k % 3 + 1) * 1e-5 for k in range(len(program.kernels))]
        predictions = [predicted.predicted_seconds(k, device) for k in program.kernels]
        yield f"{of} marks", json.dumps(steady([predictions, predicted.marks(seconds, predictions)]))
        yield f"{of} prices", json.dumps(steady(predicted.by_price(program, device, seconds)))
        for room in (None, 100, 1 << 30):
            fits = fit(program, device, room, run.stripes)
            yield f"{of} memory {room}", json.dumps(steady(fits)) + drawn(pairs(memory.draw_rows(steady(fits))))
    written = edgec.build(make(), folder / "net", name=name, compile=False, **builds[0])
    record = build.record(written)
    more = {"next": [{"for": "a [b]", "command": "make [c]"}], "budgets": []}
    told = steady(record) | {"seconds": dict.fromkeys(record["seconds"], 0.5), **more}
    yield "built", json.dumps(steady(record)) + drawn(build.draw(told, name))


PARTS = {"figures": figures, "documents": documents, "differences": differences, "histories": histories}


@cache
def kept() -> tuple[str, ...]:
    return tuple(KEPT.read_text(encoding="utf-8").splitlines()) if KEPT.is_file() else ()


@pytest.mark.parametrize("kind", PARTS)
@pytest.mark.parametrize("name", BUILDS)
def test_reports(name: str, kind: str, update_golden: bool, tmp_path: Path) -> None:
    begin = f"{name} {kind}"
    texts = PARTS[kind](name, tmp_path)
    found = sorted(f"{begin} | {part} | {len(text)} | {zlib.crc32(text.encode()):08x}" for part, text in texts)
    if update_golden:
        others = [line for line in kept() if line.partition(" | ")[0] != begin]
        KEPT.write_text("\n".join(sorted([*others, *found])) + "\n", encoding="utf-8")
        kept.cache_clear()
    assert [line for line in kept() if line.partition(" | ")[0] == begin] == found

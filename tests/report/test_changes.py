"""Two documents side by side, made by hand: what is better, what is noise, and kernels of the same nodes."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from edgec.report.diff import NOISE, diff, draw, markdown, name_of, percent

Record = dict[str, Any]


def kernel(
    number: int, *nodes: str, us: float = 10.0, measured: float | None = None, template: str = "map, i", **more: str
) -> Record:
    return {
        "kernel": number, "nodes": [*nodes], "template": template, "kind": template.split(",")[0], "flops": 100,
        "predicted_us": us, "measured_us": measured, "precision": more.get("precision", "f32"),
    }  # fmt: skip


def document(*kernels: Record, latency: float | None = None, error: float | None = None, **more: Any) -> Record:
    return {
        "model": "net", "kernels": [*kernels], "rules": [{"rule": r} for r in more.get("rules", ())],
        "settings": more.get("settings", {}),
        "bench": None if latency is None else {"median_ms": latency},
        "check": None if error is None else {"outputs": [{"max_rel": e} for e in (None, error, error / 2)]},
        "build": {
            "device": "generic", "threads": 1, "folder": "out", "kernels": len(kernels), "arena_bytes": 640,
            "weights_bytes": more.get("weights", 100), "files": {"a.c": 50, "b.h": 5},
            "traffic": {"read": 70, "written": 30},
        },
    }  # fmt: skip


def totals(before: Record, after: Record) -> dict[str, Record]:
    return {t["name"]: t for t in diff(before, after)["totals"]}


def test_figures_of_a_document() -> None:
    found = totals(document(kernel(0, us=1500.0), kernel(1, us=500.0), latency=2.0, error=0.25), document(latency=3.0))
    before = {name: t["before"] for name, t in found.items()}
    assert before == {
        "kernels": 2, "latency": 2.0, "predicted": 2.0, "FLOPs": 200, "bytes moved": 100, "arena": 640, "weights": 100,
        "files": 55, "rules": 0, "error": 0.25,
    }  # fmt: skip
    assert found["error"]["after"] is None and found["error"]["after_text"] == "unknown"
    assert found["error"]["ratio"] is None is found["error"]["better"]
    assert "latency" not in totals(document(), document()) and "error" not in totals(document(), document())


@pytest.mark.parametrize(
    ("before", "after", "better"),
    [(2.0, 2.0 * (1 + NOISE / 2), None), (2.0, 2.0 * (1 - NOISE / 2), None), (2.0, 2.1, False), (2.0, 1.9, True)],
)
def test_what_is_measured_has_noise(before: float, after: float, better: bool | None) -> None:
    found = totals(document(latency=before), document(latency=after))["latency"]
    assert found["better"] is better and found["ratio"] == after / before


def test_what_is_counted_has_none() -> None:
    for after, better in ((99, True), (100, None), (101, False)):
        assert totals(document(weights=100), document(weights=after))["weights"]["better"] is better
    for before, after, better in ((0, 0, None), (0, 3, False), (3, 0, True)):
        found = totals(document(weights=before), document(weights=after))["weights"]
        assert found["better"] is better and found["ratio"] == (None if not before else after / before)
    more = totals(document(rules=["a"]), document(rules=["a", "b"]))["rules"]
    assert more["better"] is None and more["ratio"] == 2


def test_settings_and_counts_that_changed() -> None:
    old = document(kernel(0), kernel(1, template="row, i"), rules=["a", "a", "b", "c"], settings={"x": 1, "y": 2})
    new = document(kernel(0, precision="u8"), rules=["b", "b", "d", "a", "c"], settings={"y": 3, "z": 4, "x": 1})
    found = diff(old, new)
    assert found["settings"] == [
        {"name": "y", "before": 2, "after": 3}, {"name": "z", "before": None, "after": 4},
    ]  # fmt: skip
    assert [(r["name"], r["before"], r["after"]) for r in found["rules"]] == [("a", 2, 1), ("b", 1, 2), ("d", 0, 1)]
    assert found["schedules"] == [{"name": "row", "before": 1, "after": 0}]
    assert [(r["name"], r["before"], r["after"]) for r in found["precisions"]] == [("f32", 2, 0), ("u8", 0, 1)]


def test_kernels_of_the_same_nodes() -> None:
    """Several of the same nodes are told apart by their order."""
    old = [
        kernel(0, "a"), kernel(1, "b", us=5.0), kernel(2, "b", us=7.0), kernel(3, "c"), kernel(4, "d", measured=10.0),
        kernel(5, "e", measured=10.0), kernel(6, "f", measured=10.0), kernel(7, "g"),
    ]  # fmt: skip
    new = [
        kernel(0, "a"), kernel(1, "b", us=5.0), kernel(2, "b", us=6.0), kernel(3, "c", template="row, i"),
        kernel(4, "d", measured=10.2), kernel(5, "e", measured=14.0), kernel(6, "f", us=30.0), kernel(8, "h"),
        kernel(9, "b"),
    ]  # fmt: skip
    found = diff(document(*old), document(*new))["kernels"]
    assert found["same"] == 3  # a, the first of b, d
    assert [(k["nodes"], k["is_measured"], k["better"]) for k in found["changed"]] == [
        (["f"], False, False), (["e"], True, False), (["b"], False, True), (["c"], False, None),
    ]  # fmt: skip
    assert [k["us"] for k in found["changed"]] == [30.0, 14.0, 6.0, 10.0]
    assert [k["nodes"] for k in found["gone"]] == [["g"]] and [k["kernel"] for k in found["new"]] == [8, 9]


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (None, ""), (1.0, "+0.0 %"), (0.5, "-50.0 %"), (1.005, "+0.5 %"), (10, "+900.0 %"), (10.01, "10.0x"),
        (999.0, "999.0x"), (1000, "1e+03x"), (123456.0, "1e+05x"),
    ],
)  # fmt: skip
def test_ratios_as_text(ratio: float | None, text: str) -> None:
    assert percent(ratio) == text


def test_names_of_kernels() -> None:
    assert name_of(kernel(3, "a", "b", "c")) == "b, c" and name_of(kernel(3)) == "kernel 3"


def test_drawn_rows() -> None:
    """The slowest of those that came or went are first; a template that changed is told with the one before."""
    old = [kernel(0, "a"), kernel(1, "gone", us=1.0), kernel(2, "slow", us=50.0)]
    new = [kernel(0, "a", us=20.0, template="row, i"), kernel(3, "fresh", us=2.0), kernel(4, "late", us=4.0)]
    found = diff(document(*old), document(*new, settings={"x": "1"}))
    with (console := Console(width=120)).capture() as shown:
        console.print(draw(found))
    text, page = shown.get(), markdown(found)
    assert "map -> row" in text and "x: None -> 1" in text and "kernels: 0 the same, 1 changed, 2 gone, 2 new" in text
    assert text.index("late") < text.index("fresh") and page.index("| late |") < page.index("| fresh |")
    assert "| slow | 50" in page and page.index("| slow |") < page.index("| gone |")
    assert "1 changed, 2 gone, 2 new" in page and "Settings: `x`: None → 1" in page

"""The chart of the trials of `edgec advise`: which trials are points, and where."""

from __future__ import annotations

from typing import Any

import pytest

from edgec.report.advise import HEIGHT, MARGIN, WIDTH, chart

BOTTOM, RIGHT = HEIGHT - MARGIN, WIDTH - MARGIN


def trial(options: str, measured: float | None, error: float | None, **more: Any) -> dict[str, Any]:
    known = {"refused": None, "is_best": False, "predicted_ms": None}
    return {"options": options, "measured_ms": measured, "max_rel": error, **known, **more}


SHOWN = [
    trial("fast", 0.1, 1e-2, is_best=True),
    trial("middle", 1.0, 1e-4, predicted_ms=0.5),
    trial("exact", None, 0.0, predicted_ms=10.0, is_best=True),  # drawn as 1e-8
]
LEFT_OUT = [
    trial("refused", 0.01, 1.0, refused="no room"),
    trial("unknown", None, 1.0),
    trial("infinite", float("inf"), 1.0),
    trial("differs", 0.01, None),
]


def test_points_lie_by_logarithms() -> None:
    found = chart([*LEFT_OUT[:2], *SHOWN, *LEFT_OUT[2:]])
    places = {p["name"]: (p["x"], p["y"]) for p in found["points"]}
    up = BOTTOM - MARGIN
    wanted = {
        "fast": (MARGIN, MARGIN), "middle": ((MARGIN + RIGHT) / 2, MARGIN + up / 3), "exact": (RIGHT, BOTTOM),
    }  # fmt: skip
    assert places.keys() == wanted.keys()
    assert all(places[name] == pytest.approx(place) for name, place in wanted.items())
    assert [(p["ms"], p["error"]) for p in found["points"]] == [
        ("100.0 us", "1.0e-02"), ("1.00 ms", "1.0e-04"), ("10.00 ms", "1.0e-08"),
    ]  # fmt: skip
    assert found["line"] == f"{MARGIN:.1f},{MARGIN:.1f} {RIGHT:.1f},{BOTTOM:.1f}"
    ends = {k: found[k] for k in ("least_ms", "most_ms", "least", "most")}
    assert ends == {"least_ms": "100.0 us", "most_ms": "10.00 ms", "least": "1.0e-08", "most": "1.0e-02"}
    assert (found["width"], found["height"], found["margin"]) == (WIDTH, HEIGHT, MARGIN)


def test_names_of_the_best_alone_and_of_one_in_a_place() -> None:
    near = trial("beside it", 0.1001, 1e-2, is_best=True)
    points = chart([*SHOWN, near])["points"]
    assert [p["is_named"] for p in points] == [True, False, True, False]
    assert [p["is_best"] for p in points] == [True, False, True, True]


def test_a_single_trial_lies_in_the_middle() -> None:
    (point,) = chart(SHOWN[:1])["points"]
    assert (point["x"], point["y"]) == (WIDTH / 2, HEIGHT / 2)


def test_no_trial_has_no_ends() -> None:
    found = chart(LEFT_OUT)
    assert (found["points"], found["line"]) == ([], "") and "least_ms" not in found

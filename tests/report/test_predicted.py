"""Marks of kernels that take longer than their predicted times."""

from __future__ import annotations

from pathlib import Path

import pytest

import edgec
from edgec.report import profile
from edgec.report.predicted import SLOW, by_price, marks, predicted_seconds

DIGITS = Path(__file__).parents[2] / "apps" / "digits" / "digits.onnx"


def slow(measured: list[float | None], predicted: list[float]) -> list[int]:
    return [k for k, mark in enumerate(marks(measured, predicted)) if mark["is_slow"]]


def test_a_kernel_beyond_four_times_its_price_is_marked() -> None:
    assert slow([1.0, 4.1, 3.9, None, 0.9, 1.0], [1.0] * 6) == [1]
    assert marks([3.0, None], [2.0, 1.0])[0]["times_predicted"] == 1.5
    assert marks([3.0, None], [2.0, 1.0])[1] == {"times_predicted": None, "is_slow": False}


def test_a_slow_machine_shifts_the_mark() -> None:
    """Everything takes three times as long here: only what takes more than twelve times its price stands out."""
    assert slow([30.0, 31.0, 29.0, 11.0, 13.0], [10.0, 10.0, 10.0, 1.0, 1.0]) == [4]


def test_a_cliff_is_marked_however_much_of_the_run_it_is() -> None:
    """The pace is weighted with predicted times, of which a mistaken one is small; alone, it is bounded."""
    assert slow([10.0, 12.0, 2000.0], [10.0, 10.0, 0.01]) == [2]
    assert slow([SLOW * SLOW * 1.01], [1.0]) == [0] and slow([SLOW * SLOW * 0.99], [1.0]) == []


def test_a_machine_faster_than_its_model_hides_nothing() -> None:
    assert slow([1.0, 1.0, 4.1], [10.0, 10.0, 1.0]) == [2]


def test_kernels_in_the_order_of_their_excess(tmp_path: Path) -> None:
    built = edgec.build(DIGITS, tmp_path / "net", compile=False)
    device, kernels = built.options.device, built.program.kernels
    seconds = [predicted_seconds(k, device) * (2.0 + n) for n, k in enumerate(kernels)]
    found = by_price(built.program, device, [*seconds[:-1], None])
    assert [row["kernel"] for row in found] == list(range(len(kernels) - 1))[::-1]
    assert all(row["times_predicted"] == pytest.approx(2.0 + row["kernel"]) for row in found)


def test_the_profile_names_marked_kernels() -> None:
    kernel = {
        "kernel": 3, "predicted_us": 1.0, "measured_us": 50.0, "times_predicted": 50.0, "is_slow": True, "flops": 10,
        "template": "map", "nodes": ["a"], "launch": None,
    }  # fmt: skip
    quick = {**kernel, "kernel": 4, "measured_us": 1.0, "times_predicted": 1.0, "is_slow": False}
    assert "kernels 3)" in text_of({"kernels": [kernel, quick], "median_ms": 0.05})
    assert "slow" not in text_of({"kernels": [quick], "median_ms": 0.05})


def text_of(record: profile.Record) -> str:
    from rich.console import Console

    console = Console(width=200)
    with console.capture() as captured:
        console.print(profile.draw(record))
    return captured.get()

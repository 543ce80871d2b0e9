"""Measurements of a build in a report: all, or those that its budgets ask for, where its code runs here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from edgec.options.budgets import read_budgets
from edgec.report import measure as module
from edgec.report.measure import measure

TIMED = ("latency_ms=5",)
#: Budgets (None: everything), the language of the device, parts of the program, and what is measured.
CASES: list[tuple[tuple[str, ...] | None, str, bool, set[str]]] = [
    (None, "c", False, {"times with a peer", "kernels", "errors by block", "fidelity"}),
    (None, "cuda", False, {"times with a peer", "launches", "errors", "fidelity"}),
    (None, "c", True, {"times with a peer", "errors", "fidelity"}),
    (None, "cuda", True, {"times with a peer", "errors", "fidelity"}),
    (TIMED, "c", False, {"times", "kernels"}),
    (TIMED, "cuda", False, {"times", "launches"}),
    (("max_error=0.1",), "c", False, {"errors by block"}),
    (("max_error=0.1", *TIMED), "cuda", False, {"times", "launches", "errors"}),
    (("ram_kb=1", "flash_kb=1"), "c", False, set()),
]


@pytest.mark.parametrize("runs", [True, False])
@pytest.mark.parametrize("texts, language, parts, wanted", CASES)
def test_what_is_measured(
    texts: tuple[str, ...] | None, language: str, parts: bool, wanted: set[str], runs: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    measured: list[str] = []
    seconds: list[float] = []

    def noted(name: str) -> Any:
        return lambda *_, **__: measured.append(name)

    def timed(built: object, given: float, with_peer: bool, progress: object) -> None:
        measured.append("times with a peer" if with_peer else "times")
        seconds.append(given)

    monkeypatch.setattr(module, "runs_here", lambda device, compiler: runs)
    monkeypatch.setattr(module, "_timed", timed)
    monkeypatch.setattr(module, "_real", lambda built: None)
    for name, own in (("kernel_seconds", "kernels"), ("launch_seconds", "launches"), ("fidelity", "fidelity")):
        monkeypatch.setattr(module, name, noted(own))
    monkeypatch.setattr(
        module.api, "check", lambda built, blocks, **_: measured.append("errors by block" if blocks else "errors")
    )
    device = SimpleNamespace(language=language, is_gpu=language != "c")
    built: Any = SimpleNamespace(
        compiler=object(), options=SimpleNamespace(device=device, compiler="c"),
        program=SimpleNamespace(parts=("a", "b") if parts else ()),
    )  # fmt: skip
    measure(built, read_budgets(texts or ()), everything=texts is None, seconds=0.5)
    code = {"times", "times with a peer", "kernels", "launches"}
    assert sorted(measured) == sorted(wanted if runs else wanted - code)
    assert seconds in ([], [0.5])
    built.compiler = None
    measured.clear()
    measure(built, read_budgets(texts or ()), everything=texts is None)
    assert sorted(measured) == sorted(wanted - code)

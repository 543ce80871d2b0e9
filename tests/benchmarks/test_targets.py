"""The walk of every target: cells drawn at random, a program that answers wrongly, and the page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from chance import RANDOM
from needed import need

import edgec
from benchmarks.targets import __main__ as targets
from benchmarks.targets import page, plain, single
from benchmarks.targets.cells import ARITHMETIC, KINDS, SHAPES, Cell, cells
from benchmarks.targets.network import CALIBRATION, as_read, network, pictures
from benchmarks.targets.programs import answered
from edgec.device.load import load_device
from edgec.emit.apps import APPS
from edgec.errors import CheckError, EdgecError, UsageError

#: Cells that a run of the tests builds, and refusals that it reads.
BUILT, REFUSED = 3, 40
#: What cells of these devices take besides a C compiler.
NEEDED = {
    "qemu-aarch64": ("qemu-user",),
    "aarch64-linux-gnu-gcc": ("gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"),
    "qemu-system-arm": ("qemu-system-arm",),
    "arm-none-eabi-gcc": ("gcc-arm-none-eabi", "libnewlib-arm-none-eabi"),
    "cmake": ("cmake",),
    "node": ("nodejs",),
    "gst-launch-1.0": ("gstreamer1.0-tools", "libgstreamer1.0-dev", "libgstreamer-plugins-base1.0-dev"),
}
#: Devices of each way to run a cell, and the apps that are for them.
OFFERED = {
    "host": ("none", "pi", "gstreamer"),
    "arm64": ("none", "pi", "ros2"),
    "mps2_an386": ("none", "embedded", "arduino", "zephyr", "cmsis-pack"),
    "wasm32": ("web",),
}


def test_cells_are_every_way_to_ask() -> None:
    every = cells()
    assert len(every) == len(set(every)) == len({c.device for c in every}) * len(KINDS) * len(ARITHMETIC) * len(SHAPES)
    assert set(KINDS) == {"none", *APPS}
    assert {c.app for c in cells(["host", "int8"])} == set(KINDS)


def test_drawn_cells_run(tmp_path: Path) -> None:
    offered = [c for device, apps in OFFERED.items() for app in apps for c in cells([device, app])]
    for program, packages in NEEDED.items():
        need(program, *packages)
    for cell in RANDOM.choice(np.array(offered, object), BUILT, replace=False):
        row = targets.judged(cell, 200)
        if APPS.get(cell.app, APPS["pi"]).package:
            assert row["verdict"] == "built", (cell, row)
        elif cell.app == "ros2":
            assert row["verdict"] == ("validated" if cell.shapes == "fixed" else "refused"), (cell, row)
        elif cell.app == "none" or cell.shapes == "fixed":
            assert row["verdict"] == "ran", (cell, row)
        else:
            assert row["verdict"] in ("ran", "refused"), (cell, row)


def test_what_is_not_offered_is_refused_before_the_work(tmp_path: Path) -> None:
    """In words, whatever the cell: no app writes a project that its device cannot build."""
    apart = [c for c in cells() if c.app != "none" and not _fits(c)]
    for number, cell in enumerate(RANDOM.choice(np.array(apart, object), REFUSED, replace=False)):
        folder = tmp_path / str(number)
        with pytest.raises(UsageError, match=r"is (not )?for|needs|cannot be"):
            edgec.build("never read", folder, device=cell.device, app=cell.app)
        assert not folder.exists()


def _fits(cell: Cell) -> bool:
    device = load_device(cell.device)
    app = APPS[cell.app].others.get(device.language, APPS[cell.app])
    speaks = device.language == app.language
    has_board = device.has_board or not app.with_board
    is_of = device.arch in app.arches or bool({device.name, *device.bases} & set(app.families))
    return speaks and has_board and (not app.arches or is_of)


def test_a_wrong_answer_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = single._sample(_model(tmp_path), tmp_path)
    with pytest.raises(CheckError, match="the picture is"):
        answered("x.ppm\nnobody 99 %\n", sample)
    answered(f"x.ppm\n{sample.label} 99 %\n", sample)
    right = plain.edgec.check

    def mistaken(model: Path, **settings: object) -> object:
        return replace(right(model, **settings), ok=False)

    monkeypatch.setattr(plain.edgec, "check", mistaken)
    settings = {"device": "host", "shapes": {"image": (1, 3, 12, 12)}}
    with pytest.raises(CheckError, match="FAILED"):
        plain.check(tmp_path / "colors.onnx", load_device("host"), sample, settings, tmp_path / "net")


def _model(folder: Path) -> Path:
    onnx.save(network(), folder / "colors.onnx")
    return folder / "colors.onnx"


def test_pictures_are_of_pixels() -> None:
    drawn = pictures(CALIBRATION, 0)
    assert drawn.shape[:2] == (CALIBRATION, 3) and drawn.dtype == np.uint8
    assert float(as_read(drawn).max()) <= 1 and len(np.unique(drawn)) > 100


def test_the_page_counts_and_lists(tmp_path: Path) -> None:
    rows = [
        {"name": "host none fp32 fixed", "date": "2026-01-01", "verdict": "ran", "how": "this machine; 1e-08"},
        {"name": "host web fp32 fixed", "date": "2026-01-01", "verdict": "refused", "how": "'web' is not for 'host'"},
        {"name": "host pi int8 open", "date": "2026-01-02", "verdict": "wrong", "how": "answers a|b"},
    ]
    text = page.text(rows)
    assert "| all | 3 | 1 |  |  | 1 | 1 |  |" in text and "| host pi int8 open | wrong | answers a\\|b |" in text
    assert "2026-01-01 to 2026-01-02" in text and "| ran | this machine | 1 |" in text


def test_a_walk_goes_on_and_says_what_broke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def judged(cell: Cell, patience: float) -> dict[str, str]:
        asked.append(cell.name)
        return {"verdict": "wrong" if "int8 open" in cell.name else "ran", "how": "told"}

    monkeypatch.setattr(targets, "judged", judged)
    given = ["--rows", str(tmp_path / "rows.jsonl"), "--only", "host", "--only", "none"]
    assert targets.main([*given, "--only", "fp32"]) == 0 and len(asked) == len(SHAPES)
    assert targets.main([*given, "--write", str(tmp_path / "page.md")]) == 1
    assert len(asked) == len(set(asked)) == len(SHAPES) * len(ARITHMETIC)
    assert "| host none int8 open | wrong | told |" in (tmp_path / "page.md").read_text()


def test_a_child_that_dies_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(job: object, target: Path) -> None:
        raise SystemExit(7)

    monkeypatch.setattr(single, "run", dies)
    row = targets.judged(cells(["host", "none"])[0], 60)
    assert row == {"verdict": "error", "error": "exit code 7"}


def test_refusals_keep_edgecs_words(tmp_path: Path) -> None:
    with pytest.raises(EdgecError, match="fixed shape"):
        single.outcome("mps2_an386", "embedded", "fp32", "open", tmp_path)

"""The check that a network fits its device comes before it is flashed."""

from __future__ import annotations

from pathlib import Path

import pytest

import edgec
from edgec.cli.main import main
from edgec.device.load import load_device
from edgec.report.fit import fit
from edgec.resources import data_folder

DIGITS = str(data_folder("apps") / "digits" / "digits.onnx")


def small(folder: Path, ram: int, flash: int) -> Path:
    path = folder / "small.toml"
    path.write_text(f'base = "cortex_m4"\nram_bytes = {ram}\n[board]\nflash_bytes = {flash}\n')
    return path


def test_bytes_are_those_of_the_program(tmp_path: Path) -> None:
    device = load_device(small(tmp_path, 1000, 10**6))
    built = edgec.build(DIGITS, device=device, compile=False)
    found = fit(built.program, device)
    ports = sum(b.bytes for _, b, _ in (*built.program.inputs, *built.program.outputs))
    assert found["ram"]["bytes"] == built.arena_bytes + ports > 1000
    assert (found["ram"]["fits"], found["flash"]["fits"]) == (False, True)
    assert [v["bytes"] for v in found["largest"]] == sorted((v["bytes"] for v in found["largest"]), reverse=True)
    exact = load_device(small(tmp_path, found["ram"]["bytes"], found["flash"]["bytes"]))
    assert fit(built.program, exact)["ram"]["fits"] and fit(built.program, exact)["flash"]["fits"]
    unknown = fit(built.program, load_device("cortex_m4"))
    assert unknown["ram"]["fits"] is None and unknown["flash"]["fits"] is None


@pytest.mark.parametrize(("ram", "word"), [(100, "DOES NOT FIT"), (10**6, "arena, inputs and outputs")])
def test_inspect_says_it(tmp_path: Path, capsys: pytest.CaptureFixture[str], ram: int, word: str) -> None:
    with pytest.raises(SystemExit) as end:
        main(["inspect", DIGITS, "--device", str(small(tmp_path, ram, 10**6))])
    assert end.value.code == 0 and word in capsys.readouterr().out

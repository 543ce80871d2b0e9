"""One table of options: what serve writes config reads back, old names say the new ones, the guide lists them all."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgec
from edgec.cli import config, toml_text, trusted
from edgec.cli.command import settings_of
from edgec.cli.main import main
from edgec.errors import UsageError
from edgec.options import OPTIONS, Options, Settings, resolve
from edgec.options.said import said, told_again

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "guide" / "guide.md"
#: For each option a value that is not its default, as the command line gives it.
GIVEN: dict[str, Any] = {
    "device": "sub/mine.toml", "dispatch": "x86_64_avx2", "place": "cpu", "threads": 3, "cores": "0-1",
    "ram": "4K", "weights": "array", "name": "seven",
    "precision": "fp16", "compiler": "clang -m32", "shapes": {"a/b:0": (1, 3), "x": ()}, "dims": {"rows": (8, 64, 8)},
    "values": {"flag": np.asarray(True), "table": np.asarray([[1.5, 2.0], [3.0, 4.0]])}, "states": {"h": "h_next"},
    "loops": {"Loop_1": 16}, "context": 512, "cache": "int8", "lora": "8:q,v", "chat_template": Path("own.jinja"),
    "pre": "picture=rgb8:480x640", "picture": "mean=0.5,std=0.25", "sound": "rate=16000",
    "quantize": "mixed", "calibrate": "data/samples.npz", "observer": "best",
    "max_loss": "top1_drop=0.5", "corrections": "none", "prune": "2:4", "sparsity": "auto", "prune_by": "wanda",
    "masks": Path("masks.npz"), "retrain": Path("train.npz"), "retrain_steps": 50, "augment": "mirror",
    "retrain_state": Path("state.npz"),
    "loss": "own.onnx", "update": "last:2", "optimizer": "adam:lr=0.1", "batch": 8, "accumulate": 4,
    "dropout": "0.1,seed=7", "batch_norm": "batch",
    "numeric": "exact", "fuse": "none", "profiles": False, "bounds": True, "disable_rules": ["factor"],
    "materialize": ["Conv_3"], "overrides": {"attention MatMul_1": "whole"}, "tiles": {"Conv_3": (8, 3)},
    "limits": {"seconds": 60.5, "nodes": 1000},
    "rules": [Path("rules")], "templates": [Path("templates")],
    "micro_kernels": [Path("micro_kernels")], "devices": [Path("devices")],
    "operators": [Path("operators")],
}  # fmt: skip


def _plain(value: Any, folder: Path) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v, folder) for k, v in value.items()}
    if isinstance(value, (list, tuple)) and not (value and isinstance(value[0], int)):
        return [_plain(v, folder) for v in value]
    if isinstance(value, Path) or str(value).endswith((".toml", ".npz", ".onnx")):
        return str((folder / value).resolve())
    return value.tolist() if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize("key", OPTIONS)
def test_what_serve_writes_config_reads(key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written into another folder than the one the command ran in, so that paths have to be relative to the file."""
    monkeypatch.chdir(tmp_path)
    there = tmp_path / "built"
    there.mkdir()
    told = json.loads(json.dumps(said({key: GIVEN[key]}, "net.onnx", there)))
    assert len(told) == 2, "the model and the option"
    (there / config.FILE).write_text(toml_text.dump(config.written(told)))
    trusted.trust(config.load(there))
    model, settings = settings_of(config.load(there))
    assert (there / model).resolve() == tmp_path / "net.onnx"
    assert _plain(settings[key], there) == _plain(GIVEN[key], tmp_path)  # type: ignore[literal-required]
    assert _plain(told_again(told, there, "notes")[key], there) == _plain(GIVEN[key], tmp_path)


def test_defaults_are_not_written(tmp_path: Path) -> None:
    assert said({key: option.default for key, option in OPTIONS.items()}, "net.onnx", tmp_path).keys() == {"model"}


def test_every_option_is_resolved() -> None:
    """An option without a field of its own becomes part of the device, or selects it."""
    assert {*OPTIONS} - {f.name for f in fields(Options)} == {
        "dispatch", "place", "precision", "devices", "loss", "update", "optimizer", "batch", "accumulate", "dropout",
        "batch_norm",
        "retrain", "retrain_steps", "retrain_state", "augment",
    }  # fmt: skip
    assert {f.name for f in fields(Options)} - {*OPTIONS} == {
        "levels", "gpu", "error", "training", "retraining", "placed_by",
    }  # fmt: skip
    assert resolve({}).threads == 1 and resolve({}).profiles


def test_a_share_of_zeros_may_be_a_number_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "edgec.toml").write_text('model = "net.onnx"\nprune = "vector"\nsparsity = 0.5\n')
    assert settings_of(config.load(tmp_path))[1]["sparsity"] == "0.5"


@pytest.mark.parametrize(
    "words, new",
    [
        ("build --apart Conv_3", "--materialize"),
        ("check --without factor", "--disable-rule"),
        ("bench --choose=attention", "--override"),
        ("build --untuned", "--no-profiles"),
        ("build --limit ram_kb=3", "--budget"),
        ("check --budget top1_drop=0.5", "--max-loss"),
        ("build --budget top1_drop=0.5", "--max-loss top1_drop=0.5"),
        ("tune --budget 60", "--seconds"),
    ],
)
def test_an_old_option_says_the_new_one(words: str, new: str, capsys: pytest.CaptureFixture[str]) -> None:
    verb, *rest = words.split()
    with pytest.raises(SystemExit) as end:
        main([verb, "none.onnx", *rest, "--json"])
    error = json.loads(capsys.readouterr().out)["error"]
    assert end.value.code == 2 and re.search(rf"(called|is) {new}\b", f"{error['message']} {error['hint']}")


@pytest.mark.parametrize(
    "text, new",
    [
        ('apart = ["Conv_3"]', "materialize"),
        ('[decide]\nwithout = ["factor"]', "disable_rule"),
        ('[decide.choose]\n"attention x" = "whole"', "override"),
        ("tuned = false", "profiles"),
        ('loss_budget = "cosine=0.9"', "max_loss"),
        ('budget = "cosine=0.9"', "max_loss"),
        ("[budget]\ncosine = 0.9", "max_loss"),
        ('[build]\nlimit = ["ram_kb=3"]', "budget"),
    ],
)
def test_an_old_key_says_the_new_one(text: str, new: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "edgec.toml").write_text(f'model = "none.onnx"\n{text}\n')
    with pytest.raises(SystemExit) as end:
        main(["build", str(tmp_path), "--json"])
    error = json.loads(capsys.readouterr().out)["error"]
    assert end.value.code == 2 and re.search(rf"(called|is) {new}\b", error["hint"]), error


@pytest.mark.parametrize(
    "old, new",
    [
        ("apart", "materialize"), ("without", "disable_rules"), ("choose", "overrides"), ("tuned", "profiles"),
        ("loss_budget", "max_loss"), ("beside", "extras"), ("prepared", "preprocessing"), ("ways", "variants"),
    ],
)  # fmt: skip
def test_an_old_keyword_says_the_new_one(old: str, new: str) -> None:
    given: Any = {old: []}
    with pytest.raises(UsageError, match=f"it is called '{new}' now"):
        edgec.build("none.onnx", **given)
    assert new in OPTIONS or new in edgec.build.__annotations__


def test_a_keyword_that_never_was() -> None:
    unknown: Any = {"entirely_else": 2}
    with pytest.raises(UsageError, match="the options are device, "):
        resolve(Settings(**unknown))


def _listed() -> str:
    """A table in Markdown for each group of options."""
    parts = []
    for group, rows in groupby(OPTIONS.items(), lambda row: row[1].group):
        parts.append(f"**{group}**\n\n| option | keyword | default | |\n|---|---|---|---|\n")
        for key, option in rows:
            value = f"/--no-{key}" if option.kind is bool else f" {option.metavar or 'VALUE'}"
            default = "" if option.default is None else f"`{option.default}`"
            parts.append(f"| `{option.long}{value}` | `{key}` | {default} | {option.help} |\n")
        parts.append("\n")
    return "".join(parts)


def test_the_guide_lists_every_option(update_golden: bool) -> None:
    """`pytest tests/cli/test_options.py --update-golden` writes the list anew."""
    text = GUIDE.read_text(encoding="utf-8")
    begin, end = "<!-- options: begin -->\n", "<!-- options: end -->"
    before, _, rest = text.partition(begin)
    found, _, after = rest.partition(end)
    if update_golden:
        GUIDE.write_text(f"{before}{begin}{_listed()}{end}{after}", encoding="utf-8")
    else:
        assert found == _listed(), "pytest tests/cli/test_options.py --update-golden"

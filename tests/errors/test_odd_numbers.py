"""Numbers that no option takes are refused in words, wherever they are given."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from small_models import model, node, tensor_input
from typer.testing import CliRunner

import edgec
from edgec.artifact.trainer import Trainer
from edgec.bench.turns import refuse_none
from edgec.check.network import MOST_SAMPLES, inputs_for
from edgec.cli.main import app
from edgec.errors import UsageError
from edgec.ir.graph import Graph, placeholder
from edgec.ir.types import Type
from edgec.options.typed import require
from edgec.resources import data_folder

DIGITS = str(data_folder("apps") / "digits" / "digits.onnx")


def seeded() -> list[Callable[..., Any]]:
    """Public functions that take a seed, and the method that trains."""
    public = [getattr(edgec, name) for name in edgec.__all__]
    found = [f for f in public if inspect.isfunction(f) and "seed" in inspect.signature(f).parameters]
    return [*found, lambda *given, **named: Trainer.fit(None, *given, **named)]  # type: ignore[arg-type]


def test_no_seed_is_negative() -> None:
    assert len(seeded()) >= 4
    for function in seeded():
        with pytest.raises(UsageError, match="'seed' cannot be -1\n  hint: it is 0 or more"):
            function(DIGITS, seed=-1)
    require("seed", np.int64(0), (int,))
    require("offset", -1, (int,))


@pytest.mark.parametrize("samples", [-1, 0, MOST_SAMPLES + 1, 10**11])
def test_samples_are_some_and_not_endless(samples: int) -> None:
    x = placeholder("x", Type("f32", (1,)))
    graph = Graph((x,), (("y", x),))
    with pytest.raises(UsageError, match=f"{samples} samples cannot be checked\n  hint: give 1 to {MOST_SAMPLES}"):
        inputs_for(graph, None, samples, 0)
    assert len(inputs_for(graph, None, 1, 0)) == 1 and len(inputs_for(graph, None, MOST_SAMPLES, 0)) == MOST_SAMPLES


def test_rounds_are_some_and_no_more_than_calls() -> None:
    refuse_none(0.1, 1)
    refuse_none(0.1, 20_000)
    for seconds, rounds in ((0.1, 0), (0.0, 5), (float("nan"), 5)):
        with pytest.raises(UsageError, match="nothing to time"):
            refuse_none(seconds, rounds)
    with pytest.raises(UsageError, match="20001 rounds are too many\n  hint: give up to 20000"):
        refuse_none(0.1, 20_001)


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["check", DIGITS, "--worker", "host:1"], "--worker is for a divided network"),
        (["check", DIGITS, "--out", "folder"], "--out is for --locate"),
        (["kernel", "f32 y[i] = 2 * a[i]", "--size", "i=4,k=3"], "there is no index 'k'"),
        (["bench", DIGITS, "--rounds", "999999999"], "999999999 rounds are too many"),
        (["advise", DIGITS, "--seconds", "nan"], "--seconds: nan is no time"),
        (["advise", DIGITS, "--seconds", "1", "--link", "nope"], "'nope' names no link"),
        (["trust", "not/here"], "not/here: there is no edgec.toml here"),
        (["certify", DIGITS, "--inputs", "x.npz", "--eps", "0.1", "--seed", "-1"], "'seed' cannot be -1"),
    ],
)
def test_options_without_meaning(arguments: list[str], said: str) -> None:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2 and said in done.output


def test_a_network_without_elements_has_no_kernel_to_time(tmp_path: Path) -> None:

    onnx.save(model([node("Relu", ["x"], ["y"])], [tensor_input("x", [0, 8])]), tmp_path / "none.onnx")
    done = CliRunner().invoke(app, ["profile", str(tmp_path / "none.onnx"), "--seconds", "0.1"])
    assert done.exit_code == 2 and "there is nothing to time" in done.output and "give other shapes" in done.output

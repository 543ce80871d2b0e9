"""The Python interface: keywords, types of values, what a network prints, and the bar of long work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgec
from edgec import api
from edgec.cli.main import main
from edgec.errors import ModelError, UsageError
from edgec.options import OPTIONS, resolve
from edgec.options.keywords import FLAGS
from edgec.options.types import value_fits
from edgec.resources import data_folder

DIGITS = data_folder("apps") / "digits" / "digits.onnx"
#: For each kind of value one that no option of the kind takes.
WRONG: tuple[Any, ...] = (object(), 1j, b"bytes", {1, 2}, 2.5, True, "text", ["list"], {"a": object()})


@pytest.mark.parametrize("name", sorted(FLAGS))
def test_long_options_are_keywords_too(name: str) -> None:
    with pytest.raises(UsageError, match="are one option"):
        edgec.load(DIGITS, **{name: None, FLAGS[name]: None})
    assert edgec.load(DIGITS, **{name: None}).name == edgec.load(DIGITS).name


@pytest.mark.parametrize(
    ("function", "wrong", "right"),
    [
        ("build", "treads", "threads"),
        ("build", "outt", "out"),
        ("check", "sample", "samples"),
        ("bench", "shap", "shape"),
    ],
)
def test_the_nearest_keyword_is_named(function: str, wrong: str, right: str) -> None:
    with pytest.raises(UsageError, match=f"did you mean '{right}'"):
        getattr(edgec, function)(DIGITS, **{wrong: 1})


@pytest.mark.parametrize("key", sorted(OPTIONS))
@pytest.mark.parametrize("value", WRONG, ids=[type(v).__name__ for v in WRONG])
def test_values_of_other_types_are_errors_of_edgec(key: str, value: Any) -> None:
    try:
        resolve({key: value})  # type: ignore[misc]
    except edgec.errors.EdgecError as refusal:
        assert str(refusal)
    else:
        assert value_fits(key, value)


def test_a_network_is_a_function_and_says_what_it_takes(tmp_path: Path) -> None:
    built = edgec.build(DIGITS, tmp_path / "net", bindings="python, cpp", labels=["a", "b"], normalize="1/2")
    assert (built.folder / "net.hpp").is_file() and (built.folder / "python").is_dir()
    image = np.random.default_rng(0).random((1, 1, 8, 8), dtype=np.float32)
    with edgec.Network(built.folder) as network:
        assert np.array_equal(network(image), built(image)) and np.array_equal(network(image=image), built(image))
        with pytest.raises(UsageError, match="2 arrays are given"):
            network(image, image)
        lines = str(network).splitlines()
    assert lines == ["network net", "  in  image  f32[1,1,8,8]", "  out probabilities  f32[1,10]"]
    assert str(built).splitlines()[1:] == ["  in  image  f32[1,1,8,8]", "  out probabilities  f32[1,10]"]


def test_inputs_that_do_not_fit_are_told_what_would(tmp_path: Path) -> None:
    built = edgec.build(DIGITS, tmp_path / "net")
    image = np.random.default_rng(0).random((1, 1, 8, 8), dtype=np.float32)
    assert np.array_equal(built({"image": image}), built(image)) and repr(built) == str(built)
    for given in (image.astype(np.float64), image[0], image[0].astype(np.float16)):
        with pytest.raises(ModelError) as told:
            built(given)
        code = str(told.value.hint).removesuffix(" is one")
        assert np.allclose(built(eval(code, {"array": given, "numpy": np})), built(image), atol=1e-3)
    for given in (image[0, 0], image.repeat(2, 0), image.astype(complex)):
        with pytest.raises(ModelError) as told:
            built(given)
        assert not told.value.hint
    with pytest.raises(UsageError, match="dictionary and by keywords"):
        built({"image": image}, image=image)


@pytest.mark.parametrize(
    ("function", "keywords"),
    [
        ("check", {"tolerance": "small"}),
        ("check", {"samples": 2.5}),
        ("check", {"locate": "yes"}),
        ("bench", {"seconds": "1"}),
        ("bench", {"vs": 1}),
        ("build", {"out": 3}),
        ("build", {"tune": "long"}),
        ("score", {"data": ["data.npz"]}),
    ],
)
def test_keywords_of_a_function_have_types(function: str, keywords: dict[str, Any]) -> None:
    (name,) = keywords
    with pytest.raises(UsageError, match=f"'{name}' cannot be"):
        getattr(edgec, function)(DIGITS, **keywords)


def test_looking_inside_gives_what_the_commands_print(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    built = edgec.build(DIGITS, tmp_path / "net")
    for found, words in (
        (edgec.inspect(DIGITS, traffic=True), ["inspect", str(DIGITS), "--traffic"]),
        (edgec.inspect(built), ["inspect", str(built.folder)]),
        (edgec.explain(DIGITS, "Conv_3", fuse="operators"), ["explain", str(DIGITS), "Conv_3", "--fuse", "operators"]),
        (edgec.explain(built.folder, 0), ["explain", str(built.folder), "0"]),
    ):
        with pytest.raises(SystemExit) as ended:
            main([*words, "--json"])
        assert not ended.value.code
        printed = json.loads(capsys.readouterr().out)
        assert {k: v for k, v in printed.items() if k != "warnings"} == json.loads(json.dumps(found))
        assert len(str(found).splitlines()) > 4 and repr(found) == str(found)
    trace = tmp_path / "trace.json"
    timed = edgec.profile(built, seconds=0.01, trace=trace)
    assert len(timed["kernels"]) == built.kernels and "Slowest first" in str(timed) and trace.is_file()
    assert edgec.profile(built.folder, seconds=0.01)["median_ms"] > 0
    with pytest.raises(UsageError, match="cannot be changed after the build"):
        edgec.explain(built, "Conv_3", threads=2)
    with pytest.raises(UsageError, match="did you mean 'traffic'"):
        edgec.inspect(DIGITS, trafic=True)  # type: ignore[call-arg]


def test_a_build_runs_on_dictionaries_and_says_how_it_was_checked(tmp_path: Path) -> None:
    built = edgec.build(DIGITS, tmp_path / "net")
    image = np.random.default_rng(0).random((1, 1, 8, 8), dtype=np.float32)
    out = np.empty((1, 10), np.float32)
    assert np.array_equal(built.run({"image": image}, {"probabilities": out})["probabilities"], built(image))
    assert np.array_equal(out, built(image))
    with pytest.raises(UsageError, match="by name, in a dictionary"):
        built.run(image)  # type: ignore[arg-type]
    checked = edgec.check(built, samples=1)
    head, row = repr(checked).splitlines()
    assert head.startswith("check ok: 1 sample beside onnxruntime") and row.startswith("  probabilities  max|d| ")
    assert "FAILED" not in row and "FAILED" in repr(edgec.check(built, samples=1, tolerance=0.0)).splitlines()[1]


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(UsageError, match="a model cannot be an object of type int"):
        edgec.build(3)  # type: ignore[arg-type]


def test_long_work_shows_a_bar_unless_told_not_to(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told: list[str] = []

    class Bar:
        def __enter__(self) -> Any:
            return lambda stage, detail="", part=None: told.append(stage)

        def __exit__(self, *error: object) -> None:
            told.append("closed")

    monkeypatch.setattr(api, "shown", Bar)
    edgec.build(DIGITS, tmp_path / "a", compile=False)
    assert {"import", "fuse", "schedule", "emit"} <= set(told) and told[-1] == "closed"
    told.clear()
    edgec.build(DIGITS, tmp_path / "b", compile=False, progress=edgec.progress.silent)
    assert not told

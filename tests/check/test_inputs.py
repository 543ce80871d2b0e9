"""Inputs that make sense to the network, and inputs from files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from convnet import convnet, tokens
from onnx.parser import parse_model

from edgec.errors import UsageError
from edgec.execute.samples import given_inputs, index_limits, random_inputs, samples
from edgec.frontend.onnx import import_model


def test_token_ids_stay_inside_their_table_and_masks_are_masks() -> None:
    graph = import_model(tokens(words=7, length=50))
    (limit,) = index_limits(graph).values()
    assert limit == 7
    for seed in range(5):
        drawn = random_inputs(graph, seed)
        assert drawn["ids"].min() >= 0 and drawn["ids"].max() < 7
        mask = drawn["attention_mask"]
        assert set(np.unique(mask)) <= {0, 1} and mask[0, 0] == 1 and (np.diff(mask) <= 0).all()


def test_the_same_seed_gives_the_same_inputs() -> None:
    graph = import_model(convnet())
    a, b, c = (random_inputs(graph, seed)["image"] for seed in (3, 3, 4))
    assert (a == b).all() and (a != c).any()


def test_files_hold_one_sample_or_many(tmp_path: Path) -> None:
    graph = import_model(convnet())
    image = np.random.default_rng(0).standard_normal((4, 3, 10, 10)).astype(np.float32)
    np.save(tmp_path / "one.npy", image[:1])
    np.savez(tmp_path / "many.npz", image=image)
    assert [s["image"].shape for s in given_inputs(graph, tmp_path / "one.npy")] == [(1, 3, 10, 10)]
    assert [s["image"].shape for s in given_inputs(graph, tmp_path / "many.npz")] == [(1, 3, 10, 10)] * 4


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"picture": np.zeros((1, 3, 10, 10), np.float32)}, "'image' is missing"),
        ({"image": np.zeros((1, 3, 10, 10))}, "'image' is float64"),
        ({"image": np.zeros((1, 3, 9, 10), np.float32)}, "expected [1, 3, 10, 10]"),
        ({"image": np.zeros((0, 3, 10, 10), np.float32)}, "the inputs hold [0] samples"),
    ],
)
def test_files_that_do_not_fit(tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(UsageError) as raised:
        given_inputs(import_model(convnet()), tmp_path / "x.npz")
    assert message in str(raised.value)


def test_inputs_hold_as_many_samples_each() -> None:
    graph = import_model(
        parse_model(
            '<ir_version: 8, opset_import: ["": 17]> g (float[2] a, float[2] b) => (float[2] c) { c = Add (a, b) }'
        )
    )
    arrays = {"a": np.arange(6, dtype=np.float32).reshape(3, 2), "b": np.ones((3, 2), np.float32)}
    assert [s["a"].tolist() for s in samples(graph, arrays)] == [[0, 1], [2, 3], [4, 5]]
    for count in (1, 2):
        with pytest.raises(UsageError, match=rf"the inputs hold \[{count}, 3\] samples"):
            samples(graph, {**arrays, "b": arrays["b"][:count]})


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_text("no zip")
    for name in ("x.npz", "missing.npz"):
        with pytest.raises(UsageError, match="cannot be read"):
            given_inputs(import_model(convnet()), tmp_path / name)


@pytest.mark.parametrize("operator", ["ScatterElements <axis = 1>", "ScatterND"])
def test_positions_that_are_written_to_are_inside(operator: str) -> None:
    """A drawn position outside would end the run of a network that is right."""
    given = "int64[3, 1] p, float[3, 1] u" if "axis" in operator else "int64[4, 2] p, float[4] u"
    made = parse_model(
        f"""<ir_version: 8, opset_import: ["": 18]>
        net (float[3, 2] x, {given}) => (float[3, 2] y) {{ y = {operator} (x, p, u) }}"""
    )
    graph = import_model(made)
    assert [*index_limits(graph).values()] == [2]
    assert all(random_inputs(graph, seed)["p"].max() < 2 for seed in range(8))

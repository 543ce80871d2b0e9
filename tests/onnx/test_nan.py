"""NaN in operators that look for the greatest element: it counts as the greatest, as in numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chance import RANDOM
from compiled import Compiled, compile_graphs
from onnx import helper

from edgec.errors import ModelError
from edgec.frontend.onnx import import_model

ROWS = RANDOM.standard_normal((6, 19)).astype(np.float32)
ROWS[1, 3], ROWS[2, [0, 18]], ROWS[3], ROWS[4, 5] = np.nan, np.nan, np.nan, np.inf
IMAGE = RANDOM.standard_normal((1, 2, 9, 8)).astype(np.float32)
IMAGE[0, 0, [0, 4, 8], [0, 3, 7]], IMAGE[0, 1, :3] = np.nan, -np.inf


def graph(operator: str, x: np.ndarray, outputs: int = 1, **attributes: Any) -> Any:
    names = [f"y{k}" for k in range(outputs)]
    node = helper.make_node(operator, ["x"], names, **attributes)
    given = helper.make_tensor_value_info("x", 1, x.shape)
    made = helper.make_graph([node], "net", [given], [helper.make_empty_tensor_value_info(n) for n in names])
    return import_model(helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=9))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Compiled]:
    window = {"kernel_shape": [3, 2], "pads": [1, 1, 1, 0], "strides": [2, 1]}
    return compile_graphs(  # type: ignore[return-value]
        {
            "ArgMax": graph("ArgMax", ROWS, axis=1, keepdims=0),
            "ArgMin": graph("ArgMin", ROWS, axis=1, keepdims=0),
            "last": graph("ArgMax", ROWS, axis=1, keepdims=0, select_last_index=1),
            "Hardmax": graph("Hardmax", ROWS),
            "ReduceMax": graph("ReduceMax", ROWS, keepdims=0),
            "MaxPool": graph("MaxPool", IMAGE, 2, **window),
        },
        tmp_path_factory.mktemp("built"),
    )


def test_places_of_the_extremes(built: dict[str, Compiled]) -> None:
    feeds = {"x": ROWS}
    np.testing.assert_array_equal(built["ArgMax"](feeds)["y0"], np.argmax(ROWS, 1))
    np.testing.assert_array_equal(built["ArgMin"](feeds)["y0"], np.argmin(ROWS, 1))
    np.testing.assert_array_equal(built["last"](feeds)["y0"], 18 - np.argmax(ROWS[:, ::-1], 1))
    np.testing.assert_array_equal(built["Hardmax"](feeds)["y0"], np.eye(19)[np.argmax(ROWS, 1)])
    assert np.isnan(built["ReduceMax"](feeds)["y0"])


def test_places_of_a_pool(built: dict[str, Compiled]) -> None:
    found = built["MaxPool"]({"x": IMAGE})
    values, places = found["y0"], found["y1"]
    assert places.min() >= 0 and places.max() < IMAGE.size and np.isnan(values).sum() > 2
    np.testing.assert_array_equal(IMAGE.reshape(-1)[places], values)


@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool", "LpPool"])
def test_a_window_of_padding_alone_is_refused(operator: str, tmp_path: Path) -> None:
    graph(operator, IMAGE, kernel_shape=[2, 3], pads=[1, 2, 1, 2])
    for pads in ([2, 0, 0, 0], [0, 0, 0, 3]):
        with pytest.raises(ModelError, match="as large as the kernel"):
            graph(operator, IMAGE, kernel_shape=[2, 3], pads=pads)

"""Tables that few rows are read of: gradients are added to the moments where they lie, and no whole one is made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from chance import RANDOM
from small_models import model, node, weights
from trained_models import floats

import edgec
from edgec.artifact.trainer import LossError
from edgec.check.training import check_training
from edgec.errors import UsageError

WORDS, WIDTH = 3000, 8


def words(is_tied: bool) -> onnx.ModelProto:
    """The mean of the rows of 12 words, by which the next one is told: from the same table, or in four classes."""
    nodes = [
        node("Gather", ["table", "x"], ["rows"]), node("ReduceMean", ["rows"], ["mean"], axes=[1], keepdims=0),
        node("Transpose", ["table"], ["turned"], perm=[1, 0]),
        node("MatMul", ["mean", "turned" if is_tied else "w"], ["y"]),
    ]  # fmt: skip
    given = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.INT64, [1, 12])
    held = {"table": floats(WORDS, WIDTH, scale=0.1)} | ({} if is_tied else {"w": floats(WIDTH, 4)})
    return model([n for n in nodes if is_tied or n.op_type != "Transpose"], [given], ["y"],
                 [weights(n, v) for n, v in held.items()])  # fmt: skip


@pytest.mark.parametrize("is_tied", [False, True], ids=["apart", "tied"])
def test_no_gradient_of_a_table_is_kept(is_tied: bool, tmp_path: Path) -> None:
    """A tied one has one where a product of several samples makes it, while the arena is no larger than the state."""
    optimizer = "sgd:lr=0.1,momentum=0.9,weight_decay=0.01"
    asked = {"loss": "cross_entropy", "optimizer": optimizer}
    one = edgec.build(words(is_tied), compile=False, batch=1, **asked).program.training
    assert one is not None and one.step.arena_bytes < 4 * WORDS * WIDTH
    built = edgec.build(words(is_tied), tmp_path / "out", batch=2, **asked)
    assert built.program.training is not None
    state = sum(b.bytes for b in built.program.training.step.states.values())
    assert built.program.training.step.arena_bytes < (state if is_tied else 4 * WORDS * WIDTH)
    with edgec.load(tmp_path / "out") as trainer:
        found = check_training(trainer, vs=None, steps=20)
        assert found.ok and found.weights < 1e-4
        x, target = RANDOM.integers(0, WORDS, (2, 12)), np.array([0, 1])
        x[:, 6:] = x[:, :1]  # rows that are read often
        trainer.step(x, target)
        before = {name: value.copy() for name, value in trainer.state.items()}
        outside = x.copy()
        outside[1, 3] = WORDS
        with pytest.raises(UsageError, match="does not take such inputs"):
            trainer.step(outside, target)
        assert all(np.array_equal(value, before[name]) for name, value in trainer.weights.items())
        assert is_tied or all(np.array_equal(value, before[name]) for name, value in trainer.state.items())
        before = {name: value.copy() for name, value in trainer.state.items()}
        trainer.weights["table"][x[0, 0]] = np.nan
        with pytest.raises(LossError):
            trainer.step(x, target)
        moments = {name: value for name, value in trainer.state.items() if name not in trainer.weights}
        assert moments and all(np.array_equal(value, before[name]) for name, value in moments.items())

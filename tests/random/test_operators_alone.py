"""Every ONNX operator by itself with options drawn by its recipe: what onnxruntime gives, in numpy.

The first draw goes through all stages, the others are imported alone. In the models of ``test_random_onnx`` an operator
comes up by chance; here each has as many draws as any other.
``EDGEC_RANDOM_SEED`` asks for other draws.
"""

from __future__ import annotations

import onnx_recipes  # noqa: F401
import pytest
from chance import GIVEN
from onnx_graphs import RECIPES, alone
from onnx_stages import Sample, first_wrong

#: Draws of each operator.
COUNT = 8
FIRST = int(GIVEN or 0) * COUNT


@pytest.mark.parametrize("key", sorted(RECIPES), ids=lambda key: " ".join(filter(None, key)))
def test_agrees_with_onnxruntime(key: tuple[str, str]) -> None:
    found = [model for k in range(FIRST, FIRST + COUNT) if (model := alone(key, k)) is not None]
    assert found, "its recipe comes to no node"
    wrong = {k: first_wrong(Sample.of(model), 1 if k else None) for k, model in enumerate(found)}
    assert not any(wrong.values()), {k: w for k, w in wrong.items() if w}

"""More operators of com.microsoft against onnxruntime: older spellings of the standard's, and what quantizers write."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import test_contrib
from compiled import Compiled, compile_graphs
from test_contrib import Case, assert_agree, bytes_, floats, ints, lengths_mask, model_of, one, reference, scales

from edgec.errors import ModelError
from edgec.frontend.onnx import import_model
from edgec.frontend.onnx.call import supported
from edgec.ir import evaluate
from edgec.rewrite import simplify

TABLES = [bytes_(9, 6), bytes_(5, 6), bytes_(2, 6), bytes_(6), bytes_(6)]
SIGNED = [bytes_(*t.shape, dtype=np.int8) for t in TABLES]
WORDS, SEGMENTS = ints(*range(8)).reshape(2, 4), ints(*[0, 1] * 4).reshape(2, 4)


def embedded(tables: list[np.ndarray], masked: bool) -> Case:
    """Word, position and segment embeddings, gamma and beta, each with its scale and zero point."""
    zeros = [one(7 + k, t.dtype.type) for k, t in enumerate(tables)]
    mask = lengths_mask(2, 4) if masked else None
    operands = (WORDS, SEGMENTS, *tables, mask, *(scales() for _ in tables), *zeros)
    return Case("QEmbedLayerNormalization", operands, {"epsilon": 1e-5}, tuple(range(8, 18)), outputs=(0, 1))


def of_four_bits(kind: int, outputs: int, inputs: int, block: int) -> Case:
    blocks = -(-outputs * inputs // block)
    settings = {"N": outputs, "K": inputs, "block_size": block, "quant_type": kind}
    operands = floats(3, 5, inputs), bytes_(-(-outputs * inputs // 2)), scales(blocks)
    return Case("MatMulBnb4", operands, settings, (1, 2))


CASES = [
    *(embedded(tables, masked) for tables in (TABLES, SIGNED) for masked in (False, True)),
    *(of_four_bits(kind, *sizes) for kind in (0, 1) for sizes in ((6, 32, 16), (5, 48, 32))),
    Case("Trilu", (floats(2, 5, 7),), {"upper": 0}),
    Case("GatherND", (floats(3, 4, 5), np.array([[0, 1], [2, 3]])), {}, (1,)),
    Case("ExpandDims", (floats(2, 3), ints(-1)[0]), {}, (1,)),
    Case("ExpandDims", (floats(2, 3), ints(1)[0]), {}, (1,)),
    Case("Range", (one(2, np.int32), one(11, np.int32)), {}, (0, 1)),
    Case("Range", (one(0.5), one(-3), one(-0.75)), {}, (0, 1, 2)),
    Case("Pad", (floats(2, 3), np.array([[1, 0, 2, 1]]), floats(1)), {"mode": "constant"}, (1, 2)),
    Case("Pad", (floats(4, 5), np.array([1, 2, 0, 1])), {"mode": "reflect"}, (1,)),
    *(Case("GridSample", (floats(2, 3, 5, 4), np.tanh(floats(2, 6, 7, 2))), {"mode": mode, "padding_mode": padding})
      for mode, padding in (("bilinear", "zeros"), ("nearest", "border"), ("bicubic", "reflection"))),
    Case("ConvTransposeWithDynamicPads", (floats(2, 3, 5, 6), floats(3, 4, 3, 3), np.array([1, 0, 1, 1]), floats(4)),
         {"strides": [2, 2]}, (2,)),
    Case("CDist", (floats(5, 4), floats(7, 4)), {"metric": "euclidean"}),
    Case("CDist", (floats(5, 4), floats(1, 4)), {"metric": "sqeuclidean"}),
    Case("QLinearSoftmax", (bytes_(4, 9), one(0.02), one(3, np.uint8), one(0.0061), one(5, np.uint8)),
         {"axis": -1, "opset": 13}, (1, 2, 3, 4)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_agrees_with_onnxruntime(case: Case) -> None:
    model, feeds, names = model_of(case)
    assert_agree(case, evaluate.run(import_model(model), feeds), reference(model, feeds, names))


def test_compiled(tmp_path: Path) -> None:
    models = {str(k): model_of(case) for k, case in enumerate(CASES)}
    graphs = {k: simplify(import_model(model))[0] for k, (model, _, _) in models.items()}
    for (k, net), case in zip(compile_graphs(graphs, tmp_path).items(), CASES):
        assert isinstance(net, Compiled), case
        assert_agree(case, net(models[k][1]), reference(*models[k]))


def test_every_operator_has_a_case() -> None:
    apart = {"TransposeMatMul", "Tokenizer"}  # the latter is in test_tokens.py
    tested = {c.operator for c in (*CASES, *test_contrib.CASES)} | apart
    assert not [name for domain, name in supported() if domain == test_contrib.MICROSOFT and name not in tested]


@pytest.mark.parametrize(("operator", "why"), [("GreedySearch", "loop"), ("NhwcFusedConv", "hardware")])
def test_refusals_say_why(operator: str, why: str) -> None:
    model, _, _ = model_of(Case(operator, (floats(1, 2),)))
    with pytest.raises(ModelError, match=why):
        import_model(model)

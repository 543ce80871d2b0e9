"""Random ONNX models through all stages and the C compiler, against onnxruntime.

``EDGEC_RANDOM_GRAPHS`` asks for more models, ``EDGEC_RANDOM_SEED`` for others, ``EDGEC_RANDOM_FAILURES`` for a folder
that keeps what fails. Model k of a seed is the same however many are drawn. A failure is reduced to the least part of
the model that still fails, with the first stage that is wrong.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import onnx_recipes  # noqa: F401
import pytest
from chance import GIVEN
from onnx_graphs import RECIPES, drawn
from onnx_stages import Sample, compiled, first_wrong, reproducer, smallest

from edgec.frontend.onnx.call import lowering, supported

COUNT = int(os.environ.get("EDGEC_RANDOM_GRAPHS", "150"))
SEED = int(GIVEN or 0)
FIRST = int(os.environ.get("EDGEC_RANDOM_FIRST", "0"))
BATCH = 50  # models to one compiler run


def check(number: int, how: str, sample: Sample, folder: Path) -> str:
    """The text of a failure."""
    fresh = count()

    def in_numpy(samples: Sequence[Sample]) -> list[bool]:
        return [first_wrong(s) is not None for s in samples]

    def in_c(samples: Sequence[Sample]) -> list[bool]:
        given = {f"{k}": s for k, s in enumerate(samples)}
        return [bool(w) for w in compiled(given, folder / f"shrink{number}" / f"{next(fresh)}").values()]

    early = first_wrong(sample)
    least = smallest(sample, in_numpy if early else in_c)
    again = first_wrong(least)
    stage, text = again if again else ("emit", how)
    return f"model {number} of seed {SEED}: {stage}: {text}\n{reproducer(least, f'{SEED}-{number}', folder)}"


@pytest.mark.parametrize("start", range(FIRST, FIRST + COUNT, BATCH))
def test_agrees_with_onnxruntime(start: int, tmp_path: Path) -> None:
    numbers = range(start, min(start + BATCH, FIRST + COUNT))
    samples = {f"{k}": Sample.of(drawn(SEED, k)) for k in numbers}
    found = compiled(samples, tmp_path / "all")
    refused = {k: w for k, w in found.items() if w and w.startswith("refused: ")}
    print(f"{len(found)} models, {sum(bool(s.drawn.open) for s in samples.values())} with open dimensions")
    print("\n".join(f"model {k} is {w}" for k, w in refused.items()))
    wrong = {k: w for k, w in found.items() if w and k not in refused}
    reports = [check(int(k), w, samples[k], tmp_path) for k, w in wrong.items()]
    assert not reports, "\n\n".join(reports)


_SEQUENCES = "a node is run by itself when it is drawn, and its results have to be tensors"
_TABLES = "its tables have to fit one another; tests of its own have worked some out"
_STRINGS = "its inputs are strings; tests of its own"
_DRAWS = "its results are random; tests of its own hold their distribution"
_LEARNS = "what an optimizer computes has no place inside a network"
WITHOUT_RECIPE = {
    **dict.fromkeys(
        ["ConcatFromSequence", "Optional", "OptionalGetElement", "OptionalHasElement", "SequenceAt",
         "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength", "SequenceMap",
         "SplitToSequence"], _SEQUENCES,
    ),
    **dict.fromkeys(
        ["TfIdfVectorizer", "ArrayFeatureExtractor", "Binarizer", "FeatureVectorizer", "Imputer", "LabelEncoder",
         "LinearClassifier", "LinearRegressor", "Normalizer", "OneHotEncoder", "Scaler", "SVMClassifier",
         "SVMRegressor", "TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor", "ZipMap"], _TABLES,
    ),
    **dict.fromkeys(
        ["CDist", "ConvTransposeWithDynamicPads", "ExpandDims", "GatherND", "GridSample", "MatMulBnb4", "Pad",
         "QEmbedLayerNormalization", "Range", "Trilu"], "of com.microsoft: tests of their own",
    ),
    **dict.fromkeys(["RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "Tokenizer"], _STRINGS),
    **dict.fromkeys(
        ["Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"], _DRAWS,
    ),
    **dict.fromkeys(["Adagrad", "Adam", "Gradient", "Momentum"], _LEARNS),
    "ImageDecoder": "its input is a file of a picture; tests of its own",
    "CountedDropout": "a training puts it in place of Dropout; onnxruntime does not know it",
}  # fmt: skip


def test_every_operator_has_a_recipe() -> None:
    # Other tests in the same process may have added operators of a user's own.
    own = {key for key in supported() if getattr(lowering(*key), "__module__", "").startswith("edgec.")}
    assert {name for key in own ^ set(RECIPES) for name in key[1:]} == set(WITHOUT_RECIPE)

"""Estimators of scikit-learn, LightGBM and XGBoost: trained, exported to ONNX, compiled, and held against onnxruntime.

    python -m benchmarks.accuracy.estimators [NAME ...]

Needs scikit-learn and skl2onnx; those of LightGBM and XGBoost also need these and onnxmltools. Every estimator is
trained with default settings on a small set of its own kind; those without an exporter are only counted.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import edgec
from edgec.check.judge import Judge
from edgec.check.reference import Reference
from edgec.errors import EdgecError
from edgec.frontend.onnx.model import read

#: Rows that results are compared on.
ROWS = 24
#: Largest difference, over the largest result.
CLOSE = 1e-4
OPSETS = {"": 18, "ai.onnx.ml": 3}

Made = tuple[Any, np.ndarray]  # a model (ModelProto) and rows of its input


def estimators() -> dict[str, Callable[[], Made]]:
    """By name, functions that train and export; they raise what the exporter raises."""
    from sklearn.utils import all_estimators

    return {name: _scikit_learn(kind) for name, kind in all_estimators()} | dict(_boosted())


def _data(classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Positive features, and numbers (no ``classes``) or labels that follow them."""
    from sklearn.datasets import make_classification, make_regression

    if not classes:
        x, y = make_regression(200, 6, noise=2, random_state=3)
    else:
        x, y = make_classification(200, 6, n_informative=4, n_classes=classes, random_state=3)
    return np.abs(x).astype(np.float32), y


def _scikit_learn(kind: Any) -> Callable[[], Made]:
    def made() -> Made:
        from skl2onnx import to_onnx
        from sklearn.base import is_regressor
        from sklearn.linear_model import LogisticRegression, Ridge

        try:
            model = kind()
        except TypeError:
            model = kind(LogisticRegression())
        x, y = _data(0 if is_regressor(model) else 2 if kind.__name__.startswith("GaussianProcess") else 3)
        if "estimators" in model.get_params() and not model.get_params()["estimators"]:
            model = kind([("one", Ridge() if is_regressor(model) else LogisticRegression())])
        model.fit(x, y)
        return to_onnx(model, x[:1], target_opset=OPSETS), x[:ROWS]

    return made


def _boosted() -> Iterator[tuple[str, Callable[[], Made]]]:
    def exported(model: Any, convert: str, classes: int) -> Made:
        import onnxmltools
        from onnxmltools.convert.common.data_types import FloatTensorType

        x, y = _data(classes)
        inputs = [("x", FloatTensorType([None, x.shape[1]]))]
        return getattr(onnxmltools, convert)(model.fit(x, y), initial_types=inputs), x[:ROWS]

    for classes, kind in ((2, "Classifier"), (3, "Classifier"), (0, "Regressor")):
        for package, short in (("lightgbm", "LGBM"), ("xgboost", "XGB")):

            def made(package: str = package, name: str = short + kind, classes: int = classes) -> Made:
                model = getattr(__import__(package), name)(
                    n_estimators=20, verbosity=-1 if package == "lightgbm" else 0
                )
                return exported(model, f"convert_{package}", classes)

            yield f"{short}{kind} {classes}".removesuffix(" 0"), made


@dataclass(frozen=True)
class Verdict:
    """The distance of the results of a compiled model from onnxruntime's.

    ``apart`` is the largest difference of an output over its largest value, infinite for another label. ``excused`` is
    why a difference above CLOSE passes: the model amplifies rounding as much.
    """

    apart: float
    excused: str = ""

    @property
    def is_right(self) -> bool:
        return self.apart <= CLOSE or bool(self.excused)


def verdict(model: Any, x: np.ndarray) -> Verdict:
    """Raises EdgecError where the model is refused, Unavailable where onnxruntime refuses it."""
    name = model.graph.input[0].name
    wanted = Reference(read(model)).run({name: x})
    with TemporaryDirectory() as folder:
        built = edgec.build(model, folder + "/built", shapes={name: x.shape})
        got = built.network.run({name: x})
    judge = Judge(built.stages["import"], CLOSE)
    found = judge.differences(got, wanted, {name: x})
    if not all(d.mismatches in (None, 0) for d in found):
        return Verdict(np.inf)
    apart = max((max(d.max_rel, d.group_rel) for d in found), default=0.0)
    far = [d for d in found if not judge.within(replace(d, excused=""))]
    return Verdict(apart, "; ".join(d.excused for d in far) if all(d.excused for d in far) else "")


def main(names: list[str]) -> None:
    warnings.filterwarnings("ignore")
    right = missing = 0
    found = estimators()
    for name in names or found:
        try:
            model, x = found[name]()
        except Exception as problem:  # of the estimator, or of its exporter
            missing += 1
            if names:
                print(f"{name}: not exported: {type(problem).__name__}: {' '.join(str(problem).split())[:90]}")
            continue
        try:
            given = verdict(model, x)
        except (EdgecError, ValueError) as refusal:  # ValueError: a run-time assertion of the network
            print(f"{name}: {' '.join(str(refusal).split())[:300]}")
            continue
        right += given.is_right
        note = f" ({given.excused})" if given.excused else ""
        print(f"{name}: {'right' if given.is_right else 'WRONG'}, {given.apart:.1e}{note}", flush=True)
    print(f"{right} right; {missing} are not exported")


if __name__ == "__main__":
    main(sys.argv[1:])

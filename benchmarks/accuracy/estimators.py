"""Estimators of scikit-learn, LightGBM and XGBoost: trained, exported to ONNX, compiled, and held against onnxruntime.

    python -m benchmarks.accuracy.estimators [NAME ...]

Needs scikit-learn and skl2onnx; those of LightGBM and XGBoost also need these and onnxmltools. Every estimator is
trained with default settings on a small set of its own kind; those without an exporter are only counted.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import edgec
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


def difference(model: Any, x: np.ndarray) -> float:
    """Largest difference of an output of the compiled model to onnxruntime's, over its largest; inf: another label.

    Raises EdgecError where the model is refused, Unavailable where onnxruntime refuses it.
    """
    name = model.graph.input[0].name
    wanted = Reference(read(model)).run({name: x})
    with TemporaryDirectory() as folder:
        got = edgec.build(model, folder + "/built", shapes={name: x.shape}).network.run({name: x})
    worst = 0.0
    for output, want in wanted.items():
        apart = np.abs(got[output].astype(np.float64) - want)
        if want.dtype.kind == "f":
            worst = max(worst, float(apart.max(initial=0)) / max(float(np.abs(want).max(initial=0)), 1e-30))
        elif apart.any():
            return np.inf
    return worst


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
            apart = difference(model, x)
        except (EdgecError, ValueError) as refusal:  # ValueError: a run-time assertion of the network
            print(f"{name}: {' '.join(str(refusal).split())[:300]}")
            continue
        right += apart <= CLOSE
        print(f"{name}: {'right' if apart <= CLOSE else 'WRONG'}, {apart:.1e}", flush=True)
    print(f"{right} right; {missing} are not exported")


if __name__ == "__main__":
    main(sys.argv[1:])

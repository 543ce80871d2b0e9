"""A few estimators of scikit-learn, LightGBM and XGBoost through their exporters; `benchmarks` has all of them."""

from __future__ import annotations

import pytest

from benchmarks.accuracy.estimators import estimators, verdict

DRAWN = [
    "RandomForestClassifier", "GradientBoostingRegressor", "SVC", "LogisticRegression", "MLPClassifier", "KMeans",
    "LGBMClassifier 3", "XGBRegressor",
]  # fmt: skip


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.filterwarnings("ignore")
def test_agrees_with_onnxruntime(name: str) -> None:
    for package in ("skl2onnx", "onnxmltools", "lightgbm", "xgboost")[: 4 if "LGBM" in name or "XGB" in name else 1]:
        pytest.importorskip(package, reason=f"pip install {package}")
    model, x = estimators()[name]()
    assert verdict(model, x).is_right

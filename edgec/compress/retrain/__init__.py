"""Retraining: a pruned or rounded network learns to answer as the dense one does."""

from edgec.compress.retrain.lesson import Lesson, lesson
from edgec.compress.retrain.parameters import parameters, with_parameters
from edgec.compress.retrain.samples import AUGMENTS
from edgec.compress.retrain.train import Retrained, Retraining, taught

__all__ = [
    "AUGMENTS", "Lesson", "Retrained", "Retraining", "lesson", "parameters", "taught", "with_parameters",
]  # fmt: skip

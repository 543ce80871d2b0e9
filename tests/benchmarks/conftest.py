"""Tests of the scripts in benchmarks/ import their modules."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

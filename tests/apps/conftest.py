"""Tests of apps drive a browser with what benchmarks drive it with."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

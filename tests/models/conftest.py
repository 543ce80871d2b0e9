"""The networks of the benchmarks are those of these tests: benchmarks/ knows where to find them."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

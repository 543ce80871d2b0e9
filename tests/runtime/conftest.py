"""The bounds of the vector mathematics stand in benchmarks/ulp.py."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

"""The pipeline: the stages in order, their functions, and the runner that walks them."""

from edgec.pipeline.context import Context
from edgec.pipeline.run import NAMES, STAGES, Run, Stage, Step, graph_of, run
from edgec.pipeline.stages import Simplified, compress, emit, fuse, import_, schedule, simplify

__all__ = [
    "NAMES", "STAGES", "Context", "Run", "Simplified", "Stage", "Step", "compress", "emit", "fuse", "graph_of",
    "import_", "run", "schedule", "simplify",
]  # fmt: skip

"""Placement: which blocks of a network run on the processor of a device, and which on the GPU beside it.

Between fusing and scheduling. Blocks are priced on both, transfers between them too, and the cheapest assignment is a
minimum cut (`cut`); `assign` makes it, `divide` cuts the graph along it.
"""

from __future__ import annotations

from edgec.partition.assign import Assignment, Placed, Transfer, assign, refused
from edgec.partition.divide import Segment, divide

__all__ = ["Assignment", "Placed", "Segment", "Transfer", "assign", "divide", "refused"]

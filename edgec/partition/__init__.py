"""Partition of a network between two devices: which blocks run on the CPU, and which on the GPU next to it.

It happens between fusing and scheduling. Blocks are priced on both sides, and so are transfers between them; the
cheapest assignment is a minimum cut (`cut`). `assign` makes it, `divide` cuts the graph along it.
"""

from __future__ import annotations

from edgec.fuse.assignment import AssignedBlock, Assignment, Transfer
from edgec.partition.assign import assign, refused
from edgec.partition.divide import Segment, divide

__all__ = ["AssignedBlock", "Assignment", "Segment", "Transfer", "assign", "divide", "refused"]

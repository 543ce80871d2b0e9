"""Fusion: which operators become one kernel, and which values live inside others."""

from edgec.fuse.aliases import Halo
from edgec.fuse.block import Block
from edgec.fuse.plan import BufferAlias, Plan, plan

__all__ = ["Block", "BufferAlias", "Halo", "Plan", "plan"]

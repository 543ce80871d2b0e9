"""Fusion: which operators become one kernel, and which values live inside others."""

from edgec.fuse.plan import Block, Placement, Plan, plan

__all__ = ["Block", "Placement", "Plan", "plan"]

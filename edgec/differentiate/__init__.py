"""Derivatives: the graph of the gradients of a graph."""

from edgec.differentiate.gradient import Cut, cut_paths, gradients

__all__ = ["Cut", "cut_paths", "gradients"]

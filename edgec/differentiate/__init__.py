"""Derivatives: the graph of the gradients of a graph."""

from edgec.differentiate.gradient import Cut, cut_paths, gradients
from edgec.frontend.onnx.operators.gradient import install

install(gradients)  # models may ask for derivatives of their own

__all__ = ["Cut", "cut_paths", "gradients"]

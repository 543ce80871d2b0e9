"""Pruning: zeros, or fewer channels, where the device's kernels gain by them."""

from edgec.compress.prune.choose import METHODS
from edgec.compress.prune.offer import Offered
from edgec.compress.prune.prune import Pruned, Pruning, Worth, prune

__all__ = ["METHODS", "Offered", "Pruned", "Pruning", "Worth", "prune"]

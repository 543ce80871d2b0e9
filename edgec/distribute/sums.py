"""Sums that the coordinator adds: partial values of workers, always in the order of the workers."""

from __future__ import annotations

import numpy as np

from edgec.distribute.manifest import Tensor
from edgec.ir.dtypes import DTYPES, is_float


class Sum:
    """A sum of one frame on its way. A term is added once those before it were: all orders of arrival give one result.

    Floats are added in fp32 at least, and rounded to the type of the tensor once.
    """

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor
        self._dtype = DTYPES[tensor.dtype]
        self._wide = np.dtype(np.float32) if is_float(tensor.dtype) and self._dtype.itemsize < 4 else self._dtype
        self._early: dict[str, np.ndarray] = {}
        self._total: np.ndarray | None = None
        self._added = 0

    def take(self, name: str, term: np.ndarray) -> np.ndarray | None:
        """The sum, once all terms are there; None before. The memory of ``term`` is the sum's from now on."""
        self._early[name] = term
        terms = self._tensor.terms
        while self._added < len(terms) and terms[self._added] in self._early:
            following = self._early.pop(terms[self._added])
            if self._total is None:
                self._total = following.astype(self._wide, copy=False)
            else:
                np.add(self._total, following, out=self._total)
            self._added += 1
        if self._added < len(terms) or self._total is None:
            return None
        return self._total.astype(self._dtype, copy=False)

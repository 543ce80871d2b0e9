"""Settings of the sampler of a language model."""

from __future__ import annotations

from dataclasses import dataclass, fields

from edgec.errors import UsageError
from edgec.options.typed import plain_kinds, require


@dataclass(frozen=True)
class Sampling:
    """The way to draw tokens. A temperature of 0 takes the most probable token; ``top_k`` 0, ``top_p`` 1, ``min_p`` 0
    and a penalty of 1 change nothing. ``window`` tokens count as recent for the penalty; without a seed, one is drawn.
    """

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repetition_penalty: float = 1.0
    window: int = 64
    seed: int | None = None

    def check(self) -> None:
        """Raises UsageError for values outside their ranges, or of other types."""
        for field in fields(self):
            require(field.name, getattr(self, field.name), plain_kinds(field.type))
        ranges = {"temperature": (0, 100), "top_k": (0, 1 << 20), "min_p": (0, 1), "window": (0, 1 << 16)}
        for name, (low, high) in {**ranges, "repetition_penalty": (0.01, 100), "top_p": (1e-6, 1)}.items():
            value = getattr(self, name)
            if not low <= value <= high:  # NaN is outside too
                raise UsageError(f"{name} is {value}: {low:g} to {high:g} are allowed")
        if self.seed is not None and not 0 <= self.seed < 1 << 64:
            raise UsageError(f"seed is {self.seed}: 0 to 2**64 - 1 are allowed")

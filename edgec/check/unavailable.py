"""The error of a reference that cannot be had."""

from edgec.errors import ToolchainError


class Unavailable(ToolchainError):
    """A reference is not installed, or does not run this model."""

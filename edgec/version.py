"""The version of edgec."""

__version__ = "0.1.0"

"""Options of a build: one table for the Python keywords, the command line, edgec.toml and the guide."""

from edgec.options.resolve import NUMERIC, Options, resolve
from edgec.options.table import OPTIONS, Option, Settings

__all__ = ["NUMERIC", "OPTIONS", "Option", "Options", "Settings", "resolve"]

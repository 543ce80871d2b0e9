"""Options of a build: one table for the Python keywords, the command line, edgec.toml and the guide.

The table imports nothing of the pipeline; `resolve`, which does, is imported when it is first asked for.
"""

from typing import TYPE_CHECKING, Any

from edgec.options.table import OPTIONS, Option, Settings

if TYPE_CHECKING:
    from edgec.options.resolved import NUMERIC, Options, resolve

__all__ = ["NUMERIC", "OPTIONS", "Option", "Options", "Settings", "resolve"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from edgec.options import resolved

    return getattr(resolved, name)

"""Tables and figures as a terminal shows them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text


def table(*columns: str, title: str | None = None) -> Table:
    """A plain table; columns whose name begins with '>' are aligned to the right."""
    drawn = Table(title=title, title_justify="left", title_style="bold", box=None, header_style="dim", pad_edge=False)
    for name in columns:
        right = name.startswith(">")
        drawn.add_column(name.lstrip(">"), justify="right" if right else "left", overflow="fold", no_wrap=right)
    return drawn


def pairs(rows: Sequence[tuple[str, RenderableType]]) -> Table:
    """Names and values in two columns."""
    drawn = Table.grid(padding=(0, 2))
    drawn.add_column(style="dim", no_wrap=True)
    drawn.add_column(overflow="fold")
    for name, value in rows:
        drawn.add_row(name, value)
    return drawn


def size(count: int) -> str:
    """Bytes as people read them."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.2f} GiB"


def number(count: float) -> str:
    """A large number with its unit: 1.4 M."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(count) >= limit:
            return f"{count / limit:.1f} {unit}"
    return f"{count:.0f}"


def duration(ms: float) -> str:
    """Milliseconds with the unit that suits them."""
    return f"{ms * 1e3:.1f} us" if ms < 1 else f"{ms:.2f} ms" if ms < 100 else f"{ms:.0f} ms"


def error_text(value: float | None) -> str:
    """An error; None is one that no number expresses."""
    return "differs" if value is None else f"{value:.1e}"


def verdict(ok: bool) -> Text:
    """A green or red word."""
    return Text("ok", style="green") if ok else Text("FAILED", style="bold red")

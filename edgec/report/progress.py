"""A bar on standard error for long work, where somebody is looking."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from edgec import progress as told
from edgec.text import printable


@contextmanager
def shown() -> Iterator[told.Progress]:
    """Progress that draws a bar on standard error, or in a notebook; nothing is drawn where nobody would see it.

    In a notebook, rich needs the package ipywidgets; without it each change of the bar would be a warning in the page.
    """
    if not sys.stderr.isatty() and "IPython" not in sys.modules:  # nor can it be a notebook
        yield told.silent
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    if not sys.stderr.isatty() and not (Console().is_jupyter and find_spec("ipywidgets")):
        yield told.silent
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(24), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=1.0)
        current = ""

        def progress(stage: str, detail: str = "", part: float | None = None) -> None:
            nonlocal current
            if stage != current:
                bar.reset(task, total=1.0)
                current = stage
            text = f"[bold]{stage:9}[/] {escape(printable(detail, 40)):40}"
            bar.update(task, description=text, completed=part if part is not None else 0.0)

        yield progress

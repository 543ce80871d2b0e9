"""Rendering: templates in, source text out. A template never computes; what it prints comes from a view of a kernel."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import jinja2

from edgec.emit.c_expression import extent_text
from edgec.errors import EdgecError
from edgec.ir.expr import Expr
from edgec.resources import data_folder


@lru_cache(maxsize=8)
def environment(folders: tuple[Path, ...] = ()) -> jinja2.Environment:
    """Line statements ``//%``, comments ``//#`` and ``${...}``, so that a template still reads as C.

    A user's own folders are searched before the shipped one; ``K/path`` is the file of the K-th folder and no other.
    """
    shelves = [jinja2.FileSystemLoader(folder) for folder in (*folders, data_folder("codegen_templates"))]
    numbered = jinja2.PrefixLoader({str(k): shelf for k, shelf in enumerate(shelves)})
    made = jinja2.Environment(
        loader=jinja2.ChoiceLoader([*shelves, numbered]),
        line_statement_prefix="//%",
        line_comment_prefix="//#",
        variable_start_string="${",
        variable_end_string="}",
        block_start_string="<%",
        block_end_string="%>",
        comment_start_string="<#",
        comment_end_string="#>",
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
        finalize=_printed,
    )
    made.filters["c"] = _printed  # for what becomes part of a longer text
    made.filters["c_string"] = _string
    return made


def _printed(value: Any) -> Any:
    """The text of a value: formulas of run-time sizes in C."""
    return extent_text(value) if isinstance(value, Expr) else value


def _string(text: str) -> str:
    """A string in C whatever ``text`` holds: its UTF-8, with what C or a terminal could take amiss as octal numbers."""
    plain = {*range(32, 127)} - {*b'"\\?'}
    return '"' + "".join(chr(byte) if byte in plain else f"\\{byte:03o}" for byte in text.encode()) + '"'


def render(template: str, folders: Sequence[Path] = (), **values: Any) -> str:
    """Render a template by its path below the template folders; EdgecError names the file and the line that fails."""
    found = None
    try:
        found = environment(tuple(folders)).get_template(template)
        return found.render(**values)
    except jinja2.TemplateNotFound as missing:
        raise EdgecError(
            f"no template '{missing.name}'", hint="it is looked for in --templates and the shipped ones"
        ) from None
    except jinja2.TemplateSyntaxError as broken:
        raise EdgecError(f"{broken.message}", where=f"{broken.filename or template}:{broken.lineno}") from broken
    except Exception as error:
        file = Path(found.filename) if found is not None and found.filename else Path(template)
        own = any(folder in file.parents for folder in folders)
        if not own and not isinstance(error, jinja2.TemplateError):
            raise  # a mistake in a shipped one
        what = error.message if isinstance(error, jinja2.TemplateError) else f"{type(error).__name__}: {error}"
        raise EdgecError(str(what), where=f"{file}{_line(error, file)}") from error


def _line(error: Exception, file: Path) -> str:
    """The line of a template that an error comes from: Jinja's frames have the template's names and lines."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(file)]
    return f":{lines[-1]}" if lines else ""

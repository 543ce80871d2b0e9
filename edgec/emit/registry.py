"""The registry of kernel templates, read from the first lines of the template files.

A template says what it is in comment lines at its head::

    //# kernel: contract_vector
    //# schedule: contract
    //# require: k.m_extent == 1

``schedule`` is the kind of kernel it renders (default: its own name). Every ``require`` is an expression over the
kernel's view ``k``; the template with the most requirements that all hold is chosen, a user's own before a shipped
one. Dropping a file into a template folder is all it takes to add a kernel.

Templates lie in the folder of their language. CUDA and OpenCL also share those in ``gpu``; where both folders have a
template of one name, that of the language counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import jinja2

from edgec.emit.language import LANGUAGES, Language
from edgec.emit.render import environment
from edgec.emit.views import View
from edgec.emit.views.procedure import ProcedureView
from edgec.errors import EdgecError
from edgec.resources import data_folder


@dataclass(frozen=True)
class Template:
    """One kernel template: ``path`` below its folder, and the contract of its head."""

    path: str
    kernel: str
    schedule: str
    requires: tuple[str, ...]
    rank: int  # of its folder: 0 is searched first

    @property
    def source(self) -> str:
        """The key for ``render``, unique even where an earlier folder has a file of the same path."""
        return f"{self.rank}/{self.path}"


@lru_cache(maxsize=32)
def templates(language: str, folders: tuple[Path, ...] = ()) -> tuple[Template, ...]:
    """All kernel templates of a language, a user's own first; of two with one name the first counts."""
    found: dict[str, Template] = {}
    for rank, folder in enumerate((*folders, data_folder("codegen_templates"))):
        for shelf, suffix in LANGUAGES[language].shelves:
            for file in sorted((folder / shelf).glob(f"*.{suffix}.jinja")):
                template = _read(file, LANGUAGES[language], rank)
                found.setdefault(template.kernel, template)
    return tuple(found.values())


def _read(file: Path, language: Language, rank: int) -> Template:
    fields: dict[str, list[str]] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line.startswith("//#"):
            break
        key, colon, value = line[3:].partition(":")
        if colon and key.strip() in ("kernel", "schedule", "require"):
            fields.setdefault(key.strip(), []).append(value.strip())
    if "kernel" not in fields:
        raise EdgecError("a kernel template starts with '//# kernel: NAME'", where=str(file))
    kernel = fields["kernel"][0]
    schedule = fields.get("schedule", [kernel])[0]
    if schedule not in language.views:
        raise EdgecError(
            f"no schedule '{schedule}'", where=str(file), hint=f"the schedules are {', '.join(sorted(language.views))}"
        )
    return Template(f"{file.parent.name}/{file.name}", kernel, schedule, tuple(fields.get("require", ())), rank)


def choose(schedule: str, view: View, language: str, folders: Sequence[Path] = ()) -> Template:
    """The template for a kernel: the most specific whose requirements hold."""
    known = [t for t in templates(language, tuple(folders)) if t.schedule == schedule]
    for template in sorted(known, key=lambda t: (t.rank, -len(t.requires))):
        if all(_holds(template, r, view, tuple(folders)) for r in template.requires):
            return template
    what = f"procedure '{view.operator}'" if isinstance(view, ProcedureView) else f"'{schedule}' kernel of this shape"
    raise EdgecError(f"no {language} template renders a {what}", hint="--templates names folders of templates")


def _holds(template: Template, requirement: str, view: View, folders: tuple[Path, ...]) -> bool:
    try:
        return bool(_compiled(requirement, folders)(k=view))
    except (jinja2.TemplateError, TypeError, ValueError) as broken:
        raise EdgecError(f"require: {requirement}: {broken}", where=template.path) from broken


@lru_cache(maxsize=512)
def _compiled(requirement: str, folders: tuple[Path, ...]) -> Callable[..., Any]:
    return environment(folders).compile_expression(requirement, undefined_to_none=False)

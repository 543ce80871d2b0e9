"""Paths of the data folders: inside an installed package, or next to it in a checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from edgec.errors import EdgecError

DataFolder = Literal["devices", "codegen_templates", "rewrite_rules", "apps"]


def data_folder(name: DataFolder) -> Path:
    """The folder of shipped data called `name`.

    The packaged copy is asked first: next to an installed `edgec` lie other people's packages, and one
    of them may be called `devices`.
    """
    package = Path(__file__).resolve().parent
    for folder in (package / "_data" / name, package.parent / name):
        if folder.is_dir():
            return folder
    raise EdgecError(f"the shipped folder '{name}' is missing", hint="reinstall edgec", where=str(package))

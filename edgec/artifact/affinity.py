"""Affinity: the threads and cores of a build, as its lock has them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from edgec.options.cores import cores_of, cores_text
from edgec.text import counted

#: Names another list of cores to a build that has one.
VARIABLE = "EDGEC_CORES"


def kept_cores(lock: Mapping[str, Any]) -> tuple[int, ...]:
    """The cores that programs of a build keep to; none for any. Raises UsageError for a variable that is no list."""
    cores = tuple((lock.get("affinity") or {}).get("cores", ()))
    named = os.environ.get(VARIABLE)
    return cores_of(named, VARIABLE) if cores and named is not None else cores


def described(affinity: Mapping[str, Any]) -> str:
    """The affinity of a lock in words."""
    where = "any cores" if not affinity["cores"] else f"cores {cores_text(affinity['cores'])}"
    by = {"sweep": "as a sweep found it quickest", "asked": "as asked for"}[affinity["by"]]
    return f"{counted(affinity['threads'], 'thread')} on {where}, {by}"

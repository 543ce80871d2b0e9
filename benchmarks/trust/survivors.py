"""Reasons why mutants live, written by hand after a look at each, in survivors.json.

A key is the name of a mutant without its place in the file, so that it lasts where lines move.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

FILE = Path(__file__).with_name("survivors.json")
#: Kinds of reasons, as the page gives them.
KINDS = {
    "same": "changes nothing that can be seen",
    "speed": "changes a choice, or how long something takes, and no result",
    "time": "is found by a test of the suite for which the seconds were too few",
    "absent": "is in code whose tests need a package that was not installed",
    "gap": "no test was found that finds it; one was written since, where the reason names it",
}


def key(name: str) -> str:
    """The file and the change of a mutant's name."""
    return re.sub(r":\d+:\d+ ", " ", name, count=1)


def read(file: Path = FILE) -> Mapping[str, tuple[str, str]]:
    """Kinds and reasons by key."""
    found = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return {name: (kind, why) for name, (kind, why) in found.items()}

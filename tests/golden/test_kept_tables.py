"""Tables that the package is made of, as text: the records of devices, and the reasons why operators are refused.

``pytest tests/golden --update-golden`` writes them, after a look at the lines that changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import edgec.frontend.onnx  # noqa: F401  (which registers the operators)
from edgec.device.load import list_devices
from edgec.frontend.onnx.call import refused
from edgec.report.document.roofs import _times

FOLDER = Path(__file__).with_name("tables")
#: Prose of the device files.
PROSE = ("description", "source", "sources", "notes")


def flat(value: Any, at: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from flat(inner, f"{at}.{key}" if at else str(key))
    elif at not in PROSE:
        yield at, f"{sorted(value)!r}" if isinstance(value, (set, frozenset)) else f"{value!r}"


def devices() -> Iterator[str]:
    """The value of every field that most devices have, then those with another, but those of this machine."""
    rows = {d.name: dict(flat(asdict(d))) for d in list_devices() if not d.name.startswith("host")}
    keys = dict.fromkeys(key for row in rows.values() for key in row)
    usual = {key: Counter(row.get(key, "") for row in rows.values()).most_common(1)[0][0] for key in keys}
    yield from (f"{key} = {value}" for key, value in usual.items())
    for name, row in sorted(rows.items()):
        yield from (f"{name}: {key} = {row.get(key, '')}" for key in keys if row.get(key, "") != usual[key])


def refusals() -> Iterator[str]:
    yield from (f"{domain or 'ai.onnx'} {operator}: {reason}" for (domain, operator), reason in refused().items())


def roofs() -> Iterator[str]:
    """Multiply-adds of a type in the time of one in fp32, by device."""
    for device in sorted(list_devices(), key=lambda d: d.name):
        if device.name != "host":
            kinds = ", ".join(f"{kind} {_times(kind, device):g}" for kind in ("fp32", "fp64", "fp16", "bf16", "int8"))
            yield f"{device.name}: {kinds}"


TABLES: dict[str, Callable[[], Iterator[str]]] = {"devices": devices, "refusals": refusals, "roofs": roofs}


@pytest.mark.parametrize("name", TABLES)
def test_table(name: str, update_golden: bool) -> None:
    found = list(TABLES[name]())
    kept = FOLDER / f"{name}.txt"
    if update_golden:
        FOLDER.mkdir(exist_ok=True)
        kept.write_text("\n".join(found) + "\n", encoding="utf-8")
    assert kept.read_text(encoding="utf-8").splitlines() == found, "pytest tests/golden --update-golden"

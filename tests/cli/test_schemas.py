"""Schemas of what `--json` prints: every command has one, and no other object passes."""

from __future__ import annotations

import copy
import json
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, TypedDict, get_args, get_origin, get_type_hints

import pytest
import typer.main

from edgec.cli import command
from edgec.cli.main import app, main
from edgec.device.device import Device
from edgec.report.answers.device import DeviceFacts
from edgec.report.answers.frame import Refused
from edgec.report.answers.json_schema import Definitions, schema_of, schema_of_all
from edgec.report.answers.markdown import tables
from edgec.report.answers.table import ANSWERS

pytest.importorskip("jsonschema", reason="jsonschema is not installed")

from answer_schemas import faults, refuse_other
from jsonschema import Draft202012Validator

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "json.md"
MODEL = str(Path(__file__).parents[2] / "apps" / "digits" / "digits.onnx")


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    with pytest.raises(SystemExit) as ended:
        main([*words, "--json"])
    return int(ended.value.code or 0), json.loads(capsys.readouterr().out)


def _commands(group: Any, before: str = "") -> set[str]:
    found = set()
    for name, inner in group.commands.items():
        found |= _commands(inner, f"{name} ") if hasattr(inner, "commands") else {before + name}
    return found


def test_every_command_has_a_schema() -> None:
    assert _commands(typer.main.get_command(app)) == set(ANSWERS)


@pytest.mark.parametrize("name", ANSWERS)
def test_schemas_are_schemas(name: str) -> None:
    Draft202012Validator.check_schema(schema_of(name))


@pytest.fixture
def inspected(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    return printed(capsys, "inspect", MODEL, "--traffic")[1]


def _changed(record: dict[str, Any], *place: Any, to: Any) -> dict[str, Any]:
    """A copy with another value at a place; without a key, where that is None's type."""
    found = copy.deepcopy(record)
    inner = found
    for step in place[:-1]:
        inner = inner[step]
    if to is ...:
        del inner[place[-1]]
    else:
        inner[place[-1]] = to
    return found


@pytest.mark.parametrize(
    ("place", "to"),
    [
        (("more",), 1),
        (("traffic", "kernels", 0, "more"), 1),
        (("warnings",), ...),
        (("traffic", "read"), ...),
        (("traffic", "kernels", 1, "nodes"), ...),
        (("operators_total",), "11"),
        (("operators_total",), None),
        (("memory", "ram", "fits"), 1),
        (("inputs", 0, "shape"), [1.5]),
        (("metadata",), {"a": 1}),
        (("schema",), 3),
        (("command",), "bild"),
        (("ok",), "yes"),
    ],
)
def test_another_object_is_refused(inspected: dict[str, Any], place: tuple[Any, ...], to: Any) -> None:
    refuse_other(inspected)
    wrong = _changed(inspected, *place, to=to)
    with pytest.raises(AssertionError):
        refuse_other(wrong)
    if place != ("command",):
        assert list(Draft202012Validator(schema_of("inspect")).iter_errors(wrong)), "the printed schema passes it"


def test_the_printed_schema_takes_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    _, found = printed(capsys, "schema", "device", "show")
    shown = Draft202012Validator(found["json_schema"])
    _, device = printed(capsys, "device", "show", "jetson")
    assert list(shown.iter_errors(device)) == []
    code, refused = printed(capsys, "device", "show", "jetsom")
    assert code == 2 and refused["command"] == "device show" and faults(refused, Refused) is None
    assert list(shown.iter_errors(refused)) == []
    everything = Draft202012Validator(schema_of_all())
    assert not [e for r in (device, refused, found, {**refused, "command": "edgec"}) for e in everything.iter_errors(r)]
    assert list(shown.iter_errors({**device, "command": "device probe"}))
    assert list(everything.iter_errors({**device, "command": "device list"}))


def test_a_command_that_prints_another_object_fails_its_test(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fixture of all tests sees what is printed, not what was meant."""
    monkeypatch.setattr(command.records, "finite", lambda record: {**record, "more": 1})
    with pytest.raises(AssertionError, match="'more' was unexpected"):
        main(["device", "probe", "--json"])


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("device", "show", "jetson", "--nothing"), "device show"),
        (("--nothing", "build"), "build"),
        (("device", "nothing"), "edgec"),
        (("nothing",), "edgec"),
        (("schema", "nothing"), "schema"),
    ],
)
def test_mistakes_name_the_command(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], name: str) -> None:
    code, found = printed(capsys, *words)
    assert (code, found["command"]) == (2, name)


def test_the_page_has_the_tables(update_golden: bool) -> None:
    """`pytest tests/cli/test_schemas.py --update-golden` writes them."""
    prose, begin, written = PAGE.read_text(encoding="utf-8").partition("## Every object\n")
    if update_golden:
        PAGE.write_text(prose + tables(), encoding="utf-8")
    else:
        assert begin + written == tables(), "edgec schema --markdown prints other tables"


@pytest.mark.parametrize("kind", {kind.__name__: kind for kinds in ANSWERS.values() for kind in kinds}.values())
def test_every_key_of_an_answer_has_a_meaning(kind: Any) -> None:
    for key, hint in get_type_hints(kind, include_extras=True).items():
        assert get_origin(hint) is Annotated and get_args(hint)[1].strip(), key


def test_facts_of_devices_are_those_of_the_record() -> None:
    assert list(get_type_hints(DeviceFacts)) == [field.name for field in fields(Device)]


def test_types_without_a_schema_are_refused() -> None:
    class Named(TypedDict):
        other: bytes

    with pytest.raises(TypeError, match="has no schema"):
        Definitions().of(Named)
    first, second = TypedDict("first", {"a": int}), TypedDict("first", {"b": int})  # type: ignore[misc]
    definitions = Definitions()
    definitions.of(first)
    with pytest.raises(TypeError, match="two types"):
        definitions.of(second)

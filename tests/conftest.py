"""Tests import the modules beside this file (small_models, compiled, ...)."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import chance
import pytest

from edgec.cli import command
from edgec.device import toolchain
from edgec.ir import memory
from edgec.report import record as records

pytest_plugins = ("skips", "drawn")


@pytest.hookimpl(tryfirst=True)
def pytest_collectstart(collector: pytest.Collector) -> None:
    if isinstance(collector, pytest.Module):
        chance.begin(collector.nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest) -> None:
    chance.begin(f"{request.node.nodeid} {fixturedef.argname} {request.param_index}")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    chance.begin(item.nodeid)


@pytest.fixture(autouse=True)
def nothing_remembered() -> None:
    """A test begins as a build does: which variables formulas have must not depend on the tests before it."""
    memory.forget()


@pytest.fixture(autouse=True, scope="session")
def headers_of_all_processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Headers are precompiled once for all processes of a run, not for the user: objects are the same without."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("EDGEC_HEADER_CACHE", str(tmp_path_factory.getbasetemp().parent / "headers"))
        yield


@pytest.fixture(autouse=True)
def nothing_of_the_user(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's measured times, and what the user trusts, decide nothing in a test."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path_factory.getbasetemp() / "nobody" / "data"))
    monkeypatch.setenv("EDGEC_COMPILE_CACHE", "off")
    monkeypatch.setenv("EDGEC_PROFILES", str(tmp_path_factory.getbasetemp() / "nobody" / "profiles.sqlite"))


@pytest.fixture(autouse=True)
def answers_have_their_schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every object that the command line prints in a test is held against the schema of its command."""
    if find_spec("jsonschema") is None:
        return
    printed = command._print_json

    def checked(record: dict[str, Any]) -> None:
        from answer_schemas import refuse_other

        printed(record)
        refuse_other(records.finite(record))

    monkeypatch.setattr(command, "_print_json", checked)


@pytest.fixture
def compiled_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """With less optimization: for trained networks that are many, beside those of `tests/models/test_models.py`."""
    flags = tuple("-O1" if flag == "-O3" else flag for flag in toolchain.LANGUAGE_FLAGS)
    monkeypatch.setattr(toolchain, "LANGUAGE_FLAGS", flags)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the generated texts that tests compare with")


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))

"""Imports at start-up: the pipeline and its packages are imported by what needs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import edgec
from edgec import pipeline

ROOT = Path(__file__).resolve().parents[2]
#: Packages that take long to import.
LARGE = {"jinja2", "jsonschema", "ml_dtypes", "numpy", "onnx", "onnxruntime", "rich.console", "tomlkit"}
#: Folders of the pipeline: of what they hold, the modules of names and tables that help texts are made of are imported.
STAGES = {f"edgec.{stage.folder}" for stage in pipeline.STAGES} | {"edgec.ops", "edgec.pipeline", "edgec.check"}
TABLES = {"edgec.emit", "edgec.emit.apps"}


def imported(code: str, *arguments: str, **variables: str) -> set[str]:
    """The modules that a fresh interpreter has imported after some code."""
    program = f"import sys\ntry:\n    {code}\nexcept SystemExit: pass\nprint('\\n'.join(['', '#', *sys.modules]))"
    run = subprocess.run(
        [sys.executable, "-c", program, *arguments], text=True, capture_output=True, check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
    )  # fmt: skip
    return set(run.stdout.rpartition("\n#\n")[2].split())


def _slow(modules: set[str]) -> set[str]:
    def is_slow(name: str) -> bool:
        parts = name.split(".")
        return name in LARGE or (".".join(parts[:2]) in STAGES and name not in TABLES)

    return {name for name in modules if is_slow(name)}


@pytest.mark.parametrize(
    "code", ["import edgec", "import edgec; edgec.__version__", "from edgec.cli.main import app", "import edgec.errors"]
)
def test_nothing_large_is_imported(code: str) -> None:
    found = imported(code)
    assert "edgec.version" in found
    assert _slow(found) == set()
    assert found & {"hashlib", "tempfile", "zipfile"} == set()


def test_version_and_completion_import_nothing_large() -> None:
    assert _slow(imported("from edgec.cli.main import main; main(['--version'])")) == set()
    words = {"COMP_WORDS": "edgec build --qu", "COMP_CWORD": "2", "_EDGEC_COMPLETE": "complete_bash"}
    found = imported("from edgec.cli.main import app; app(prog_name='edgec')", **words)
    assert _slow(found) == set()


def test_a_second_bench_imports_no_stage(tmp_path: Path) -> None:
    model = ROOT / "apps" / "digits" / "digits.onnx"
    cache = {"EDGEC_COMPILE_CACHE": str(tmp_path / "cache")}
    words = f"from edgec.cli.main import main; main(['bench', {str(model)!r}, '--seconds', '0.01', '--rounds', '1'])"
    assert "edgec.schedule.build" in _slow(imported(words, **cache))
    again = imported(words, **cache)
    assert "edgec.bench.again" in again
    assert _slow(again) <= {"numpy", "ml_dtypes", "rich.console"}


def test_the_rule_finds_what_is_slow() -> None:
    """The pipeline, where it is used, has all of it."""
    found = _slow(imported("import edgec; edgec.build"))
    assert {"numpy", "onnx", "edgec.frontend.source", "edgec.schedule.build"} <= found


def test_every_public_name_is_there_whatever_was_imported() -> None:
    """`edgec.build` is a function, though a module has that name too."""
    modules = "edgec.build, edgec.bench.latency, edgec.check.network, edgec.tune.local"
    code = "assert all(not isinstance(getattr(edgec, n), type(sys)) and n in dir(edgec) for n in edgec.__all__)"
    for program in (f"import {modules}; {code}", f"import edgec; {code}; import {modules}; {code}"):
        assert "edgec.artifact.trainer" in imported(program)


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        edgec.nothing  # noqa: B018
    with pytest.raises(ImportError):
        from edgec import nothing  # type: ignore[attr-defined]  # noqa: F401
    with pytest.raises(AttributeError, match="nothing"):
        edgec.options.nothing  # type: ignore[attr-defined]  # noqa: B018

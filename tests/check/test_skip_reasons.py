"""The list of known reasons for skipped tests."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from skips import is_known

pytest_plugins = ("pytester",)


@pytest.mark.parametrize(("reason", "passes"), [("pip install torch", True), ("not today", False)])
def test_a_new_reason_fails_where_that_is_asked_for(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, reason: str, passes: bool
) -> None:
    folder = str(Path(__file__).parents[1])
    pytester.makepyfile(
        f"import pytest\n\n\ndef test_one():\n    pytest.skip({reason!r})\n\n\ndef test_two():\n    pass\n"
    )
    monkeypatch.setenv("PYTHONPATH", folder)
    asked = pytester.runpytest_subprocess("-p", "skips", "--known-skips")
    assert (asked.ret == 0) == passes
    asked.stdout.fnmatch_lines([f"*1  {reason}*"])
    assert pytester.runpytest_subprocess("-p", "skips").ret == 0


def written(value: ast.expr | None) -> str | None:
    """A reason as it is written, with x for what is filled in; None where an error's message is one, or a path."""
    if isinstance(value, ast.Constant):
        return str(value.value)
    if isinstance(value, ast.JoinedStr):
        return "".join(str(v.value) if isinstance(v, ast.Constant) else "x" for v in value.values)
    return None


def reasons_in(file: Path) -> Iterator[str]:
    for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not isinstance(call, ast.Call):
            continue
        name = ast.unparse(call.func)
        keyword = next((k.value for k in call.keywords if k.arg == "reason"), None)
        if name.endswith("pytest.skip"):
            keyword = call.args[0] if call.args else keyword
        elif not name.endswith(("mark.skipif", "mark.skip", "importorskip")):
            continue
        text = written(keyword)
        if text not in (None, "no x"):
            yield str(text)


def test_every_reason_that_tests_give_is_listed() -> None:
    """Whatever a machine lacks: a reason that is new fails here first, before a machine finds it out."""
    found = {r: file.name for file in Path(__file__).parents[1].rglob("test_*.py") for r in reasons_in(file)}
    assert len(found) > 30
    assert not {reason: file for reason, file in found.items() if not is_known(reason)}


@pytest.mark.parametrize(
    "reason",
    [
        "could not import 'torch': No module named 'torch'",
        "qemu-aarch64 is missing and cannot be installed here: apt install qemu-user",
        "no OpenCL here: apt-get install pocl-opencl-icd ocl-icd-libopencl1",
        "clang's fuzzer is missing and cannot be installed here: apt install libclang-rt-14-dev",
        "no nvcc: pip install edgec[cuda]",
        "no /home/anybody/shared/models/mlperf_tiny/kws_ref_model.tflite",
    ],
)
def test_what_a_bare_machine_lacks_is_listed(reason: str) -> None:
    assert is_known(reason)

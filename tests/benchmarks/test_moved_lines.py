"""Records of covered lines follow the project; a test that meets a loop without an end fails."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.trust import limited
from benchmarks.trust.refresh import moves, refresh


@given(st.lists(st.sampled_from("abcdef"), max_size=12), st.lists(st.sampled_from("abcdef"), max_size=12))
def test_lines_move_in_order_to_equal_lines(before: list[str], after: list[str]) -> None:
    found = moves("\n".join(before), "\n".join(after))
    assert all(before[old - 1] == after[new - 1] for old, new in found.items())
    assert list(found.values()) == sorted(set(found.values())) and list(found) == sorted(found)
    assert before != after or len(found) == len(before)


def test_the_copy_and_its_records_follow(tmp_path: Path) -> None:
    root, copy, records = (tmp_path / name for name in ("root", "copy", "records"))
    for tree, text, test in ((copy, "a\nb\nc\n", "old"), (root, "new\na\nc\n", "new")):
        for folder in ("edgec", "rewrite_rules", "tests/ir"):
            (tree / folder).mkdir(parents=True)
        (tree / "edgec" / "m.py").write_text(text)
        (tree / "rewrite_rules" / "same.py").write_text("same\n")
        (tree / "tests" / "ir" / "test_a.py").write_text(test)
        (tree / "tests" / "ir" / "test_b.py").write_text("same")
    (copy / "edgec" / "gone.py").write_text("x\n")
    records.mkdir()
    lines = {"edgec/m.py": {"1": ["t"], "2": ["u"], "3": ["v"]}, "rewrite_rules/same.py": {"1": ["t"]}}
    for name in ("tests-ir-test_a", "tests-ir-test_b"):
        (records / f"{name}.json").write_text(json.dumps({"seconds": {"t": 1.0}, "lines": lines}))
    refresh(copy, records, root)
    (kept,) = records.glob("*.json")
    assert kept.stem == "tests-ir-test_b"
    assert json.loads(kept.read_text()) == {
        "seconds": {"t": 1.0},
        "lines": {"edgec/m.py": {"2": ["t"], "3": ["v"]}, "rewrite_rules/same.py": {"1": ["t"]}},
    }
    assert (copy / "edgec" / "m.py").read_text() == "new\na\nc\n" and not (copy / "edgec" / "gone.py").exists()
    assert (copy / "tests" / "ir" / "test_a.py").read_text() == "new"


def test_a_loop_without_an_end_fails(tmp_path: Path) -> None:
    text = "def test_a():\n    while True:\n        pass\n\ndef test_b():\n    pass\n"
    (tmp_path / "test_endless.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "benchmarks.trust.limited", "--begin-within", "0.1"]
    ran = subprocess.run(
        [*command, "-p", "no:cacheprovider", str(tmp_path)], capture_output=True, text=True, check=False,
        cwd=Path(limited.__file__).parents[2],
    )  # fmt: skip
    assert ran.returncode == 1 and "a loop without an end" in ran.stdout and "1 failed" in ran.stdout, ran.stdout

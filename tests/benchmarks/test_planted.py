"""Mutants and planted faults are what they say, and the page counts them."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

import edgec
from benchmarks.trust import limited
from benchmarks.trust.covering import Covering
from benchmarks.trust.equivalent import REASONS
from benchmarks.trust.faults import KINDS, plan
from benchmarks.trust.mutants import everywhere, mutants
from benchmarks.trust.mutation import KILLED, LIVED, UNREACHED, chosen, planted
from benchmarks.trust.near import alike, near
from benchmarks.trust.page import kept, page, sampled
from benchmarks.trust.probes import Probes
from benchmarks.trust.warm import Warm
from edgec.resources import data_folder

TEXT = '''"""A docstring of 3 < 4."""

def f(a: int, é: bool) -> int:
    if a < 3 and not é:
        raise ValueError(f"{a + 1}")
    return max(a * 2, 7) if é else -a
'''


def test_every_mutant_is_one_change_that_python_reads(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(TEXT, encoding="utf-8")
    found = mutants(tmp_path, "m.py")
    assert Counter(m.kind for m in found) == {
        "comparison": 1, "condition": 2, "sign": 2, "constant": 3, "branch": 1, "function": 1, "operator": 1,
    }  # fmt: skip
    before = ast.dump(ast.parse(TEXT))
    changed = {ast.dump(ast.parse(m.applied(TEXT))) for m in found}
    assert len(changed) == len(found) and before not in changed
    assert all("ValueError" in m.applied(TEXT) and "docstring of 3 < 4" in m.applied(TEXT) for m in found)


@pytest.mark.parametrize(
    "text, reason",
    [
        ("def drawn(random):\n    return random.randint(1, 3)\n", "instances"),
        ("def f(progress):\n    progress('a', 1 / 2)\n", "words"),
        ("@dataclass(frozen=True)\nclass A:\n    pass\n", "declared"),
        ("SECONDS = 20.5\n", "patience"),
        ("SECONDS = 32 << 20\n", "patience"),
        ("_DOUBLINGS, _HALVINGS = 6, 8\n", "searches"),
        ("def seconds_of(a) -> float:\n    return 3e-5\n", "prices"),
        ("def f(a):\n    return a < 1e-6\n", "chance"),
        ("def f(a):\n    return bool(a.get('sorted', 1))\n", "truth"),
        ("def f(a):\n    return a.reshape(-1)\n", "rest"),
        ("def f(a):\n    return 8 * U64 * a\n", "roundings"),
        ("def f(a):\n    assert a.b and (a.c < a.d and a.e)\n", "asserted"),
    ],
)
def test_equivalent_places_have_no_mutants(text: str, reason: str, tmp_path: Path) -> None:
    assert reason in REASONS
    (tmp_path / "m.py").write_text(text, encoding="utf-8")
    found = mutants(tmp_path, "m.py")
    assert {m.kind for m in found} <= {"chance": {"constant"}, "rest": {"sign"}, "roundings": {"operator"}}.get(
        reason, set()
    )
    like = {"drawn(random": "drawn(x", "progress(": "store(", "frozen": "other", "SECONDS": "LANES", "1e-6": "1.0"}
    like |= {"HALVINGS": "LANES", "seconds_of": "width_of", "assert": "return", "reshape": "take", "U64": "LANES"}
    for old, new in {**like, "bool(": "int("}.items():
        text = text.replace(old, new)
    (tmp_path / "m.py").write_text(text, encoding="utf-8")
    assert {m.kind for m in mutants(tmp_path, "m.py")} - {m.kind for m in found}


def test_the_nearest_test_files() -> None:
    root = Path(edgec.__file__).parents[1]
    assert near(root, "edgec/report/trace.py")[0] == "tests/report/test_trace.py"
    assert "tests/onnx/test_meaning.py" in near(root, "edgec/frontend/onnx/operators/resize.py")
    found = near(root, "edgec/differentiate/optimizers.py")
    assert all(f.endswith(".py") for f in found) and len(found) == len(set(found))
    assert found[0] == "tests/differentiate/test_clipped.py" and "tests/differentiate/test_slopes.py" in found
    sources = [p.relative_to(root) for p in (root / "edgec").rglob("*.py") if p.name != "__init__.py"]
    without = [str(p) for p in sources if len(p.parts) > 2 and not near(root, str(p))]
    assert len(without) < 0.1 * len(sources)


def test_files_that_share_rare_words_with_a_function(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    texts = {"probits": "probit plain", "others": "plain other", "logits": "logit plain", "more": "plain"}
    for name, text in texts.items():
        (tmp_path / "tests" / f"test_{name}.py").write_text(text)
    (tmp_path / "m.py").write_text("def f(plain):\n    return probit\n\n\ndef g(plain):\n    return logit\n")
    assert alike(tmp_path, "m.py", 2) == ["tests/test_probits.py", "tests/test_logits.py"]
    assert alike(tmp_path, "m.py", 6) == ["tests/test_logits.py", "tests/test_probits.py"]


def test_a_mutant_leaves_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text(TEXT, encoding="utf-8")
    times = path.stat().st_mtime_ns
    mutant = mutants(tmp_path, "m.py")[0]
    with planted(mutant, tmp_path):
        assert path.read_text(encoding="utf-8") == mutant.applied(TEXT) != TEXT
    assert path.read_text(encoding="utf-8") == TEXT and path.stat().st_mtime_ns == times


def test_tests_of_the_line_are_run(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(TEXT, encoding="utf-8")
    seconds = {"slow": 9.0, "quick": 0.5, "other": 0.1}
    covered = Covering(1, seconds, {"m.py": {4: ["slow", "quick"], 2: ["other"]}})
    by_line = {m.line: chosen(m, covered, tmp_path, 2.0) for m in mutants(tmp_path, "m.py")}
    assert by_line == {4: ["quick"], 6: []}


def test_the_nearest_are_run_too_where_there_is_time(tmp_path: Path) -> None:
    module, near_it = "edgec/ops/m.py", "tests/ir/test_refused_operands.py"
    for path, text in ((module, TEXT), (near_it, "")):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    mutant = next(m for m in mutants(tmp_path, module) if m.line == 4)
    for seconds, nearest in ((0.1, [near_it]), (1.5, [])):
        covered = Covering(1, {"t::a": seconds}, {module: {4: ["t::a"]}})
        assert chosen(mutant, covered, tmp_path, 2.0) == ["t::a", *nearest]


def test_a_line_of_no_function_is_minded_by_any_test_of_the_file(tmp_path: Path) -> None:
    """Whichever test imported the file first."""
    (tmp_path / "m.py").write_text("MOST = 3\n\n\ndef f(a):\n    return a < MOST\n", encoding="utf-8")
    covered = Covering(1, {"a::first": 0.1, "b::other": 0.2}, {"m.py": {1: ["a::first"], 5: ["b::other"]}})
    by_line = {m.line: chosen(m, covered, tmp_path, 2.0) for m in mutants(tmp_path, "m.py")}
    assert by_line == {1: ["a::first", "b::other"], 5: ["b::other"]}


STRETCHES = '''"""A module."""
def f(a):
    """A docstring that is kept."""
    total = 1
    if a > 1:
        return lambda: a
    for k in range(a):
        def inner(k):
            nonlocal total
            total += k
        inner(k)
    else:
        total = -total
    return total
'''


def test_probes_tell_the_lines_that_ran() -> None:
    probes = Probes()
    scope: dict[str, Any] = {"__ran__": probes.ran}
    exec(probes.compiled(STRETCHES.encode(), "m.py"), scope)
    by_argument = {}
    for a in (2, 1, 0):
        scope["f"](a)
        by_argument[a] = sorted(line for k in probes.taken() for line in probes.places[k][1])
    assert by_argument == {2: [4, 5, 6], 1: [4, 5, *range(7, 15)], 0: [4, 5, 7, 12, 13, 14]}
    assert scope["f"].__doc__ == "A docstring that is kept." and not probes.taken()


def test_files_of_tests_come_in_turns_the_narrowest_first() -> None:
    seconds = {"a::wide": 0.1, "a::narrow": 0.2, "b::only": 0.5, "c::long": 9.0}
    widths = {"a::wide": 900, "a::narrow": 10, "b::only": 500, "c::long": 5}
    covered = Covering(3, seconds, {"m.py": {4: list(seconds)}}, widths)
    assert covered.tests("m.py", 4, 0.75) == ["a::narrow", "b::only"]
    assert covered.tests("m.py", 4, 0.85) == ["a::wide", "a::narrow", "b::only"]
    assert covered.tests("m.py", 4, 0.1) == ["a::narrow"]


def test_runs_in_copies_of_a_process(tmp_path: Path) -> None:
    """Runs that pass, fail, end the process or take too long are told apart; each is as fresh as the first."""
    (tmp_path / "test_a.py").write_text(
        "import os, time\n\ndef test_right():\n    pass\n\ndef test_wrong():\n    assert 0\n\n"
        "def test_ends():\n    os.kill(os.getpid(), 9)\n\ndef test_long():\n    time.sleep(60)\n",
        encoding="utf-8",
    )
    warm = Warm(tmp_path, {**os.environ, "PYTHONPATH": str(Path(edgec.__file__).parents[1])})
    runs = (("right", 60, 0), ("wrong", 60, 1), ("ends", 60, -9), ("long", 3, None), ("right", 60, 0))
    for name, seconds, code in runs:
        found, said = warm.run(["-q", "-p", "no:cacheprovider", f"test_a.py::test_{name}"], seconds)
        assert found == code and ("1 passed" in said or "test_" in said or code in (-9, None))
    assert warm.process.stdin is not None
    warm.process.stdin.close()
    assert warm.process.wait(30) == 0


def test_the_sample_of_a_seed_is_always_the_same() -> None:
    root = Path(edgec.__file__).parents[1]
    found = everywhere(root, 1)
    assert found[:50] == everywhere(root, 1)[:50] != everywhere(root, 2)[:50]
    assert len(found) > 10_000 and {m.file.split("/")[0] for m in found} == {"edgec", "rewrite_rules"}


def test_kinds_of_faults_come_in_turns() -> None:
    drawn = plan(["a", "b", "c"], len(KINDS))
    assert set(Counter(kind for _, kind, _ in drawn).values()) == {3}
    assert len(set(drawn)) == 3 * len(KINDS)


@pytest.mark.parametrize(
    "kind", ["a constant", "an operand", "a weight", "another class", "kept from before", "no call"]
)
def test_a_fault_changes_one_file(tmp_path: Path, kind: str) -> None:
    folder = edgec.build(data_folder("apps") / "digits" / "digits.onnx", out=tmp_path / "built").folder
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    said = KINDS[kind](folder, Random(3))
    assert said and [p for p, content in before.items() if p.read_bytes() != content]
    assert len([p for p, content in before.items() if p.read_bytes() != content]) == 1


def test_the_page_counts_what_was_found() -> None:
    faults = {
        "digits": {"network": "digits", "verdict": "passes"},
        "1": {"network": "digits", "kind": "a sign", "verdict": "found"},
        "2": {"network": "digits", "kind": "a sign", "verdict": "missed", "fault": "a | b"},
        "3": {"network": "digits", "kind": "a sign", "verdict": "no fault"},
    }
    rows = [
        {"name": f"edgec/ir/a.py:{k}", "file": "edgec/ir/a.py", "verdict": v}
        for k, v in enumerate([KILLED, KILLED, LIVED, UNREACHED])
    ]
    rules = {
        "a": {"identity": "z3, reals", "instances": 60}, "b": {"identity": None, "instances": 59},
        "c": {"identity": None, "instances": 60},
    }  # fmt: skip
    text = page(faults, rows, rules)
    assert "Of 2 faults in 1 networks 1 are found, 0 are called unproven (`proves nothing`) and 1 are missed" in text
    assert "| digits | 1 | 0 | 1 |" in text and "`a \\| b`" in text
    share = "50%, with 95 % confidence from 15% to 85%"
    assert f"Of 4 mutants, drawn from all, 2 are killed ({share}), 1 live, and 1 are in lines" in text
    assert "| `edgec/ir` | 2 | 1 | 1 |" in text and "edgec/ir/a.py:2" in text
    assert "Of 3 rules 1 are proved for all values (1 by z3), and 2 are tested on instances, 1 of them on fewer" in text


def test_a_sample_has_no_gap() -> None:
    rows = {name: {"verdict": KILLED} for name in "abde"}
    assert list(sampled(rows, iter("bacde"))) == ["b", "a"] and not sampled(rows, iter("ca"))


def test_a_section_without_rows_stays_as_it_was() -> None:
    before = "# A\n\n## one\nold 1\n\n## two\nold 2\n"
    after = "# B\n\n## one\nnew 1\n\n## two\nnew 2\n\n## three\nnew 3\n"
    assert kept(after, before, []) == after
    assert kept(after, before, ["two", "three"]) == after.replace("new 2", "old 2")


def test_the_first_test_begins_however_long_it_took_to_collect(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100.0, 101.0, 103.0])
    monkeypatch.setattr(limited, "processor_seconds", lambda: next(clock))
    limit = limited.Limit(2.0)
    limit.pytest_collection_modifyitems(items := [_item("tests/a.py", k) for k in range(3)])
    assert [_begins(limit, item) for item in items] == [True, True, False] and limit.cut


def test_files_share_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of three files has a third; one that is alone has all."""
    clock = iter([0.0, 2.0, 4.0, 4.0, 5.0])
    monkeypatch.setattr(limited, "processor_seconds", lambda: next(clock))
    limit = limited.Limit(9.0)
    limit.pytest_collection_modifyitems(items := [_item(f"tests/{name}.py", 0) for name in "aaabc"])
    assert [_begins(limit, item) for item in items] == [True, True, False, True, True]


def test_what_is_left_out_leaves_nothing_behind(tmp_path: Path) -> None:
    """Fixtures of a file are taken down although its last tests do not begin."""
    text = "import pytest, time\n@pytest.fixture(scope='module')\ndef x():\n    yield 1\n"
    tests = "".join(f"def test_{k}(x):\n    sum(range(3_000_000))\n" for k in range(8))
    for name in "abc":
        (tmp_path / f"test_{name}.py").write_text(text + tests)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "benchmarks.trust.limited", "--begin-within", "0.2"]
    ran = subprocess.run(
        [*command, "-p", "no:cacheprovider", str(tmp_path)], capture_output=True, text=True, check=False,
        cwd=Path(limited.__file__).parents[2],
    )  # fmt: skip
    assert ran.returncode == 0 and "skipped" in ran.stdout and "passed" in ran.stdout, ran.stdout


def _begins(limit: limited.Limit, item: Any) -> bool:
    try:
        limit.pytest_runtest_setup(item)
    except pytest.skip.Exception:
        return False
    return True


def _item(path: str, number: int) -> Any:
    return SimpleNamespace(path=Path(path), nodeid=f"{path}::test_{number}")

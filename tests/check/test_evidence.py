"""Bounds of loops beside the iterations of a running network, and rules of MISRA C counted by file."""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from needed import need
from typer.testing import CliRunner

import edgec
from benchmarks.evidence.__main__ import page
from edgec.check.evidence import evidence, write
from edgec.check.loops import Loop, _of_file, loops, work_of
from edgec.check.misra import broken, counted
from edgec.cli.main import app
from edgec.errors import UsageError
from edgec.resources import data_folder

DIGITS = data_folder("apps") / "digits" / "digits.onnx"
#: The most iterations of one entry of the loop on a line.
COUNTER = """
static int ec_now[4096];
int ec_most_NUMBER[4096];
static int ec_counted(int line, int more) {
  ec_now[line] = more ? ec_now[line] + 1 : 0;
  if (ec_now[line] > ec_most_NUMBER[line]) ec_most_NUMBER[line] = ec_now[line];
  return more;
}
#line 1
"""


def test_bounds_are_iterations(tmp_path: Path) -> None:
    """Every loop is bounded; a running network makes as many iterations as exact bounds say, others no more."""
    gcc = need("gcc", "gcc")
    out = tmp_path / "net"
    edgec.build(DIGITS, out, name="digits", device="generic", compile=False)
    kernels = sorted(out.glob("digits_kernels_*.c"))
    found = loops(out, ["digits.c", *(path.name for path in kernels)])
    assert len(found) > 20 and {loop.form for loop in found} >= {"constant", "share"}
    assert [loop for loop in found if loop.bound is None] == []
    assert {loop.file for loop in found} >= {path.name for path in kernels}
    found = [loop for loop in found if not loop.file.startswith("ec_")]
    assert {loop.file for loop in found} == {path.name for path in kernels}
    for number, path in enumerate(kernels):
        lines = path.read_text().splitlines()
        for loop in found:
            if loop.file == path.name:
                head = r"(for \([^;]*; )([^;]*)(;)"
                lines[loop.line - 1] = re.sub(head, rf"\1ec_counted({loop.line}, \2)\3", lines[loop.line - 1], count=1)
        path.write_text(COUNTER.replace("NUMBER", str(number)) + "\n".join(lines) + "\n")
    sources = [out / "digits.c", *kernels, out / "ec_pool.c", out / "digits_weights.S"]
    library = tmp_path / "net.so"
    command = [
        gcc,
        "-O1",
        "-w",
        "-shared",
        "-fPIC",
        f"-I{out}",
        *map(str, sources),
        "-o",
        str(library),
        "-lm",
        "-lpthread",
    ]
    subprocess.run(command, check=True)
    net = ctypes.CDLL(str(library))
    bytes_of = int(re.findall(r"ARENA_BYTES \(\(size_t\)(\d+)\)", (out / "digits.h").read_text())[0])
    raw = np.zeros(bytes_of + 64, np.uint8)
    arena = raw[-raw.ctypes.data % 64 :]
    image, scores = np.full(64, 0.5, np.float32), np.zeros(10, np.float32)
    weights = ctypes.addressof(ctypes.c_ubyte.in_dll(net, "digits_weights"))
    given = (weights, arena.ctypes.data, image.ctypes.data, scores.ctypes.data)
    assert net.digits_run(*(ctypes.c_void_p(g) for g in given)) == 0 and abs(scores.sum() - 1) < 1e-4
    for number, path in enumerate(kernels):
        most = (ctypes.c_int * 4096).in_dll(net, f"ec_most_{number}")
        own = [loop for loop in found if loop.file == path.name]
        alone = [loop for loop in own if [other.line for other in own].count(loop.line) == 1]
        for loop in alone:
            assert loop.bound is not None and most[loop.line] <= loop.bound, (loop, most[loop.line])
            assert most[loop.line] == loop.bound or loop.form == "lanes", (loop, most[loop.line])


@pytest.mark.parametrize(
    ("text", "bound", "form"),
    [
        ("for (ec_int i = 2; i < 9; i += 3) {", 3, "constant"),
        ("for (int i = 0; i < count; ++i) {", None, "open"),
        ("for (ec_int o = first; o < last; ++o) {", None, "open"),
        ("for (; j + EC_VL <= 8; j += EC_VL) {", 8, "lanes"),
        ("for (ec_int i = 0; k < 9; ++i) {", None, "open"),
        ("while (more) {", None, "open"),
        ("for (;;) {", None, "open"),
        ("for (int l = 0; l < EC_VL; ++l) {", 8, "vector"),
        ("for (size_t at = 0; at < whole; at += 64)", 16, "weights"),
        ("  goto again;", None, "open"),
    ],
)
def test_forms(text: str, bound: int | None, form: str) -> None:
    given = f'/* for (;;) */ "while (1)"\n{text}\n'
    assert list(_of_file("x.c", given, {"EC_VL": 8, "whole": 1000})) == [Loop("x.c", 2, bound, form)]


def test_shares_end_with_their_function() -> None:
    share = "  const ec_int first = 8 * thread / threads, last = 8 * (thread + 1) / threads;\n"
    loop = "  for (ec_int o = first; o < last; ++o) {\n"
    assert [entry.bound for entry in _of_file("x.c", f"{share}{loop}  }}\n}}\n{loop}")] == [8, None]


def test_rules_are_counted(tmp_path: Path) -> None:
    need("cppcheck", "cppcheck")
    source = tmp_path / "x.c"
    source.write_text("int f(int a) {\n  if (a > 1) return 1;\n  return 0;\n}\n")
    found = counted(broken(tmp_path, [source]))
    assert found == {"x.c": Counter({"8.4": 1, "15.5": 1})}
    text = page([Loop("x.c", 1, 8, "constant"), Loop("x.c", 2, 3, "constant")], {"x.c": Counter({"15.6": 1, "2.2": 2})})
    assert "| constant | 2 | 8 |" in text and "| 2.2 | 2 | 2 |\n| 15.6 | 1 | 1 |\n| all | 3 | 3 |" in text


HEADER = """static inline void called(int n)
{
    for (int i = 0; i < n; ++i)
        inner();
}
static __attribute__((noinline)) void inner(void) {
    for (int i = 0; i < 5; ++i) {}
}
static inline void unused(void) {
    while (1) {}
}
#define MACRO(n) called(n)
"""
SOURCE = """/* matmul
 * 1.5 kFLOP, 412 B: contract */
static void part(void) { MACRO(1); }
void whole(int (*f)(int), int k) {
  for (int i = 0; i < 3; ++i) part();
}
/* add
 * 7 FLOP, 2.1 MB: map */
void last(void) {}
"""


def test_files_of_evidence(tmp_path: Path) -> None:
    """Loops of the functions of headers that are called, by function; operations by kernel; three files."""
    (tmp_path / "x.h").write_text(HEADER)
    (tmp_path / "net.c").write_text(SOURCE)
    assert work_of(SOURCE) == {"whole": (1500.0, 412.0), "last": (7.0, 2.1e6)}
    found = loops(tmp_path, ["net.c"])
    assert [(loop.function, loop.line, loop.bound) for loop in found] == [
        ("whole", 5, 3), ("called", 3, None), ("inner", 7, 5),
    ]  # fmt: skip
    (tmp_path / "edgec.lock").write_text('{"name": "net", "language": "c", "sources": ["net.c", "ec_pool.c"]}')
    made = evidence(tmp_path, misra=False)
    assert [loop.function for loop in made.unbounded] == ["called"]
    files = write(made, tmp_path / "evidence")
    texts = {path.name: path.read_text() for path in files}
    assert "net.c\t5\t3\tconstant\twhole\n" in texts["loops.tsv"] and "# last: 7 operations" in texts["loops.tsv"]
    facts = ElementTree.fromstring(texts["loops.ffx"])
    assert {f.get("name"): f[0].get("maxcount") for f in facts} == {"whole": "3", "called": None, "inner": "5"}
    (tmp_path / "edgec.lock").write_text('{"name": "net", "language": "cuda", "sources": ["net.c"]}')
    with pytest.raises(UsageError, match="networks in C"):
        evidence(tmp_path)


def test_the_embedded_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every loop of the network on a board has a bound; cppcheck counts, or the answer says that it is missing."""
    edgec.build(DIGITS, tmp_path, name="digits", device="mps2_an386", weights="file", extras=["embedded"])
    monkeypatch.setenv("PATH", str(tmp_path))
    done = CliRunner().invoke(app, ["evidence", str(tmp_path), "--json"])
    record = json.loads(done.stdout)
    assert done.exit_code == 0 and record["ok"] and record["unbounded"] == 0 < record["loops"], record
    assert record["misra"] is None and "cppcheck is not installed" in record["checker"]
    assert all(Path(file).is_file() for file in record["files"])
    assert any(function["operations"] for function in record["functions"])

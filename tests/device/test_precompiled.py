"""Precompiled headers: the same objects, entries by what they were made of, and no error that hides behind them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgec.device import precompiled
from edgec.device.load import load_device
from edgec.device.toolchain import Compiler, compile_objects, find_compilers
from edgec.errors import ToolchainError

KERNEL = (
    '#include "ec_simd.h"\nvoid f(float *x);\nvoid f(float *x) { for (int i = 0; i < 64; ++i) x[i] = ec_one(x[i]); }\n'
)
HEAD = '#ifndef EC_SIMD_H\n#define EC_SIMD_H\n#include "ec_more.h"\n#endif\n'
MORE = "static inline float ec_one(float x) { return 3.0f * x; }\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EDGEC_HEADER_CACHE", str(tmp_path / "headers"))
    return tmp_path / "headers"


def compilers() -> list[Compiler]:
    return [c for c in find_compilers(load_device("host")) if c.kind != "zig"]


def written(folder: Path, kernel: str = KERNEL, more: str = MORE, files: int = 1) -> list[Path]:
    folder.mkdir(exist_ok=True)
    (folder / "ec_simd.h").write_text(HEAD)
    (folder / "ec_more.h").write_text(more)
    for number in range(files):
        (folder / f"k{number}.c").write_text(kernel.replace("f(", f"f{number}("))
    return [folder / f"k{number}.c" for number in range(files)]


def objects(compiler: Compiler, sources: list[Path]) -> list[bytes]:
    folder = sources[0].parent
    return [p.read_bytes() for p in compile_objects(compiler, load_device("host"), sources, folder, [f"-I{folder}"])]


def compiled(root: Path) -> list[Path]:
    return sorted(p for p in root.glob("*/ec_simd.h.*ch"))


@pytest.mark.parametrize("compiler", compilers(), ids=str)
def test_objects_are_the_same(compiler: Compiler, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = objects(compiler, written(tmp_path / "a"))
    assert not compiled(root)  # for one file, once, it does not pay
    second = objects(compiler, written(tmp_path / "a"))
    (made,) = compiled(root)
    monkeypatch.setattr(precompiled.Headers, "_made", None)  # taken, not made again
    assert objects(compiler, written(tmp_path / "a")) == second == first
    assert made.stat().st_mode & 0o022 == 0 == root.stat().st_mode & 0o077


@pytest.mark.parametrize("compiler", compilers(), ids=str)
def test_another_text_is_another_entry(compiler: Compiler, root: Path, tmp_path: Path) -> None:
    """The text of included headers counts, too: results were those of the older header otherwise."""
    three = objects(compiler, written(tmp_path / "a", files=4))
    other = objects(compiler, written(tmp_path / "a", more=MORE.replace("3.0f", "5.0f"), files=4))
    assert len(compiled(root)) == 2 and three != other
    objects(compiler, written(tmp_path / "b", files=4))  # the same in another folder
    assert len(compiled(root)) == 2


@pytest.mark.parametrize("compiler", compilers(), ids=str)
def test_a_damaged_entry_is_left_and_dropped(compiler: Compiler, root: Path, tmp_path: Path) -> None:
    want = objects(compiler, written(tmp_path / "a", files=4))
    (made,) = compiled(root)
    made.write_bytes(made.read_bytes()[:1000])
    assert objects(compiler, written(tmp_path / "a", files=4)) == want
    made.unlink(missing_ok=True)
    made.parent.mkdir(exist_ok=True)
    (made.parent / "ec_simd.h").write_text("#error planted\n")
    assert objects(compiler, written(tmp_path / "a", files=4)) == want


@pytest.mark.parametrize("compiler", compilers(), ids=str)
def test_mistakes_of_a_source_are_told(compiler: Compiler, root: Path, tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(ToolchainError, match="planted"):
            objects(compiler, written(tmp_path / "a", "#error planted\n" + KERNEL))


@pytest.mark.parametrize("before", ["#define OF_MINE 1\n", "#ifdef X\n#endif\n", "#pragma GCC diagnostic push\n"])
def test_what_is_defined_before_the_header_counts(before: str, root: Path, tmp_path: Path) -> None:
    """A template of a user's may say it: a header that is read first would not see it."""
    objects(compilers()[0], written(tmp_path / "a", before + KERNEL, files=4))
    assert not compiled(root)


def test_where_it_is_kept(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = compilers()[0]
    root.mkdir(mode=0o777)
    os.chmod(root, 0o777)
    objects(compiler, written(tmp_path / "a", files=4))
    assert not compiled(root)  # anybody could write to it
    monkeypatch.setenv("EDGEC_HEADER_CACHE", "off")
    os.chmod(root, 0o700)
    objects(compiler, written(tmp_path / "a", files=4))
    monkeypatch.delenv("EDGEC_HEADER_CACHE")  # and no build cache: no cache of headers
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    objects(compiler, written(tmp_path / "a", files=4))
    assert not compiled(root) and not (tmp_path / "user").exists()
    monkeypatch.delenv("EDGEC_COMPILE_CACHE")
    objects(compiler, written(tmp_path / "a", files=4))
    assert len(compiled(tmp_path / "user/edgec/headers")) == 1


def test_the_oldest_go(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precompiled, "ENTRIES", 2)
    compiler, seen = compilers()[0], []
    for number in range(4):
        objects(compiler, written(tmp_path / "a", more=MORE.replace("3.0f", f"{number}.0f"), files=4))
        seen += [p for p in compiled(root) if p not in seen]
        os.utime(seen[-1], (number, number))
    assert set(compiled(root)) == set(seen[-2:])

"""Mutated files of every kind that edgec reads: each is read, or refused in words. The same cases in every run."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from benchmarks.robustness import fuzz
from benchmarks.robustness.mutation import of_numbers as numbers
from benchmarks.robustness.targets import TARGETS
from edgec.errors import ModelError

#: `python -m benchmarks.robustness.fuzz --seed 32 --cases 2000` draws the same ones.
SEED, CASES = 32, 2000


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_what_mutations_start_from_is_read(target: fuzz.Target) -> None:
    assert target.files and all(fuzz.tried(target, content).kind == "read" for content in target.files)


@pytest.mark.parametrize("first", range(0, CASES, fuzz.BLOCK))
def test_cases(first: int) -> None:
    counts, findings = fuzz.block(SEED, first, fuzz.BLOCK)
    told = "\n\n".join(f"{f.target}: {f.kind}\n{f.content[:200]!r}\n{f.told}" for f in findings)
    assert not findings, told
    assert {name for name, _ in counts} == {t.name for t in TARGETS}, "every reader had its cases"


def test_cases_depend_on_their_number_alone() -> None:
    one = [fuzz.case(SEED, k)[1] for k in range(40)]
    assert one == [fuzz.case(SEED, k)[1] for k in range(40)] and len(set(one)) > 30
    assert one != [fuzz.case(SEED + 1, k)[1] for k in range(40)]


def test_a_mistake_is_found_and_made_smaller(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One that only some files meet, as a planted bug would be."""

    def read(content: bytes, folder: Path) -> object:
        if b"threads" in content and content.count(b"=") < 12:
            raise KeyError("planted")
        return content

    planted = replace(next(t for t in TARGETS if t.name == "edgec.toml"), read=read)
    monkeypatch.setattr(fuzz, "TARGETS", (planted,))
    counts, findings = fuzz.block(SEED, 0, 60)
    (found,) = findings
    assert counts["edgec.toml", found.kind] >= 1 and found.kind.startswith("KeyError")
    assert fuzz.smaller(found).content == b"threads"


def test_a_hang_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(content: bytes, folder: Path) -> object:
        while True:
            content = content[::-1]

    monkeypatch.setattr(fuzz, "PATIENCE", 0.05)
    assert fuzz.tried(replace(TARGETS[0], read=endless), b"x").is_finding


def test_memory_that_was_taken_is_a_finding() -> None:
    """Also where it was told as something else in the end."""

    def read(content: bytes, folder: Path) -> object:
        try:
            raise MemoryError("Unable to allocate 16 GiB")
        except MemoryError as error:
            raise ModelError("the node does not fit its operator") from error

    found = fuzz.tried(replace(TARGETS[0], read=read), b"x")
    assert found.is_finding and "all memory" in found.kind and "16 GiB" in found.told


def test_it_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "TARGETS", tuple(t for t in TARGETS if t.name == "lock"))
    monkeypatch.setattr(fuzz, "BLOCK", 5)
    state = tmp_path / "state.json"
    for cases in (10, 20):
        assert fuzz.main(["--cases", str(cases), "--jobs", "1", "--state", str(state)]) == 0
        said = json.loads(state.read_text())
        assert len(said["done"]) * 5 == cases == sum(said["counts"].values())


def test_numbers_of_a_constant_that_was_emptied() -> None:
    """A second change to it ended the whole run."""
    proto = onnx.helper.make_model(onnx.helper.make_graph([], "g", [], []))
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(1, np.int64), "w"))
    content = proto.SerializeToString()
    sizes = {len(numbers(random.Random(k), content)) for k in range(3000)}
    assert len(sizes) > 1

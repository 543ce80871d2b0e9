"""Manifests of divided networks: what is written reads back, and each clause refuses what breaks it alone."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgec.distribute import manifest as module
from edgec.distribute.manifest import MANIFEST, MOST_PARTS, Manifest, read_manifest
from edgec.errors import UsageError

Entry = dict[str, Any]


def tensor(name: str, *shape: int, dtype: str = "f32", terms: tuple[str, ...] = ()) -> Entry:
    return {"name": name, "dtype": dtype, "shape": list(shape), "terms": list(terms)}


def read(name: str, axis: int | None = None, begin: int = 0, end: int = 0) -> Entry:
    return {"port": name, "tensor": name, "axis": axis, "begin": begin, "end": end}


def part(k: int, worker: int, reads: list[Entry], *writes: str) -> Entry:
    known = {"folder": f"part{k}", "worker": worker, "reads": reads, "writes": list(writes)}
    return {**known, "seconds": 1e-3, "arena_bytes": 64, "weights_bytes": 0}


def whole() -> Entry:
    """Two parts that give the terms of a sum, and one that reads it."""
    link = {"device": "host", "link": "local", "bytes_per_s": 1e9, "latency_s": 0.0}
    return {
        "divided": module.VERSION, "name": "net", "split": "tensor", "goal": "latency", "verdict": "pays",
        "workers": [link, {**link, "latency_s": 1e-5}],
        "tensors": [tensor("x", 4, 6), tensor("a", 4, 3), tensor("b", 4, 3), tensor("s", 4, 3, terms=("a", "b")),
                    tensor("y", 4)],
        "inputs": ["x"], "outputs": ["y"],
        "parts": [part(0, 0, [read("x", 1, 0, 3)], "a"), part(1, 1, [read("x", 1, 3, 6)], "b"),
                  part(2, 0, [read("s")], "y")],
        "in_flight": 3, "latency_s": 2e-3, "period_s": 1e-3, "bytes_a_frame": 240, "alone_s": 3e-3, "measured": False,
        "tried": [{"split": "rows", "workers": 2, "latency_s": 1.0, "period_s": 0.5}],
        "panels": {"whole": ["a", "b"]},
    }  # fmt: skip


def twice(m: Entry) -> None:
    """A tensor of two parts, which the first part gives too."""
    m["parts"][1]["writes"] = ["b", "a"]


def no_tensors(m: Entry) -> None:
    m.update(parts=[], tensors=[], inputs=[], outputs=[])


#: Changes that break one clause, by its message.
BAD: dict[str, tuple[Callable[[Entry], object], ...]] = {
    "it is of another version": (lambda m: m.update(divided=1), lambda m: m.update(divided=module.VERSION + 1)),
    "a tensor is there twice": (lambda m: m["tensors"].append(tensor("y", 4)),),
    "an input is a sum": (lambda m: m["inputs"].append("s"),),
    "an input is there twice": (lambda m: m["inputs"].append("x"),),
    "parts are not in order": (
        lambda m: m["parts"][1].update(folder="part0"),
        lambda m: m["parts"][0].update(folder="part00"),
    ),
    "a part reads what no part before it gives": (
        lambda m: m["parts"][0].update(reads=[read("y")]),
        lambda m: m["parts"][1].update(reads=[read("s")]),
    ),
    "a part reads a term of a sum": (lambda m: m["parts"][1]["reads"].append(read("a")),),
    "a part gives a sum": (lambda m: m["parts"][2]["writes"].append("s"),),
    "a tensor is written twice": (
        twice,
        lambda m: m["parts"][0].update(writes=["a", "a"]),
        lambda m: m["parts"][0]["writes"].append("x"),
    ),
    "it has no parts": (no_tensors, lambda m: (no_tensors(m), m.update(workers=[]))),
    "a tensor is given by no part": (
        lambda m: m["tensors"].append(tensor("z", 1)),
        lambda m: (m["tensors"].append(tensor("z", 1)), m["outputs"].append("z")),
    ),
    "a part gives what nobody reads": (
        lambda m: (m["tensors"].append(tensor("z", 1)), m["parts"][2]["writes"].append("z")),
    ),
    "a link has no speed": (lambda m: m["workers"][1].update(bytes_per_s=0),),
    "a tensor is of no known type": (lambda m: m["tensors"][0].update(dtype="f99"),),
    "a tensor is too large": (lambda m: m["tensors"][4].update(shape=[(1 << 32) + 1]),),
    "a sum is of truth values": (lambda m: [t.update(dtype="bool") for t in m["tensors"][1:4]],),
    "a term has another type than its sum": (
        lambda m: m["tensors"][1].update(dtype="i32"),
        lambda m: m["tensors"][2].update(shape=[3, 4]),
    ),
    "a term is something else too": (
        lambda m: m["outputs"].append("a"),
        lambda m: m["tensors"][3].update(terms=["a", "a"]),
        lambda m: m["tensors"].append(tensor("t", 4, 3, terms=("s", "x2"))) or m["tensors"].append(tensor("x2", 4, 3)),
    ),
    "a sum has one term": (lambda m: m["tensors"][3].update(terms=["a"]),),
    "a folder has another name": (
        lambda m: m["parts"][0].update(folder="../part0"),
        lambda m: m["parts"][0].update(folder="part0/"),
    ),
    "an input of a part is there twice": (lambda m: m["parts"][0]["reads"].append(read("x", 0, 0, 1)),),
    "a list is none, or too long": (
        lambda m: m.update(tried=None),
        lambda m: m.update(inputs={"x": 1}),
        lambda m: m["tensors"][0].update(shape=[1] * (module.MOST_RANK + 1)),
        lambda m: m.update(tried=m["tried"] * (MOST_PARTS + 1)),
        lambda m: m.update(workers=m["workers"] * module.MOST_WORKERS),
    ),
    "a text is none, or has control characters": (
        lambda m: m.update(name=7),
        lambda m: m.update(verdict="\x1b[2J"),
        lambda m: m.update(goal=""),
        lambda m: m.update(split="\x7f"),
        lambda m: m["workers"][0].update(device=None),
        lambda m: m["workers"][0].update(link="\n"),
        lambda m: m["parts"][0]["reads"][0].update(port="a" * 1001),
        lambda m: m["tried"][0].update(split="a\0"),
    ),
    "a tensor is not listed": (
        lambda m: m["inputs"].append("z"),
        lambda m: m["outputs"].append("z"),
        lambda m: m["parts"][0]["writes"].append("z"),
        lambda m: m["parts"][0]["reads"][0].update(tensor="z"),
        lambda m: m["tensors"][3].update(terms=["a", "z"]),
        lambda m: m["panels"].update(whole=["a", "z"]),
    ),
    "a number is out of its range": (
        lambda m: m.update(in_flight=0),
        lambda m: m.update(in_flight=2 * MOST_PARTS + 1),
        lambda m: m.update(in_flight=True),
        lambda m: m.update(in_flight=1.0),
        lambda m: m.update(bytes_a_frame=-1),
        lambda m: m["parts"][0].update(worker=2),
        lambda m: m["parts"][0].update(worker=-1),
        lambda m: m["parts"][0].update(arena_bytes=-1),
        lambda m: m["parts"][0].update(weights_bytes=(1 << 50) + 1),
        lambda m: m["parts"][0]["reads"][0].update(axis=2),
        lambda m: m["parts"][0]["reads"][0].update(axis=-1),
        lambda m: m["parts"][1]["reads"][0].update(end=7),
        lambda m: m["parts"][0]["reads"][0].update(end=0),
        lambda m: m["parts"][0]["reads"][0].update(begin=3),
        lambda m: m["parts"][0]["reads"][0].update(begin=-1),
        lambda m: m["tensors"][0].update(shape=[-1]),
        lambda m: m["tensors"][0].update(shape=[(1 << 40) + 1]),
        lambda m: m["tried"][0].update(workers=0),
        lambda m: m["tried"][0].update(workers=module.MOST_WORKERS + 1),
    ),
    "a number is no time or speed": (
        lambda m: m.update(latency_s=-1.0),
        lambda m: m.update(period_s="1"),
        lambda m: m.update(alone_s=True),
        lambda m: m.update(alone_s=float("inf")),
        lambda m: m["parts"][0].update(seconds=float("nan")),
        lambda m: m["tried"][0].update(latency_s=-1),
        lambda m: m["tried"][0].update(period_s=None),
        lambda m: m["workers"][0].update(latency_s=-1e-9),
        lambda m: m["workers"][0].update(bytes_per_s=-1),
    ),
    "panels are none": (lambda m: m.update(panels=[]),),
    "a truth value is none": (lambda m: m.update(measured=1),),
}
#: Manifests at the bounds of what is allowed.
GOOD: tuple[Callable[[Entry], object], ...] = (
    lambda m: None,
    lambda m: m.update(in_flight=1),
    lambda m: m.update(panels={}),
    lambda m: m.update(in_flight=2 * MOST_PARTS),
    lambda m: m.update(bytes_a_frame=0),
    lambda m: m.update(measured=True),
    lambda m: m.update(tried=[]),
    lambda m: m.update(tried=m["tried"] * MOST_PARTS),
    lambda m: m["tried"][0].update(workers=1, latency_s=0),
    lambda m: m["tried"][0].update(workers=module.MOST_WORKERS),
    lambda m: m["tensors"][4].update(shape=[1 << 32]),
    lambda m: m["tensors"][4].update(shape=[1] * module.MOST_RANK),
    lambda m: m["tensors"][4].update(shape=[0, 1 << 40]),
    lambda m: m["parts"][0].update(arena_bytes=0, weights_bytes=1 << 50, seconds=0),
    lambda m: m["parts"][0].update(worker=1),
    lambda m: m["parts"][0]["reads"][0].update(axis=0, begin=3, end=4),
    lambda m: m.update(name="a" * 1000),
    lambda m: m["outputs"].append("s"),
    lambda m: m.update(workers=m["workers"] * (module.MOST_WORKERS // 2)),
)


def opened(folder: Path, content: Entry) -> Manifest:
    (folder / MANIFEST).write_text(json.dumps(content))
    return read_manifest(folder)


@pytest.mark.parametrize("message", BAD)
def test_a_clause_that_is_broken_alone(message: str, tmp_path: Path) -> None:
    for change in BAD[message]:
        content = whole()
        change(content)
        with pytest.raises(UsageError, match=f"is no manifest that edgec writes: {re.escape(message)}"):
            opened(tmp_path, content)


@pytest.mark.parametrize("change", GOOD)
def test_what_is_allowed_reads_back(change: Callable[[Entry], object], tmp_path: Path) -> None:
    content = whole()
    change(content)
    found = opened(tmp_path, content)
    assert json.loads(found.written()) == content


def test_every_clause_is_here() -> None:
    told = re.findall(r'_hold\(.*, "([^"]+)"\)', inspect.getsource(module))
    assert set(told) == set(BAD) and len(told) > 20


def test_entries_that_are_missing(tmp_path: Path) -> None:
    for key in [*whole(), *(f"parts {k}" for k in whole()["parts"][0]), *(f"tensors {k}" for k in tensor("x"))]:
        content, (first, _, last) = whole(), key.partition(" ")
        del (content[first][0] if last else content)[last or first]
        with pytest.raises(UsageError, match="another version" if key == "divided" else "it lacks an entry"):
            opened(tmp_path, content)
    for content in ([], "a", None):  # type: ignore[assignment]
        with pytest.raises(UsageError, match="another version"):
            opened(tmp_path, content)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="holds no divided network"):
        read_manifest(tmp_path / "nothing")

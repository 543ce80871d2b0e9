"""Files beside the model that are damaged, or of another kind: every reader of one says so, and nothing is written."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from needed import need

import edgec
from edgec.artifact.folder import read_lock
from edgec.artifact.network import Network
from edgec.cli.demo import digits
from edgec.errors import EdgecError, UsageError
from edgec.options.texts import VALUE
from edgec.report.document import read_document
from edgec.tune.database import Profiles, Target
from edgec.untrusted import read_array, read_arrays, read_json

MODEL = digits()[0]


def saved(**arrays: object) -> bytes:
    file = BytesIO()
    np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def changed(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :]


WHOLE = saved(image=np.arange(64, dtype=np.float32).reshape(1, 1, 8, 8))
HUGE = b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (4000000000000000,), }".ljust(128)
DAMAGED = {
    "empty": b"",
    "text": b"no arrays",
    "cut": WHOLE[: len(WHOLE) // 2],
    "bits": changed(WHOLE, len(WHOLE) // 3),
    "name": changed(WHOLE, 35),
    "huge": HUGE,
    "header": HUGE.replace(b"False", b"[[[[["),
    "objects": saved(image=np.array([{}], object)),
    "words": saved(image=np.array(["a", "b"])),
    "times": saved(image=np.array(["2020-01-01"], "datetime64[s]")),
}
READERS: dict[str, Callable[[Path, Path], object]] = {
    "inputs": lambda file, out: edgec.check(MODEL, inputs=file, device="arm64"),
    "calibrate": lambda file, out: edgec.build(MODEL, out, compile=False, quantize="int8", calibrate=file),
    "masks": lambda file, out: edgec.build(MODEL, out, compile=False, prune="vector", masks=file),
    "arrays": lambda file, out: read_arrays(file),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_arrays(damage: str, tmp_path: Path) -> None:
    file = tmp_path / "given.npz"
    file.write_bytes(DAMAGED[damage])
    for reader, read in READERS.items():
        with pytest.raises(EdgecError, match=r"given\.npz"):
            read(file, tmp_path / "out")
        assert not (tmp_path / "out").exists(), reader


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.full((1, 1, 8, 8), np.nan, np.float32), "infinities, or what is not a number"),
        (np.zeros((0, 1, 1, 8, 8), np.float32), "there is no input in it"),
        (np.zeros((3, 5), np.float32), r"'image' is \[3, 5\]"),
        (np.float32(1), r"'image' is \[\]"),
    ],
)
def test_calibration_data_that_say_nothing(image: np.ndarray, message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "samples.npz", image=image)
    with pytest.raises(UsageError, match=message):
        edgec.build(MODEL, tmp_path / "out", compile=False, quantize="int8", calibrate=tmp_path)
    assert not (tmp_path / "out").exists()


def test_one_array(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", np.arange(3))
    assert (read_array(tmp_path / "v.npy") == np.arange(3)).all()
    (tmp_path / "v.npy").write_bytes(WHOLE)
    for read in (lambda: read_array(tmp_path / "v.npy"), lambda: VALUE.parse(f"x={tmp_path / 'v.npy'}")):
        with pytest.raises(UsageError, match="it holds arrays by name"):
            read()


LOCKS = ["", "{", "[" * 100_000, "\xff", "null", "[]", '{"name": "../../x"}', '{"threads": "2"}', '{"files": [1]}',
         '{"files": ["/etc/x"]}', '{"inputs": [{}]}']  # fmt: skip


@pytest.mark.parametrize("text", LOCKS, ids=lambda text: text[:20] or "empty")
def test_what_a_folder_says_of_itself(text: str, tmp_path: Path) -> None:
    """No build goes over a folder whose lock is none, and none of it is opened."""
    for name in ("edgec.lock", "report.json", "mine.txt"):
        (tmp_path / name).write_text(text, encoding="latin-1")
    with pytest.raises(UsageError):
        Network(tmp_path)
    with pytest.raises(UsageError):
        read_document(tmp_path)
    with pytest.raises(UsageError):
        edgec.build(MODEL, tmp_path, compile=False)
    assert (tmp_path / "mine.txt").read_text(encoding="latin-1") == text
    with pytest.raises(UsageError):
        Profiles(tmp_path / "times").import_(read_json(tmp_path / "edgec.lock"), "times")


@pytest.mark.parametrize("change", [{"context": "64"}, {"vocabulary": -1}, {"chunk": None}, {"cache_bytes": 2**63}, 7])
def test_sizes_of_a_language_model(change: object, tmp_path: Path) -> None:
    """A text in their place ended in a traceback."""
    facts = {"context": 8, "vocabulary": 3, "chunk": 4, "cache_bytes": 64}
    place = tmp_path / "edgec.lock"
    place.write_text(json.dumps({"name": "lm", "language_model": facts}))
    assert read_lock(tmp_path)["language_model"] == facts
    place.write_text(
        json.dumps({"name": "lm", "language_model": {**facts, **change} if isinstance(change, dict) else 7})
    )
    with pytest.raises(UsageError, match="no lock that edgec writes"):
        read_lock(tmp_path)


def test_a_library_of_something_else(tmp_path: Path) -> None:
    """One without the network's functions ended in an AttributeError."""
    built = edgec.build(MODEL, tmp_path / "out", compile=False)
    empty = tmp_path / "empty.c"
    empty.write_text("int nothing;\n")
    library = built.folder / "libnet.so"
    subprocess.run([need("cc", "gcc"), "-shared", "-fPIC", str(empty), "-o", str(library)], check=True)
    with pytest.raises(UsageError, match="undefined symbol") as refused:
        Network(built.folder)
    assert refused.value.hint == "build it again"
    for content in (b"", b"\x7fELF"):  # one that is cut further behind ends the process that loads it
        library.unlink()  # the one before is mapped still
        library.write_bytes(content)
        with pytest.raises(UsageError):
            Network(built.folder)


def test_times_that_are_none(tmp_path: Path) -> None:
    database = Profiles(tmp_path / "times.sqlite")
    target = Target("t", "host", "gcc")
    database.put([])
    with sqlite3.connect(database.path) as raw:
        for k, seconds in enumerate(("much", 0, -1.0, float("inf"), b"\0", 2e-6)):
            raw.execute("INSERT INTO times VALUES (?, ?, ?, ?)", (f"b{k}", "t", seconds, ""))
    assert database.known(target) == {"b5": 2e-6}
    database.path.write_bytes(b"SQLite format 3\0" + json.dumps([]).encode() * 200)
    with pytest.raises(UsageError, match="no profile database"):
        database.known(target)

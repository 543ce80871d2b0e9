"""Builds that are there already: checked and timed in their folder, and taken from the compile cache."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
from test_commands import Shell, elsewhere, file, shell

import edgec
from edgec import reuse
from edgec.artifact.cache import NOTES, CompileCache, compile_cache, digest_of
from edgec.artifact.fingerprint import fingerprint, plain
from edgec.artifact.lock import lock_facts
from edgec.artifact.network import Network
from edgec.artifact.request import request
from edgec.device.toolchain import Compiler
from edgec.errors import UsageError
from edgec.frontend import source
from edgec.options import resolve

__all__ = ["elsewhere", "file", "shell"]  # fixtures


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("EDGEC_COMPILE_CACHE", str(folder))
    return folder


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Sources that were built anew since."""
    built: list[str] = []
    real = reuse.build

    def build(model: object, **settings: object) -> object:
        built.append(str(model))
        return real(model, **settings)  # type: ignore[arg-type]

    monkeypatch.setattr(reuse, "build", build)
    return built


def test_a_folder_is_checked_and_profiled(shell: Shell, file: Path, elsewhere: Path, uncompiled: list[str]) -> None:
    shell("build", file, "-o", "out", "--threads", "2")
    before = {p.name: p.stat().st_mtime_ns for p in (elsewhere / "out").iterdir()}
    checked = shell.json("check", "out")
    assert checked["verdict"] == "ok" and checked["threads"] == [1, 2]
    assert [s["stage"] for s in checked["stages"]][-2:] == ["schedule", "emit"]
    assert shell.json("profile", "out", "--seconds", "0.02")["kernels"]
    assert {p.name: p.stat().st_mtime_ns for p in (elsewhere / "out").iterdir()} == before and not uncompiled


def test_a_folder_that_computes_something_else_fails(shell: Shell, file: Path, elsewhere: Path) -> None:
    shell("build", file, "-o", "out")
    lock = json.loads((elsewhere / "out" / "edgec.lock").read_text())
    weights = elsewhere / "out" / lock["weights"]["file"]
    values = np.fromfile(weights, np.uint8)
    values[::3] ^= 0x40
    values.tofile(weights)
    command = ["gcc", "-shared", "-fPIC", "-march=native", "-Iout", *(f"out/{source}" for source in lock["sources"])]
    subprocess.run([*command, "-lm", "-o", "out/libnet.so"], cwd=elsewhere, check=True)
    code, out, _ = shell("check", "out")
    assert code == 1 and "FAILED" in out


def test_a_folder_and_its_model_apart(shell: Shell, file: Path, elsewhere: Path) -> None:
    own = shutil.copy(file, elsewhere / "own.onnx")
    shell("build", own, "-o", "out")
    moved = elsewhere / "moved" / "else.onnx"
    moved.parent.mkdir()
    shutil.move(own, moved)
    code, _, err = shell("check", "out")
    assert code == 2 and "--model FILE" in err
    assert shell.json("check", "out", "--model", moved)["ok"]
    moved.write_bytes(moved.read_bytes() + b"\x0a\x00")
    code, _, err = shell("check", "out", "--model", moved)
    assert code == 2 and "another model" in err.replace("\n", " ")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["check", "out", "--quantize", "int4-weight"], "'quantize' is not what the folder was built with"),
        (["check", "out", "--threads", "2"], "'threads' is not what"),
        (["check", "net.onnx", "--model", "net.onnx"], "is for a folder that was built"),
        (["check", "plain"], "sources alone"),
    ],
)
def test_what_does_not_fit(words: list[str], told: str, shell: Shell, file: Path, elsewhere: Path) -> None:
    shutil.copy(file, elsewhere / "net.onnx")
    shell("build", file, "-o", "out")
    shell("build", file, "-o", "plain", "--no-compile")
    code, _, err = shell(*words)
    assert code == 2 and told in err.replace("\n", " ")


def test_notes_that_name_code_are_not_obeyed(shell: Shell, file: Path, elsewhere: Path) -> None:
    shell("build", file, "-o", "out")
    notes = elsewhere / "out" / "origin.json"
    ran = elsewhere / "ran"
    (elsewhere / "evil").mkdir()
    (elsewhere / "evil" / "op.py").write_text(f"open({str(ran)!r}, 'w')\n")
    notes.write_text(json.dumps({**json.loads(notes.read_text()), "operators": ["../evil"]}))
    code, _, err = shell("check", "out")
    assert code == 2 and "name code to run" in err.replace("\n", " ") and not ran.exists()
    notes.write_text('{"model": 3}')
    assert shell("check", "out")[0] == 2


def test_python_checks_and_times_a_folder(file: Path, elsewhere: Path) -> None:
    edgec.build(str(file), "out", threads=2)
    assert edgec.check("out").verdict == "ok" and edgec.bench("out", seconds=0.01, rounds=1).threads == 2
    with pytest.raises(UsageError, match="is not what the folder was built with"):
        edgec.check("out", numeric="exact")


def test_the_second_time_nothing_is_built(file: Path, cache: Path, uncompiled: list[str]) -> None:
    first = edgec.check(str(file), samples=1)
    assert len(uncompiled) == 1 and len(list(cache.iterdir())) == 1
    second = edgec.check(str(file), samples=1)
    edgec.bench(str(file), vs="onnxruntime", seconds=0.01, rounds=1)
    assert len(uncompiled) == 1 and second.verdict == "ok"
    assert [(s.stage, s.max_rel) for s in second.stages] == [(s.stage, s.max_rel) for s in first.stages]


def test_whatever_a_build_depends_on_is_in_its_name(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Options, the model's bytes, the compiler, its variables, measured times and edgec's own files."""

    def name(model: Path = file, command: str = "gcc", **settings: object) -> str:
        options, parsed = resolve(settings), source.read(model)  # type: ignore[arg-type]
        compiler = Compiler("gcc", (shutil.which(command) or "",), "12", "x86_64-linux-gnu")
        return fingerprint(options, source.files_beside(parsed), lock_facts(options, parsed, "import"), compiler)

    usual = name()
    assert name() == usual
    other = tmp_path / file.name
    other.write_bytes(file.read_bytes() + b"\x0a\x00")
    values = [{"image": np.full((1, 3, 10, 10), k, np.float32)} for k in (0, 1)]
    changes: list[dict[str, object]] = [
        {"threads": 2}, {"cores": "0"}, {"numeric": "exact"}, {"name": "other"}, {"weights": "array"}, {"ram": "1M"},
        {"fuse": "none"},
        {"device": "generic"}, {"profiles": False}, {"quantize": "int4-weight"}, *({"values": v} for v in values),
    ]  # fmt: skip
    found = [usual, name(other), name(command="as"), *(name(**change) for change in changes)]  # type: ignore[arg-type]
    monkeypatch.setenv("CPATH", "/nowhere")
    found.append(name())
    monkeypatch.delenv("CPATH")
    database = tmp_path / "profiles.sqlite"
    database.write_bytes(b"")
    monkeypatch.setenv("EDGEC_PROFILES", str(database))
    found.append(name())
    monkeypatch.setattr("edgec.artifact.fingerprint._own_sources", lambda: "another edgec")
    found.append(name())
    assert len(set(found)) == len(found)


def test_a_second_bench_reads_no_model(
    shell: Shell, file: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, uncompiled: list[str]
) -> None:
    """Neither the model nor the pipeline: the build and the inputs of the first time, bit by bit, and its warnings."""
    reads: list[str] = []
    real_read = reuse.read

    def read(model: str) -> object:
        reads.append(model)
        return real_read(model)

    monkeypatch.setattr(reuse, "read", read)
    given: list[dict[str, np.ndarray]] = []
    real_bind = Network.bind

    def bind(self: Network, inputs: dict[str, np.ndarray], *more: object) -> object:
        given.append(dict(inputs))
        return real_bind(self, inputs, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(Network, "bind", bind)
    words = ("bench", file, "--seconds", "0.01", "--rounds", "1")
    first = shell.json(*words)
    timed = given[-1]
    second = shell.json(*words)
    assert len(uncompiled) == len(reads) == 1 and first["warnings"] == second["warnings"]
    assert {key: first[key] for key in ("device", "threads")} == {key: second[key] for key in ("device", "threads")}
    assert timed.keys() == given[-1].keys()
    assert all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in zip(timed.values(), given[-1].values()))
    shell.json(*words, "--threads", "2")
    assert len(uncompiled) == 2


def test_a_bench_whose_files_changed_is_anew(shell: Shell, elsewhere: Path, cache: Path, uncompiled: list[str]) -> None:
    """The model's bytes, weights in a file of their own, and a request of another version."""
    network, weights = elsewhere / "net.onnx", elsewhere / "net.bin"
    x, y = (onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["batch", 4]) for n in "xy")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Mul", ["x", "w"], ["y"])], "net", [x], [y],
        [onnx.numpy_helper.from_array(np.arange(4, dtype=np.float32), "w")],
    )  # fmt: skip
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    onnx.save(proto, network, save_as_external_data=True, location=weights.name, size_threshold=0)
    words = ("bench", network, "--seconds", "0.01", "--rounds", "1")
    told = shell.json(*words)["warnings"]
    assert "batch" in told[0] and shell.json(*words)["warnings"] == told and len(uncompiled) == 1
    weights.write_bytes(np.ones(4, np.float32).tobytes())
    assert shell.json(*words)["warnings"] == told and len(uncompiled) == 2
    network.write_bytes(network.read_bytes() + b"\x0a\x00")
    shell.json(*words)
    assert len(uncompiled) == 3
    shell.json(*words)
    assert len(uncompiled) == 3
    for entry in cache.glob("request-*"):
        (entry / "request.json").write_text("{}")
        hashes = json.loads((entry / NOTES).read_text())
        hashes["files"]["request.json"] = digest_of(entry / "request.json")
        (entry / NOTES).write_text(json.dumps(hashes))
    assert shell.json(*words)["warnings"] == told


def test_a_request_is_of_all_that_was_asked(
    file: Path, tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def name(model: Path = file, **settings: object) -> str | None:
        return request(str(model), settings)

    usual = name()
    assert usual is not None and usual == name(device="host")
    other = tmp_path / file.name
    other.write_bytes(file.read_bytes() + b"\x0a\x00")
    changes: list[dict[str, object]] = [
        {"threads": 1}, {"threads": 2}, {"numeric": "exact"}, {"name": "other"}, {"weights": "array"}, {"ram": "1M"},
        {"device": "generic"}, {"profiles": False}, {"values": {"image": np.zeros(3)}}, {"shapes": {"image": (1, 2)}},
    ]  # fmt: skip
    found = [usual, name(other), request(str(file), {}, seed=1), *(name(**change) for change in changes)]  # type: ignore[arg-type]
    monkeypatch.setenv("CPATH", "/nowhere")
    found.append(name())
    assert None not in found and len(set(found)) == len(found)
    (elsewhere / "rules").mkdir()
    for outside in ({"calibrate": str(file)}, {"rules": [str(elsewhere / "rules")]}, {"device": "mps2_an386"}):
        assert name(**outside) is None  # type: ignore[arg-type]
    assert name(elsewhere / "rules") is None and name(elsewhere / "nothing.onnx") is None


def test_an_option_without_a_name_is_built_each_time() -> None:
    with pytest.raises(TypeError, match="no fingerprint"):
        plain(object())


def test_a_damaged_entry_is_a_miss(file: Path, cache: Path, uncompiled: list[str], elsewhere: Path) -> None:
    edgec.bench(str(file), seconds=0.01, rounds=1)
    (entry,) = cache.iterdir()
    (entry / "libnet.so").unlink()  # it may be mapped still
    (entry / "libnet.so").write_bytes(b"\x7fELF")
    assert edgec.bench(str(file), seconds=0.01, rounds=1).timing.median_ms > 0
    assert len(uncompiled) == 2
    for content in (b"{", b'{"files": {"../x": "0"}}', b"[]", b""):
        (entry / NOTES).write_bytes(content)
        assert not CompileCache(cache).take(entry.name, _empty(elsewhere / f"{len(content)}")) and not entry.exists()
        entry.mkdir()


def test_the_bound_removes_what_was_used_longest_ago(tmp_path: Path) -> None:
    store, made = CompileCache(tmp_path / "cache", 40_000), tmp_path / "made"
    made.mkdir()
    (made / "file").write_bytes(bytes(12_000))
    for number, key in enumerate("abc"):
        store.keep(key, made)
        os.utime(store.root / key / NOTES, (number, number)) if key in "ab" else None
    assert store.take("a", _empty(tmp_path / "one"))
    store.keep("d", made)
    kept = {p.name for p in store.root.iterdir()}
    assert "d" in kept and "b" not in kept and len(kept) == 3
    (made / "file").write_bytes(bytes(50_000))
    store.keep("e", made)
    assert not store.take("e", _empty(tmp_path / "two")) and not list((tmp_path / "two").iterdir())


def _empty(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_processes_that_share_it(tmp_path: Path) -> None:
    """Each entry that is taken is whole, while others write, use and remove the same ones."""
    script = (
        "import sys, tempfile; from pathlib import Path; from edgec.artifact.cache import CompileCache\n"
        "store, made = CompileCache(Path(sys.argv[1]), 30_000), Path(sys.argv[2])\n"
        "for k in range(30):\n"
        "    store.keep(str(k % 4), made)\n"
        "    with tempfile.TemporaryDirectory() as there:\n"
        "        if store.take(str((k + 1) % 4), Path(there)):\n"
        "            assert (Path(there) / 'file').read_bytes() == (made / 'file').read_bytes()\n"
        "        else: assert not list(Path(there).iterdir())\n"
    )
    made = _empty(tmp_path / "made")
    (made / "file").write_bytes(os.urandom(9_000))
    command = [sys.executable, "-c", script, str(tmp_path / "cache"), str(made)]
    with ThreadPoolExecutor(3) as pool:
        done = list(pool.map(lambda _: subprocess.run(command, capture_output=True, text=True), range(3)))
    assert [d.returncode for d in done] == [0] * 3, [d.stderr for d in done]
    assert not [p for p in (tmp_path / "cache").iterdir() if p.name.startswith(".")]


def test_a_folder_of_somebody_else_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_to_all = _empty(tmp_path / "open")
    open_to_all.chmod(0o777)
    for named, is_used in ((str(open_to_all), False), ("off", False), (str(tmp_path / "new"), True)):
        monkeypatch.setenv("EDGEC_COMPILE_CACHE", named)
        assert (compile_cache() is not None) == is_used
    monkeypatch.setenv("EDGEC_COMPILE_CACHE_BYTES", "many")
    with pytest.raises(UsageError, match="no number"):
        compile_cache()

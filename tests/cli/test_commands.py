"""Every command: its exit code, its one JSON object, what it writes and what it leaves alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from convnet import NODES, convnet
from small_models import model, node, tensor_input

import edgec
from edgec.artifact.folder import ORIGIN
from edgec.cli.main import _lines, main

DOCUMENTED = (Path(__file__).parents[2] / "docs" / "guide" / "json.md").read_text(encoding="utf-8")
Outcome = tuple[int, str, str]


class Shell:
    """Runs the command line in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *words: object) -> Outcome:
        self.capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main([str(w) for w in words])
        out, err = self.capsys.readouterr()
        return int(end.value.code or 0), out, err

    def json(self, *words: object, code: int = 0) -> dict[str, Any]:
        """The record of a command; nothing else may be on standard output."""
        found, out, err = self(*words, "--json")
        assert found == code, err
        assert out.count("\n") == 1 and out.endswith("\n")
        record: dict[str, Any] = json.loads(out)
        assert record["schema"] == 2 and record["edgec"] == edgec.__version__
        assert [key for key in record if f"`{key}`" not in DOCUMENTED] == []
        return record


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "convnet.onnx"
    proto = convnet()
    proto.ir_version = 8
    onnx.save(proto, path)
    return path


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working folder."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    yield folder


def content(folder: Path) -> dict[str, bytes]:
    """The files of an artefact; what was noted beside it, where its model was, is none."""
    own = (p for p in folder.rglob("*") if p.is_file() and p.name != ORIGIN)
    return {str(p.relative_to(folder)): p.read_bytes() for p in own}


# ---- build


def test_labels_are_lines(tmp_path: Path) -> None:
    """A character that only looks like the end of a line does not shift the following classes."""
    (tmp_path / "labels.txt").write_bytes("a\u2028b\r\n\x0c\n\nlast\n".encode())
    assert _lines(tmp_path / "labels.txt") == ["a\u2028b", "\x0c", "", "last"]


def test_build(shell: Shell, file: Path, elsewhere: Path) -> None:
    record = shell.json("build", file, "--threads", 2)
    assert record["folder"] == "convnet-edgec" and not record["replaced"] and record["operators"] == 9
    for key in ("kernels", "arena_bytes", "arena_lower_bound_bytes", "weights_bytes"):
        assert isinstance(record[key], int), key
    assert record["arena_bytes"] >= record["arena_lower_bound_bytes"] > 0
    assert set(record["seconds"]) == {
        "import", "simplify", "compress", "fuse", "schedule", "emit", "compile", "total"}  # fmt: skip
    folder = elsewhere / "convnet-edgec"
    assert {"net.h", "net.c", "net.py", "libnet.so", "edgec.lock", "main.c"} <= set(content(folder))
    assert set(record["files"]) == set(content(folder)) - {"libnet.so"}
    with edgec.Network(folder, threads=2) as network:
        scores = network.run({"image": np.ones((1, 3, 10, 10), np.float32)})["scores"]
    assert scores.sum() == pytest.approx(1, abs=1e-5)
    assert [p.name for p in elsewhere.iterdir()] == ["convnet-edgec"]


def test_build_says_what_it_did(shell: Shell, file: Path, elsewhere: Path) -> None:
    code, out, err = shell("build", file, "-o", "out", "--no-compile", "--name", "digits")
    assert code == 0 and not err
    assert "for 9 operators" in out and "digits.h" in out and "none: sources only" in out
    code, out, _ = shell("build", file, "-o", "out", "--no-compile")
    assert code == 0 and "replaced the earlier build in out/" in out
    assert not (elsewhere / "out" / "digits.h").exists()


def test_two_builds_give_the_same_bytes(shell: Shell, file: Path, elsewhere: Path) -> None:
    for folder in ("a", "further/b"):
        shell.json("build", file, "-o", folder, "--threads", 2)
    assert content(elsewhere / "a") == content(elsewhere / "further" / "b")


def test_a_folder_of_someone_else_is_left_alone(shell: Shell, file: Path, elsewhere: Path) -> None:
    (elsewhere / "mine").mkdir()
    (elsewhere / "mine" / "thesis.txt").write_text("x")
    (elsewhere / "file").write_text("x")
    (elsewhere / "empty").mkdir()
    for target in ("mine", "file"):
        record = shell.json("build", file, "-o", target, "--no-compile", code=2)
        assert record["ok"] is False and target in record["error"]["where"] and record["error"]["hint"]
    assert content(elsewhere) == {"mine/thesis.txt": b"x", "file": b"x"}
    assert shell("build", file, "-o", "empty", "--no-compile")[0] == 0


def test_what_was_put_into_a_build_survives_the_next(shell: Shell, file: Path, elsewhere: Path) -> None:
    shell.json("build", file, "-o", "out", "--no-compile")
    (elsewhere / "out" / "build").mkdir()
    (elsewhere / "out" / "build" / "cache").write_text("x")
    (elsewhere / "out" / "my.c").write_text("x")
    (elsewhere / "out" / "net.h").write_text("changed")
    assert shell.json("build", file, "-o", "out", "--no-compile")["replaced"]
    after = content(elsewhere / "out")
    assert after["build/cache"] == after["my.c"] == b"x" and after["net.h"] != b"changed"


def test_nothing_is_written_on_an_error(shell: Shell, file: Path, elsewhere: Path) -> None:
    broken = elsewhere / "broken.onnx"
    broken.write_bytes(file.read_bytes()[:100])
    before = content(elsewhere)
    for words in (
        ("build", broken),
        ("build", "missing.onnx"),
        ("build", file, "--compiler", "no-such-compiler"),
        ("build", file, "--device", "toaster"),
        ("build", file, "--shape", "image=1,3,9,9"),
        ("build", file, "--shape", "image"),
        ("build", file, "--shape", "image=a,b"),
        ("build", file, "--value", "image=what"),
        ("build", file, "--threads", "0"),
        ("build", file, "--name", "a/b"),
        ("build", file, "--name", "int"),
        ("build", file, "--numeric", "roughly"),
        ("build", file, "--rules", "nowhere"),
        ("build", file, "--templates", "nowhere"),
        ("build", file, "--operators", "nowhere"),
        ("build", file, "--from", "schedule"),
        ("build", file, "--from", "fuse"),
        ("build", file, "--until", "link"),
        ("build", file, "--from", "fuse", "--until", "import"),
    ):
        record = shell.json(*words, code=2)
        assert record["error"]["message"] and record["command"] == "build", words
    assert content(elsewhere) == before


def test_files_of_the_users_are_never_overwritten(shell: Shell, file: Path, elsewhere: Path) -> None:
    """Nor is a name that cannot be written found out only after the work."""
    mine = elsewhere / "mine"
    mine.write_bytes(file.read_bytes())
    for words in (
        ("build", file, "--write-onnx"),
        ("build", file, "--write-masks"),
        ("profile", file, "--trace"),
        ("profiles", "export"),
        ("diff", ".", ".", "--html"),
        ("device", "run", file, "--inputs", "x.npz", "-o"),
    ):
        assert "is there already" in shell.json(*words, mine, code=2)["error"]["message"]
        assert "folder is not there" in shell.json(*words, "nowhere/file", code=2)["error"]["message"]
    assert content(elsewhere) == {"mine": file.read_bytes()}


def test_a_compiler_that_fails_leaves_nothing(shell: Shell, file: Path, elsewhere: Path, tmp_path: Path) -> None:
    (tmp_path / "templates" / "c").mkdir(parents=True)
    (tmp_path / "templates" / "c" / "halo_fill.c.jinja").write_text("//# kernel: halo_fill\nthis is no C;\n")
    record = shell.json("build", file, "-o", "out", "--templates", tmp_path / "templates", code=2)
    assert "refused it" in record["error"]["message"]
    assert content(elsewhere) == {} and not list(elsewhere.iterdir())


def test_stages_can_be_saved_and_started_from(shell: Shell, file: Path, elsewhere: Path) -> None:
    shell.json("build", file, "-o", "whole", "--no-compile", "--save-stages", "stages")
    saved = sorted(p.name for p in (elsewhere / "stages").glob("*.txt"))
    stages = ["1_import", "2_simplify", "2_simplify_rules", "3_compress", "4_fuse", "5_schedule", "6_emit"]
    assert saved == [f"{name}.txt" for name in stages]
    whole = content(elsewhere / "whole")
    for text, stage in (
        ("1_import", "simplify"),
        ("2_simplify", "compress"),
        ("3_compress", "fuse"),
        ("4_fuse", "schedule"),
        ("5_schedule", "emit"),
    ):
        words = ("build", f"stages/{text}.txt", "--from", stage, "-o", stage, "--no-compile")
        assert shell.json(*words)["started_at"] == stage
        again = content(elsewhere / stage)
        assert {k: v for k, v in again.items() if k != "edgec.lock"} == {
            k: v for k, v in whole.items() if k != "edgec.lock"
        }
    code, _, err = shell("build", "stages/4_fuse.txt", "--from", "fuse")
    assert code == 2 and "not the text of a graph" in err
    code, _, err = shell("build", "stages/5_schedule.txt", "--from", "emit", "--device", "cortex_m4")
    assert code == 2 and "scheduled for another device" in err
    code, _, err = shell("build", "stages/5_schedule.txt", "--from", "emit", "--report")
    assert code == 2 and "a report tells of the plan" in err


def test_until_prints_the_stage(shell: Shell, file: Path, elsewhere: Path) -> None:
    for stage, word in (("import", "graph convnet("), ("fuse", "block0 = Block("), ("schedule", "kernel0 = Kernel(")):
        code, out, _ = shell("build", file, "--until", stage)
        assert code == 0 and word in out
    assert shell.json("build", file, "--until", "simplify")["text"].startswith("graph convnet(")
    assert not list(elsewhere.iterdir())


def test_unfused_has_more_kernels(shell: Shell, file: Path, elsewhere: Path) -> None:
    fused, unfused = (
        shell.json("build", file, "-o", "out", "--no-compile", *more)["kernels"] for more in ((), ("--no-fuse",))
    )
    assert fused < unfused


# ---- the other verbs


def test_check(shell: Shell, file: Path, elsewhere: Path) -> None:
    record = shell.json("check", file, "--samples", 2)
    assert record["ok"] is True and record["samples"] == 2 and record["reference"].startswith("onnxruntime")
    assert [o["name"] for o in record["outputs"]] == ["scores", "features"]
    assert all(o["ok"] and o["max_abs"] < 1e-5 and o["max_rel"] < 1e-5 for o in record["outputs"])
    assert [s["stage"] for s in record["stages"]] == ["import", "simplify", "compress", "fuse", "schedule", "emit"]
    assert not list(elsewhere.iterdir())


def test_a_failed_check_is_exit_code_1(
    shell: Shell, file: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from edgec.frontend.onnx import call as registry

    wrong = {**registry._LOWERINGS, ("", "Relu"): lambda call: call[0]}
    monkeypatch.setattr(registry, "_LOWERINGS", wrong)
    record = shell.json("check", file, "--locate", code=1)
    assert record["ok"] is False and record["located"]["stage"] == "import"
    assert record["located"]["nodes"] == ["relu"] and record["located"]["reproducer"] == "edgec-reproducer"
    assert (elsewhere / "edgec-reproducer" / "reproducer.onnx").is_file()
    code, out, _ = shell("check", file)
    assert code == 1 and "FAILED" in out


def test_bench(shell: Shell, file: Path, elsewhere: Path) -> None:
    record = shell.json("bench", file, "--vs", "onnxruntime", "--seconds", "0.05", "--rounds", 2)
    assert record["threads"] == 1 and record["rounds"] == 2
    assert 0 < record["p10_ms"] <= record["median_ms"] <= record["p90_ms"]
    assert record["peer"]["name"].startswith("onnxruntime") and record["peer"]["median_ms"] > 0
    assert record["ratio"] == pytest.approx(record["median_ms"] / record["peer"]["median_ms"])
    alone = shell.json("bench", file, "--seconds", "0.02", "--rounds", 1)
    assert alone["peer"] is None and alone["ratio"] is None
    assert shell("bench", file, "--vs", "tensorflow")[0] == 2


def test_inspect(shell: Shell, file: Path) -> None:
    record = shell.json("inspect", file)
    assert record["operators"]["Conv"] == 2 and record["operators_total"] == 9 and record["unsupported"] == []
    assert record["macs"] == 100 * 8 * 27 + 100 * 8 * 8 + 16 * 5
    assert record["weights_bytes"] > 4 * (8 * 27 + 64 + 80) and record["activations"]["tensors"] > 5
    assert record["inputs"] == [{"name": "image", "dtype": "f32", "shape": [1, 3, 10, 10]}]


def test_inspect_names_everything_that_is_missing(shell: Shell, tmp_path: Path) -> None:
    nodes = [
        node("Frobnicate", ["x"], ["a"], "first", domain="com.example"),
        node("Relu", ["a"], ["b"]),
        node("Gizmo", ["b"], ["y"], "second", domain="com.example"),
    ]
    onnx.save(model(nodes, domains=["com.example"]), tmp_path / "m.onnx")
    record = shell.json("inspect", tmp_path / "m.onnx")
    assert [(u["node"], u["operator"]) for u in record["unsupported"]] == [
        ("first", "com.example::Frobnicate"),
        ("second", "com.example::Gizmo"),
    ]
    assert all(u["hint"] for u in record["unsupported"]) and record["macs"] is None and not record["ok"]
    code, out, _ = shell("inspect", tmp_path / "m.onnx")
    assert code == 0 and "second" in out
    code, _, err = shell("build", tmp_path / "m.onnx", "-o", tmp_path / "out")
    assert code == 2 and "Frobnicate" in err and "Gizmo" in err and not (tmp_path / "out").exists()


def test_inspect_of_open_shapes(shell: Shell, tmp_path: Path) -> None:
    onnx.save(model([node("Relu", ["x"], ["y"])], [tensor_input("x", ["batch", "a length", 3])]), tmp_path / "m.onnx")
    record = shell.json("inspect", tmp_path / "m.onnx")
    assert record["operators"] == {"Relu": 1} and "--dim batch=1..8 --dim 'a length=1..8'" in record["problem"]["hint"]
    assert record["inputs"] == [{"name": "x", "dtype": "f32", "shape": ["batch", "a length", 3]}]
    assert shell.json("inspect", tmp_path / "m.onnx", "--shape", "x=2,2,3")["problem"] is None


@pytest.mark.parametrize("name", NODES)
def test_explain_answers_for_every_node(shell: Shell, file: Path, name: str) -> None:
    record = shell.json("explain", file, name)
    assert record["node"] == name
    assert record["kernels"] or record["inside_others"] or record["aliased"] or record["rules"]
    code, out, err = shell("explain", file, name)
    assert code == 0 and name in out and not err


def test_explain_says_why(shell: Shell, file: Path) -> None:
    (kernel,) = shell.json("explain", file, "mix")["kernels"]
    assert "sum" in kernel["nodes"] and kernel["template"].startswith("contract") and kernel["flops"] > 0
    assert any("still holds it" in why for why in kernel["why"])
    record = shell.json("explain", file, "mux", code=2)
    assert "did you mean 'mix" in record["error"]["hint"]


def test_devices(shell: Shell, tmp_path: Path) -> None:
    names = [d["name"] for d in shell.json("device", "list")["devices"]]
    assert {"host", "x86_64_avx2", "arm64", "cortex_m"} <= set(names)
    assert shell.json("device", "show", "x86_64_avx2")["device"]["vector_bytes"] == 32
    assert shell.json("device", "probe")["device"]["cores"] >= 1
    (tmp_path / "mine.toml").write_text('base = "cortex_m4"\ndescription = "my board"\n')
    assert shell.json("device", "show", "mine", "--devices", tmp_path)["device"]["description"] == "my board"
    assert shell("device", "show", "toaster")[0] == 2
    for words in (("device", "list"), ("device", "show", "host"), ("device", "probe")):
        code, out, _ = shell(*words)
        assert (code == 0 and "x86_64" in out) or "aarch64" in out


def test_doctor(shell: Shell) -> None:
    record = shell.json("doctor")
    assert record["ok"] and {"numpy", "onnx", "onnxruntime", "ziglang"} <= {c["name"] for c in record["checks"]}
    assert shell("doctor")[0] == 0


def test_demo(shell: Shell, elsewhere: Path) -> None:
    record = shell.json("demo")
    assert record["pictures"] == 360 and record["accuracy"] > 0.95 and record["max_rel"] < 1e-5
    assert record["bench"]["ratio"] > 0
    assert (elsewhere / "edgec-demo" / "net.h").is_file()


@pytest.mark.parametrize(
    "words", [["build"], ["build", "x.onnx", "--frob"], ["frobnicate"], ["bench", "x.onnx", "--seconds", "soon"]]
)
def test_usage_errors(shell: Shell, words: list[str]) -> None:
    assert shell.json(*words, code=2)["error"]["message"]
    code, out, err = shell(*words)
    assert code == 2 and err and not out


def test_help_and_version(shell: Shell) -> None:
    assert shell("--version")[:2] == (0, f"edgec {edgec.__version__}\n")
    for words in (["--help"], ["build", "--help"], ["device", "--help"]):
        assert shell(*words)[0] == 0


def test_a_mistake_of_our_own_is_exit_code_3(
    shell: Shell, file: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from edgec.pipeline import stages

    monkeypatch.setattr(stages, "plan_graph", lambda *given, **named: 1 / 0)
    record = shell.json("build", file, code=3)
    assert "ZeroDivisionError" in record["error"]["message"] and "report" in record["error"]["hint"]
    assert not list(elsewhere.iterdir())


def test_names_out_of_a_model_are_only_text(shell: Shell, elsewhere: Path) -> None:
    """Markup, control characters, paths and C in names reach neither the terminal nor the file system."""
    evil = "[bold]*/ system(1); /*\x1b[31m../../x\n"
    nodes = [node("Relu", [evil], ["a"], evil), node("Neg", ["a"], ["../y[/]"], "n")]
    onnx.save(model(nodes, [tensor_input(evil, [4, 4])], ("../y[/]",)), elsewhere / "m.onnx")
    for words in (("inspect", "m.onnx"), ("check", "m.onnx"), ("build", "m.onnx", "-o", "out")):
        code, out, err = shell(*words)
        assert code == 0, err
        assert "\x1b[31m" not in out + err
    code, out, err = shell("explain", "m.onnx", "n")
    assert code == 0 and "\x1b[31m" not in out + err
    assert sorted(p.name for p in elsewhere.iterdir()) == ["m.onnx", "out"]

"""Options at random, on devices and with apps at random: a build that works, or a refusal in words with a hint.

``EDGEC_RANDOM_OPTIONS=500 EDGEC_RANDOM_SEED=7 pytest tests/cli/test_drawn_options.py`` draws others.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from chance import RANDOM
from convnet import convnet
from small_models import model, node, tensor_input, weights

from edgec.artifact.folder import read_lock
from edgec.cli.main import app
from edgec.device.load import list_devices
from edgec.emit.apps import EXTRAS
from edgec.options import OPTIONS
from edgec.resources import data_folder

COUNT = int(os.environ.get("EDGEC_RANDOM_OPTIONS", "40"))
#: One build in so many is compiled for this machine, where it has no device or app of another one, and checked.
COMPILED = 10

#: Values of every option, right ones and wrong ones, in words of the models below; a pair is one of NAME and VALUE.
VALUES: Mapping[str, tuple[str, ...]] = {
    "dispatch": ("x86_64_avx2", "arm64_dotprod,arm64_i8mm", "x86_64_avx2,x86_64_avx2", "stm32h743", "moon", ""),
    "place": ("auto", "gpu", "cpu", "moon"),
    "cores": ("0", "0,1", "0-1", "any", "3-1", "x", "99"),
    "threads": ("1", "2", "4", "0", "999"),
    "ram": ("64K", "300M", "1", "a lot"),
    "weights": ("incbin", "array", "file", "stream", "cloud"),
    "name": ("net", "digits", "a b", "int", "-x", "ü", "package", "impl"),
    "precision": ("fp32", "fp16", "bf16", "tf32", "int8", "mixed", "mixed:0.1", "mixed:2", "fp12"),
    "compiler": ("gcc", "clang", "zig", "emulated", "no such compiler"),
    "shapes": ("image=1,1,8,8", "x=2,3", "x=", "image=a", "none=1", "image=1,1,12,12", "image=0,1,8,8"),
    "dims": ("n=1..4", "it's=2..8:2", "image.0=1..3", "none=1..2", "n=5..1", "n"),
    "values": ("x=1", "image=none.npy", "none=1,2", "image=[[1"),
    "states": ("h=h_next", "x=y", "none=none", "image=probabilities"),
    "loops": ("loop=4", "loop=0", "loop"),
    "context": ("16", "0", "-3"),
    "cache": ("fp16", "int8", "int3"),
    "lora": ("4", "4:q,v", "0", "4:z"),
    "chat_template": ("none.jinja",),
    "quantize": ("float", "int8", "int8-dynamic", "mixed", "int4-weight", "int5"),
    "calibrate": ("random", "samples.npz", "none.npz"),
    "pre": ("picture=gray8:20x30", "picture=nv12:24x32,range=full", "picture=rgb8:0x1", "photo"),
    "picture": ("scale=1,mean=2,std=3", "fit=pad", "fit=3", "layout=last"),
    "sound": ("rate=16000", "part=middle", "rate=0"),
    "observer": ("minmax", "percentile", "mse", "entropy", "best", "worst"),
    "max_loss": ("top1_drop=1", "cosine=0.9", "max_abs=100", "top1_drop", "joy=1"),
    "corrections": ("auto", "none", "bias,gptq", "luck"),
    "prune": ("vector", "block=8x4", "pattern=4of9", "2:4", "channel", "block", "half"),
    "sparsity": ("0.5", "auto", "1.5", "none"),
    "prune_by": ("obs", "wanda", "magnitude", "dice"),
    "masks": ("none.npz",),
    "retrain": ("samples.npz", "none.npz"),
    "retrain_steps": ("1", "0"),
    "retrain_state": ("state.npz",),
    "augment": ("mirror", "mix", "zoom", "blur"),
    "loss": ("cross_entropy", "mse", "mse:probabilities", "none.onnx", "grief"),
    "update": ("all", "bias", "last:1", "lora=2", "last:0", "nobody"),
    "optimizer": ("sgd", "adam:lr=0.01", "sgd:lr=-1", "sgd:lr", "luck"),
    "batch": ("1", "4", "0"),
    "accumulate": ("2", "0"),
    "batch_norm": ("batch", "file", "mean"),
    "dropout": ("model", "0.1,seed=7", "2"),
    "numeric": ("exact", "reassociates", "approximates", "fast", "sloppy"),
    "fuse": ("planner", "fixed", "operators", "none", "glue"),
    "profiles": ("",),
    "bounds": ("",),
    "disable_rules": ("factor", "no_such_rule"),
    "materialize": ("Conv_1", "no such node"),
    "overrides": ("attention Conv_1=x", "x=y", "="),
    "tiles": ("Conv_3=8x2", "Conv_3=0x1", "Conv_3=8", "no such node=2x2"),
    "limits": ("seconds=600", "nodes=3", "joy=1", "seconds=-1"),
    "rules": ("folder", "none"),
    "templates": ("folder", "none"),
    "micro_kernels": ("folder", "none"),
    "devices": ("folder", "none"),
    "operators": ("folder", "none"),
}
#: Words that go well together, which single draws rarely meet.
TOGETHER = (
    ("--quantize", "int8", "--calibrate", "samples.npz"), ("--quantize", "int8", "--calibrate", "random"),
    ("--quantize", "mixed", "--calibrate", "samples.npz", "--max-loss", "cosine=0.9"),
    ("--prune", "vector", "--sparsity", "0.5"), ("--loss", "cross_entropy"), ("--dim", "n=1..4", "--dim", "it's=1..8"),
    ("--state", "h=h_next"), ("--weights", "stream", "--ram", "1M"),
    ("--pre", "picture=gray8:20x30", "--picture", "fit=stretch"),
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with models of odd names, samples, and an empty folder."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(data_folder("apps") / "digits" / "digits.onnx", tmp_path / "digits.onnx")
    onnx.save(convnet(), tmp_path / "-a 'b\" é.onnx")
    onnx.save(_opened(), tmp_path / "open.onnx")
    onnx.save(_stateful(), tmp_path / "state.onnx")
    samples = np.random.default_rng(1).random((4, 1, 1, 8, 8), np.float32)
    np.savez(tmp_path / "samples.npz", image=samples)
    (tmp_path / "folder").mkdir()
    return tmp_path


def _opened() -> onnx.ModelProto:
    """A convolution and a sum over two open dimensions, one with a name that shells have a meaning for."""
    nodes = [node("Conv", ["image", "w"], ["a"], pads=[1, 1, 1, 1]), node("Softmax", ["a"], ["y"], axis=1)]
    kernel = weights("w", np.linspace(-1, 1, 4 * 9, dtype=np.float32).reshape(4, 1, 3, 3))
    return model(nodes, [tensor_input("image", [1, 1, "n", "it's"])], initializers=[kernel])


def _stateful() -> onnx.ModelProto:
    """A sum that goes on from run to run."""
    ports = [tensor_input("x", [2, 3]), tensor_input("h", [2, 3])]
    return model([node("Add", ["x", "h"], ["h_next"]), node("Tanh", ["h_next"], ["y"])], ports, ("y", "h_next"))


def drawn() -> list[str]:
    """The words of one build: a model, a few options with values, a device and an app more often than others."""
    names = ["digits.onnx", "digits.onnx", "-a 'b\" é.onnx", "open.onnx", "state.onnx"]
    words: list[str] = []
    if RANDOM.random() < 0.6:
        words += ["--device", str(RANDOM.choice([d.name for d in list_devices()]))]
    if RANDOM.random() < 0.4:
        words += ["--app", str(RANDOM.choice([*EXTRAS, "pi,web", "toaster"]))]
    if RANDOM.random() < 0.6:
        words += TOGETHER[RANDOM.integers(len(TOGETHER))]
    for key in RANDOM.choice(sorted(VALUES), RANDOM.integers(0, 4), replace=False):
        value = str(RANDOM.choice(VALUES[key]))
        words += [OPTIONS[key].long, value] if value else [f"--no-{OPTIONS[key].long[2:]}"]
    return [*words, "--", str(RANDOM.choice(names))]


def test_every_option_is_drawn() -> None:
    assert set(VALUES) | {"device"} == set(OPTIONS)


@pytest.mark.parametrize("number", range(COUNT))
def test_a_build_works_or_is_refused_with_a_hint(number: int, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = drawn()
    compiles = not number % COMPILED and not {"--device", "--app", "--compiler", "--loss"} & set(words)

    out = str(RANDOM.choice(["out", "-out", "an 'out' é"]))
    code, found = _run(["build", "-o", out, "--json", *([] if compiles else ["--no-compile"]), *words], capsys)
    if code:
        _refused(code, found, words)
        assert not os.path.exists(out), f"something was written: {shlex.join(words)}"
        return
    lock = read_lock(Path(out))
    missing = [name for name in lock["files"] if not Path(out, name).is_file()]
    assert not missing, shlex.join(words)
    commands = {step["for"]: shlex.split(step["command"]) for step in found["next"]}
    if compiles and "check" in commands:
        code, checked = _run([*commands["check"][1:], "--json"], capsys)
        assert code == 0, (shlex.join(words), checked)


def _run(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[Any, dict[str, Any]]:
    """The exit code and the answer of a command."""
    with pytest.raises(SystemExit) as left:
        app(args=words, standalone_mode=True)
    printed = capsys.readouterr()
    assert left.value.code in (0, 1, 2), f"{shlex.join(words)}\n{printed.out}\n{printed.err}"
    assert printed.out, f"{shlex.join(words)}\n{printed.err}"
    return left.value.code, json.loads(printed.out)


def _refused(code: int, found: Mapping[str, Any], words: list[str]) -> None:
    """A refusal says what is wrong, and what to do."""
    problem = found.get("error") or {}
    assert problem.get("message"), (code, shlex.join(words), found)
    assert problem.get("hint"), f"no hint: {problem['message']}\n{shlex.join(words)}"

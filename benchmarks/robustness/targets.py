"""Targets of the fuzzer: what reads a file, the files that mutations start from, and how they are mutated."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from benchmarks import ROOT
from benchmarks.robustness import mutation
from benchmarks.robustness.families import FAMILIES
from edgec import api, pipeline
from edgec.artifact.folder import read_lock
from edgec.bench import answers
from edgec.cli import config
from edgec.cli import main as commands
from edgec.cli.command import settings_of
from edgec.device.load import load_device
from edgec.options import resolve
from edgec.pipeline.context import Context
from edgec.tune.database import Profiles
from edgec.untrusted import read_json

Mutate = Callable[[random.Random, bytes], bytes]
#: The command line, which knows the tables that an edgec.toml may have.
COMMANDS = commands.app
#: The most that a case may take, of what `--limits` bound.
LIMITS = {"nodes": 3000.0, "kernels": 400.0, "seconds": 10.0}


@dataclass(frozen=True)
class Target:
    """A reader of files; ``read`` gets the content and a folder to work in, and raises EdgecError for a bad one."""

    name: str
    read: Callable[[bytes, Path], object]
    seeds: Callable[[], list[bytes]]
    mutations: tuple[Mutate, ...]
    share: int = 1

    @cached_property
    def files(self) -> list[bytes]:
        """The files that mutations start from."""
        return self.seeds()


def _build(content: bytes, folder: Path) -> object:
    options = resolve({"profiles": False, "limits": LIMITS, "device": "generic"})
    return pipeline.run(content, Context(options), until="schedule")


def _config(content: bytes, folder: Path) -> object:
    path = folder / config.FILE
    path.write_bytes(content)
    _, settings = settings_of(config.load(path))
    return resolve(settings)


def _device(content: bytes, folder: Path) -> object:
    (folder / "mine.toml").write_bytes(content)
    return load_device(folder / "mine.toml")


def _lock(content: bytes, folder: Path) -> object:
    (folder / "edgec.lock").write_bytes(content)
    return read_lock(folder)


def _profiles(content: bytes, folder: Path) -> object:
    (folder / "times.json").write_bytes(content)
    return Profiles(folder / "times.sqlite").import_(read_json(folder / "times.json"), "times.json")


def _answer(content: bytes, folder: Path) -> object:
    """The file of outputs of one run of one sample, then the lines of its program."""
    raw, _, said = content.partition(b"\0LINES\0")
    (folder / "outputs.bin").write_bytes(raw)
    program = _program()
    found = answers.content(folder / "outputs.bin", answers.expected_bytes(program, 1, 1), "rpi")
    text = said.decode("utf-8", "replace")
    return answers.sample(found, 0, program, {}, 1, "rpi"), answers.kernel_times(text, "rpi"), answers.stack_bytes(text)


def _program() -> SimpleNamespace:
    """The parts of a program that its answers depend on."""
    node = next(iter(api.load(FAMILIES["chain of layers"](2)).graph.inputs))
    return SimpleNamespace(inputs=[("x", None, node)], outputs=[("y", None, node)], sizes={})


def _onnx() -> list[bytes]:
    sizes = {"nested functions": 3, "rounds of nested loops": 3}
    made = [make(sizes.get(name, 4)).SerializeToString() for name, make in FAMILIES.items()]
    return [*made, (ROOT / "apps" / "digits" / "digits.onnx").read_bytes()]


def _from_tests(folder: str, module: str) -> object:
    for place in (ROOT / "tests" / folder, ROOT / "tests"):
        if str(place) not in sys.path:
            sys.path.insert(0, str(place))
    return __import__(module)


def _tflite() -> list[bytes]:
    cases = _from_tests("tflite", "tflite_cases").CASES  # type: ignore[attr-defined]
    return [cases[name] if isinstance(cases[name], bytes) else cases[name].content for name in list(cases)[::12]]


def _gguf() -> list[bytes]:
    made = _from_tests("language", "gguf_files")
    return [made.llama(layers=1, vocabulary=8), made.llama("Q8_0", layers=1, vocabulary=8)]  # type: ignore[attr-defined]


TOML = b"""model = "net.onnx"
device = "raspberry_pi_5"
threads = 4
out = "built"
materialize = ["a", "b"]
[shape]
image = [1, 3, 224, 224]
[limits]
seconds = 10
[build]
report = true
[decide.tile]
"a/b" = "8x3"
[budget]
latency_ms = 20.5
"""
LOCK = (
    b'{"edgec": "0.9", "name": "net", "threads": 2, "files": ["net.c"], "sources": ["net.c"], "choices": {},'
    b' "inputs": [{"onnx_name": "x", "name": "x", "dtype": "f32", "shape": [1, 4]}], "outputs": []}'
)
PROFILES = (
    b'{"edgec_profiles": 1, "times": [{"block": "a", "target": {"fingerprint": "f", "device": "d",'
    b' "compiler": "c"}, "seconds": 0.001, "what": "w"}]}'
)


def _said() -> list[bytes]:
    raw = np.int64([0, 1, 1000]).tobytes() + np.zeros(4, np.float32).tobytes()
    return [raw + b"\0LINES\0kernel 0 500\nkernel 1 500\nstack 1024\n"]


def _devices() -> list[bytes]:
    return [(ROOT / "devices" / f"{name}.toml").read_bytes() for name in ("raspberry_pi_5", "cortex_m4", "cuda_sm90")]


B, T, M = mutation.of_bytes, mutation.of_text, mutation.of_model
TARGETS = (
    Target("onnx", _build, _onnx, (M, M, B), 4),
    Target("tflite", _build, _tflite, (B,), 2),
    Target("gguf", _build, _gguf, (B,), 2),
    Target("edgec.toml", _config, lambda: [TOML], (T,), 2),
    Target("device", _device, _devices, (T,), 2),
    Target("lock", _lock, lambda: [LOCK], (T,)),
    Target("profiles", _profiles, lambda: [PROFILES], (T,)),
    Target("answer", _answer, _said, (B, T)),
)

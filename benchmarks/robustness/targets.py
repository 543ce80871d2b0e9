"""Targets of the fuzzer: what reads a file, the files that mutations start from, and how they are mutated."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks import ROOT
from benchmarks.robustness import mutation, opened, seeds, structure
from benchmarks.robustness.families import FAMILIES
from edgec import api, pipeline
from edgec.artifact import adapter
from edgec.artifact.folder import read_lock
from edgec.bench import answers
from edgec.certify import vnnlib
from edgec.cli import config
from edgec.cli import main as commands
from edgec.cli.command import settings_of
from edgec.device.load import load_device
from edgec.frontend.language.chat import read_chat
from edgec.frontend.language.chat_template import Message
from edgec.frontend.language.llama2c import read_vocabulary
from edgec.frontend.language.table import table_of
from edgec.ir.types import Type
from edgec.options import Options, resolve
from edgec.pipeline.context import Context
from edgec.tune.database import Profiles
from edgec.untrusted import read_arrays, read_json

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
        """The files that mutations start from, the same in every process."""
        seeds.from_tests("", "chance").begin(self.name)
        return self.seeds()


@cache
def _options(**more: Any) -> Options:
    return resolve({"profiles": False, "limits": LIMITS, "device": "generic", **more})


def _build(content: bytes, folder: Path) -> object:
    return pipeline.run(content, Context(_options()), until="schedule")


def _import(content: bytes, folder: Path) -> object:
    return pipeline.run(content, Context(_options()), until="import")


def _losses(content: bytes, folder: Path) -> object:
    """The step that trains a model, by a loss, an optimizer and weights that depend on its content."""
    k = sum(content) % 60
    losses, updates = ("mse", "l1", "cross_entropy", "bce", "hinge:y"), ("all", "bias", "last:1", "lora=2")
    asked = {"loss": losses[k % 5], "update": updates[k % 4], "optimizer": ("sgd", "adam", "adamw:clip=1")[k % 3]}
    return pipeline.run(content, Context(_options(**asked)), until="schedule")


@cache
def _layout() -> Any:
    seeds.from_tests("", "chance").begin("layout")
    return seeds.layout()


def _written(content: bytes, folder: Path) -> Path:
    """The files of a folder; names that lead out of it have the place of others."""
    for name, inner in structure.unpacked(content).items():
        (folder / (Path(name.replace("\0", "")).name or "x")).write_bytes(inner)
    return folder


def _folder(content: bytes, folder: Path) -> object:
    return api.load(_written(content, folder), context=8)


def _adapter(content: bytes, folder: Path) -> object:
    where = _written(content, folder)
    file = where / "a.gguf"
    return adapter.read(file if file.is_file() else where, _layout())


def _stage(content: bytes, folder: Path) -> object:
    """A saved stage, behind a line with its kind, and what follows from it."""
    kind, _, text = content.partition(b"\n")
    path = folder / "stage.txt"
    path.write_bytes(text)
    start = {b"graph": "simplify", b"compressed": "fuse", b"plan": "schedule"}.get(kind, "emit")
    made = pipeline.run(str(path), Context(_options()), start, "emit").result
    if any(b"xEVILx" in file.replace(b'\\"', b"") for name, file in made.files.items() if name.endswith((".c", ".h"))):
        raise AssertionError("a text of the stage stands in C")
    return made


def _arrays(content: bytes, folder: Path) -> object:
    (folder / "arrays.npz").write_bytes(content)
    found = read_arrays(folder / "arrays.npz")
    return {name: array.sum() for name, array in found.items() if array.dtype.kind != "V"}


def _chat(content: bytes, folder: Path) -> object:
    chat = read_chat(content.decode("utf-8", "replace"))
    return chat.form.text([Message("user", "a"), Message("assistant", "b")]) if chat.form is not None else None


def _pieces(content: bytes, folder: Path) -> object:
    (folder / "tokenizer.bin").write_bytes(content)
    return table_of(read_vocabulary(folder / "tokenizer.bin", 263))


def _property(content: bytes, folder: Path) -> object:
    (folder / "p.vnnlib").write_bytes(content)
    return vnnlib.read(folder / "p.vnnlib", {"x": Type("f32", (1, 2))}, {"y": Type("f32", (2,))})


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


@cache
def _program() -> SimpleNamespace:
    """The parts of a program that its answers depend on."""
    node = next(iter(api.load(FAMILIES["chain of layers"](2)).graph.inputs))
    return SimpleNamespace(inputs=[("x", None, node)], outputs=[("y", None, node)], sizes={})


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
MORE = b"""model = "net.onnx"
loss = "mse:logits"
update = "last:2"
optimizer = "adamw:lr=0.01,clip=1"
accumulate = 4
ram = "300M"
[value]
x = "1,2"
[state]
a = "b"
[loop]
l = 16
[override]
"pool a" = "whole"
[check]
samples = 3
tolerance = 1e-3
[tune]
seconds = 2.5
"""
COMPRESSED = b"""model = "lm"
quantize = "int8"
calibrate = "random"
observer = "mse"
max_loss = "cosine=0.99"
corrections = "equalize,bias"
prune = "block=8x4"
sparsity = "0.5"
lora = "16:q,v"
context = 64
cache = "int8"
"""
PROPERTY = b"""(declare-const X_0 Real)
(declare-const X_1 Real)
(declare-const Y_0 Real)
(declare-const Y_1 Real) ; a comment
(assert (or (and (<= X_0 1) (>= X_0 0)) (and (<= X_0 3.5e0) (>= X_0 2))))
(assert (<= X_1 0.5))
(assert (>= X_1 -0.25))
(assert (or (and (<= Y_0 (* 2 Y_1)) (>= Y_0 -1)) (and (<= (+ Y_1 Y_0) 0))))
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


B, T, M, N = mutation.of_bytes, mutation.of_text, mutation.of_model, mutation.of_numbers
J, F = structure.of_json, structure.of_files
TARGETS = (
    Target("onnx", _build, seeds.onnx_models, (M, M, B), 6),
    Target("operators", _build, seeds.operators, (N,), 6),
    Target("losses", _losses, lambda: seeds.onnx_models()[-3:], (M, M, B)),
    Target("tflite", _build, seeds.tflite_models, (structure.of_flatbuffer, structure.of_flatbuffer, B), 4),
    Target("gguf", _import, seeds.gguf_models, (structure.of_gguf, structure.of_gguf, B), 3),
    Target("hugging face", _folder, seeds.hugging_folders, (F,), 3),
    Target("adapter", _adapter, seeds.adapters, (F,), 2),
    Target("saved stage", _stage, seeds.saved_stages, (T,), 3),
    Target("arrays", _arrays, lambda: seeds.arrays()[:-1], (structure.of_arrays, B), 2),
    Target("array", _arrays, lambda: seeds.arrays()[-1:], (B,)),
    Target("trained state", opened.read_state, opened.states, (structure.of_arrays, structure.of_arrays, B)),
    Target("saved text", opened.read_text, opened.texts, (structure.of_head, B), 2),
    Target("request", opened.answer, opened.requests, (structure.of_request, T), 2),
    Target("property", _property, lambda: [PROPERTY], (T,)),
    Target("chat", _chat, seeds.chats, (J, T)),
    Target("pieces", _pieces, seeds.pieces, (B,)),
    Target("edgec.toml", _config, lambda: [TOML, MORE, COMPRESSED], (T,), 2),
    Target("device", _device, _devices, (T,), 2),
    Target("lock", _lock, lambda: [LOCK], (J, T)),
    Target("profiles", _profiles, lambda: [PROFILES], (J, T)),
    Target("answer", _answer, _said, (B, T)),
)
